/** Checkpoints on a slider: the state at each, and what changed since the one before. */
import { jsonBlock } from "./code.js";
import { button, fill, h, notice } from "./dom.js";
import { fold } from "./parts.js";
import { counted, shortId, timeText } from "./words.js";

const PAGE = 200;

/** @typedef {{id: string, parent: string | null, head: string, node: string | null, label: string | null, step: number | null, metadata: Record<string, any>, time_ms: number}} Info */

export class Checkpoints {
  /**
   * @param {import("./session.js").Session} session
   * @param {{go: (node: string) => void, rewind: ((checkpoint: string) => void) | null, label: ((name: string, old: string) => void) | null}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    /** @type {Info[]} Oldest first. */
    this.rows = [];
    /** @type {string | null} */
    this.before = null;
    this.turn = 0;
    this.slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: 0, step: 1, "aria-label": "Checkpoint", oninput: () => this.chosen() }));
    this.older = button("Older ones", () => this.readOlder().then(() => this.chosen()).catch((error) => notice(String(error.message), true)));
    this.said = h("p.lead", { "aria-live": "polite" });
    this.view = h("div");
    this.element = h("div.panel-body");
  }

  /** @param {string} [id] The one to show, however old it is; by default the newest. */
  async show(id = "") {
    const page = await this.session.get("checkpoints", { limit: PAGE });
    this.rows = page.rows;
    this.before = page.before ?? null;
    if (!this.rows.length) return fill(this.element, h("p.hint", {}, "No checkpoint was made yet."));
    fill(this.element, h("div.slider", {}, this.slider, this.older), this.said, this.view);
    this.slider.max = String(this.rows.length - 1);
    this.slider.value = this.slider.max;
    this.older.hidden = !this.before;
    const find = () => this.rows.findIndex((row) => row.id === id);
    while (id && find() < 0 && this.before) await this.readOlder();
    if (find() >= 0) this.slider.value = String(find());
    return this.chosen();
  }

  /** Read it again: something happened. The one that is shown stays. */
  refresh() {
    return this.show(this.rows[Number(this.slider.value)]?.id);
  }

  async readOlder() {
    const at = Number(this.slider.value);
    const asked = this.before;
    const page = await this.session.get("checkpoints", { limit: PAGE, before: asked });
    if (asked !== this.before) return; // it was asked for twice
    this.rows = [...page.rows, ...this.rows];
    this.before = page.before ?? null;
    this.slider.max = String(this.rows.length - 1);
    this.slider.value = String(at + page.rows.length);
    this.older.hidden = !this.before;
  }

  async chosen() {
    const turn = ++this.turn;
    const at = Number(this.slider.value);
    const info = this.rows[at];
    const older = this.rows[at - 1];
    this.slider.setAttribute("aria-valuetext", `${at + 1} of ${this.rows.length}, ${timeText(info.time_ms)}${info.label ? `, ${info.label}` : ""}`);
    fill(this.said, h("strong", {}, `${at + 1} of ${this.rows.length}${this.before ? " newest" : ""}`), ` · ${timeText(info.time_ms)} · ${info.head}`, info.step !== null && ` · step ${info.step}`, info.label && h("span.chip.label", {}, info.label));
    const [view, diff] = await Promise.all([this.session.get(`checkpoints/${encodeURIComponent(info.id)}`), older ? this.session.get("diff", { a: older.id, b: info.id }) : null]);
    if (turn !== this.turn) return;
    fill(
      this.view,
      h("div.actions", {}, info.node && button("Show the conversation there", () => this.told.go(String(info.node))), this.told.rewind && button("Rewind to here", () => this.told.rewind?.(info.id)), this.told.label && button("Label", () => this.told.label?.(info.id, info.label || ""))),
      diff && [h("h3", {}, "Changed since the one before"), changesList(diff.state, "state"), contextChanges(diff.context)],
      h("h3", {}, "State"),
      Object.keys(view.state).length ? Object.entries(view.state).map(([name, value]) => stateValue(name, value)) : h("p.hint", {}, "Empty."),
      Object.keys(info.metadata || {}).length ? [h("h3", {}, "Metadata"), jsonBlock(info.metadata, "Metadata")] : null,
      h("p.hint", {}, `${counted(view.context.length, "message")} in the context. Checkpoint ${shortId(info.id)}.`),
    );
  }
}

/** @param {string} name @param {any} value */
function stateValue(name, value) {
  const text = JSON.stringify(value);
  if (text.length < 60) return h("dl.facts", {}, h("dt", {}, name), h("dd", {}, h("code", {}, text)));
  return fold("data", [h("span.fold-name", {}, name), h("span.fold-line", {}, text.slice(0, 80))], () => jsonBlock(value, name));
}

/**
 * What was added, changed and removed, by key.
 * @param {{added: Record<string, any>, changed: Record<string, {before: any, after: any}>, removed: Record<string, any>}} changes
 * @param {string} what
 */
export function changesList(changes, what) {
  const rows = [
    ...Object.entries(changes.added).map(([name, value]) => change(name, undefined, value)),
    ...Object.entries(changes.changed).map(([name, { before, after }]) => change(name, before, after)),
    ...Object.entries(changes.removed).map(([name, value]) => change(name, value, undefined)),
  ];
  return rows.length ? h("ul.changes", {}, rows) : h("p.hint", {}, `The ${what} is the same.`);
}

/** @param {string} name @param {any} before @param {any} after */
function change(name, before, after) {
  const word = before === undefined ? "added" : after === undefined ? "removed" : "changed";
  return h("li", {}, h("p.field", {}, h("strong", {}, name), ` ${word}`), before !== undefined && h("pre.removed", {}, "− ", cut(before)), after !== undefined && h("pre.added", {}, "+ ", cut(after)));
}

/** @param {any} value */
function cut(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}

/** @param {{added: any[], edited: any[], removed: any[], kept: number}} context */
export function contextChanges(context) {
  const told = [["added", context.added.length], ["edited", context.edited.length], ["left out", context.removed.length], ["kept", context.kept]];
  return h("p.hint", {}, "Context: ", told.filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(", ") || "the same");
}
