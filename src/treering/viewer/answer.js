/** An answer that is not finished: its text while it grows, or what is to become of it if nobody writes it any more. */
import { button, fill, h } from "./dom.js";
import { markdown } from "./markdown.js";
import { fold } from "./parts.js";
import { clockText, roleClass, roleName } from "./words.js";

/**
 * @typedef {{proceed: (stream: string, offset: number, text: string) => void, keep: (stream: string) => void, discard: (stream: string) => void}} Ending
 *   What people can do with an answer that has no writer.
 */

const FINAL = ["complete", "stopped", "partial", "discarded", "erased"];

export class OpenAnswer {
  /** @param {any} stream As the card has it. @param {Ending | null} ending Null: nothing can be changed. */
  constructor(stream, ending) {
    this.id = stream.id;
    this.ending = ending;
    this.offset = 0;
    /** It has ended: as a message, or with nothing. */
    this.over = false;
    /** Nobody writes it. */
    this.lost = false;
    this.wake = () => {};
    this.state = h("span.chip.live", { role: "status" }, "writing");
    this.body = h("div.body");
    this.left = h("div.left-open", { hidden: true });
    const role = stream.role || "assistant";
    this.article = h(`article.message.${roleClass(role)}.open`, { "data-stream": stream.id, "data-head": stream.head, "data-parent": stream.parent ?? "", "aria-busy": "true", "aria-label": `${roleName(role)}, not finished` }, h("header", {}, h("span.role", {}, roleName(role)), h("time", {}, clockText(stream.time_ms)), this.state), this.body, this.left);
    this.text = new Growing(this.body);
  }

  /** Resolves when somebody writes it again. */
  woken() {
    return /** @type {Promise<void>} */ (new Promise((resolve) => { this.wake = resolve; }));
  }

  /** @param {import("./source.js").Told} event */
  told(event) {
    if (event.type === "end") this.ended(event.data.status, event.data.reason || "");
    if (event.type !== "piece") return;
    this.text.add(event.data);
    this.offset = Number(event.id) || this.offset;
    this.lost = false;
    this.left.hidden = true;
    this.say("writing", "live");
    this.article.setAttribute("aria-busy", "true");
  }

  /** @param {string} said @param {"live" | "problem"} kind */
  say(said, kind) {
    if (this.state.textContent === said) return;
    this.state.textContent = said;
    this.state.className = `chip ${kind}`;
  }

  /** @param {string} status @param {string} reason */
  ended(status, reason) {
    if (FINAL.includes(status)) {
      this.over = true;
      return;
    }
    if (!["lost", "failed"].includes(status) || this.lost) return;
    this.lost = true;
    this.say(status === "lost" ? "writer gone" : "failed", "problem");
    this.article.setAttribute("aria-busy", "false");
    this.text.flush();
    this.left.hidden = false;
    fill(this.left, h("p.ended.problem", {}, status === "lost" ? "This is a part of an answer: its writer is gone." : `This is a part of an answer: writing it failed${reason ? `, as ${reason}` : ""}.`), this.ending && this.actions(this.ending));
  }

  /** @param {Ending} ending */
  actions(ending) {
    return h(
      "div.actions",
      {},
      button("Continue", () => ending.proceed(this.id, this.offset, this.text.said()), { title: "Write the rest of it" }),
      button("Keep", () => ending.keep(this.id), { title: "Record what there is as a message that says it is partial" }),
      button("Discard", () => ending.discard(this.id), { title: "Delete what there is" }),
    );
  }
}

/** Parts of an answer that grow; drawn once a frame, however many pieces come. */
class Growing {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Map<string, {kind: string, name: string, text: string, element: HTMLElement, shown: number}>} */
    this.parts = new Map();
    this.frame = 0;
  }

  /** @param {{kind: string, text: string, part: number, name: string, whole: boolean}} piece */
  add(piece) {
    const key = `${piece.part}-${piece.kind}`;
    const part = this.parts.get(key) ?? { kind: piece.kind, name: piece.name, text: "", element: h("div"), shown: -1 };
    if (!this.parts.has(key)) {
      this.parts.set(key, part);
      this.place.append(part.element);
    }
    part.text = piece.whole ? piece.text : part.text + piece.text;
    part.name ||= piece.name;
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  /** The text of the answer, without thinking and calls. */
  said() {
    return [...this.parts.values()].filter((part) => part.kind === "text").map((part) => part.text).join("\n\n");
  }

  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const part of this.parts.values()) {
      if (part.shown === part.text.length) continue;
      part.shown = part.text.length;
      if (part.kind === "text") {
        fill(part.element, markdown(part.text));
        continue;
      }
      const open = part.element.querySelector("details")?.open ?? part.kind === "thinking";
      const name = h("span.fold-name", {}, part.kind === "thinking" ? "Thinking" : part.name || "Tool call");
      fill(part.element, fold(part.kind === "thinking" ? "thinking" : "call", name, () => (part.kind === "thinking" ? markdown(part.text) : h("p.plain", {}, part.text)), open));
    }
  }
}
