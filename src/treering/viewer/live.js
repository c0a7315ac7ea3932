/** Follows a session: tells the page when something happened, and shows answers while they are written. */
import { OpenAnswer } from "./answer.js";
import { Refused } from "./source.js";

const WAIT_MS = 120;
const AGAIN_MS = 1500;
const AGAIN_MAX_MS = 20000;
/** How often to look whether somebody goes on with an answer that has no writer. The feed of events tells of it as well. */
const LOST_MS = 15000;

export class Live {
  /**
   * @param {import("./session.js").Session} session
   * @param {{changed: () => Promise<void>, deleted: () => void, state: (said: string) => void, place: HTMLElement, ending: import("./answer.js").Ending | null, placed: () => void, ended: (node: string) => void}} page
   */
  constructor(session, page) {
    this.session = session;
    this.page = page;
    this.stopped = new AbortController();
    /** @type {Map<string, OpenAnswer>} */
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
        if (error instanceof Refused && error.status === 410) return this.page.deleted();
        if (error instanceof Refused && [400, 401, 403, 404].includes(error.status)) return this.page.state("not live");
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

  /** Attach to the answers that are open: to those not shown yet, and again to those without a writer of which there is news. */
  watchStreams() {
    const streams = new Map((this.session.card?.streams || []).map((/** @type {any} */ stream) => [stream.id, stream]));
    for (const stream of streams.values()) if (!this.open.has(stream.id)) this.watch(stream);
    for (const [id, answer] of this.open) if (answer.lost && !["lost", "failed"].includes(streams.get(id)?.status)) answer.wake();
  }

  /** Show an answer while it is written; after a break it goes on where it was. @param {any} stream As the card has it. */
  async watch(stream) {
    const answer = new OpenAnswer(stream, this.page.ending);
    this.open.set(stream.id, answer);
    this.page.place.append(answer.article);
    this.page.placed();
    const { signal } = this.stopped;
    while (!answer.over && !signal.aborted) {
      try {
        await this.session.source.follow(`sessions/${this.session.key}/streams/${stream.id}/events`, { offset: answer.offset }, signal, (event) => {
          answer.told(event);
          if (event.type === "end") this.page.placed();
        });
      } catch (error) {
        if (error instanceof Refused && [404, 410].includes(error.status)) answer.over = true;
      }
      if (answer.over || signal.aborted) break;
      if (answer.lost) await Promise.race([pause(LOST_MS, signal), answer.woken()]);
      else await pause(AGAIN_MS, signal);
    }
    if (signal.aborted) return;
    await this.bringUpToDate();
    const focused = answer.article.contains(document.activeElement);
    answer.article.remove();
    this.page.placed();
    this.open.delete(stream.id);
    if (focused) this.page.ended(stream.id);
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
