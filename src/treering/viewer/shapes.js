/**
 * The parts of a message, whatever API or program wrote it. This is the only place that knows shapes; one that nobody
 * knows is a part of kind `data` and shown as JSON.
 *
 * @typedef {{$blob: string, as: string, size: number, prefix?: string, begins?: string}} BlobRef Stands for a large text or image.
 * @typedef {Object} Part
 * @property {"text" | "thinking" | "call" | "result" | "image" | "file" | "data"} kind
 * @property {string | BlobRef} [text] Of text, thinking and results.
 * @property {string} [name] Of a tool, a file, or the kind of data.
 * @property {string} [id] Of a call, in it and in its result.
 * @property {any} [value] Arguments of a call, or any data.
 * @property {Part[]} [parts] Of a result.
 * @property {boolean} [failed] The result says that the tool failed.
 * @property {string} [url] Of an image or file that lies elsewhere; it is never loaded.
 * @property {string | BlobRef} [data] Base64 of an image or file.
 * @property {string} [type] Its media type.
 */

import { parseJson } from "./json.js";
import { common } from "./programs.js";

/** @param {any} value @returns {value is BlobRef} */
export function isBlob(value) {
  return isFields(value) && typeof value.$blob === "string";
}

/** @param {any} value @returns {value is Record<string, any>} */
export function isFields(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const TEXTS = { text: "text", input_text: "text", output_text: "text", summary_text: "text", refusal: "refusal" };
const CALLS = ["toolCall", "tool_use", "tool_call", "function_call", "function", "server_tool_use", "mcp_tool_use", "custom_tool_call", "local_shell_call", "web_search_call"];
const RESULTS = ["tool_result", "toolResult", "function_call_output", "mcp_tool_result", "web_search_tool_result", "custom_tool_call_output", "local_shell_call_output"];
const RESULT_ROLES = ["tool", "toolResult", "function"];
const IMAGES = ["image", "image_url", "input_image", "output_image"];
const FILES = ["document", "file", "input_file", "audio", "input_audio", "video", "search_result", "container_upload"];

/**
 * The parts of the payload of a node.
 * @param {any} payload
 * @returns {Part[]}
 */
export function partsOf(payload) {
  if (payload === null || payload === undefined) return [];
  if (typeof payload === "string" || isBlob(payload)) return [{ kind: "text", text: payload }];
  if (!isFields(payload)) return [{ kind: "data", value: payload }];
  if (isFields(payload.$erased)) return partsOf(payload.$erased.message);
  try {
    return messagePayload(common(payload));
  } catch {
    return [{ kind: "data", value: payload }]; // a field of an odd type must not hide the whole session
  }
}

/** @param {Record<string, any>} payload In the common shape, or in one that nobody knows. @returns {Part[]} */
function messagePayload(payload) {
  const type = textIn(payload.type);
  if (!("content" in payload) && [...CALLS, ...RESULTS, "reasoning"].includes(type)) return blockParts(payload);
  if ("summary" in payload && !("role" in payload)) return [{ kind: "text", text: textOf(payload.summary) }];
  if ("command" in payload && "output" in payload) return shellParts(payload);
  if (Array.isArray(payload.parts) && !("content" in payload)) return payload.parts.flatMap(geminiParts);
  if ("content" in payload || "tool_calls" in payload) return messageParts(payload);
  return [{ kind: "data", name: type, value: payload }];
}

/** @param {Record<string, any>} message @returns {Part[]} */
function messageParts(message) {
  const found = listed(message.content).flatMap(blockParts);
  const reasoning = message.reasoning_content ?? message.reasoning;
  if (typeof reasoning === "string" && reasoning) found.unshift({ kind: "thinking", text: reasoning });
  if (typeof message.refusal === "string" && message.refusal) found.push({ kind: "text", text: message.refusal });
  if (isFields(message.audio) && textIn(message.audio.transcript)) found.push({ kind: "text", text: textIn(message.audio.transcript) });
  for (const call of listed(message.tool_calls)) found.push(...blockParts(isFields(call) ? { ...call, type: "tool_call" } : call));
  if (isFields(message.function_call)) found.push(callPart(message.function_call));
  if (!RESULT_ROLES.includes(textIn(message.role)) || found.some((part) => part.kind === "result")) return found;
  const failed = message.is_error === true || message.isError === true;
  return [{ kind: "result", id: callId(message), name: textIn(message.toolName || message.name), parts: found, failed }];
}

/** @param {Record<string, any>} payload @returns {Part[]} */
function shellParts(payload) {
  return [
    { kind: "call", name: "shell", value: textOf(payload.command) },
    { kind: "result", parts: [{ kind: "text", text: textOf(payload.output) }], failed: Boolean(payload.exit_code || payload.exitCode) },
  ];
}

/** @param {any} block @returns {Part[]} */
function blockParts(block) {
  if (block === null || block === undefined) return [];
  if (!isFields(block) || isBlob(block)) return [{ kind: "text", text: isBlob(block) ? block : textOf(block) }];
  const type = textIn(block.type);
  if (!type) return untypedParts(block);
  if (type in TEXTS) return [{ kind: "text", text: textOf(block.text ?? block.refusal ?? "") }];
  if (type === "thinking" || type === "reasoning") return [thinkingPart(block)];
  if (type === "redacted_thinking") return [{ kind: "thinking", text: "" }];
  if (CALLS.includes(type)) return [callPart(block)];
  if (RESULTS.includes(type)) return [resultPart(block)];
  if (IMAGES.includes(type)) return [mediaPart("image", block)];
  if (FILES.includes(type)) return [mediaPart("file", block)];
  return [{ kind: "data", name: type, value: block }];
}

/** Blocks of the Converse API (Bedrock, Strands): their only field says what they are. @param {Record<string, any>} block @returns {Part[]} */
function untypedParts(block) {
  const keys = Object.keys(block);
  const value = block[keys[0]];
  if (keys.length === 1) {
    if (keys[0] === "text") return [{ kind: "text", text: textOf(value) }];
    if (keys[0] === "toolUse") return [callPart({ ...value, id: value?.toolUseId })];
    if (keys[0] === "toolResult") return [{ ...resultPart({ ...value, tool_use_id: value?.toolUseId }), failed: value?.status === "error" }];
    if (keys[0] === "reasoningContent") return [{ kind: "thinking", text: textOf(value?.reasoningText?.text ?? "") }];
    if (keys[0] === "image") return [converseMedia("image", value)];
    if (["document", "video", "audio"].includes(keys[0])) return [converseMedia("file", value)];
    if (keys[0] === "cachePoint") return [];
  }
  return geminiParts(block);
}

/** @param {"image" | "file"} kind @param {any} value @returns {Part} */
function converseMedia(kind, value) {
  const bytes = value?.source?.bytes;
  const type = kind === "image" ? `image/${textIn(value?.format)}` : textIn(value?.format);
  return { kind, name: textIn(value?.name), type, data: isFields(bytes) && typeof bytes.$bytes === "string" ? bytes.$bytes : bytes, url: textIn(value?.source?.location?.uri) };
}

/** Parts of the Gemini API; its SDKs write names in either way. @param {any} part @returns {Part[]} */
function geminiParts(part) {
  if (!isFields(part)) return blockParts(part);
  if (typeof part.type === "string") return blockParts(part);
  const call = part.functionCall ?? part.function_call;
  const answer = part.functionResponse ?? part.function_response;
  const inline = part.inlineData ?? part.inline_data;
  const file = part.fileData ?? part.file_data;
  if (isFields(call)) return [{ kind: "call", name: textIn(call.name), id: textIn(call.id || call.name), value: call.args ?? {} }];
  if (isFields(answer)) return [geminiResult(answer)];
  if (isFields(inline)) return [media(textIn(inline.mimeType || inline.mime_type), bytesIn(inline.data), "")];
  if (isFields(file)) return [media(textIn(file.mimeType || file.mime_type), undefined, textIn(file.fileUri || file.file_uri))];
  if ("text" in part) return [{ kind: part.thought === true ? "thinking" : "text", text: textOf(part.text) }];
  return [{ kind: "data", name: Object.keys(part)[0] || "", value: part }];
}

/** @param {Record<string, any>} answer @returns {Part} */
function geminiResult(answer) {
  const failed = isFields(answer.response) && "error" in answer.response;
  return { kind: "result", id: textIn(answer.id || answer.name), name: textIn(answer.name), parts: [{ kind: "data", value: answer.response }], failed };
}

/** @param {string} type @param {any} data @param {string} url @returns {Part} */
function media(type, data, url) {
  return { kind: type.startsWith("image/") ? "image" : "file", type, data, url };
}

/** @param {Record<string, any>} block @returns {Part} */
function thinkingPart(block) {
  const parts = Array.isArray(block.summary) ? block.summary : listed(block.content);
  const own = block.thinking ?? block.reasoning ?? block.text;
  const text = own !== undefined ? textOf(own) : parts.map((each) => (isFields(each) ? textOf(each.text ?? "") : textOf(each))).join("\n\n");
  return { kind: "thinking", text };
}

/** @param {Record<string, any>} block @returns {Part} */
function callPart(block) {
  const inner = isFields(block.function) ? block.function : block;
  const value = inner.arguments ?? inner.input ?? inner.args ?? inner.action ?? {};
  return { kind: "call", name: textIn(inner.name) || textIn(block.type).replace(/_call$/, ""), id: textIn(block.call_id || block.id), value: parsed(value) };
}

/** @param {Record<string, any>} block @returns {Part} */
function resultPart(block) {
  const inner = block.content ?? block.output;
  const parts = listed(inner).flatMap(blockParts);
  return { kind: "result", id: callId(block), name: textIn(block.name), parts, failed: block.is_error === true || block.isError === true };
}

/** @param {"image" | "file"} kind @param {Record<string, any>} block @returns {Part} */
function mediaPart(kind, block) {
  const inner = isFields(block.source) ? block.source : isFields(block.file) ? block.file : isFields(block.input_audio) ? block.input_audio : block;
  const address = isFields(block.image_url) ? block.image_url.url : block.image_url ?? inner.url ?? inner.file_url;
  const given = inner.data ?? inner.file_data ?? inner.result;
  const left = [address, given].find((each) => isFields(each) && each.$left_out);
  const name = textIn(block.title || block.name || inner.filename || inner.file_name || block.filename);
  const type = textIn(inner.media_type || inner.mimeType || inner.mime_type || block.mimeType);
  if (isBlob(address)) return { kind, name, data: address, type: typeOfPrefix(address.prefix || "") || type };
  const inline = /^data:([^;,]*);base64,(.*)$/s.exec(typeof address === "string" ? address : typeof given === "string" ? given : "");
  if (inline) return { kind, name, data: inline[2], type: inline[1] };
  if (inner.type === "text" && typeof given === "string") return { kind: "file", name, type: "text/plain", text: given };
  return { kind, name, type: type || typeOfPrefix(isBlob(given) ? given.prefix || "" : ""), data: left ?? bytesIn(given), url: textIn(address) || textIn(inner.file_id) };
}

/** @param {string} prefix */
function typeOfPrefix(prefix) {
  return /^data:([^;,]*)/.exec(prefix)?.[1] || "";
}

/** @param {any} value */
function bytesIn(value) {
  return isFields(value) && typeof value.$bytes === "string" ? value.$bytes : value;
}

/** @param {Record<string, any>} fields */
function callId(fields) {
  for (const name of ["tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "tool_result_for"]) {
    if (fields[name]) return String(fields[name]);
  }
  return "";
}

/** Arguments that are the text of a JSON object. @param {any} value */
function parsed(value) {
  if (typeof value !== "string" || !/^\s*[{[]/.test(value)) return value;
  try {
    return parseJson(value);
  } catch {
    return value;
  }
}

/** @param {any} value @returns {any[]} */
function listed(value) {
  return Array.isArray(value) ? value : value === null || value === undefined ? [] : [value];
}

/** @param {any} value */
function textIn(value) {
  return typeof value === "string" ? value : ["number", "bigint"].includes(typeof value) ? String(value) : "";
}

/** Text or a blob as it is, anything else as JSON. @param {any} value @returns {string | BlobRef} */
function textOf(value) {
  return typeof value === "string" || isBlob(value) ? value : JSON.stringify(value, null, 2) ?? "";
}

/** What is known of a text without reading it. @param {string | BlobRef | undefined} text */
export function knownText(text) {
  return isBlob(text) ? `${text.begins || ""}…` : text || "";
}

/**
 * A message on one line, for trees and lists.
 * @param {any} payload
 * @param {Record<string, any>} [brief]
 */
export function headlineOf(payload, brief = {}) {
  const parts = partsOf(payload);
  if (!parts.length) return Object.entries(brief).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  const said = parts.find((part) => part.kind === "text" && knownText(part.text).trim());
  if (said) return knownText(said.text);
  const calls = parts.filter((part) => part.kind === "call").map((part) => `→ ${part.name}`);
  if (calls.length) return calls.join("  ");
  const [first] = parts;
  if (first.kind === "result") return first.parts?.map((part) => knownText(part.text) || part.kind).join(" ") || "";
  return knownText(first.text) || first.name || first.kind;
}
