/** Numbers, times and names as people read them. */

/** @param {number} count @param {string} what */
export function counted(count, what) {
  return `${number(count)} ${count === 1 ? what : `${what}s`}`;
}

/** @param {number} value */
export function number(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 3 });
}

/** @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** A time for programs; empty if there is none, or one that no calendar has. @param {number} ms */
export function isoTime(ms) {
  const time = new Date(ms);
  return ms && !Number.isNaN(time.getTime()) ? time.toISOString() : "";
}

/** The date and time, to the minute. @param {number} ms */
export function timeText(ms) {
  if (!isoTime(ms)) return "";
  const time = new Date(ms);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The time, and the day if it is another one. @param {number} ms @param {number} [now] */
export function clockText(ms, now = Date.now()) {
  if (!isoTime(ms)) return "";
  const [time, today] = [new Date(ms), new Date(now)];
  const clock = timeText(ms).slice(-5);
  if (time.toDateString() === today.toDateString()) return clock;
  const year = time.getFullYear() === today.getFullYear() ? "" : ` ${time.getFullYear()}`;
  return `${time.getDate()} ${MONTHS[time.getMonth()]}${year}, ${clock}`;
}

/** How long ago, as lists say it. @param {number} ms @param {number} [now] */
export function agoText(ms, now = Date.now()) {
  if (!ms) return "";
  const minutes = Math.round((now - ms) / 60000);
  if (minutes < 0 || minutes >= 60 * 24 * 7) return timeText(ms);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  return minutes < 60 * 24 ? `${Math.round(minutes / 60)} h ago` : counted(Math.round(minutes / 1440), "day") + " ago";
}

/** The first line that says something, cut. @param {string} text @param {number} [most] */
export function firstLine(text, most = 120) {
  const line = text.slice(0, most * 8).trim().split("\n").find((each) => each.trim()) || "";
  const flat = line.replace(/\s+/g, " ").trim();
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat;
}

const ROLES = { user: "User", assistant: "Assistant", model: "Assistant", ai: "Assistant", tool: "Tool", toolResult: "Tool", function: "Tool", system: "System", developer: "System" };

/** The name of a role, or of a kind of node. @param {string} role */
export function roleName(role) {
  return ROLES[/** @type {keyof typeof ROLES} */ (role)] || role.replace(/_/g, " ").replace(/^./, (first) => first.toUpperCase()) || "Message";
}

/** One of the classes that the style sheet has colours for. @param {string} role */
export function roleClass(role) {
  const name = roleName(role).toLowerCase();
  return ["user", "assistant", "tool", "system"].includes(name) ? name : "other";
}

/** An id, cut for headings. @param {string} id */
export function shortId(id) {
  return id.length > 14 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}

/** What a session is called. @param {{title?: string, first_prompt?: string, id: string}} info */
export function sessionName(info) {
  return info.title || info.first_prompt || info.id;
}
