/** Two branches side by side, from where they part; and what differs in state and context at their ends. */
import { changesList, contextChanges } from "./checkpoints.js";
import { button, fill, h, notice } from "./dom.js";
import { showPayload } from "./parts.js";
import { knownText, partsOf } from "./shapes.js";
import { clockText, counted, roleClass, roleName, shortId, timeText } from "./words.js";

const SHOWN = 100;
const WORDS_MAX = 600;

export class Compare {
  /**
   * @param {import("./session.js").Session} session
   * @param {{go: (node: string) => void}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    this.element = h("div.panel-body.compare");
    this.a = "";
    this.b = "";
  }

  /** @param {string} a @param {string} b */
  async show(a, b) {
    [this.a, this.b] = [a, b];
    const heads = Object.entries(this.session.card?.heads || {}).filter(([, node]) => node);
    if (!a || !b) return fill(this.element, h("p.hint", {}, "Choose two ends to compare: heads here, or any message by its menu."), this.choices(heads));
    const parted = await this.session.get("branches", { a, b });
    const [left, right, diff] = await Promise.all([this.rows(a, parted.a), this.rows(b, parted.b), this.session.get("diff", { a, b })]);
    if (this.a !== a || this.b !== b) return undefined;
    const common = parted.common ? ["They part behind ", button(shortId(parted.common), () => this.told.go(parted.common)), "."] : [parted.complete ? "They have no message in common." : "They part further back than is looked at."];
    const steps = parted.complete ? ` ${counted(parted.a.length, "step")} and ${counted(parted.b.length, "step")} since.` : ` The last ${counted(Math.max(parted.a.length, parted.b.length), "step")} of each are compared.`;
    return fill(
      this.element,
      this.choices(heads),
      h("p.lead", {}, common, steps),
      h("div.sides", {}, this.side("A", a, left, right, parted.a.length), this.side("B", b, right, left, parted.b.length)),
      h("h3", {}, "At the ends"),
      contextChanges(diff.context),
      changesList(diff.state, "state"),
      changesList(diff.settings, "settings"),
    );
  }

  /** @param {[string, any][]} heads */
  choices(heads) {
    const select = (/** @type {string} */ name, /** @type {string} */ value, /** @type {(node: string) => void} */ chosen) => {
      const options = [value && !heads.some(([, node]) => node === value) ? h("option", { value, selected: true }, shortId(value)) : null, value ? null : h("option", { value: "" }, "choose"), heads.map(([head, node]) => h("option", { value: node, selected: node === value }, head))];
      return h("label", {}, `${name} `, h("select", { onchange: (/** @type {Event} */ event) => chosen(/** @type {HTMLSelectElement} */ (event.target).value) }, options));
    };
    return h("div.actions", {}, select("A", this.a, (node) => this.choose(node, this.b)), select("B", this.b, (node) => this.choose(this.a, node)));
  }

  /** @param {string} a @param {string} b */
  choose(a, b) {
    const there = `#/s/${this.session.key}/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`;
    if (a && b && location.hash !== there) location.hash = there;
    else this.show(a, b).catch((error) => notice(String(error.message), true));
  }

  /** @param {string} end @param {string[]} ids */
  async rows(end, ids) {
    if (!ids.length) return [];
    const wanted = ids.slice(0, SHOWN);
    const page = await this.session.get("history", { node: wanted.at(-1) ?? end, limit: wanted.length });
    const known = new Set(wanted);
    return page.rows.reverse().filter((/** @type {any} */ row) => known.has(row.node.id));
  }

  /** @param {string} name @param {string} end @param {any[]} rows @param {any[]} others @param {number} steps How many there are. */
  side(name, end, rows, others, steps) {
    const head = Object.entries(this.session.card?.heads || {}).find(([, node]) => node === end)?.[0];
    return h(
      "section.side",
      { "aria-label": `Branch ${name}` },
      h("h3", {}, `${name} · ${head ?? shortId(end)}`),
      steps > SHOWN && h("p.hint", {}, `The first ${SHOWN} of them:`),
      rows.length ? rows.map((row, at) => this.message(row.node, others[at]?.node, name)) : h("p.hint", {}, "Nothing since: it ends where they part."),
    );
  }

  /** @param {any} node @param {any} other The message at the same place of the other branch. @param {string} name */
  message(node, other, name) {
    const role = node.kind === "message" ? node.role : node.kind;
    const words = other && other.role === node.role && wordsChanged(node.payload, other.payload, name === "A" ? "removed" : "added");
    return h(
      `article.message.${roleClass(role)}`,
      { "data-node": node.id, "aria-label": `${roleName(role)} in ${name}` },
      h("header", {}, h("span.role", {}, roleName(role)), h("time", { title: timeText(node.time_ms) }, clockText(node.time_ms)), h("span.grow"), button("Show in the conversation", () => this.told.go(node.id), { icon: "right" })),
      h("div.body", {}, words || showPayload(node.payload, (sha256) => this.session.blob(sha256), { role: roleClass(role) })),
    );
  }
}

/** The text of one of two messages with the words marked that the other has not; null where that says nothing. @param {any} payload @param {any} other @param {string} kind */
function wordsChanged(payload, other, kind) {
  const [mine, theirs] = [textAlone(payload), textAlone(other)];
  if (mine === null || theirs === null || mine === theirs) return null;
  const [a, b] = [mine.split(/(\s+)/), theirs.split(/(\s+)/)];
  if (a.length > WORDS_MAX || b.length > WORDS_MAX) return null;
  const same = commonWords(a, b);
  if (same.filter(Boolean).length < a.length / 4) return null;
  return h("p.plain", {}, a.map((word, at) => (same[at] || !word.trim() ? word : h(`mark.${kind}`, {}, word))));
}

/** @param {any} payload */
function textAlone(payload) {
  const parts = partsOf(payload);
  return parts.length === 1 && parts[0].kind === "text" && typeof parts[0].text === "string" ? knownText(parts[0].text) : null;
}

/** For each word of `a`, whether it is in the longest common sequence with `b`. @param {string[]} a @param {string[]} b */
function commonWords(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  const same = new Array(a.length).fill(false);
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      same[i] = true;
      i += 1;
      j += 1;
    } else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return same;
}
