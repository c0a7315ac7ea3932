/** Which results stand under the call that they answer: a result is a node of its own, recorded behind it. */
import { partsOf } from "./shapes.js";

/**
 * @typedef {import("./message.js").HistoryRow} HistoryRow
 * @typedef {{node: string, part: number}} Place A part of a node.
 */

/**
 * Find the call of each result among some rows of a branch.
 * @param {HistoryRow[]} rows Oldest first.
 * @returns {Map<string, Map<number, Place>>} By node: which of its parts belong under which call.
 */
export function joins(rows) {
  /** Calls by id, oldest first; some APIs have no id but the name of the tool. @type {Map<string, (Place & {answered: boolean})[]>} */
  const calls = new Map();
  const found = new Map();
  for (const { node } of rows) {
    if (node.erased) continue;
    /** @type {Map<number, Place>} */
    const mine = new Map();
    partsOf(node.payload).forEach((part, at) => {
      if (!part.id) return;
      const known = calls.get(part.id) ?? [];
      if (part.kind === "call") {
        known.push({ node: node.id, part: at, answered: false });
        calls.set(part.id, known);
      } else if (part.kind === "result") {
        const latest = known.at(-1)?.node;
        const call = known.find((each) => each.node === latest && !each.answered) ?? known.at(-1);
        if (!call) return;
        call.answered = true;
        mine.set(at, { node: call.node, part: call.part });
      }
    });
    if (mine.size) found.set(node.id, mine);
  }
  return found;
}

/** Whether a message goes on where the same role just spoke, so that its name need not be said again. @param {HistoryRow} row @param {HistoryRow | undefined} before */
export function continues(row, before) {
  if (!before || row.siblings > 1) return false;
  const [one, two] = [before.node, row.node];
  return one.kind === "message" && two.kind === "message" && one.role === two.role && two.role !== "user" && two.time_ms - one.time_ms < 3_600_000;
}
