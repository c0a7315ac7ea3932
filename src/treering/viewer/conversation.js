/**
 * A branch as messages. Only a window of it is on the page: scrolling up reads older ones and drops newer ones, and down the
 * other way round. The scroll position stays at the message that people look at.
 */
import { Anchor } from "./anchor.js";
import { button, fill, h, notice, putInOrder } from "./dom.js";
import { messageArticle } from "./message.js";
import { partsOf } from "./shapes.js";
import { continues, joins } from "./turns.js";

/** @typedef {import("./message.js").HistoryRow} HistoryRow */
/** @typedef {{row: HistoryRow, key: string, own: HTMLElement | null, pieces: [import("./turns.js").Place, HTMLElement][]}} Shown */

const PAGE = 40;
const SHOWN_MAX = 160;
const NEAR = 800;

export class Conversation {
  /**
   * @param {import("./session.js").Session} session
   * @param {{selected: (node: string) => void, turned: (leaf: string) => void, menu: (row: HistoryRow, at: HTMLElement) => void}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    /** @type {HistoryRow[]} Oldest first. */
    this.rows = [];
    /** What is on the page of each row. @type {Map<string, Shown>} */
    this.made = new Map();
    /** @type {string | null} The end of the branch that is shown. */
    this.leaf = null;
    /** The head whose end that is; empty: no head stands there. */
    this.head = "";
    /** @type {string | null} */
    this.before = null;
    /** @type {string[]} Ids behind the last row, on the way to the leaf. */
    this.below = [];
    /** The last node of the branch that is known: all until there are in `rows` and `below`, or hidden. @type {string | null} */
    this.known = null;
    this.selected = "";
    this.retracted = false;
    /** @type {Map<string, string>} The end of the branch that was last shown of a version. */
    this.chosen = new Map();
    /** @type {import("./seen.js").Marks | null} */
    this.seen = null;
    this.busy = false;
    /** Something happened while rows were read. */
    this.missed = false;
    this.asked = 0;
    this.list = h("div.messages", { role: "feed", "aria-label": "Conversation", "aria-busy": "false" });
    this.live = h("div.messages.open-answers");
    this.elsewhere = h("div.elsewhere");
    this.down = button("To the end", () => this.toEnd(), { icon: "down", class: "to-end", text: true });
    this.element = h("div.conversation", { onscroll: () => this.scrolled(), tabindex: 0, role: "region", "aria-label": "Messages" }, this.list, this.live, this.elsewhere);
    this.anchor = new Anchor(this.element, this.list, [this.live, this.elsewhere], () => !this.below.length);
    this.down.hidden = true;
    fill(this.list, h("p.hint", {}, "Reading the session…"));
  }

  /**
   * Show the branch that ends at a leaf.
   * @param {string | null} leaf
   * @param {{at?: string, focus?: boolean}} [options] `at`: show this node of it; by default the end.
   */
  async show(leaf, { at, focus = false } = {}) {
    this.asked += 1;
    const { asked } = this;
    if (leaf === null) {
      this.stand(leaf);
      this.below = [];
      this.before = null;
      this.rows = [];
      this.layout();
      return;
    }
    const behind = at && at !== leaf ? await this.session.below(leaf, at) : [];
    const last = behind[Math.min(PAGE / 2, behind.length) - 1] ?? (behind.length ? at : leaf);
    const page = await this.page({ node: last, limit: PAGE });
    if (asked !== this.asked) return;
    this.stand(leaf);
    this.before = page.before;
    this.below = behind.slice(behind.indexOf(String(last)) + 1);
    this.known = behind.at(-1) ?? leaf;
    this.adopt(page.rows.reverse());
    this.layout();
    if (at) this.select(at, { scroll: true, focus });
    else this.anchor.toEnd();
    await this.fillWindow();
  }

  /**
   * Read rows, newest first, with what their messages took.
   * @param {Record<string, any>} query
   * @param {boolean} [again] What is known of that is read again.
   * @returns {Promise<{rows: HistoryRow[], before: string | null}>}
   */
  async page(query, again = false) {
    const page = await this.session.get("history", { ...query, retracted: this.retracted || undefined });
    await this.session.readUsage(page.rows.map((/** @type {HistoryRow} */ row) => row.node.id), again);
    return page;
  }

  /** Read more until the window is full. A page that was left has no height, and would read for ever more. */
  async fillWindow() {
    while (this.element.isConnected && !this.busy && this.before && this.element.scrollHeight <= this.element.clientHeight + NEAR && this.rows.length < SHOWN_MAX) await this.older();
    this.scrolled();
  }

  async scrolled() {
    this.down.hidden = this.anchor.atEnd() || !this.rows.length;
    if (this.busy || !this.element.isConnected) return;
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    if (scrollTop < NEAR && this.before) await this.older();
    else if (scrollHeight - scrollTop - clientHeight < NEAR && this.below.length) await this.newer();
  }

  toEnd() {
    this.element.focus({ preventScroll: true });
    if (this.below.length) return this.show(this.leaf);
    this.anchor.toEnd();
    return Promise.resolve();
  }

  /** Read the page above. */
  async older() {
    await this.during(async () => {
      const first = this.rows[0]?.node.id;
      const page = await this.page({ node: this.leaf, before: this.before, limit: PAGE });
      if (this.rows[0]?.node.id !== first) return;
      this.before = page.before;
      const rows = [...page.rows.reverse(), ...this.rows];
      this.below.unshift(...rows.slice(SHOWN_MAX).map((row) => row.node.id));
      this.rows = rows.slice(0, SHOWN_MAX);
      this.anchor.during(() => this.layout());
    });
  }

  /** Read the page below. */
  async newer() {
    await this.during(async () => {
      const last = this.rows.at(-1)?.node.id;
      const next = this.below.slice(0, PAGE);
      const page = await this.page({ node: next.at(-1), limit: next.length });
      if (this.rows.at(-1)?.node.id !== last) return;
      const wanted = new Set(next);
      const rows = [...this.rows, ...page.rows.reverse().filter((row) => wanted.has(row.node.id))];
      this.below = this.below.slice(next.length);
      if (!this.below.length && this.leaf !== next.at(-1)) {
        this.below = await this.session.below(String(this.leaf), String(next.at(-1)));
        this.known = this.below.at(-1) ?? this.known;
      }
      this.rows = rows.slice(-SHOWN_MAX);
      if (rows.length > SHOWN_MAX) this.before = this.rows[0].node.id;
      this.anchor.during(() => this.layout());
    });
  }

  /** One read at a time. @param {() => Promise<void>} act */
  async during(act) {
    if (this.busy) return;
    this.busy = true;
    this.list.setAttribute("aria-busy", "true");
    try {
      await act();
    } catch (error) {
      notice(String(/** @type {Error} */ (error).message), true);
    } finally {
      this.busy = false;
      this.list.setAttribute("aria-busy", "false");
    }
    if (this.missed) this.refresh().catch((error) => notice(String(error.message), true));
  }

  /** Take rows that were read; those that say the same as before stay what they were. @param {HistoryRow[]} rows */
  adopt(rows) {
    const known = new Map(this.rows.map((row) => [row.node.id, row]));
    this.rows = rows.map((row) => {
      const old = known.get(row.node.id);
      return old && JSON.stringify(old) === JSON.stringify(row) ? old : row;
    });
  }

  /** Make the page have the rows, and nothing anew that is there. */
  layout() {
    const focused = this.focused();
    const plan = joins(this.rows);
    /** @type {Map<string, Shown>} */
    const made = new Map();
    /** @type {HTMLElement[]} */
    const tops = [];
    /** @type {HistoryRow | undefined} */
    let before;
    for (const row of this.rows) {
      const places = plan.get(row.node.id) ?? new Map();
      const key = JSON.stringify([[...places], this.session.usage.get(row.node.id)]);
      const known = this.made.get(row.node.id);
      const shown = known && known.row === row && known.key === key ? known : this.make(row, places, key);
      made.set(row.node.id, shown);
      if (!shown.own) continue;
      shown.own.classList.toggle("continued", continues(row, before));
      tops.push(shown.own);
      before = row;
    }
    this.made = made;
    if (tops.length) putInOrder(this.list, tops);
    else fill(this.list, h("p.hint", {}, "Nothing was said yet."));
    this.putResults();
    this.refocus(focused);
  }

  /** Put results under their calls. */
  putResults() {
    /** @type {Map<Element, HTMLElement[]>} */
    const filled = new Map();
    for (const { pieces } of this.made.values()) {
      for (const [place, piece] of pieces) {
        const call = this.made.get(place.node);
        const slot = [call?.own, ...(call?.pieces ?? []).map(([, each]) => each)].map((each) => each?.querySelector(`[data-call="${place.part}"]`)).find(Boolean);
        if (slot) filled.set(slot, [...(filled.get(slot) ?? []), piece]);
      }
    }
    for (const [slot, pieces] of filled) putInOrder(slot, pieces);
    for (const slot of this.list.querySelectorAll("[data-call]")) if (!filled.has(slot)) slot.replaceChildren();
  }

  /**
   * Make what is shown of a row: an article of its own, and those of its results under their calls.
   * @param {HistoryRow} row @param {Map<number, import("./turns.js").Place>} places @param {string} key
   * @returns {Shown}
   */
  make(row, places, key) {
    const pieces = [...places].map(([part, place]) => /** @type {[import("./turns.js").Place, HTMLElement]} */ ([place, this.article(row, { which: (at) => at === part, joined: true })]));
    const all = places.size && places.size === partsOf(row.node.payload).length;
    const own = all ? null : this.article(row, { which: (at) => !places.has(at) });
    pieces.slice(all ? 1 : 0).forEach(([, piece]) => { piece.dataset.pieceOf = row.node.id; delete piece.dataset.node; });
    return { row, key, own, pieces };
  }

  /** @param {HistoryRow} row @param {{which?: (part: number) => boolean, joined?: boolean}} options */
  article(row, options) {
    const article = messageArticle(row, {
      fetch: (sha256) => this.session.blob(sha256),
      usage: options.joined ? undefined : this.session.usage.get(row.node.id),
      turn: (from, step) => this.turn(from, step),
      step: (from, step, event) => this.step(from, step, event),
      menu: this.told.menu,
    }, options);
    article.addEventListener("click", (event) => {
      if (/** @type {Element} */ (event.target).closest("article") === article) this.select(row.node.id);
    });
    if (row.node.id === this.selected) this.markSelected(article, true);
    this.markSeen(article, row);
    return article;
  }

  /**
   * Go to another version of a message, down to where it was left the last time or to its newest end.
   * @param {HistoryRow} row
   * @param {number} step
   */
  async turn(row, step) {
    const target = row.sibling_ids[row.sibling + step];
    if (!target) return;
    if (this.leaf) this.chosen.set(row.node.id, this.leaf);
    const top = this.articleOf(row.node.id)?.getBoundingClientRect().top ?? 0;
    const left = this.chosen.get(target);
    const leaf = left && this.headAt(left) ? left : await this.newest(left ?? target);
    this.told.turned(leaf);
    await this.show(leaf, { at: target, focus: true });
    const now = this.articleOf(target)?.getBoundingClientRect().top;
    if (now !== undefined) this.element.scrollTop += now - top;
    this.anchor.stay();
  }

  /** Focus the message above or below. @param {HistoryRow} row @param {number} step @param {Event} event */
  step(row, step, event) {
    const all = /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll("article[data-node]")]);
    const next = all[all.findIndex((each) => each.dataset.node === row.node.id) + step];
    if (!next) return;
    event.preventDefault();
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    this.select(String(next.dataset.node));
  }

  /** @param {string} node @returns {HTMLElement | null} */
  articleOf(node) {
    return this.list.querySelector(`[data-node="${CSS.escape(node)}"]`);
  }

  /** @param {string} node @param {{scroll?: boolean, focus?: boolean}} [options] */
  select(node, { scroll = false, focus = false } = {}) {
    this.markSelected(this.articleOf(this.selected), false);
    this.selected = node;
    const article = this.articleOf(node);
    this.markSelected(article, true);
    if (scroll && article) {
      article.scrollIntoView({ block: "start" });
      this.anchor.stay();
    }
    if (focus) article?.focus({ preventScroll: true });
    this.told.selected(node);
  }

  /** The selected message is the one that Tab leads to. @param {HTMLElement | null} article @param {boolean} yes */
  markSelected(article, yes) {
    if (!article) return;
    article.classList.toggle("selected", yes);
    article.tabIndex = yes ? 0 : -1;
  }

  /** What of the list has the focus. @returns {{node: string, name: string | null} | null} */
  focused() {
    const active = document.activeElement;
    const article = /** @type {HTMLElement | null | undefined} */ (active?.closest("article[data-node]"));
    if (!active || !article || !this.list.contains(article)) return null;
    return { node: String(article.dataset.node), name: active === article ? null : active.getAttribute("aria-label") };
  }

  /** Give the focus back to what was made anew. @param {{node: string, name: string | null} | null} was */
  refocus(was) {
    if (!was || this.list.contains(document.activeElement)) return;
    const article = this.articleOf(was.node);
    const same = was.name && [...(article?.querySelectorAll("button") ?? [])].find((each) => each.getAttribute("aria-label") === was.name);
    (same || article || this.element).focus({ preventScroll: true });
  }

  /** Show which messages the model saw at a node. @param {import("./seen.js").Marks | null} seen */
  showSeen(seen) {
    this.seen = seen;
    for (const { row, own, pieces } of this.made.values()) {
      for (const article of [own, ...pieces.map(([, piece]) => piece)]) if (article) this.markSeen(article, row);
    }
  }

  /** @param {HTMLElement} article @param {HistoryRow} row */
  markSeen(article, row) {
    const place = this.seen?.placeOf(row.node) ?? "";
    for (const each of ["unseen", "later", "was-seen"]) article.classList.toggle(each, each === place);
  }

  /** The branch that is shown ends here. @param {string | null} leaf */
  stand(leaf) {
    this.leaf = leaf;
    this.head = this.headAt(leaf);
    this.showOpen();
  }

  /** The head that stands at a node, before others the current one. @param {string | null} node @returns {string} */
  headAt(node) {
    const { heads = {}, head = "" } = this.session.card ?? {};
    return node !== null && heads[head] === node ? head : Object.keys(heads).find((name) => heads[name] === node) ?? "";
  }

  /** The newest end below a node. @param {string} node @returns {Promise<string>} */
  async newest(node) {
    return (await this.session.get(`nodes/${encodeURIComponent(node)}`)).leaf;
  }

  /**
   * Where the branch that is shown ends now, and the ids until there. It ends where its head went, and stays where another
   * one stands, although other branches may go on from there; a branch without a head goes on to its newest end.
   * @returns {Promise<[string, string[]]>}
   */
  async end() {
    const leaf = String(this.leaf);
    const there = this.session.card?.heads?.[this.head] ?? leaf;
    const ids = await this.session.below(there, leaf).catch(() => []);
    if (ids.length) return [there, ids];
    if (this.headAt(leaf)) return [leaf, []];
    const newest = await this.newest(leaf);
    return [newest, await this.session.below(newest, leaf)];
  }

  /** Show the answers that are being written at this end, and say which branches others are on. */
  showOpen() {
    const others = [];
    for (const each of /** @type {Iterable<HTMLElement>} */ (this.live.children)) {
      const { parent = "", head = "" } = each.dataset;
      each.hidden = parent !== (this.leaf ?? "") && head !== this.head;
      if (!each.hidden) continue;
      const said = each.getAttribute("aria-busy") === "true" ? "An answer is being written" : "An answer was not finished";
      others.push(button(`${said} on ${head}`, () => this.turnTo(parent || null)));
    }
    fill(this.elsewhere, others);
  }

  /** Show another branch, and remember that it was chosen. @param {string | null} leaf */
  turnTo(leaf) {
    if (leaf) this.told.turned(leaf);
    return this.show(leaf);
  }

  /** Something happened in the session: show it where it is on the page, and follow the end of the branch. */
  async refresh() {
    const there = this.anchor.atEnd();
    const follow = () => there || this.anchor.end; // or somebody asked for the end meanwhile
    this.missed = this.busy;
    if (this.busy) return;
    if (this.leaf === null) {
      const card = this.session.card;
      if (card?.node) await this.show(card.node);
      return;
    }
    await this.during(async () => {
      const { asked } = this;
      const [leaf, ids] = await this.end();
      if (asked !== this.asked) return;
      if (this.known === this.leaf) {
        this.below.push(...ids);
        this.known = ids.at(-1) ?? this.known;
      }
      this.stand(leaf);
      const last = this.rows.at(-1)?.node.id;
      const page = await this.page({ node: last, limit: Math.max(1, this.rows.length) }, true);
      if (this.rows.at(-1)?.node.id !== last) return;
      this.adopt(page.rows.reverse());
      this.anchor.during(() => this.layout());
    });
    for (let left = -1; follow() && !this.busy && this.below.length && this.below.length !== left; ) {
      left = this.below.length;
      await this.newer();
    }
    if (follow()) this.anchor.toEnd();
    this.down.hidden = this.anchor.atEnd() || !this.rows.length;
  }
}
