/** What a page knows of one session: its card, and calls of the API below it. */

/** @typedef {Record<string, any>} Card As `sessions/{key}` answers. */

/** Of one request: so many ids fit into an address. */
const NODES_MAX = 100;

export class Session {
  /**
   * @param {import("./source.js").Source} source
   * @param {string} key
   */
  constructor(source, key) {
    this.source = source;
    this.key = key;
    /** @type {Card | null} */
    this.card = null;
    /** Usage by node, of those that were asked for. @type {Map<string, Record<string, number>>} */
    this.usage = new Map();
  }

  /** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
  get(path, query = {}, signal = undefined) {
    return this.source.get(`sessions/${this.key}${path && `/${path}`}`, query, signal);
  }

  /** @param {string} method @param {string} path @param {any} [body] @returns {Promise<any>} */
  send(method, path, body = undefined) {
    return this.source.send(method, `sessions/${this.key}${path && `/${path}`}`, body);
  }

  /** Read the card. */
  async open() {
    this.card = await this.get("");
    return /** @type {Card} */ (this.card);
  }

  /** @param {string} sha256 */
  blob(sha256) {
    return this.source.blob(this.key, sha256);
  }

  /** The ids behind a node on the way down to a leaf. @param {string} leaf @param {string} node @returns {Promise<string[]>} */
  async below(leaf, node) {
    if (leaf === node) return [];
    const { ids } = await this.get("path", { node: leaf, below: node, limit: 1000 });
    return ids;
  }

  /** The first lines of some messages. @param {string[]} nodes @returns {Promise<Record<string, string>>} */
  async previews(nodes) {
    const found = {};
    for (let at = 0; at < nodes.length; at += NODES_MAX) Object.assign(found, await this.get("previews", { nodes: nodes.slice(at, at + NODES_MAX) }));
    return found;
  }

  /** Read what some nodes took. @param {string[]} nodes @param {boolean} [again] */
  async readUsage(nodes, again = false) {
    const targets = nodes.filter((node) => again || !this.usage.has(node)).slice(-NODES_MAX);
    if (!targets.length) return;
    targets.forEach((node) => this.usage.set(node, {}));
    const notes = await this.get("notes", { kind: "usage", targets });
    for (const note of notes) {
      if (!targets.includes(note.target)) continue;
      const sums = /** @type {Record<string, number>} */ (this.usage.get(note.target));
      for (const [name, value] of Object.entries(note.brief)) {
        if (typeof value === "number") sums[name] = (sums[name] || 0) + value;
      }
    }
  }
}
