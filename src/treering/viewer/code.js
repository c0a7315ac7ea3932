/** Code and data: quiet colours, a button that copies, and long texts cut until they are wanted. */
import { button, fill, h, notice } from "./dom.js";
import { counted } from "./words.js";

const LINES_SHOWN = 60;
const COLOURED_MAX = 40000;
const TOKENS = /(?<comment>\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/|--[ \t][^\n]*)|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?<number>\b\d[\d_.]*(?:e[+-]?\d+)?\b)|(?<keyword>\b(?:abstract|and|as|async|await|break|case|catch|class|const|continue|def|default|del|do|elif|else|enum|except|export|extends|false|False|finally|fn|for|from|func|function|if|impl|implements|import|in|interface|is|lambda|let|match|mod|mut|new|nil|None|not|null|or|package|pass|private|public|pub|raise|return|self|static|struct|super|switch|this|throw|true|True|try|type|use|var|void|while|with|yield|SELECT|FROM|WHERE|INSERT|UPDATE|DELETE|JOIN|AND|OR|NOT)\b)/g;
const HASHES = ["c", "cpp", "csharp", "java", "javascript", "js", "json", "rust", "ts", "typescript", "go", "css", "php"];

/**
 * Show code.
 * @param {string} text
 * @param {string} [language]
 */
export function codeBlock(text, language = "") {
  const head = h("div.code-head", {}, h("span", {}, language || "text"), button("Copy", () => copy(text)));
  return h("div.code", {}, head, pre(text, language));
}

/**
 * Show a text as it is, its first lines until the rest is wanted.
 * @param {string} text
 * @param {string} [language] Its words are coloured if there is one.
 * @param {string} [name] For screen readers.
 */
export function pre(text, language = "", name = "Code") {
  const lines = text.split("\n");
  const element = h("pre", { tabindex: 0, role: "group", "aria-label": name });
  const show = (/** @type {string} */ part) => fill(element, h("code", {}, language ? coloured(part, language) : part));
  if (lines.length <= LINES_SHOWN + 10) {
    show(text);
    return element;
  }
  show(lines.slice(0, LINES_SHOWN).join("\n"));
  const more = button(`Show ${counted(lines.length - LINES_SHOWN, "more line")}`, () => {
    show(text);
    more.remove();
    element.focus();
  });
  return h("div.cut", {}, element, more);
}

/** @param {string} text @param {string} language */
function coloured(text, language) {
  if (text.length > COLOURED_MAX) return [text];
  if (language === "diff") return text.split("\n").flatMap((line, at) => [at ? "\n" : "", h(`span${line[0] === "+" ? ".added" : line[0] === "-" ? ".removed" : ""}`, {}, line)]);
  /** @type {(Node | string)[]} */
  const found = [];
  let done = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = Object.keys(match.groups || {}).find((name) => match.groups?.[name] !== undefined) || "";
    if (kind === "comment" && match[0][0] === "#" && HASHES.includes(language)) continue;
    if (match.index > done) found.push(text.slice(done, match.index));
    found.push(h(`span.${kind}`, {}, match[0]));
    done = match.index + match[0].length;
  }
  if (done < text.length) found.push(text.slice(done));
  return found;
}

/**
 * Show a JSON value; a small one on a line, a large one folded.
 * @param {any} value
 * @param {string} [name]
 */
export function jsonBlock(value, name = "Data") {
  return pre(typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "", typeof value === "string" ? "" : "json", name);
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notice("Copied.");
  } catch {
    notice("The browser does not let this page copy.", true);
  }
}
