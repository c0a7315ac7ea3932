/** The versions that a viewer chose: the end of the branch that was shown last, so that a reload and other tabs open it again. */

import { newId } from "./source.js";

const VIEWER = "treering-viewer";

export class Choice {
  /** @param {import("./session.js").Session} session */
  constructor(session) {
    this.session = session;
    /** Where nothing can be stored on the server, this tab remembers. */
    this.alone = session.source.readOnly;
    this.kept = `treering-branch-${session.key}`;
    /** @type {string | null | undefined} Undefined: not asked yet. */
    this.leaf = undefined;
  }

  /** The node that was chosen, if any. @returns {Promise<string | null>} */
  async chosen() {
    if (this.leaf === undefined) {
      if (this.alone) this.leaf = keptIn((tab) => tab.getItem(this.kept)) ?? null;
      else this.leaf = (await this.session.get("view-state", { viewer: viewer() }).catch(() => ({ node: null }))).node;
    }
    return this.leaf ?? null;
  }

  /** Remember the end of a branch. @param {string} leaf */
  async set(leaf) {
    if (this.leaf === leaf) return;
    this.leaf = leaf;
    if (this.alone) keptIn((tab) => tab.setItem(this.kept, leaf));
    else await this.session.send("PUT", `view-state?viewer=${viewer()}`, { node: leaf }).catch(() => undefined); // the page works without
  }

  /** Where the chosen branch ends by now; null: nothing was chosen, or it is gone. @returns {Promise<string | null>} */
  async end() {
    const node = await this.chosen();
    if (!node) return null;
    if (Object.values(this.session.card?.heads || {}).includes(node)) return node; // though another branch may go on from there
    return this.session.get(`nodes/${encodeURIComponent(node)}`).then((found) => found.leaf, () => null);
  }

  /** A node with `leaf`, the end of the branch to show it on: the chosen or else the current one if it has it, or the newest. @param {string} node @returns {Promise<any>} */
  async branchOf(node) {
    const toward = (await this.chosen()) ?? this.session.card?.node ?? undefined;
    return this.session.get(`nodes/${encodeURIComponent(node)}`, { toward });
  }
}

/** What a tab keeps; some browsers let a file keep nothing. @template T @param {(tab: Storage) => T} act @returns {T | null} */
function keptIn(act) {
  try {
    return act(sessionStorage);
  } catch {
    return null;
  }
}

/** Who looks: the same for all tabs of a browser. */
function viewer() {
  try {
    const known = localStorage.getItem(VIEWER);
    if (known) return known;
    const made = newId();
    localStorage.setItem(VIEWER, made);
    return made;
  } catch {
    return "none"; // a browser that keeps nothing
  }
}
