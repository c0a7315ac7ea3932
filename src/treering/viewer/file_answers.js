/** What a page that was exported answers, by path below that of its session: the same as docs/reference/http.md says. */
import { valuesOf } from "./file_states.js";
import { headlineOf } from "./shapes.js";
import { Refused } from "./source.js";

/**
 * @typedef {any} Source A `FileSource`.
 * @typedef {Record<string, any>} Query
 * @typedef {import("./file_states.js").Item} Item
 */

/** As many messages of a context as a page shows that asks for all; the items before have none. */
const MESSAGES_MAX = 500;
const RUNS_MAX = 1000;
const PREVIEW_CHARACTERS = 120;

/** @type {Record<string, (source: Source, query: Query, name: string) => any>} */
const ANSWERS = {
  "": ({ index }) => index.card,
  labels: ({ index }) => index.labels,
  problems: ({ index }) => index.problems,
  history,
  tree,
  "tree/locate": (source, { node }) => ({ offset: source.index.rows[source.number(node)] }),
  nodes: nodeCard,
  previews,
  path,
  branches,
  notes,
  context,
  checkpoints,
  checkpoint,
  diff,
};

/** @param {string} path */
export function answerOf(path) {
  return Object.hasOwn(ANSWERS, path) ? ANSWERS[path] : null;
}

/** @param {Source} source @param {Query} query */
async function history(source, { node, head, before, limit = 50, retracted = false }) {
  const { graph, index } = source;
  const end = node ?? index.card.heads[head ?? index.card.head];
  const start = before ? graph.parents[source.number(before)] : end ? source.number(end) : -1;
  const { numbers, more } = graph.page(start, limit, Boolean(retracted));
  const rows = await Promise.all(numbers.map((/** @type {number} */ number) => historyRow(source, number, Boolean(retracted))));
  return { rows, before: more ? rows[rows.length - 1].node.id : null };
}

/** @param {Source} source @param {number} number @param {boolean} retracted */
async function historyRow(source, number, retracted) {
  const siblings = source.graph.siblings(number, retracted);
  return { node: (await source.entry(number)).node, sibling: siblings.indexOf(number), siblings: siblings.length, sibling_ids: idsOf(source, siblings) };
}

/** @param {Source} source @param {number[]} numbers @returns {string[]} */
function idsOf({ graph }, numbers) {
  return numbers.map((each) => graph.ids[each]);
}

/** @param {Source} source @param {Query} query */
async function tree({ index, blocks }, { offset = 0, limit = 200 }) {
  const wanted = Array.from({ length: Math.max(0, Math.min(limit, index.outline - offset)) }, (_, place) => offset + place);
  const rows = await Promise.all(wanted.map((row) => blocks.entry("tree", index.blocks.tree, row)));
  return { rows, offset, total: index.outline, end: index.card.end };
}

/** @param {Source} source @param {Query} query `toward`: of the branches below it, that one. @param {string} name */
async function nodeCard(source, { toward }, name) {
  const { graph, index } = source;
  const number = source.number(name);
  const other = toward ? graph.number(toward) : -1;
  const { node, original } = await source.entry(number);
  const siblings = graph.siblings(number);
  const made = source.listed().filter((/** @type {number} */ each) => index.nodes[each] === number).slice(-100);
  return {
    ...node,
    siblings: { nodes: idsOf(source, siblings), index: siblings.indexOf(number) },
    children: idsOf(source, graph.children(number)),
    checkpoints: await source.infos(made),
    leaf: graph.ids[graph.leaf(graph.isBelow(other, number) ? other : number)],
    original: original ?? null,
  };
}

/** @param {Source} source @param {Query} query */
async function previews(source, { nodes = [] }) {
  const texts = nodes.map(async (/** @type {string} */ id) => {
    const { node } = await source.entry(source.number(id));
    return [id, headlineOf(node.payload, node.brief).slice(0, 4 * PREVIEW_CHARACTERS).replace(/\s+/g, " ").trim().slice(0, PREVIEW_CHARACTERS)];
  });
  return Object.fromEntries(await Promise.all(texts));
}

/** @param {Source} source @param {Query} query */
function path(source, { node, below, limit = 1000 }) {
  const end = node ?? source.index.card.node;
  const numbers = end ? source.graph.path(source.number(end)) : [];
  if (!below) return { ids: idsOf(source, numbers.slice(-limit)) };
  const at = numbers.indexOf(source.number(below));
  if (at < 0) throw new Refused(404, { message: `the path does not have this node: ${below}` });
  return { ids: idsOf(source, numbers.slice(at + 1, at + 1 + limit)) };
}

/** @param {Source} source @param {Query} query */
function branches(source, { a, b }) {
  const [one, two] = [a, b].map((each) => source.graph.path(source.number(each)));
  let same = 0;
  while (same < one.length && one[same] === two[same]) same += 1;
  return { common: same ? source.graph.ids[one[same - 1]] : null, a: idsOf(source, one.slice(same)), b: idsOf(source, two.slice(same)), complete: true };
}

/** @param {Source} source @param {Query} query */
async function notes(source, { kind, targets = [], limit = 500 }) {
  if (kind !== "usage") throw new Refused(404, { message: "of notes, this page has those of usage" });
  const entries = await Promise.all(targets.map((/** @type {string} */ each) => source.entry(source.number(each))));
  return entries.flatMap((entry) => entry.notes || []).slice(-limit);
}

/** @param {Source} source @param {Query} query */
async function context(source, { node, checkpoint: name, limit, before }) {
  const { index, graph, states } = source;
  const at = name ?? node ?? index.card.node;
  const found = at ? await source.point(at) : { items: [], settings: {}, state: new Map(), checkpoint: -1 };
  const held = name ?? (found.checkpoint < 0 ? null : index.checkpoints[found.checkpoint]);
  const total = found.items.length;
  const end = before ? Math.min(before - 1, total) : total;
  const first = limit ? Math.max(0, end - limit) : 0;
  const point = name ? index.nodes[source.checkpointNumber(name)] : at ? source.number(at) : -1;
  return {
    items: await shown(states, found.items.slice(first, end)),
    total,
    before: first > 0 ? first + 1 : null,
    left_out: leftOut(index, graph, point, new Set(found.items.map((/** @type {Item} */ item) => item.n))),
    settings: found.settings,
    state: valuesOf(found.state),
    checkpoint: held,
    policy: found.policy ?? index.policy,
  };
}

/** Messages on the way to a node that are not in the context there, in runs. @param {any} index @param {any} graph @param {number} node @param {Set<number>} seen */
function leftOut(index, graph, node, seen) {
  const runs = [];
  /** @type {number[]} */
  let run = [];
  const end = () => {
    const [first, last] = [run[0], run[run.length - 1]];
    if (run.length) runs.push({ first: graph.ids[first], last: graph.ids[last], at: [index.positions[first], index.positions[last]], count: run.length });
    run = [];
  };
  for (const number of graph.path(node)) {
    if (seen.has(number)) end();
    else if (index.messages[number] === "1") run.push(number);
  }
  end();
  return { messages: runs.reduce((sum, { count }) => sum + count, 0), runs: runs.slice(-RUNS_MAX), complete: runs.length <= RUNS_MAX };
}

/** @param {any} states @param {Item[]} items */
async function shown(states, items) {
  const older = items.slice(0, -MESSAGES_MAX).map((item) => ({ node: states.idOf(item), message: null }));
  return [...older, ...(await states.messages(items.slice(-MESSAGES_MAX)))];
}

/** @param {Source} source @param {Query} query */
async function checkpoints(source, { before, limit = 50 }) {
  const end = before ? source.checkpointNumber(before) : Infinity;
  const numbers = source.listed().filter((/** @type {number} */ each) => each < end);
  const rows = await source.infos(numbers.slice(-limit));
  return { rows, before: numbers.length > limit ? rows[0].id : null };
}

/** @param {Source} source @param {Query} _ @param {string} name */
async function checkpoint(source, _, name) {
  const number = source.checkpointNumber(name);
  const found = await source.states.checkpoint(number);
  const [info] = await source.infos([number]);
  return { info, context: await shown(source.states, found.items), settings: found.settings, state: valuesOf(found.state), manager: found.manager === null ? null : JSON.parse(found.manager), policy: found.policy };
}

/** Items of the contexts have no messages here: the page counts them. @param {Source} source @param {Query} query */
async function diff(source, { a, b }) {
  const [old, now] = [await source.point(a), await source.point(b ?? source.index.card.node)];
  const settings = [old, now].map((each) => new Map(Object.entries(each.settings).map(([name, value]) => [name, JSON.stringify(value)])));
  return { state: compared(old.state, now.state), settings: compared(settings[0], settings[1]), context: await comparedItems(source, old.items, now.items) };
}

/** @param {Map<string, string>} old @param {Map<string, string>} now JSON by key. */
function compared(old, now) {
  const [before, after] = [valuesOf(old), valuesOf(now)];
  const both = Object.keys(before).filter((key) => key in after && old.get(key) !== now.get(key));
  return {
    added: Object.fromEntries(Object.entries(after).filter(([key]) => !(key in before))),
    changed: Object.fromEntries(both.map((key) => [key, { before: before[key], after: after[key] }])),
    removed: Object.fromEntries(Object.entries(before).filter(([key]) => !(key in after))),
  };
}

/** @param {Source} source @param {Item[]} old @param {Item[]} now */
async function comparedItems({ states }, old, now) {
  const [before, after] = [numbered(states, old), numbered(states, now)];
  const node = ([, item]) => ({ node: states.idOf(item) });
  const edited = [];
  let kept = 0;
  for (const [key, item] of after) {
    const other = before.get(key);
    if (!other) continue;
    if (sameForm(other, item) || JSON.stringify(await states.message(other)) === JSON.stringify(await states.message(item))) kept += 1;
    else edited.push(node([key, item]));
  }
  return { added: [...after].filter(([key]) => !before.has(key)).map(node), edited, removed: [...before].filter(([key]) => !after.has(key)).map(node), kept };
}

/** Whether two items of one node show the same without a look at it. @param {any} one @param {any} other */
function sameForm(one, other) {
  return !("message" in one) && !("message" in other) && (one.view || "") === (other.view || "") && Boolean(one.amended) === Boolean(other.amended);
}

/** Items by node; a context may show one more than once. @param {any} states @param {Item[]} items @returns {Map<string, Item>} */
function numbered(states, items) {
  const seen = new Map();
  return new Map(items.map((item) => {
    const id = states.idOf(item);
    seen.set(id, (seen.get(id) || 0) + 1);
    return [`${seen.get(id)} ${id}`, item];
  }));
}
