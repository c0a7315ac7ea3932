/** Follows a session: tells the page when something happened, and shows answers while they are written. */
import { fill } from "./dom.js";
import { markdown } from "./markdown.js";
import { openArticle } from "./message.js";
import { fold } from "./parts.js";
import { Refused } from "./source.js";

const WAIT_MS = 120;
const AGAIN_MS = 1500;
const AGAIN_MAX_MS = 20000;

export class Live {
  /**
   * @param {import("./session.js").Session} session
   * @param {{changed: () => Promise<void>, deleted: () => void, state: (said: string) => void, place: HTMLElement, placed: () => void, grew: () => void}} page
   */
  constructor(session, page) {
    this.session = session;
    this.page = page;
    this.stopped = new AbortController();
    /** @type {Map<string, {offset: number, article: HTMLElement}>} */
    this.open = new Map();
    this.again = AGAIN_MS;
    this.running = false;
    this.missed = false;
  }

  stop() {
    this.stopped.abort();
  }

  async start() {
    this.watchStreams();
    let after = this.session.card?.after;
    const { signal } = this.stopped;
    while (!signal.aborted) {
      try {
        this.page.state("live");
        await this.session.source.follow(`sessions/${this.session.key}/events`, { after }, signal, (event) => {
          if (event.id) after = event.id;
          this.again = AGAIN_MS;
          this.told(event);
        });
      } catch (error) {
        if (error instanceof Refused && [400, 401, 403, 404, 410].includes(error.status)) return this.page.state("not live");
      }
      if (signal.aborted) return undefined;
      this.page.state("connecting");
      await pause(this.again, signal);
      this.again = Math.min(AGAIN_MAX_MS, this.again * 2);
      this.due();
    }
    return undefined;
  }

  /** @param {import("./source.js").Told} event */
  told(event) {
    if (event.type === "deletion") {
      this.stop();
      this.page.deleted();
      return;
    }
    this.due();
  }

  /** Show what happened soon, and all that happens until then at once. */
  due() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.bringUpToDate(), WAIT_MS);
  }

  async bringUpToDate() {
    if (this.running) {
      this.missed = true;
      return;
    }
    this.running = true;
    try {
      await this.session.open();
      await this.page.changed();
      this.watchStreams();
    } catch (error) {
      if (error instanceof Refused && error.status === 410) this.page.deleted();
    } finally {
      this.running = false;
    }
    if (this.missed) {
      this.missed = false;
      this.due();
    }
  }

  /** Attach to the answers that are open and not shown yet. */
  watchStreams() {
    for (const stream of this.session.card?.streams || []) {
      if (!this.open.has(stream.id)) this.watch(stream);
    }
  }

  /** Show an answer while it is written; after a break it goes on where it was. @param {{id: string, role: string, head: string, parent: string | null}} stream */
  async watch({ id, role, head, parent }) {
    const { article, body, state } = openArticle(id, role || "assistant");
    Object.assign(article.dataset, { head, parent: parent ?? "" });
    const held = { offset: 0, article };
    this.open.set(id, held);
    this.page.place.append(article);
    this.page.placed();
    const text = new Growing(body);
    const { signal } = this.stopped;
    let ended = "";
    while (!ended && !signal.aborted) {
      try {
        await this.session.source.follow(`sessions/${this.session.key}/streams/${id}/events`, { offset: held.offset }, signal, (event) => {
          if (event.type === "end") {
            ended = event.data.outcome || event.data.status || "ended";
            return;
          }
          if (event.type !== "piece") return;
          text.add(event.data);
          held.offset = Number(event.id) || held.offset;
          state.textContent = "writing";
          this.page.grew();
        });
      } catch (error) {
        if (error instanceof Refused && [404, 410].includes(error.status)) ended = "ended";
      }
      if (ended === "lost" || ended === "failed") {
        state.textContent = ended === "lost" ? "writer lost" : "failed";
        state.classList.add("problem");
        article.setAttribute("aria-busy", "false");
        ended = "";
      }
      if (!ended && !signal.aborted) await pause(AGAIN_MS, signal);
    }
    if (signal.aborted) return;
    await this.bringUpToDate();
    article.remove();
    this.page.placed();
    this.open.delete(id);
  }
}

/** Parts of an answer that grow. */
class Growing {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Map<string, {text: string, element: HTMLElement}>} */
    this.parts = new Map();
  }

  /** @param {{type?: string, kind?: string, text?: string, part?: number, name?: string}} piece */
  add(piece) {
    const kind = piece.type || piece.kind || "text";
    const key = `${piece.part ?? 0}-${kind}`;
    const part = this.parts.get(key) ?? { text: "", element: document.createElement("div") };
    if (!this.parts.has(key)) {
      this.parts.set(key, part);
      this.place.append(part.element);
    }
    part.text += piece.text || "";
    if (kind === "text") fill(part.element, markdown(part.text));
    else fill(part.element, fold(kind === "thinking" ? "thinking" : "call", kind === "thinking" ? "Thinking" : piece.name || "Tool call", () => part.text, kind === "thinking"));
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
