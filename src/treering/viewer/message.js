/** One node of a conversation as an article, with its place among its siblings. */
import { button, h, icon } from "./dom.js";
import { fold, showPayload } from "./parts.js";
import { headlineOf, isFields } from "./shapes.js";
import { clockText, counted, firstLine, isoTime, number, roleClass, roleName, timeText } from "./words.js";

/**
 * @typedef {{id: string, parent: string | null, kind: string, role: string, time_ms: number, at: number, head: string, links: Record<string, string>,
 *   brief: Record<string, any>, payload: any, label: string | null, retracted: boolean, amended: boolean, erased: boolean}} Node_
 * @typedef {{node: Node_, sibling: number, siblings: number, sibling_ids: string[]}} HistoryRow
 * @typedef {Object} Around What an article needs of its page.
 * @property {(sha256: string) => Promise<Blob>} fetch
 * @property {Record<string, any> | undefined} usage
 * @property {(row: HistoryRow, step: number) => void} turn Goes to another version.
 * @property {(row: HistoryRow, step: number, event: Event) => void} step Goes to the message above or below.
 * @property {(row: HistoryRow, at: HTMLElement) => void} menu
 */

/**
 * Show a node.
 * @param {HistoryRow} row
 * @param {Around} around
 * @param {{which?: (part: number) => boolean, joined?: boolean}} [options] `which`: only these parts of it; `joined`: it stands
 *   under the call that it answers.
 */
export function messageArticle(row, around, { which, joined = false } = {}) {
  const { node } = row;
  const role = node.kind === "message" ? node.role : node.kind;
  const small = node.kind !== "message" && node.kind !== "custom_message";
  const where = row.siblings > 1 ? `, version ${row.sibling + 1} of ${row.siblings}` : "";
  const name = joined ? "Result" : roleName(role);
  return h(
    `article.message.${small ? "step" : roleClass(role)}${node.retracted ? ".retracted" : ""}${joined ? ".joined" : ""}`,
    { "data-node": node.id, tabindex: -1, "aria-label": `${name}, ${timeText(node.time_ms)}${where}`, onkeydown: (/** @type {KeyboardEvent} */ event) => turnByKey(event, row, around) },
    h(
      "header",
      {},
      h("span.role", {}, name),
      small && h("span.step-line", {}, told(node)),
      h("time", { datetime: isoTime(node.time_ms), title: timeText(node.time_ms) }, clockText(node.time_ms)),
      marks(node),
      h("span.grow"),
      row.siblings > 1 && versions(row, around),
      button(`More about this ${joined ? "result" : small ? "step" : "message"}`, (event) => around.menu(row, /** @type {HTMLElement} */ (event.currentTarget)), { icon: "more", class: "menu-button", "aria-haspopup": "menu" }),
    ),
    (!small || node.payload !== null) && h("div.body", {}, node.erased ? erased(node) : small ? step(node, around) : showPayload(node.payload, around.fetch, { role: roleClass(role), which, under: joined }), ended(node)),
    usageLine({ ...(isFields(node.payload?.usage) ? node.payload.usage : {}), ...around.usage }),
  );
}

/** How an answer ended that was not finished. @param {Node_} node */
function ended(node) {
  if (node.brief.stream === "stopped") return h("p.ended", {}, "Stopped by the user.");
  if (node.brief.stream === "partial") return h("p.ended.problem", {}, "This is a part of an answer: it was kept after its writer ended.");
  return null;
}

/** @param {Node_} node */
function marks(node) {
  return [
    node.label && h("span.chip.label", {}, icon("tag"), node.label),
    node.amended && h("span.chip", {}, "edited"),
    node.retracted && h("span.chip", {}, "retracted"),
    node.brief.stream && h(`span.chip${node.brief.stream === "stopped" ? "" : ".problem"}`, {}, String(node.brief.stream)),
    node.erased && h("span.chip", {}, "erased"),
  ];
}

/** @param {HistoryRow} row @param {Around} around */
function versions(row, around) {
  return h(
    "span.versions",
    { role: "group", "aria-label": "Versions" },
    button("Previous version", () => around.turn(row, -1), { icon: "left", disabled: row.sibling === 0 }),
    h("span.version", {}, `${row.sibling + 1}/${row.siblings}`),
    button("Next version", () => around.turn(row, 1), { icon: "right", disabled: row.sibling === row.siblings - 1 }),
  );
}

/** @param {KeyboardEvent} event @param {HistoryRow} row @param {Around} around */
function turnByKey(event, row, around) {
  if (event.target !== event.currentTarget) return;
  if (event.key === "ArrowUp" || event.key === "ArrowDown") around.step(row, event.key === "ArrowUp" ? -1 : 1, event);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !row.sibling_ids[row.sibling + step]) return;
  event.preventDefault();
  around.turn(row, step);
}

/** @param {Node_} node */
function erased(node) {
  const reason = node.payload?.$erased?.reason;
  return h("p.hint", {}, reason ? `Erased: ${reason}` : "Erased.");
}

/** What the brief of a node says. @param {Node_} node */
function told({ brief }) {
  return Object.entries(brief).filter(([name]) => name !== "kept").map(([name, value]) => `${name.replace(/_/g, " ")}: ${typeof value === "object" ? JSON.stringify(value) : typeof value === "number" ? number(value) : value}`).join(" · ");
}

/** A node that is no message: a compaction, what an extension kept. @param {Node_} node @param {Around} around */
function step(node, around) {
  const line = firstLine(headlineOf(node.payload, node.brief), 100);
  return fold("data", [h("span.fold-name", {}, node.payload?.summary ? "Summary" : "Content"), h("span.fold-line", {}, line)], () => showPayload(node.payload, around.fetch));
}

/** Names that programs have for counts of tokens, and words for people. The first name that is there tells each. */
const COUNTS = { in: ["input", "input_tokens", "prompt_tokens"], out: ["output", "output_tokens", "completion_tokens"], cached: ["cache_read", "cacheRead", "cache_read_input_tokens", "cache_read_tokens"], "cache written": ["cache_write", "cacheWrite", "cache_creation_input_tokens", "cache_write_tokens"], reasoning: ["reasoning", "reasoning_tokens"] };

/** What it took. @param {Record<string, any>} usage */
export function usageLine(usage) {
  const told = Object.entries(COUNTS).flatMap(([word, names]) => {
    const count = names.map((name) => usage[name]).find((each) => typeof each === "number");
    return count ? [`${number(count)} ${word}`] : [];
  });
  const cost = typeof usage.cost === "number" ? usage.cost : usage.cost?.total ?? usage.cost_usd;
  if (typeof cost === "number" && cost) told.push(`$${cost.toFixed(cost < 0.1 ? 4 : 2)}`);
  return told.length ? h("footer", { title: "Tokens" }, told.join(" · ")) : null;
}

/** @param {HistoryRow} row */
export function rowTitle(row) {
  const role = row.node.kind === "message" ? row.node.role : row.node.kind;
  return `${roleName(role)}: ${firstLine(headlineOf(row.node.payload, row.node.brief), 60) || counted(0, "word")}`;
}
