// Asks a real program about session files: `node driver.mjs PROGRAM FOLDER`, where FOLDER is that of `install.py`.
//
// One JSON request on each line of the input, one answer on each line of the output:
//   {"do":"answer","path":P,"leaves":N}   opens P and tells what the program makes of it, at up to N of its entries
//   {"do":"act","path":P,"deeds":[[METHOD,...],...]}   opens P and calls the program's own methods; {"$":N} is an id
//   {"do":"list","folder":F}   what the program's list of sessions shows, by path
// Messages of a context are [id, message]; without an id the program made or altered the message.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [program, folder] = process.argv.slice(2);
const MODULES = {
  pi073: "node_modules/@mariozechner/pi-coding-agent/dist/core/session-manager.js",
  pi152: "node_modules/@earendil-works/pi-coding-agent/dist/core/session-manager.js",
  omp: "node_modules/@oh-my-pi/pi-coding-agent/src/session/session-manager.ts",
};
const omp = program === "omp";
const { SessionManager } = await load(MODULES[program]);
const { buildSessionContext } = await load(
  omp ? "node_modules/@oh-my-pi/pi-coding-agent/src/session/session-context.ts" : MODULES[program],
);

function load(path) {
  return import(pathToFileURL(`${folder}/${path}`).href);
}

async function open(path) {
  const manager = await SessionManager.open(path);
  if (manager.getEntries().length === 0 && !sameSession(manager, path)) throw new Error("replaced by a new session");
  return manager;
}

function sameSession(manager, path) {
  return readFileSync(path, "utf8").includes(JSON.stringify(manager.getHeader().id));
}

async function answer({ path, leaves }) {
  const before = readFileSync(path);
  const manager = await open(path);
  const rewritten = !before.equals(readFileSync(path));
  const entries = manager.getEntries();
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const ids = [...byId.keys()].filter((id) => nameOf({ id }));
  const step = Math.max(1, Math.ceil(ids.length / leaves));
  const places = [null, "no-such-id", ...ids.filter((_, at) => (ids.length - 1 - at) % step === 0)];
  return {
    header: manager.getHeader(),
    rewritten,
    leaf: nameOf({ id: manager.getLeafId() }),
    title: manager.getSessionName() ?? "",
    entry_ids: entries.map(nameOf),
    labels: Object.fromEntries(ids.filter((id) => manager.getLabel(id)).map((id) => [id, manager.getLabel(id)])),
    tree: circular(entries) ? null : flat(manager.getTree()),
    cases: places.map((leaf) => ({ leaf, ...attempt(() => caseAt(manager, entries, byId, leaf)) })),
  };
}

/** The id of an entry; what is no text, or empty, is none. */
function nameOf({ id }) {
  return typeof id === "string" && id !== "" ? id : null;
}

function attempt(ask) {
  try {
    return ask();
  } catch (error) {
    return { error: String(error) };
  }
}

function caseAt(manager, entries, byId, leaf) {
  const at = leaf === "no-such-id" ? entries.at(-1)?.id : leaf;
  if (!omp && comesRound(byId, at)) return { hangs: true };
  const own = new Map(entries.filter((entry) => entry.type === "message").map((entry) => [entry.message, nameOf(entry)]));
  const named = (messages) => messages.map((message) => [own.get(message) ?? null, message]);
  const { messages, cacheMissExplainedAt, ...state } = buildSessionContext(entries, leaf, byId);
  const branch = leaf === null ? [] : manager.getBranch(leaf).map(nameOf);
  const found = { branch, messages: named(messages), state };
  if (omp) {
    const shown = attempt(() => buildSessionContext(entries, leaf, byId, { transcript: true }));
    found.transcript = shown.error ? null : named(shown.messages);
  }
  return found;
}

/** pi follows a circle of parents for ever. */
function comesRound(byId, leaf) {
  const seen = new Set();
  for (let at = byId.get(leaf); at; at = at.parentId ? byId.get(at.parentId) : undefined) {
    if (seen.has(at)) return true;
    seen.add(at);
  }
  return false;
}

/** A tree cannot be drawn if an entry stands below itself; of entries with one id, all parents count. */
function circular(entries) {
  const below = new Map();
  for (const { id, parentId } of entries) if (parentId !== id) below.set(parentId, [...(below.get(parentId) ?? []), id]);
  const state = new Map();
  for (const { id } of entries) {
    const stack = [[id, 0]];
    while (stack.length) {
      const [at, next] = stack.at(-1);
      if (next === 0) state.set(at, "open");
      const child = (below.get(at) ?? [])[next];
      if (child === undefined) {
        state.set(at, "done");
        stack.pop();
        continue;
      }
      stack.at(-1)[1]++;
      if (state.get(child) === "open") return true;
      if (!state.has(child)) stack.push([child, 0]);
    }
  }
  return false;
}

function flat(roots) {
  const rows = [];
  const stack = roots.map((node) => [0, node]).reverse();
  while (stack.length) {
    const [depth, node] = stack.pop();
    rows.push([depth, nameOf(node.entry), node.label ?? null]);
    stack.push(...node.children.map((child) => [depth + 1, child]).reverse());
  }
  return rows;
}

async function act({ path, deeds }) {
  const manager = await open(path);
  for (const [method, ...given] of deeds) {
    const ids = manager.getEntries().map((entry) => entry.id);
    await manager[method](...given.map((value) => (value?.$ === undefined ? value : ids[value.$ % ids.length])));
  }
  await manager.flush?.();
  return { leaf: manager.getLeafId(), file: manager.getSessionFile() };
}

async function list({ folder }) {
  const found = program === "pi152" ? await SessionManager.listAll(folder) : await SessionManager.list("/", folder);
  return Object.fromEntries(found.map(({ path, ...shown }) => [path, shown]));
}

const DO = { answer, act, list };
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let reply;
  try {
    reply = await DO[request.do](request);
  } catch (error) {
    reply = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
process.exit(0);
