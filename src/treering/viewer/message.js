/** One node of a conversation as an article, with its place among its siblings. */
import { button, h, icon } from "./dom.js";
import { fold, showPayload } from "./parts.js";
import { headlineOf, isFields } from "./shapes.js";
import { counted, firstLine, number, roleClass, roleName, timeText } from "./words.js";

/**
 * @typedef {{id: string, parent: string | null, kind: string, role: string, time_ms: number, at: number, head: string, links: Record<string, string>,
 *   brief: Record<string, any>, payload: any, label: string | null, retracted: boolean, amended: boolean, erased: boolean}} Node_
 * @typedef {{node: Node_, sibling: number, siblings: number, sibling_ids: string[]}} HistoryRow
 * @typedef {Object} Around What an article needs of its page.
 * @property {(sha256: string) => Promise<Blob>} fetch
 * @property {Record<string, any> | undefined} usage
 * @property {(row: HistoryRow, step: number) => void} turn Goes to another version.
 * @property {(row: HistoryRow, at: HTMLElement) => void} menu
 */

/**
 * Show a node.
 * @param {HistoryRow} row
 * @param {Around} around
 */
export function messageArticle(row, around) {
  const { node } = row;
  const role = node.kind === "message" ? node.role : node.kind;
  const small = node.kind !== "message" && node.kind !== "custom_message";
  const where = row.siblings > 1 ? `, version ${row.sibling + 1} of ${row.siblings}` : "";
  return h(
    `article.message.${small ? "step" : roleClass(role)}${node.retracted ? ".retracted" : ""}`,
    { "data-node": node.id, tabindex: -1, "aria-label": `${roleName(role)}, ${timeText(node.time_ms)}${where}`, onkeydown: (/** @type {KeyboardEvent} */ event) => turnByKey(event, row, around) },
    h(
      "header",
      {},
      h("span.role", {}, roleName(role)),
      h("time", { datetime: new Date(node.time_ms).toISOString() }, timeText(node.time_ms)),
      marks(node),
      h("span.grow"),
      row.siblings > 1 && versions(row, around),
      button(`More about this ${small ? "step" : "message"}`, (event) => around.menu(row, /** @type {HTMLElement} */ (event.currentTarget)), { icon: "more", class: "menu-button" }),
    ),
    h("div.body", {}, node.erased ? erased(node) : small ? step(node, around) : showPayload(node.payload, around.fetch, { role: roleClass(role) })),
    usageLine({ ...(isFields(node.payload?.usage) ? node.payload.usage : {}), ...around.usage }),
  );
}

/** @param {Node_} node */
function marks(node) {
  return [
    node.label && h("span.chip.label", {}, icon("tag"), node.label),
    node.amended && h("span.chip", {}, "edited"),
    node.retracted && h("span.chip", {}, "retracted"),
    node.brief.stream && h("span.chip.problem", {}, String(node.brief.stream)),
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

/** A node that is no message: a compaction, a change of settings, what an extension kept. @param {Node_} node @param {Around} around */
function step(node, around) {
  const told = Object.entries(node.brief).filter(([name]) => name !== "kept").map(([name, value]) => `${name.replace(/_/g, " ")}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
  if (node.payload === null) return h("p.step-line", {}, told);
  const line = firstLine(headlineOf(node.payload, node.brief), 100);
  return [told && h("p.step-line", {}, told), fold("data", [h("span.fold-name", {}, node.payload?.summary ? "Summary" : "Content"), h("span.fold-line", {}, line)], () => showPayload(node.payload, around.fetch))];
}

const COUNTS = { input: "in", input_tokens: "in", prompt_tokens: "in", output: "out", output_tokens: "out", completion_tokens: "out", cache_read: "cached", cacheRead: "cached", cache_read_input_tokens: "cached", cache_write: "cache written", cacheWrite: "cache written", cache_creation_input_tokens: "cache written", reasoning: "reasoning", reasoning_tokens: "reasoning" };

/** What it took. @param {Record<string, any>} usage */
export function usageLine(usage) {
  const told = Object.entries(COUNTS).filter(([name]) => typeof usage[name] === "number" && usage[name]).map(([name, word]) => `${number(usage[name])} ${word}`);
  const cost = typeof usage.cost === "number" ? usage.cost : usage.cost?.total ?? usage.cost_usd;
  if (typeof cost === "number" && cost) told.push(`$${cost.toFixed(cost < 0.1 ? 4 : 2)}`);
  return told.length ? h("footer", { title: "Tokens" }, told.join(" · ")) : null;
}

/** An answer that is being written. @param {string} id @param {string} role */
export function openArticle(id, role) {
  const body = h("div.body");
  const state = h("span.chip.live", {}, "writing");
  const article = h(`article.message.${roleClass(role)}.open`, { "data-stream": id, "aria-busy": "true", "aria-label": `${roleName(role)}, being written` }, h("header", {}, h("span.role", {}, roleName(role)), state), body);
  return { article, body, state };
}

/** @param {HistoryRow} row */
export function rowTitle(row) {
  const role = row.node.kind === "message" ? row.node.role : row.node.kind;
  return `${roleName(role)}: ${firstLine(headlineOf(row.node.payload, row.node.brief), 60) || counted(0, "word")}`;
}
