/**
 * Checkpoints and contexts of a page that was exported. Both are stored as changes: a checkpoint of its base, a context of
 * that of the parent. docs/reference/page.md says how.
 *
 * @typedef {number | [number, number] | {n: number, id?: string, view?: string, message?: any}} Element_ A node, a run of nodes, or more.
 * @typedef {{n: number, id?: string, view?: string, message?: any}} Item
 * @typedef {{items: Item[], settings: Record<string, any>, state: Map<string, string>, manager: string | null, policy: string}} State Values of the state are JSON.
 */

const NONE = -1;
const ERASED = '{"$erased":';
const PATCH = '{"$patch":["';

export class FileStates {
  /**
   * @param {any} index
   * @param {import("./file_blocks.js").Blocks} blocks
   * @param {import("./file_graph.js").FileGraph} graph
   */
  constructor(index, blocks, graph) {
    this.index = index;
    this.blocks = blocks;
    this.graph = graph;
    this.hidden = new Set(index.hidden);
    this.amended = new Map(index.amended);
    /** The last one that was asked for: the next is often a change of it. @type {{number: number, state: State} | null} */
    this.last = null;
  }

  /** A checkpoint as it is stored. @param {number} number @returns {Promise<any>} */
  form(number) {
    return this.blocks.entry("checkpoints", this.index.blocks.checkpoints, number);
  }

  /** State and context of a checkpoint. @param {number} number @returns {Promise<State>} */
  async checkpoint(number) {
    const chain = [];
    let at = number;
    while (at !== NONE && at !== this.last?.number) {
      const form = await this.form(at);
      chain.push(form);
      at = form.base ?? NONE;
    }
    /** @type {State} */
    let state = at !== NONE && this.last ? this.last.state : { items: [], settings: {}, state: new Map(), manager: null, policy: "" };
    for (const form of chain.reverse()) state = await this.changed(state, form);
    this.last = { number, state };
    return state;
  }

  /** @param {State} base @param {any} form @returns {Promise<State>} */
  async changed(base, form) {
    const full = form.base === undefined;
    const state = new Map(full ? [] : base.state);
    for (const [key, origin] of Object.entries(form.keys || {})) state.set(key, (await this.form(origin)).set[key]);
    for (const key of form.drop || []) state.delete(key);
    for (const [key, text] of Object.entries(form.set || {})) {
      const value = patched(base.state.get(key), text);
      state.delete(key);
      state.set(key, value);
    }
    const settings = full ? {} : { ...base.settings };
    for (const name of form.unset || []) delete settings[name];
    let manager = full ? null : base.manager;
    if (form.manager_at !== undefined) manager = (await this.form(form.manager_at)).manager;
    if (form.manager !== undefined) manager = form.manager === "null" ? null : form.manager;
    const items = full ? spread(form.context || []) : spliced(base.items, form.context || []);
    return { items, settings: { ...settings, ...form.settings }, state, manager, policy: form.policy || base.policy };
  }

  /**
   * Context and state at a node: those of the checkpoint at it or above, then what the nodes since add, then edits.
   * @param {number} number
   * @returns {Promise<{items: Item[], settings: Record<string, any>, state: Map<string, string>, checkpoint: number}>}
   */
  async at(number) {
    const { changes, codes } = this.index;
    /** @type {Item[][]} */
    const parts = [];
    let [items, settings, built, checkpoint] = [/** @type {Item[] | null} */ (null), /** @type {any} */ (null), false, NONE];
    for (let at = number; at !== NONE; at = this.graph.parents[at]) {
      const change = changes[codes[at]];
      settings ??= change.settings ?? null;
      if (!items) {
        if (change.items) [items, built] = [spread(change.items), Boolean(change.built)];
        else if (change.checkpoint === undefined) parts.push((change.views || []).map((/** @type {string} */ view) => (view ? { n: at, view } : { n: at })));
      }
      if (change.checkpoint !== undefined) {
        checkpoint = change.checkpoint;
        break;
      }
    }
    const there = checkpoint === NONE ? null : await this.checkpoint(checkpoint);
    items = [...(items ?? there?.items ?? []), ...parts.reverse().flat()];
    const known = there && !built ? new Set(there.items.map((item) => item.n)) : new Set();
    return { items: this.edited(items, known, checkpoint), settings: settings ?? there?.settings ?? {}, state: there?.state ?? new Map(), checkpoint };
  }

  /** Leave out what was retracted, and show what was amended. @param {Item[]} items @param {Set<number>} known Of the checkpoint, whose edits are done. @param {number} checkpoint */
  edited(items, known, checkpoint) {
    const since = checkpoint === NONE ? -1 : this.index.places[checkpoint];
    const done = new Set();
    return items.flatMap((item) => {
      if (this.graph.retracted.has(item.n)) return [];
      const at = this.amended.get(item.n);
      if (at === undefined || (known.has(item.n) && at <= since)) return [item];
      if (done.has(item.n)) return [];
      done.add(item.n);
      return [{ n: item.n, view: item.view, amended: true }];
    });
  }

  /** The message of an item. @param {Item & {amended?: boolean}} item */
  async message(item) {
    if ("message" in item) return erasedMessage(item.message);
    if (item.n < 0) return null;
    const entry = await this.blocks.entry("nodes", this.index.blocks.nodes, item.n);
    if (item.amended) return erasedMessage(entry.node.payload);
    const payload = "original" in entry ? entry.original : entry.node.payload;
    if (item.view && !payload?.$erased) return entry.views?.[item.view] ?? null;
    return erasedMessage(payload);
  }

  /** The ids and messages of items. @param {Item[]} items @returns {Promise<{node: string, message: any}[]>} */
  async messages(items) {
    return Promise.all(items.map(async (item) => ({ node: this.idOf(item), message: await this.message(item) })));
  }

  /** @param {Item} item */
  idOf(item) {
    return item.n < 0 ? item.id || "" : this.graph.ids[item.n];
  }
}

/** What an item shows of an erased payload. @param {any} payload */
function erasedMessage(payload) {
  return payload?.$erased ? payload.$erased.message : payload;
}

/** The values of a state; those that were erased are left out. @param {Map<string, string>} state */
export function valuesOf(state) {
  return Object.fromEntries([...state].filter(([, text]) => !text.startsWith(ERASED)).map(([key, text]) => [key, JSON.parse(text)]));
}

/** @param {Element_[]} elements @returns {Item[]} */
function spread(elements) {
  return elements.flatMap((each) => {
    if (typeof each === "number") return [{ n: each }];
    return Array.isArray(each) ? Array.from({ length: each[1] }, (_, place) => ({ n: each[0] + place })) : [each];
  });
}

/** @param {Item[]} old @param {[number, number, Element_[]][]} splices */
function spliced(old, splices) {
  if (!splices.length) return old;
  const parts = [];
  let done = 0;
  for (const [start, deleted, elements] of splices) {
    parts.push(old.slice(done, start), spread(elements));
    done = start + deleted;
  }
  return [...parts.flat(), ...old.slice(done)];
}

/** A value, or what its patch makes of the one before; places in a patch are those of bytes. @param {string | undefined} old @param {string} text */
function patched(old, text) {
  if (!text.startsWith(PATCH) || old === undefined || old.startsWith(ERASED)) return text.startsWith(PATCH) ? old ?? "null" : text;
  const bytes = new TextEncoder().encode(old);
  const decoder = new TextDecoder();
  const parts = [];
  let done = 0;
  for (const [start, deleted, added] of JSON.parse(text).$patch.slice(1)) {
    parts.push(decoder.decode(bytes.subarray(done, start)), added);
    done = start + deleted;
  }
  return parts.join("") + decoder.decode(bytes.subarray(done));
}
