/** Parts of messages as elements: text, thinking, calls, results, images, files, and data of unknown shape. */
import { codeBlock, jsonBlock, pre } from "./code.js";
import { button, fill, h, icon } from "./dom.js";
import { markdown, safeAddress } from "./markdown.js";
import { isBlob, isFields, knownText, partsOf } from "./shapes.js";
import { counted, firstLine, sizeText } from "./words.js";

/** @typedef {import("./shapes.js").Part} Part */
/** @typedef {import("./shapes.js").BlobRef} BlobRef */
/** @typedef {(sha256: string) => Promise<Blob>} Fetch Reads a large image or text. */

/** Types that the page shows; none of these can hold a script, as SVG can. */
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"];

/**
 * Show the payload of a node.
 * @param {any} payload
 * @param {Fetch} fetch
 * @param {{role?: string, open?: boolean, which?: (part: number) => boolean, under?: boolean}} [options] `open`: calls and
 *   results are not folded; `which`: only these parts; `under`: a result stands under its call, which names the tool.
 * @returns {Node[]}
 */
export function showPayload(payload, fetch, { role = "", open = false, which = () => true, under = false } = {}) {
  return partsOf(payload).flatMap((part, at) => (which(at) ? [showPart(under ? { ...part, name: "" } : part, fetch, { plain: role === "tool", open, at })] : []));
}

/** @param {Part} part @param {Fetch} fetch @param {{plain?: boolean, open?: boolean, at?: number}} options @returns {Node} */
function showPart(part, fetch, { plain = false, open = false, at = 0 }) {
  if (part.kind === "text") return showText(part.text ?? "", fetch, plain);
  if (part.kind === "thinking") return thinking(part, fetch);
  if (part.kind === "call") return call(part, open, at);
  if (part.kind === "result") return result(part, fetch, open);
  if (part.kind === "image") return image(part, fetch);
  if (part.kind === "file") return file(part, fetch);
  const name = part.name || "data";
  return fold("data", [h("span.fold-name", {}, name)], () => jsonBlock(part.value, name), open);
}

/**
 * Something folded; its content is made when it is opened first.
 * @param {string} kind
 * @param {any} summary
 * @param {() => any} content
 * @param {boolean} [open]
 */
export function fold(kind, summary, content, open = false) {
  const inside = h("div.fold-body");
  const element = h(`details.fold.${kind}`, { open }, h("summary", {}, summary), inside);
  const make = () => inside.childNodes.length || fill(inside, content());
  if (open) make();
  element.addEventListener("toggle", make);
  return element;
}

/** @param {string | BlobRef} text @param {Fetch} fetch @param {boolean} plain */
function showText(text, fetch, plain) {
  const show = (/** @type {string} */ whole) => (plain ? pre(whole, "", "Text") : markdown(whole));
  if (!isBlob(text)) return show(text);
  const place = h("div.large", {}, show(knownText(text)));
  const more = button(`Read all of it (${sizeText(text.size)})`, async () => fill(place, show(await (await fetch(text.$blob)).text())));
  place.append(more);
  return place;
}

/** @param {Part} part @param {Fetch} fetch */
function thinking(part, fetch) {
  const said = firstLine(knownText(part.text), 90);
  return fold("thinking", [h("span.fold-name", {}, "Thinking"), h("span.fold-line", {}, said || "not readable")], () => showText(part.text ?? "", fetch, false));
}

/** A call, and room below it for its results. @param {Part} part @param {boolean} open @param {number} at */
function call(part, open, at) {
  const folded = fold("call", [h("span.fold-name", {}, part.name || "tool"), h("span.fold-line", {}, argumentsLine(part.value))], () => callArguments(part.value), open);
  return h("div.call-box", {}, folded, h("div.results", { "data-call": at }));
}

/** @param {any} value */
function argumentsLine(value) {
  if (!isFields(value)) return firstLine(typeof value === "string" ? value : JSON.stringify(value) ?? "", 100);
  const [first] = Object.values(value).filter((each) => typeof each === "string");
  return firstLine(first ?? (Object.keys(value).length ? JSON.stringify(value) : ""), 100);
}

/** Long texts among the arguments keep their lines. @param {any} value */
function callArguments(value) {
  if (!isFields(value) || isBlob(value)) return jsonBlock(value, "Arguments");
  const alone = Object.keys(value).length === 1;
  const long = Object.entries(value).filter(([, each]) => typeof each === "string" && (alone || each.includes("\n")));
  if (!long.length) return jsonBlock(value, "Arguments");
  if (alone) return codeBlock(long[0][1], languageOf(long[0][0]));
  const short = Object.fromEntries(Object.entries(value).filter(([key]) => !long.some(([name]) => name === key)));
  return [Object.keys(short).length ? jsonBlock(short, "Arguments") : null, long.map(([key, text]) => h("div", {}, h("p.field", {}, key), codeBlock(text, languageOf(key))))];
}

/** What an argument is written in, by its name. @param {string} key */
function languageOf(key) {
  if (key.includes("diff") || key.includes("patch")) return "diff";
  return ["command", "cmd", "script"].includes(key) ? "sh" : key;
}

/** @param {Part} part @param {Fetch} fetch @param {boolean} open */
function result(part, fetch, open) {
  const parts = part.parts || [];
  const text = parts.map((each) => knownText(each.text) || (each.kind === "data" ? JSON.stringify(each.value) : each.kind)).join("\n");
  const lines = text.split("\n").length;
  const summary = [
    h(`span.fold-name${part.failed ? ".failed" : ""}`, {}, part.failed ? "Failed" : "Result", part.name ? ` of ${part.name}` : ""),
    h("span.fold-line", {}, firstLine(text, 100)),
    lines > 1 && h("span.fold-size", {}, counted(lines, "line")),
  ];
  const pictures = parts.filter((each) => each.kind === "image");
  const body = () => parts.filter((each) => each.kind !== "image").map((each) => showPart(each, fetch, { plain: true, open: true }));
  const folded = fold("result", summary, body, open);
  return pictures.length ? h("div", {}, folded, pictures.map((each) => image(each, fetch))) : folded;
}

/** @param {Part} part @param {Fetch} fetch */
function image(part, fetch) {
  const name = part.name || "Image";
  if (isFields(part.data) && part.data.$left_out) return h("p.attachment", {}, icon("file"), `${name}: left out of this file`);
  if (!part.data) return h("p.attachment", {}, icon("file"), name, " ", elsewhere(part.url));
  const place = h("figure.image", { "aria-label": name });
  const type = IMAGES.includes(part.type || "") ? part.type : "";
  bytesOf(part.data, fetch).then((bytes) => {
    const kind = imageType(bytes) || type;
    if (!kind) return fill(place, h("p.attachment", {}, icon("file"), `${name} (${sizeText(bytes.length)}), of a type that is not shown`));
    const url = URL.createObjectURL(new Blob([bytes], { type: kind }));
    const picture = h("img", { src: url, alt: name, onload: () => URL.revokeObjectURL(url), onerror: () => fill(place, h("p.attachment", {}, `${name}: cannot be shown`)) });
    return fill(place, picture, part.name && h("figcaption", {}, part.name));
  }, (error) => fill(place, h("p.attachment", {}, `${name}: ${error.message}`)));
  return place;
}

/** @param {Part} part @param {Fetch} fetch */
function file(part, fetch) {
  const name = part.name || "File";
  if (part.text !== undefined) return fold("data", [h("span.fold-name", {}, name)], () => showText(part.text ?? "", fetch, true));
  const said = [icon("file"), h("span", {}, name), part.type && h("span.fold-size", {}, part.type)];
  if (isFields(part.data) && part.data.$left_out) return h("p.attachment", {}, said, ": left out of this file");
  if (!part.data) return h("p.attachment", {}, said, " ", elsewhere(part.url));
  const save = button("Save", async () => {
    const url = URL.createObjectURL(new Blob([await bytesOf(/** @type {any} */ (part.data), fetch)], { type: "application/octet-stream" }));
    h("a", { href: url, download: name.replace(/[^\w. -]/g, "_") }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  return h("p.attachment", {}, said, save);
}

/** @param {string | undefined} url */
function elsewhere(url) {
  const safe = safeAddress(url || "");
  return safe ? h("a", { href: safe, rel: "noopener noreferrer nofollow", target: "_blank" }, safe) : h("span.fold-line", {}, url || "not recorded");
}

/** @param {string | BlobRef} data @param {Fetch} fetch @returns {Promise<Uint8Array<ArrayBuffer>>} */
async function bytesOf(data, fetch) {
  if (isBlob(data)) return new Uint8Array(await (await fetch(data.$blob)).arrayBuffer());
  return fromBase64(String(data));
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text) {
  const known = /** @type {any} */ (Uint8Array);
  if (known.fromBase64) return known.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** As its bytes begin: what a message says of an image may be wrong. @param {Uint8Array} bytes */
function imageType(bytes) {
  const begins = String.fromCharCode(...bytes.slice(0, 12));
  if (begins.startsWith("\x89PNG")) return "image/png";
  if (begins.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (begins.startsWith("GIF8")) return "image/gif";
  if (begins.startsWith("RIFF") && begins.endsWith("WEBP")) return "image/webp";
  return begins.slice(4, 12) === "ftypavif" ? "image/avif" : "";
}
