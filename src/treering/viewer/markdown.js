/**
 * Markdown as elements. No HTML is ever made from text: what is no Markdown is text. Pictures of other sites are links, as
 * a page that shows what a model wrote must not ask anybody for anything.
 */
import { h } from "./dom.js";
import { codeBlock } from "./code.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)(.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const DEPTH_MAX = 12;

/**
 * Show a text as Markdown.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function markdown(text) {
  return h("div.markdown", {}, blocksOf(text.replace(/\r\n?/g, "\n").split("\n"), 0));
}

/** @param {string[]} lines @param {number} depth @returns {Node[]} */
function blocksOf(lines, depth) {
  if (depth > DEPTH_MAX) return [h("p", {}, lines.join("\n"))];
  /** @type {Node[]} */
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const block = readers(lines, at, depth);
    if (block.element) found.push(block.element);
    at = block.next;
  }
  return found;
}

/** @typedef {{element: HTMLElement | null, next: number}} Block What begins at a line, and the line behind it. */

/** @param {string[]} lines @param {number} at @param {number} depth @returns {Block} */
function readers(lines, at, depth) {
  const line = lines[at];
  if (!line.trim()) return { element: null, next: at + 1 };
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence[1], fence[2]);
  const heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
  if (heading) return { element: h(`p.h${heading[1].length}`, { role: "heading", "aria-level": Math.min(6, heading[1].length + 2) }, inline(heading[2])), next: at + 1 };
  if (RULE.test(line)) return { element: h("hr"), next: at + 1 };
  if (/^ {0,3}>/.test(line)) return quote(lines, at, depth);
  if (ITEM.test(line)) return list(lines, at, depth);
  if (line.includes("|") && isDelimiter(lines[at + 1])) return table(lines, at);
  return paragraph(lines, at);
}

/** @param {string[]} lines @param {number} at @param {string} mark @param {string} language @returns {Block} */
function fenced(lines, at, mark, language) {
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(mark) && !lines[end].trim().replaceAll(mark[0], ""))) end += 1;
  return { element: codeBlock(lines.slice(at + 1, end).join("\n"), language), next: end + 1 };
}

/** @param {string[]} lines @param {number} at @param {number} depth @returns {Block} */
function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { element: h("blockquote", {}, blocksOf(inner, depth + 1)), next: end };
}

/** @param {string[]} lines @param {number} at @param {number} depth @returns {Block} */
function list(lines, at, depth) {
  const [, indent, mark] = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(mark);
  const element = h(ordered ? "ol" : "ul", ordered && mark.slice(0, -1) !== "1" ? { start: parseInt(mark, 10) } : {});
  let next = at;
  while (next < lines.length) {
    const item = ITEM.exec(lines[next]);
    if (!item || item[1].length !== indent.length || /\d/.test(item[2]) !== ordered || RULE.test(lines[next])) break;
    let end = next + 1;
    const width = indent.length + item[2].length + 1;
    while (end < lines.length && (!lines[end].trim() ? goesOn(lines, end, indent.length) : depthOf(lines[end]) > indent.length || isLazy(lines, end))) end += 1;
    const inner = [item[3], ...lines.slice(next + 1, end).map((line) => line.slice(Math.min(width, depthOf(line))))];
    element.append(listItem(inner, depth));
    next = end;
    while (next < lines.length && !lines[next].trim() && ITEM.test(lines[next + 1] ?? "")) next += 1;
  }
  return { element, next };
}

/** @param {string[]} lines @param {number} depth */
function listItem(lines, depth) {
  const task = /^\[([ xX])\] /.exec(lines[0]);
  if (task) lines = [lines[0].slice(4), ...lines.slice(1)];
  const blocks = blocksOf(lines, depth + 1);
  const [first] = blocks;
  const tight = first instanceof HTMLElement && first.tagName === "P" && !first.className ? [...first.childNodes] : first ? [first] : [];
  return h("li", {}, task && h("span.task", {}, task[1] === " " ? "☐ " : "☑ "), tight, blocks.slice(1));
}

/** @param {string} line */
function depthOf(line) {
  return line.length - line.trimStart().length;
}

/** A blank line inside an item: what follows is indented. @param {string[]} lines @param {number} at @param {number} indent */
function goesOn(lines, at, indent) {
  let next = at;
  while (next < lines.length && !lines[next].trim()) next += 1;
  return next < lines.length && depthOf(lines[next]) > indent;
}

/** A line that goes on with the paragraph before it. @param {string[]} lines @param {number} at */
function isLazy(lines, at) {
  return Boolean(lines[at - 1].trim()) && !beginsBlock(lines, at);
}

/** @param {string[]} lines @param {number} at */
function beginsBlock(lines, at) {
  const line = lines[at];
  return !line.trim() || FENCE.test(line) || /^ {0,3}(#{1,6}\s|>)/.test(line) || RULE.test(line) || ITEM.test(line);
}

/** @param {string | undefined} line */
function isDelimiter(line) {
  return line !== undefined && line.includes("-") && /^[\s|:-]+$/.test(line) && line.includes("|");
}

/** @param {string} line */
function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

/** @param {string[]} lines @param {number} at @returns {Block} */
function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  const row = (/** @type {string} */ line, /** @type {string} */ cell) => h("tr", {}, cells(line).map((each) => h(cell, {}, inline(each))));
  const body = lines.slice(at + 2, end).map((line) => row(line, "td"));
  const element = h("div.scrolls", { tabindex: 0, role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row(lines[at], "th")), h("tbody", {}, body)));
  return { element, next: end };
}

/** @param {string[]} lines @param {number} at @returns {Block} */
function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !beginsBlock(lines, end)) end += 1;
  return { element: h("p", {}, inline(lines.slice(at, end).map((line) => line.trimStart()).join("\n"))), next: end };
}

/** Marks inside a line, the first that fits; each makes a node, or null where it is only text. */
const MARKS = [
  { begins: "\\", match: /^\\([!-/:-@[-`{-~])/, make: (/** @type {RegExpExecArray} */ m) => m[1] },
  { begins: "`", match: /^(`+)(?!`)([\s\S]*?[^`])\1(?!`)/, make: (/** @type {RegExpExecArray} */ m) => h("code", {}, m[2].replace(/^ (.*[^ ].*) $/s, "$1")) },
  { begins: "!", match: /^!\[([^\]]{0,500})\]\(([^()\s]{1,2000})[^)]{0,200}\)/, make: (/** @type {RegExpExecArray} */ m) => link(m[2], [m[1] || "image"]) },
  { begins: "[", match: /^\[((?:[^[\]]|\[[^\]]{0,200}\]){0,500})\]\(<?((?:[^()\s<>]|\([^()\s]{0,500}\)){1,2000})>?(?:\s+["'(][^)]{0,300})?\)/, make: (/** @type {RegExpExecArray} */ m) => link(m[2], inline(m[1])) },
  { begins: "<", match: /^<((?:https?:|mailto:)[^<>\s]{1,2000})>/, make: (/** @type {RegExpExecArray} */ m) => link(m[1], [m[1]]) },
  { begins: "*", match: /^\*\*(?=\S)([\s\S]{0,2000}?\S)\*\*/, make: (/** @type {RegExpExecArray} */ m) => h("strong", {}, inline(m[1])) },
  { begins: "_", match: /^__(?=\S)([\s\S]{0,2000}?\S)__(?!\w)/, word: true, make: (/** @type {RegExpExecArray} */ m) => h("strong", {}, inline(m[1])) },
  { begins: "*", match: /^\*(?=[^\s*])([^*]{0,2000}?[^\s*])\*(?!\*)/, make: (/** @type {RegExpExecArray} */ m) => h("em", {}, inline(m[1])) },
  { begins: "_", match: /^_(?=[^\s_])([^_]{0,2000}?[^\s_])_(?!\w)/, word: true, make: (/** @type {RegExpExecArray} */ m) => h("em", {}, inline(m[1])) },
  { begins: "~", match: /^~~(?=\S)([^~]{0,2000}?\S)~~/, make: (/** @type {RegExpExecArray} */ m) => h("del", {}, inline(m[1])) },
  { begins: "h", match: /^https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]]/, word: true, make: (/** @type {RegExpExecArray} */ m) => link(m[0], [m[0]]) },
  { begins: "\n", match: /^\n/, make: () => h("br") },
];

/**
 * Show a line with its marks.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function inline(text) {
  /** @type {(Node | string)[]} */
  const found = [];
  let plain = 0;
  let at = 0;
  const next = /[\\`!\[<*_~h\n]/g;
  for (;;) {
    next.lastIndex = at;
    const place = next.exec(text);
    if (!place) break;
    at = place.index;
    const made = marked(text, at);
    if (made) {
      if (at > plain) found.push(text.slice(plain, at));
      found.push(made.node);
      plain = at = at + made.length;
    } else {
      at += 1;
    }
  }
  if (plain < text.length) found.push(text.slice(plain));
  return found;
}

/** @param {string} text @param {number} at */
function marked(text, at) {
  const rest = text.slice(at, at + 4500);
  for (const mark of MARKS) {
    if (mark.begins !== rest[0] || (mark.word && at > 0 && /\w/.test(text[at - 1]))) continue;
    const match = mark.match.exec(rest);
    if (match) return { node: /** @type {Node | string} */ (mark.make(match)), length: match[0].length };
  }
  return null;
}

/** A link if its address is harmless, else its text. @param {string} address @param {(Node | string)[]} said */
function link(address, said) {
  const safe = safeAddress(address);
  return safe ? h("a", { href: safe, rel: "noopener noreferrer nofollow", target: "_blank" }, said) : h("span", { title: address }, said);
}

/**
 * The address, if it leads to a page or a mailbox; else nothing: a script, a file or data would run or be read here.
 * @param {string} address
 */
export function safeAddress(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}
