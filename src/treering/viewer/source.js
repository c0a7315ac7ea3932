/**
 * Where sessions come from: a server, asked by the API that docs/reference/http.md describes. Answers are as the API gives them.
 * `FileSource` answers the same of the one session that is inside the page.
 *
 * What the page asks, all of it by `get`, below `sessions/KEY/` but for the first three:
 *
 *     ""                                     what the source can
 *     sessions?limit&after&below|q           the list
 *     search?q&limit                         words in messages, if `features.search`
 *     ""  and  ?counts                       the card of a session
 *     history?node&before&limit&retracted    a page of a branch
 *     nodes/ID?toward                        `leaf`: the end of the branch to show it on
 *     path?node&below&limit                  ids on the way down to a leaf
 *     tree?offset&limit, tree/locate?node    rows of the tree
 *     previews?nodes                         first lines for these rows
 *     context?node&limit&before              what the model saw, and `left_out`
 *     checkpoints?limit&before, checkpoints/ID, diff?a&b, branches?a&b, labels, problems
 *     notes?kind=usage&targets               what messages took
 *     view-state?viewer                      unless it is read-only
 *
 * `blob` reads large texts and images, `follow` events and open answers, `send` writes (unless it is read-only).
 *
 * @typedef {ServerSource | import("./file_source.js").FileSource} Source
 * @typedef {{id: string, type: string, data: any}} Told A server-sent event.
 */

/** What a server answered instead of a result. */
export class Refused extends Error {
  /** @param {number} status @param {any} [error] */
  constructor(status, error = {}) {
    super([error.message || `the server answered ${status}`, error.remedy].filter(Boolean).join("; "));
    this.status = status;
    this.kind = error.kind || "";
    this.type = error.type || "";
  }
}

/** A name that nobody else makes; pages that came without TLS have no `randomUUID`. */
export function newId() {
  return crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");
}

export class ServerSource {
  /** @param {string} base The address of the page. @param {string} token Empty: none is needed. */
  constructor(base, token) {
    this.base = new URL("api/v1/", base);
    this.token = token;
    this.readOnly = true;
    /** The key of the only session; empty: there are others, and a list of them. */
    this.only = "";
    /** @type {Record<string, any>} */
    this.features = {};
  }

  /** Ask what the server can. */
  async open() {
    const about = await this.get("");
    this.readOnly = about.read_only;
    this.features = about.features || {};
    return about;
  }

  /** @param {string} path @param {Record<string, any>} query */
  address(path, query) {
    const url = new URL(path, this.base);
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined && each !== null && each !== "") url.searchParams.append(name, String(each));
      }
    }
    return url;
  }

  /** @param {string} path @param {Record<string, any>} query @param {RequestInit} options */
  async ask(path, query, options) {
    const headers = new Headers(options.headers);
    if (this.token) headers.set("Authorization", `Bearer ${this.token}`);
    const answer = await fetch(this.address(path, query), { ...options, headers, credentials: "omit" });
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, told.error);
  }

  /** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
  async get(path, query = {}, signal = undefined) {
    return (await this.ask(path, query, { signal })).json();
  }

  /** @param {string} session @param {string} sha256 */
  async blob(session, sha256) {
    return (await this.ask(`sessions/${session}/blobs/${sha256}`, {}, {})).blob();
  }

  /**
   * Write. A request without an answer is sent once more; the key makes that harmless.
   * @param {string} method @param {string} path @param {any} [body]
   */
  async send(method, path, body = undefined) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": newId() };
    const options = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const once = () => this.ask(path, {}, options);
    const answer = await once().catch((error) => {
      if (error instanceof Refused) throw error;
      return once();
    });
    return answer.status === 204 ? null : answer.json();
  }

  /** @param {string} path @param {Record<string, any>} query @param {AbortSignal} signal @param {(event: Told) => void} told */
  async follow(path, query, signal, told) {
    const answer = await this.ask(path, query, { signal, headers: { Accept: "text/event-stream" } });
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + value).replace(/\r\n/g, "\n").split("\n\n");
      rest = messages.pop() || "";
      messages.map(eventOf).forEach((event) => event && told(event));
    }
  }
}

/** @param {string} message @returns {Told | null} */
function eventOf(message) {
  /** @type {Record<string, string>} */
  const fields = {};
  for (const line of message.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) || [];
    if (name) fields[name] = name in fields ? `${fields[name]}\n${value}` : value;
  }
  return fields.data === undefined ? null : { id: fields.id || "", type: fields.event || "message", data: JSON.parse(fields.data) };
}
