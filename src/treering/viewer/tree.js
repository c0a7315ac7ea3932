/**
 * The tree of all branches, a row for a marked node or a straight run. However many rows there are, only those in the window
 * are elements, and pages of rows are read as they come into it; the lines of a row follow from that row alone.
 *
 * @typedef {{level: number, first: string, last: string, count: number, kinds: Record<string, number>, branches: number, label: string | null,
 *   heads: string[], checkpoints: number, retracted: boolean, amended: boolean, problem: string | null, aside: boolean, leaf: boolean}} OutlineRow
 */
import { h, icon, put } from "./dom.js";
import { counted, firstLine, number, roleClass, roleName, shortId } from "./words.js";

const ROW = 30;
const STEP = 14;
const PAGE = 100;
const AROUND = 6;
/** Browsers place nothing further down than some 33 million pixels; taller trees are scrolled in steps. */
const TALL = 15_000_000;

export class Tree {
  /**
   * @param {import("./session.js").Session} session
   * @param {(row: OutlineRow) => void} choose
   */
  constructor(session, choose) {
    this.session = session;
    this.choose = choose;
    this.total = 0;
    /** @type {Map<number, OutlineRow[] | Promise<void>>} */
    this.pages = new Map();
    /** @type {Map<string, string>} */
    this.previews = new Map();
    /** Those that may have changed since they were read. @type {Set<string>} */
    this.stale = new Set();
    this.active = -1;
    this.shownNode = "";
    /** The node of which the row is known. */
    this.located = "";
    this.sheet = h("div.tree-sheet", { role: "presentation" });
    this.empty = h("p.hint", { hidden: true }, "Nothing was said yet.");
    this.element = h("div.tree", { role: "tree", tabindex: 0, "aria-label": "Branches", onkeydown: this.key.bind(this), onscroll: () => this.draw() }, this.sheet);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Show it around a node, without reading it from its beginning. @param {string} node Empty: none. */
  async open(node) {
    if (!node) return this.refresh();
    this.shownNode = node;
    const { offset } = await this.session.get("tree/locate", { node });
    await this.refresh(Math.floor(offset / PAGE));
    this.located = node;
    return this.shownNode === node ? this.mark(offset) : undefined;
  }

  /** Read it again: something happened. @param {number} [at] The page that is read. */
  async refresh(at = Math.floor(this.top() / PAGE)) {
    const read = await this.read(at);
    this.pages = new Map([[at, read.rows]]);
    this.total = read.total;
    this.stale = new Set(this.previews.keys());
    this.located = "";
    this.sheet.style.height = `${Math.min(this.total * ROW, TALL)}px`;
    if (this.shownNode && this.active < 0) return; // it is drawn where it will be scrolled to
    this.draw();
  }

  /** @param {number} page */
  read(page) {
    return this.session.get("tree", { offset: page * PAGE, limit: PAGE });
  }

  /** How many pixels of the tree a pixel of the scroll bar stands for. */
  scale() {
    const space = Math.max(1, Math.min(this.total * ROW, TALL) - this.element.clientHeight);
    return Math.max(1, (this.total * ROW - this.element.clientHeight) / space);
  }

  /** The row at the upper edge. */
  top() {
    return Math.floor((this.element.scrollTop * this.scale()) / ROW);
  }

  /** Make the rows in the window. */
  draw() {
    const top = this.top();
    const first = Math.max(0, top - AROUND);
    const last = Math.min(this.total, top + Math.ceil(this.element.clientHeight / ROW) + AROUND);
    const shift = this.element.scrollTop - (this.element.scrollTop * this.scale());
    const rows = document.createDocumentFragment();
    let deepest = 0;
    for (let index = first; index < last; index += 1) {
      const row = this.row(index);
      const element = row ? this.rowElement(row, index) : h("div.tree-row.waiting", { role: "presentation" });
      element.style.top = `${index * ROW + shift}px`;
      deepest = Math.max(deepest, row?.level ?? 0);
      put(rows, element);
    }
    this.sheet.replaceChildren(rows);
    this.sheet.style.minWidth = `${deepest * STEP + 280}px`;
    if (this.active >= 0) this.element.setAttribute("aria-activedescendant", `tree-${this.active}`);
    this.readPreviews(first, last);
  }

  /** The row at an index, or nothing until its page came. @param {number} index @returns {OutlineRow | undefined} */
  row(index) {
    const page = Math.floor(index / PAGE);
    const there = this.pages.get(page);
    if (Array.isArray(there)) return there[index % PAGE];
    if (!there) {
      this.pages.set(page, this.read(page).then((read) => {
        this.pages.set(page, read.rows);
        while (this.pages.size > 30) this.pages.delete(this.pages.keys().next().value ?? 0);
        this.draw();
      }, () => { this.pages.delete(page); }));
    }
    return undefined;
  }

  /** @param {OutlineRow} row @param {number} index */
  rowElement(row, index) {
    const chosen = index === this.active;
    const kinds = Object.entries(row.kinds);
    const role = row.count === 1 ? kinds[0]?.[0] ?? "" : "";
    const lane = h("span.lane", { "aria-hidden": "true" });
    const element = h(
      `div.tree-row${chosen ? ".chosen" : ""}${row.retracted ? ".retracted" : ""}`,
      { role: "treeitem", id: `tree-${index}`, "aria-level": row.level + 1, "aria-selected": chosen, "data-first": row.first, "data-last": row.last, onclick: () => this.go(index) },
      lane,
      h("span.tree-said", {}, this.said(row, role)),
      row.label && h("span.chip.label", {}, row.label),
      row.heads.map((head) => h("span.chip.head", {}, head)),
      row.checkpoints > 0 && h("span.chip.checkpoints", { title: counted(row.checkpoints, "checkpoint") }, icon("clock"), h("span", {}, number(row.checkpoints))),
      row.amended && h("span.chip", {}, "edited"),
      row.problem && h("span.chip.problem", {}, row.problem),
    );
    this.drawLane(lane, row, index, row.count === 1 ? roleClass(role) : "run");
    return element;
  }

  /** The lines of a row: those that pass it, those that come and go, and its point. @param {HTMLElement} lane @param {OutlineRow} row @param {number} index @param {string} kind */
  drawLane(lane, row, index, kind) {
    lane.style.width = `${(row.level + 1) * STEP + 6}px`;
    const line = (/** @type {string} */ name, /** @type {number} */ level) => {
      const part = h(`span.${name}.lane-${level % 6}`);
      part.style.left = `${level * STEP + 8}px`;
      lane.append(part);
    };
    if (row.level) lane.append(rails(row.level));
    if (row.aside) line("turn", row.level);
    else if (index > 0) line("rise", row.level);
    if (!row.leaf) line("fall", row.level);
    line(`point.${kind}`, row.level);
  }

  /** @param {OutlineRow} row @param {string} role */
  said(row, role) {
    if (row.count > 1) {
      const kinds = Object.entries(row.kinds).map(([kind, count]) => `${number(count)} ${roleName(kind).toLowerCase()}`).join(" · ");
      return [h("span.tree-role", {}, `${number(row.count)} in a row`), h("span.tree-line", {}, kinds)];
    }
    return [h("span.tree-role", {}, roleName(role)), h("span.tree-line", {}, this.previews.get(row.first) ?? "")];
  }

  /** Ask once for the first lines of the single nodes in the window. @param {number} first @param {number} last */
  async readPreviews(first, last) {
    const wanted = [];
    for (let index = first; index < last; index += 1) {
      const rows = this.pages.get(Math.floor(index / PAGE));
      const row = Array.isArray(rows) ? rows[index % PAGE] : undefined;
      if (row && row.count === 1 && (!this.previews.has(row.first) || this.stale.has(row.first))) wanted.push(row.first);
    }
    if (!wanted.length) return;
    for (const node of wanted) {
      this.previews.set(node, this.previews.get(node) ?? "");
      this.stale.delete(node);
    }
    const found = await this.session.previews(wanted).catch(() => null);
    if (found === null) wanted.forEach((node) => this.stale.add(node)); // they are asked for again when something is drawn
    if (this.previews.size > 5000) this.previews.clear();
    const told = Object.entries(found ?? {}).map(([node, text]) => /** @type {[string, string]} */ ([node, firstLine(text)]));
    const changed = told.some(([node, text]) => this.previews.get(node) !== text);
    for (const [node, text] of told) this.previews.set(node, text);
    if (changed) this.draw();
  }

  /** @param {number} index */
  go(index) {
    const row = this.row(index);
    this.mark(index);
    if (row) this.choose(row);
  }

  /** Make a row the active one, and scroll to it if it is outside. @param {number} index */
  mark(index) {
    this.active = Math.max(0, Math.min(this.total - 1, index));
    const top = this.active * ROW;
    const from = this.element.scrollTop * this.scale();
    if (top < from || top + ROW > from + this.element.clientHeight) {
      this.element.scrollTop = Math.max(0, top - this.element.clientHeight / 3) / this.scale();
    }
    const level = this.row(this.active)?.level ?? 0;
    const left = level * STEP;
    if (left < this.element.scrollLeft || left > this.element.scrollLeft + this.element.clientWidth - 120) this.element.scrollLeft = Math.max(0, left - 60);
    this.draw();
  }

  /** Show where a node is. @param {string} node */
  async reveal(node) {
    this.shownNode = node;
    if (this.located === node) return;
    this.located = node;
    try {
      const { offset } = await this.session.get("tree/locate", { node });
      if (this.shownNode === node) this.mark(offset);
    } catch (error) {
      this.located = "";
      throw error;
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.total, End: this.total };
    this.located = "";
    if (event.key in steps) this.mark(this.active + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.go(this.active);
    else return;
    event.preventDefault();
  }
}

/** The lines of the branches further out, which all go on below: one element, however many there are. @param {number} level */
function rails(level) {
  const element = h("span.rails");
  element.style.width = `${level * STEP}px`;
  return element;
}
