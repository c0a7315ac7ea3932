/**
 * Messages of programs and libraries that have names of their own for the fields of a message, in the common shape: a
 * `role`, and a `content` of typed blocks. The server does the same in Python for previews and exports.
 */

/** @typedef {Record<string, any>} Fields */

/** @param {any} value @returns {value is Fields} */
const isFields = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A message in the common shape; one that has it, or that nobody knows, stays as it is. @param {Fields} message @returns {Fields} */
export function common(message) {
  if (isEvva(message)) return evvaMessage(message);
  if ("content" in message) return message;
  if (Array.isArray(message.contents)) return { ...message, content: message.contents.flatMap(operatorBlocks) };
  if (Array.isArray(message.parts) && message.parts.some((part) => isFields(part?.data) && "type" in part)) return { ...message, content: message.parts.flatMap(kitBlock) };
  if (Array.isArray(message.parts) && message.parts.some((part) => isFields(part) && "part_kind" in part)) return { role: message.kind === "response" ? "assistant" : "user", ...message, content: message.parts.map(pydanticBlock) };
  return message;
}

/** kit: each part has its fields in `data`. @param {any} part */
function kitBlock(part) {
  if (!isFields(part?.data)) return [part];
  return part.type === "finish" ? [] : [{ ...part.data, type: part.type }];
}

const OPERATOR = {
  text: { content: "text" },
  thinking: { content: "thinking" },
  tool_result: { id: "tool_call_id" },
};

/** Operator-Use: blocks name their text `content`, and an image part has several. @param {any} part @returns {any[]} */
function operatorBlocks(part) {
  if (!isFields(part)) return [part];
  if (part.type === "image") return (part.images || []).map(operatorImage);
  const names = OPERATOR[/** @type {keyof typeof OPERATOR} */ (part.type)] || {};
  return [renamed(part, names)];
}

/** @param {any} image Base64, an address, or a blob. */
function operatorImage(image) {
  if (typeof image !== "string") return { type: "image", data: image };
  return image.includes("://") || image.startsWith("data:") ? { type: "image", url: image, image_url: image } : { type: "image", data: image };
}

/** @param {Fields} fields @param {Record<string, string>} names */
function renamed(fields, names) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [names[name] ?? name, value]));
}

const EVVA_RESULT = { id: "tool_call_id", iserror: "is_error" };

/** @param {Fields} message */
function isEvva(message) {
  return "Role" in message || "Content" in message || Object.keys(message).some((name) => ["thinkingsignature", "toolcalls", "toolresults"].includes(name.toLowerCase()));
}

/** evva: written by Go, names begin with capitals or not. @param {Fields} message */
function evvaMessage(message) {
  const fields = lowered(message);
  const content = Array.isArray(fields.content) ? fields.content : fields.content ? [{ type: "text", text: fields.content }] : [];
  const blocks = (/** @type {any} */ parts, /** @type {string} */ type, /** @type {Record<string, string>} */ names) => (parts || []).map((/** @type {any} */ part) => ({ type, ...renamed(lowered(part), names) }));
  return {
    role: fields.role || "",
    content: [...(fields.thinking ? [{ type: "thinking", thinking: fields.thinking }] : []), ...content, ...blocks(fields.toolcalls, "tool_call", {}), ...blocks(fields.toolresults, "tool_result", EVVA_RESULT)],
  };
}

/** @param {any} fields @returns {Fields} */
function lowered(fields) {
  return Object.fromEntries(Object.entries(isFields(fields) ? fields : {}).filter(([, value]) => value !== null).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Pydantic AI: a part says what it is in `part_kind`. @param {any} part */
function pydanticBlock(part) {
  if (!isFields(part) || !part.part_kind) return part;
  const kind = part.part_kind;
  if (["text", "user-prompt", "system-prompt"].includes(kind) || (kind === "retry-prompt" && !part.tool_name)) return { type: "text", text: (Array.isArray(part.content) ? part.content : [part.content]).map((each) => (isFields(each) ? String(each.content ?? `[${each.media_type || each.kind}]`) : String(each ?? ""))).join("\n") };
  if (kind === "thinking") return { type: "thinking", thinking: part.content };
  if (kind === "tool-call") return { type: "tool_call", id: part.tool_call_id, name: part.tool_name, input: part.args ?? {} };
  if (kind === "tool-return" || kind === "retry-prompt") return { type: "tool_result", tool_call_id: part.tool_call_id, name: part.tool_name, content: part.content, is_error: kind === "retry-prompt" || !["success", undefined].includes(part.outcome) };
  return { ...part, type: kind };
}
