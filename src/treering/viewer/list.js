/** The list of sessions, and the search. */
import { button, fill, h, icon, notice } from "./dom.js";
import { agoText, counted, roleName, sessionName, timeText } from "./words.js";

const PAGE = 40;
const WAIT = 250;

export class List {
  /** @param {import("./source.js").Source} source */
  constructor(source) {
    this.source = source;
    this.text = "";
    this.turn = 0;
    this.rows = h("ul.cards", { "aria-label": "Sessions" });
    this.hits = h("section", { hidden: true, "aria-label": "Found in messages" });
    this.told = h("p.hint", { role: "status" });
    this.more = button("More sessions", () => this.next(), { class: "wide" });
    this.more.hidden = true;
    this.field = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "search", placeholder: "Search titles and messages", "aria-label": "Search", autocomplete: "off", oninput: () => this.typed() }));
    /** @type {string | null} */
    this.after = null;
    /** Where it was left. @type {{top: number, card: string | null} | null} */
    this.left = null;
    const add = source.readOnly ? null : button("New session", () => this.create(), { class: "primary" });
    this.element = h("main.list", { onclick: (/** @type {Event} */ event) => this.leave(/** @type {Element} */ (event.target)) }, h("div.list-head", {}, h("h1", {}, "Sessions"), h("span.grow"), add), h("div.search", {}, icon("search"), this.field), this.told, this.rows, this.more, this.hits);
  }

  async open() {
    document.title = "Sessions · Treering";
    const { left } = this;
    this.left = null;
    if (!left?.top) await this.show();
    this.element.scrollTop = left?.top ?? 0;
    const again = /** @type {HTMLElement | undefined} */ ([...this.element.querySelectorAll("a.card")].find((each) => each.getAttribute("href") === left?.card));
    (again ?? this.field).focus({ preventScroll: true });
  }

  /** Note where somebody goes from here. @param {Element} target */
  leave(target) {
    const card = target.closest("a.card");
    if (card) this.left = { top: this.element.scrollTop, card: card.getAttribute("href") };
  }

  typed() {
    clearTimeout(this.wait);
    this.wait = setTimeout(() => this.show(), WAIT);
  }

  /** Show the first page of what is asked for. */
  async show() {
    const turn = ++this.turn;
    this.text = this.field.value.trim();
    this.more.hidden = true;
    const page = await this.read();
    if (turn !== this.turn) return;
    fill(this.rows, page.rows.map(card));
    this.tell(page);
    this.hits.hidden = true;
    if (this.text && this.source.features?.search) await this.search(turn);
  }

  async next() {
    const { turn, after } = this;
    const page = await this.read(after);
    if (turn !== this.turn || after !== this.after) return; // it was asked for twice
    this.rows.append(...page.rows.map(card));
    this.tell(page);
  }

  /** Say what the rows are, and whether there are more. @param {any} page The last one that was read. */
  tell(page) {
    this.after = page.after;
    this.more.hidden = !this.after;
    const count = this.rows.children.length;
    this.told.textContent = this.text ? `${counted(count, "session")} found by title${page.complete === false ? " so far" : ""}` : count ? "" : "There are no sessions here yet.";
  }

  /** @param {string | null} [after] Read what comes behind the page before. */
  read(after = null) {
    return this.source.get("sessions", { q: this.text, after, limit: PAGE, below: true });
  }

  /** @param {number} turn */
  async search(turn) {
    const { hits, updating } = await this.source.get("search", { q: this.text, limit: 20 });
    if (turn !== this.turn) return;
    this.hits.hidden = false;
    const said = hits.length ? h("ul.cards", {}, hits.map(hit)) : h("p.hint", {}, updating ? "The index is being brought up to date." : "No message has these words.");
    fill(this.hits, h("h2", {}, "In messages"), said);
  }

  async create() {
    try {
      const made = await this.source.send("POST", "sessions", {});
      location.hash = `#/s/${made.key}`;
    } catch (error) {
      notice(String(/** @type {Error} */ (error).message), true);
    }
  }
}

/** @param {any} info */
function card(info) {
  const counts = [counted(info.messages, "message"), info.checkpoints ? counted(info.checkpoints, "checkpoint") : "", info.model].filter(Boolean);
  return h(
    "li",
    {},
    h(
      "a.card",
      { href: `#/s/${info.key}` },
      h("span.card-title", {}, sessionName(info)),
      h("span.card-time", { title: timeText(info.updated_ms) }, agoText(info.updated_ms)),
      info.title && info.first_prompt && h("span.card-line", {}, info.first_prompt),
      h("span.card-facts", {}, info.status && h("span.chip", {}, info.status), info.project && h("span.chip", {}, info.project), [...(info.namespace || []), counts.join(" · ")].join(" / "), info.warning && h("span.chip.problem", {}, "damaged card")),
    ),
  );
}

/** @param {any} found */
function hit(found) {
  return h(
    "li",
    {},
    h(
      "a.card",
      { href: `#/s/${found.key}/n/${encodeURIComponent(found.node)}` },
      h("span.card-title", {}, found.title || found.session),
      h("span.card-time", {}, agoText(found.time_ms)),
      h("span.card-line", {}, h("span.chip", {}, roleName(found.role)), marked(found.snippet, found.marks)),
      found.folded > 0 && h("span.card-facts", {}, `${counted(found.folded, "equal text")} more`),
    ),
  );
}

/** A text with what was searched for marked. @param {string} text @param {[number, number][]} marks Characters, not UTF-16 units. */
function marked(text, marks) {
  const letters = [...text];
  const found = [];
  let done = 0;
  for (const [first, end] of marks) {
    found.push(letters.slice(done, first).join(""), h("mark", {}, letters.slice(first, end).join("")));
    done = end;
  }
  return [...found, letters.slice(done).join("")];
}
