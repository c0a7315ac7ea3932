/**
 * A branch as messages. Only a window of it is on the page: scrolling up reads older ones and drops newer ones, and down the
 * other way round. The scroll position stays at the message that people look at.
 */
import { button, fill, h, notice } from "./dom.js";
import { messageArticle } from "./message.js";

/** @typedef {import("./message.js").HistoryRow} HistoryRow */

const PAGE = 40;
const SHOWN_MAX = 160;
const NEAR = 800;

export class Conversation {
  /**
   * @param {import("./session.js").Session} session
   * @param {{selected: (node: string) => void, menu: (row: HistoryRow, at: HTMLElement) => void}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    /** @type {HistoryRow[]} Oldest first. */
    this.rows = [];
    /** @type {string | null} The end of the branch that is shown. */
    this.leaf = null;
    /** The head whose end that is; empty: no head stands there. */
    this.head = "";
    /** @type {string | null} */
    this.before = null;
    /** @type {string[]} Ids behind the last row, on the way to the leaf. */
    this.below = [];
    this.selected = "";
    this.retracted = false;
    /** @type {Map<string, string>} The end of the branch that was last shown of a version. */
    this.chosen = new Map();
    /** @type {{nodes: Set<string>, path: Set<string>} | null} */
    this.seen = null;
    this.busy = false;
    this.list = h("div.messages", { role: "feed", "aria-label": "Conversation", "aria-busy": "false" });
    this.live = h("div.messages.open-answers", { "aria-live": "polite" });
    this.elsewhere = h("div.elsewhere");
    this.down = button("To the end", () => this.toEnd(), { icon: "down", class: "to-end", text: true });
    this.element = h("div.conversation", { onscroll: () => this.scrolled(), tabindex: 0, role: "region", "aria-label": "Messages" }, this.list, this.live, this.elsewhere);
    this.down.hidden = true;
  }

  /**
   * Show the branch that ends at a leaf.
   * @param {string | null} leaf
   * @param {{at?: string, focus?: boolean}} [options] `at`: show this node of it; by default the end.
   */
  async show(leaf, { at, focus = false } = {}) {
    this.leaf = leaf;
    this.head = this.headAt(leaf);
    this.showOpen();
    if (leaf === null) {
      this.rows = [];
      this.below = [];
      this.before = null;
      this.render();
      return;
    }
    const below = at && at !== leaf ? await this.session.below(leaf, at) : [];
    const last = below[Math.min(PAGE / 2, below.length) - 1] ?? (below.length ? at : leaf);
    const page = await this.page({ node: last, limit: PAGE });
    this.rows = page.rows.reverse();
    this.before = page.before;
    this.below = below.slice(below.indexOf(String(last)) + 1);
    await this.session.readUsage(this.rows.map((row) => row.node.id));
    this.render();
    if (at) this.select(at, { scroll: true, focus });
    else this.element.scrollTop = this.element.scrollHeight;
    await this.fillWindow();
  }

  /** @param {Record<string, any>} query @returns {Promise<{rows: HistoryRow[], before: string | null}>} */
  page(query) {
    return this.session.get("history", { ...query, retracted: this.retracted || undefined });
  }

  /** Read more until the window is full. */
  async fillWindow() {
    while (this.before && this.element.scrollHeight <= this.element.clientHeight + NEAR && this.rows.length < SHOWN_MAX) await this.older();
    this.scrolled();
  }

  async scrolled() {
    this.down.hidden = this.atEnd() || !this.rows.length;
    if (this.busy) return;
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    if (scrollTop < NEAR && this.before) await this.older();
    else if (scrollHeight - scrollTop - clientHeight < NEAR && this.below.length) await this.newer();
  }

  /** Whether the end of the branch is on the screen. */
  atEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    return !this.below.length && scrollHeight - scrollTop - clientHeight < 80;
  }

  toEnd() {
    if (this.below.length) return this.show(this.leaf);
    this.element.scrollTop = this.element.scrollHeight;
    return Promise.resolve();
  }

  /** Read the page above. */
  async older() {
    await this.during(async () => {
      const first = this.rows[0]?.node.id;
      const page = await this.page({ node: this.leaf, before: this.before, limit: PAGE });
      if (this.rows[0]?.node.id !== first) return;
      const more = page.rows.reverse();
      await this.session.readUsage(more.map((row) => row.node.id));
      this.before = page.before;
      this.rows = [...more, ...this.rows];
      this.keepPlace(() => this.list.prepend(...more.map((row) => this.article(row))));
      while (this.rows.length > SHOWN_MAX) {
        this.below.unshift(/** @type {HistoryRow} */ (this.rows.pop()).node.id);
        this.list.lastElementChild?.remove();
      }
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
      const more = page.rows.reverse().filter((row) => wanted.has(row.node.id));
      await this.session.readUsage(more.map((row) => row.node.id));
      this.below = this.below.slice(next.length);
      this.rows.push(...more);
      this.list.append(...more.map((row) => this.article(row)));
      if (!this.below.length && this.leaf !== next.at(-1)) this.below = await this.session.below(String(this.leaf), String(next.at(-1)));
      this.keepPlace(() => {
        while (this.rows.length > SHOWN_MAX) {
          this.rows.shift();
          this.list.firstElementChild?.remove();
          this.before = this.rows[0].node.id;
        }
      });
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
  }

  /** Change what is above without moving what is seen. @param {() => void} change */
  keepPlace(change) {
    const edge = this.element.getBoundingClientRect().top;
    const held = [...this.list.children].find((each) => each.getBoundingClientRect().bottom > edge);
    const before = held?.getBoundingClientRect().top ?? 0;
    change();
    if (held?.isConnected) this.element.scrollTop += held.getBoundingClientRect().top - before;
  }

  /** @param {HistoryRow} row */
  article(row) {
    const article = messageArticle(row, {
      fetch: (sha256) => this.session.blob(sha256),
      usage: this.session.usage.get(row.node.id),
      turn: (from, step) => this.turn(from, step),
      menu: this.told.menu,
    });
    article.addEventListener("click", () => this.select(row.node.id));
    if (row.node.id === this.selected) article.classList.add("selected");
    this.markSeen(article, row.node.id);
    return article;
  }

  render() {
    fill(this.list, this.rows.length ? this.rows.map((row) => this.article(row)) : h("p.hint", {}, "Nothing was said yet."));
    this.down.hidden = true;
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
    await this.show(leaf, { at: target, focus: true });
    const now = this.articleOf(target)?.getBoundingClientRect().top;
    if (now !== undefined) this.element.scrollTop += now - top;
  }

  /** @param {string} node @returns {HTMLElement | null} */
  articleOf(node) {
    return this.list.querySelector(`[data-node="${CSS.escape(node)}"]`);
  }

  /** @param {string} node @param {{scroll?: boolean, focus?: boolean}} [options] */
  select(node, { scroll = false, focus = false } = {}) {
    this.articleOf(this.selected)?.classList.remove("selected");
    this.selected = node;
    const article = this.articleOf(node);
    article?.classList.add("selected");
    if (scroll) article?.scrollIntoView({ block: "start" });
    if (focus) article?.focus({ preventScroll: true });
    this.told.selected(node);
  }

  /** Show which messages the model saw at a node. @param {{nodes: Set<string>, path: Set<string>} | null} seen */
  showSeen(seen) {
    this.seen = seen;
    for (const row of this.rows) {
      const article = this.articleOf(row.node.id);
      if (article) this.markSeen(article, row.node.id);
    }
  }

  /** @param {HTMLElement} article @param {string} node */
  markSeen(article, node) {
    const { seen } = this;
    article.classList.toggle("unseen", Boolean(seen && seen.path.has(node) && !seen.nodes.has(node)));
    article.classList.toggle("later", Boolean(seen && !seen.path.has(node)));
    article.classList.toggle("was-seen", Boolean(seen?.nodes.has(node)));
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
      if (each.hidden) others.push(button(`An answer is being written on ${head}`, () => this.show(parent || null)));
    }
    fill(this.elsewhere, others);
  }

  /** Something happened in the session: show it where it is on the page, and follow the end of the branch. */
  async refresh() {
    const follow = this.atEnd();
    if (this.leaf === null) {
      const card = this.session.card;
      if (card?.node) await this.show(card.node);
      return;
    }
    await this.during(async () => {
      const [leaf, ids] = await this.end();
      this.below.push(...ids);
      this.leaf = leaf;
      this.head = this.headAt(leaf);
      this.showOpen();
      const last = this.rows.at(-1)?.node.id;
      const page = await this.page({ node: last, limit: Math.max(1, this.rows.length) });
      if (this.rows.at(-1)?.node.id !== last) return;
      await this.session.readUsage(page.rows.map((row) => row.node.id), true);
      this.replace(page.rows.reverse());
    });
    while (this.below.length && this.rows.length < SHOWN_MAX && follow) await this.newer();
    if (follow) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Put rows in the place of those that changed. @param {HistoryRow[]} rows */
  replace(rows) {
    const known = new Map(this.rows.map((row) => [row.node.id, row]));
    if (rows.length !== this.rows.length || rows.some((row) => !known.has(row.node.id))) {
      this.rows = rows;
      this.keepPlace(() => this.render());
      return;
    }
    this.rows = rows;
    for (const row of rows) {
      if (JSON.stringify(known.get(row.node.id)) !== JSON.stringify(row)) this.articleOf(row.node.id)?.replaceWith(this.article(row));
    }
  }
}
