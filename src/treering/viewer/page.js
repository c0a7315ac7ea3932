/** The page of a session: tree, conversation, and a panel with what the model saw, checkpoints, comparison, labels and facts. */
import { About, Labels } from "./about.js";
import { Checkpoints } from "./checkpoints.js";
import { Choice } from "./choice.js";
import { Compare } from "./compare.js";
import { Conversation } from "./conversation.js";
import { copy } from "./code.js";
import { button, fill, h, icon, notice } from "./dom.js";
import { Live } from "./live.js";
import { rowTitle } from "./message.js";
import { Seen } from "./seen.js";
import { Session } from "./session.js";
import { knownText, partsOf } from "./shapes.js";
import { Tree } from "./tree.js";
import { counted, sessionName } from "./words.js";
import { editableText, Writing } from "./writing.js";

/** @typedef {import("./message.js").HistoryRow} HistoryRow */
/** @typedef {{key: string, node?: string, a?: string, b?: string}} Route */

/** Below this width, as in the style sheet, the tree lies over the conversation. */
const NARROW = 760;
const PANELS = { seen: "Model saw", checkpoints: "Checkpoints", compare: "Compare", labels: "Labels", about: "About" };

export class SessionPage {
  /**
   * @param {import("./source.js").Source} source
   * @param {string} key
   */
  constructor(source, key) {
    this.source = source;
    this.session = new Session(source, key);
    this.choice = new Choice(this.session);
    this.panel = "";
    this.at = "";
    /** Counts what people ask to see: an answer that comes late does not take them back. */
    this.turn = 0;
    this.closed = false;
    const go = (/** @type {string} */ node) => this.go(node);
    this.conversation = new Conversation(this.session, { selected: (node) => this.selected(node), turned: (leaf) => this.choice.set(leaf), menu: (row, at) => this.menu(row, at) });
    this.tree = new Tree(this.session, (row) => this.chosenInTree(row));
    const page = { show: (/** @type {string} */ leaf, /** @type {string | undefined} */ at = undefined) => this.session.open().then(() => this.show(leaf, at)), refresh: () => this.changed() };
    this.writing = source.readOnly ? null : new Writing(this.session, page);
    const { writing } = this;
    this.panels = {
      seen: new Seen(this.session, { marks: (seen) => this.conversation.showSeen(seen), at: (node) => this.placeOf(node), go }),
      checkpoints: new Checkpoints(this.session, { go, rewind: writing && ((id) => writing.rewind(id)), label: writing && ((id, old) => writing.label(id, old)) }),
      compare: new Compare(this.session, { go }),
      labels: new Labels(this.session, { go, checkpoint: (id) => this.openCheckpoint(id) }),
      about: new About(this.session, { go }),
    };
    this.live = new Live(this.session, { changed: () => this.changed(), deleted: () => this.deleted(), state: (said) => this.liveState(said), place: this.conversation.live, placed: () => this.conversation.showOpen(), ending: writing, ended: (node) => this.conversation.select(node, { focus: true }) });
    this.build();
  }

  build() {
    this.title = h("h1");
    this.facts = h("span.hint.facts-line");
    this.liveChip = h("span.chip.live", { hidden: true }, "live");
    this.heads = h("div.heads");
    this.tabs = h("div.tabs", { role: "tablist", "aria-label": "About the conversation" }, Object.entries(PANELS).map(([name, said]) => h("button.tab", { role: "tab", type: "button", id: `tab-${name}`, "aria-controls": "panel", "aria-selected": "false", tabindex: name === "seen" ? 0 : -1, onclick: () => this.openPanel(this.panel === name ? "" : name), onkeydown: (/** @type {KeyboardEvent} */ event) => this.tabKey(event, name) }, said)));
    this.side = h("section.panel", { id: "panel", role: "tabpanel", tabindex: 0, "aria-label": "Details", hidden: true });
    const back = !this.source.only && h("a.button.back", { href: "#/", "aria-label": "Sessions" }, icon("left"), h("span", {}, "Sessions"));
    const narrow = innerWidth < NARROW;
    this.treeToggle = button("Branches", () => this.toggleTree(), { icon: "tree", class: "tree-toggle", "aria-expanded": String(!narrow), "aria-controls": "branches" });
    this.element = h(
      `main.session${narrow ? ".no-tree" : ""}`,
      { onkeydown: (/** @type {KeyboardEvent} */ event) => this.escaped(event) },
      h("div.session-head", {}, back, this.treeToggle, h("div.names", {}, this.title, this.facts), this.liveChip, h("span.grow"), this.heads, this.tabs),
      h("div.columns", {}, h("nav.tree-side", { id: "branches", "aria-label": "Branches" }, this.tree.element), h("div.middle", {}, this.conversation.element, this.conversation.down, this.writing?.composer(() => this.conversation.leaf)), this.side),
    );
  }

  /** @param {Route} route */
  async open(route) {
    await Promise.all([this.session.open(), this.choice.chosen()]);
    this.showCard();
    const node = route.node ?? (await this.choice.chosen()) ?? this.session.card?.node;
    this.tree.open(node ?? "").catch(() => this.tree.refresh()).then(() => this.reveal(), (error) => notice(String(error.message), true));
    await this.goTo(route);
    if (!this.source.only) this.live.start();
  }

  /** Go to another place of the same session. @param {Route} route */
  async goTo(route) {
    this.turn += 1;
    if (route.a && route.b) {
      this.openPanel("compare", false);
      await this.panels.compare.show(route.a, route.b);
      if (this.conversation.leaf === null) await this.conversation.show(this.session.card?.node ?? null);
    } else if (route.node) {
      await this.go(route.node);
    } else {
      await this.conversation.show((await this.choice.end()) ?? this.session.card?.node ?? null);
    }
    this.showCard();
    this.reveal();
  }

  close() {
    this.closed = true;
    this.live.stop();
  }

  /** The position of a node in the journal. @param {string} node @returns {Promise<number>} */
  async placeOf(node) {
    return this.conversation.made.get(node)?.row.node.at ?? (await this.session.get(`nodes/${encodeURIComponent(node)}`)).at;
  }

  showCard() {
    if (this.closed) return; // the title is that of another page
    const { info, heads, head } = /** @type {any} */ (this.session.card);
    document.title = `${sessionName(info)} · Treering`;
    fill(/** @type {HTMLElement} */ (this.title), sessionName(info));
    this.title?.setAttribute("title", sessionName(info));
    fill(/** @type {HTMLElement} */ (this.facts), [counted(info.messages, "message"), info.model].filter(Boolean).join(" · "));
    const names = Object.keys(heads || {});
    const shown = this.shownHead() ?? head;
    const select = names.length > 1 && h("label", {}, "Head ", h("select", { onchange: (/** @type {Event} */ event) => this.showHead(/** @type {HTMLSelectElement} */ (event.target).value) }, names.map((name) => h("option", { value: name, selected: name === shown }, name === head ? `${name} (current)` : name))));
    if (!this.heads?.contains(document.activeElement)) fill(/** @type {HTMLElement} */ (this.heads), select);
  }

  shownHead() {
    return Object.entries(this.session.card?.heads || {}).find(([, node]) => node === this.conversation.leaf)?.[0];
  }

  /** @param {string} head */
  async showHead(head) {
    const node = this.session.card?.heads[head];
    if (node) await this.show(node);
  }

  /** Show the branch down to a leaf. @param {string} leaf @param {string} [at] */
  async show(leaf, at = undefined) {
    this.turn += 1;
    await this.conversation.show(leaf, { at });
    if (!at) this.conversation.select(leaf);
    this.choice.set(leaf);
    this.reveal();
    this.showCard();
  }

  /** Show a node, on the branch that is shown if it is on it. @param {string} node */
  async go(node) {
    const turn = ++this.turn;
    if (this.conversation.articleOf(node)) {
      this.conversation.select(node, { scroll: true, focus: true });
      return;
    }
    try {
      const { leaf, retracted } = await this.choice.branchOf(node);
      if (turn !== this.turn || this.closed) return;
      this.conversation.retracted ||= retracted; // whoever goes there wants to see it
      await this.conversation.show(leaf, { at: node, focus: true });
      this.choice.set(leaf);
      this.showCard();
    } catch (error) {
      notice(String(/** @type {Error} */ (error).message), true);
      if (this.conversation.leaf === null) await this.conversation.show(this.session.card?.node ?? null);
    }
  }

  /** @param {import("./tree.js").OutlineRow} row */
  async chosenInTree(row) {
    await this.go(row.first);
    if (innerWidth < NARROW) this.toggleTree(false);
  }

  /** @param {string} node */
  selected(node) {
    if (node === this.at || this.closed) return;
    this.at = node;
    if (!location.hash.includes("/compare/")) history.replaceState(null, "", `#/s/${this.session.key}/n/${encodeURIComponent(node)}`);
    this.reveal();
    if (this.panel === "seen") this.panels.seen.show(node);
  }

  reveal() {
    const node = this.at || this.conversation.leaf;
    if (node && this.tree.total) this.tree.reveal(node).catch(() => undefined);
  }

  /** @param {string} name Empty: none. @param {boolean} [fresh] Read what it shows. */
  openPanel(name, fresh = true) {
    this.panel = name;
    for (const tab of /** @type {NodeListOf<HTMLElement>} */ (this.tabs?.querySelectorAll(".tab"))) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen || (!name && tab.id === "tab-seen") ? 0 : -1;
    }
    const side = /** @type {HTMLElement} */ (this.side);
    side.hidden = !name;
    this.element?.classList.toggle("wide-panel", name === "compare");
    if (name !== "seen") this.conversation.showSeen(null);
    if (!name) return;
    const panel = this.panels[/** @type {keyof typeof this.panels} */ (name)];
    side.setAttribute("aria-label", PANELS[/** @type {keyof typeof PANELS} */ (name)]);
    fill(side, h("div.panel-head", {}, h("h2", {}, PANELS[/** @type {keyof typeof PANELS} */ (name)]), h("span.grow"), button("Close", () => this.closePanel(), { icon: "close" })), panel.element);
    if (fresh) this.refreshPanel();
  }

  closePanel() {
    const { panel } = this;
    this.openPanel("");
    document.getElementById(`tab-${panel}`)?.focus();
  }

  /** Escape closes what lies over the conversation. @param {KeyboardEvent} event */
  escaped(event) {
    if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open], #menu")) return;
    const target = /** @type {Element} */ (event.target);
    if (this.panel && this.side?.contains(target)) this.closePanel();
    else if (innerWidth < NARROW && target.closest(".tree-side")) this.toggleTree(false);
  }

  /** @param {boolean} [shown] */
  toggleTree(shown = this.element?.classList.contains("no-tree")) {
    this.element?.classList.toggle("no-tree", !shown);
    this.treeToggle?.setAttribute("aria-expanded", String(shown));
    if (innerWidth < NARROW) (shown ? this.tree.element : this.treeToggle)?.focus();
  }

  /** @returns {Promise<any>} */
  async refreshPanel() {
    const { seen, checkpoints, compare, labels, about } = this.panels;
    try {
      if (this.panel === "seen") await seen.show(this.at || this.conversation.leaf || "");
      else if (this.panel === "checkpoints") await checkpoints.show();
      else if (this.panel === "compare") await compare.show(compare.a, compare.b);
      else if (this.panel === "labels") await labels.show();
      else if (this.panel === "about") await about.show();
    } catch (error) {
      notice(String(/** @type {Error} */ (error).message), true);
    }
  }

  /** @param {KeyboardEvent} event @param {string} name */
  tabKey(event, name) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const names = Object.keys(PANELS);
    const next = names[(names.indexOf(name) + step + names.length) % names.length];
    this.openPanel(next);
    document.getElementById(`tab-${next}`)?.focus();
  }

  /** @param {string} id */
  async openCheckpoint(id) {
    this.openPanel("checkpoints", false);
    await this.panels.checkpoints.show(id);
  }

  /** What can be done with a message. @param {HistoryRow} row @param {HTMLElement} at */
  menu(row, at) {
    const { node } = row;
    const { writing } = this;
    const other = this.panels.compare.a || this.conversation.leaf || "";
    /** @type {[string, () => void][]} */
    const items = [
      ["What the model saw here", () => { this.conversation.select(node.id); this.openPanel("seen"); }],
      ["Copy a link to this", () => copy(location.href.replace(/#.*/s, `#/s/${this.session.key}/n/${encodeURIComponent(node.id)}`))],
      ["Compare from here …", () => { this.panels.compare.a = node.id; this.panels.compare.b = ""; this.openPanel("compare"); }],
    ];
    const said = partsOf(node.payload).filter((part) => part.kind === "text").map((part) => knownText(part.text)).join("\n\n");
    if (said) items.splice(1, 0, ["Copy the text", () => copy(said)]);
    if (other && other !== node.id) items.push([this.panels.compare.a ? "… with this" : "Compare with the end shown", () => this.panels.compare.choose(other, node.id)]);
    if (writing) {
      if (node.kind === "message" && !node.erased && editableText(node.payload) !== null) items.push(["Edit", () => writing.edit(row)]);
      if (node.role === "assistant") items.push(["Answer again", () => writing.regenerate(row)]);
      items.push(["Branch from here", () => writing.branch(row)], ["Label", () => writing.label(node.id, node.label || "")], [node.retracted ? "Show again" : "Retract", () => writing.retract(row)]);
    }
    this.openMenu(rowTitle(row), items, at);
  }

  /** @param {string} title @param {[string, () => void][]} items @param {HTMLElement} at */
  openMenu(title, items, at) {
    document.getElementById("menu")?.remove();
    const menu = h("div", { id: "menu", popover: true, role: "menu", "aria-label": title }, items.map(([said, act]) => h("button.menu-item", { role: "menuitem", type: "button", tabindex: -1, onclick: () => { at.focus(); menu.hidePopover(); act(); } }, said)));
    menu.addEventListener("keydown", (event) => {
      const all = /** @type {HTMLElement[]} */ ([...menu.children]);
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      all[(all.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step + all.length) % all.length].focus();
    });
    menu.addEventListener("toggle", (event) => { if (/** @type {ToggleEvent} */ (event).newState !== "closed") return; if (menu.contains(document.activeElement)) at.focus(); menu.remove(); });
    this.element?.append(menu);
    menu.showPopover();
    const box = at.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(box.right - menu.offsetWidth, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${Math.max(8, Math.min(box.bottom + 4, innerHeight - menu.offsetHeight - 8))}px`;
    /** @type {HTMLElement | null} */ (menu.firstElementChild)?.focus();
  }

  /** Something happened: show it. */
  async changed() {
    this.showCard();
    await Promise.all([this.tree.refresh(), this.conversation.refresh()]);
    this.reveal();
    if (this.panel === "labels" || this.panel === "about") await this.refreshPanel();
    if (this.panel === "checkpoints") await this.panels.checkpoints.refresh();
  }

  deleted() {
    this.liveState("deleted");
    notice("This session was deleted.", true);
  }

  /** @param {string} said */
  liveState(said) {
    const chip = /** @type {HTMLElement} */ (this.liveChip);
    chip.hidden = false;
    chip.textContent = said;
    chip.classList.toggle("problem", said !== "live");
  }
}
