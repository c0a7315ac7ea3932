/** What people do on the page where the server lets them: say something, edit, branch, label, rewind. */
import { button, h, notice } from "./dom.js";
import { partsOf } from "./shapes.js";
import { Refused } from "./source.js";

/** @typedef {import("./message.js").HistoryRow} HistoryRow */

let fields = 0;

/**
 * Ask for a text in a dialog.
 * @param {string} title
 * @param {string} text What stands there at first.
 * @param {{long?: boolean, done?: string, empty?: boolean, before?: string}} [options] `before`: a text that is shown above the field.
 * @returns {Promise<string | null>} Null: it was closed.
 */
export function askText(title, text, { long = false, done = "Save", empty = false, before = "" } = {}) {
  const id = `field-${++fields}`;
  const field = /** @type {HTMLInputElement | HTMLTextAreaElement} */ (long ? h("textarea", { id, rows: 8 }) : h("input", { id, type: "text" }));
  field.value = text;
  const content = [h("label", { for: id }, title), before && h("div.ask-before", { tabindex: 0, role: "group", "aria-label": "So far" }, before), field];
  return ask(title, content, { done, field, value: () => (field.value.trim() || empty ? field.value : null) });
}

/** Ask whether something shall be done. @param {string} title @param {string} said @param {string} done */
async function confirm(title, said, done) {
  return (await ask(title, [h("h2", {}, title), h("p", {}, said)], { done, value: () => done })) !== null;
}

/**
 * Show a dialog; the focus returns to where it was.
 * @param {string} title
 * @param {any} content
 * @param {{done: string, value: () => string | null, field?: HTMLElement}} options `value`: null says that it is not complete.
 * @returns {Promise<string | null>} Null: it was closed.
 */
function ask(title, content, { done, value, field }) {
  return new Promise((resolve) => {
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog.ask", { "aria-label": title, onclose: () => { dialog.remove(); resolve(null); } }));
    const finish = () => {
      const given = value();
      if (given === null) return;
      resolve(given);
      dialog.close();
    };
    const yes = h("button.button.primary", { type: "submit" }, done);
    dialog.append(h("form", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); finish(); } }, content, h("div.actions", {}, button("Cancel", () => dialog.close()), yes)));
    field?.addEventListener("keydown", (event) => { if (sends(event)) finish(); });
    document.body.append(dialog);
    dialog.showModal();
    (field ?? yes).focus();
  });
}

/** Whether a key in a text sends it. @param {KeyboardEvent} event */
function sends(event) {
  return event.key === "Enter" && (event.ctrlKey || event.metaKey);
}

/** The text of a message, if it is nothing else. @param {any} payload */
export function editableText(payload) {
  const parts = partsOf(payload);
  return parts.length === 1 && parts[0].kind === "text" && typeof parts[0].text === "string" ? parts[0].text : null;
}

/** Writes of one session; each tells what came of it, and the page shows it when it is told by the server. */
export class Writing {
  /**
   * @param {import("./session.js").Session} session
   * @param {{show: (leaf: string, at?: string) => Promise<void>, refresh: () => Promise<void>}} page
   */
  constructor(session, page) {
    this.session = session;
    this.page = page;
  }

  /** @param {() => Promise<void>} act @returns {Promise<boolean>} Whether it was done. */
  async attempt(act) {
    try {
      await act();
      return true;
    } catch (error) {
      const taken = error instanceof Refused && error.type === "HeadMovedError";
      notice(taken ? "At the same moment somebody else went on from here. Nothing is lost: look at what is new, then do it again." : String(/** @type {Error} */ (error).message), true);
      return false;
    }
  }

  /** Write, and then show what came of it; if that fails, what was written is not written again. @template T @param {() => Promise<T>} send @param {(made: T) => Promise<void>} show @returns {Promise<boolean>} Whether it was written. */
  async write(send, show) {
    let made = /** @type {any} */ (null);
    if (!(await this.attempt(async () => { made = await send(); }))) return false;
    await this.attempt(() => show(made));
    return true;
  }

  /** @param {HistoryRow} row */
  async edit(row) {
    let text = /** @type {string | null} */ (editableText(row.node.payload) ?? "");
    let made = /** @type {any} */ (null);
    while (!made) {
      text = await askText("Edit the message: it becomes another version", text, { long: true });
      if (text === null) return;
      await this.attempt(async () => { made = await this.session.send("POST", `nodes/${encodeURIComponent(row.node.id)}/edit`, { text }); });
    }
    await this.attempt(() => this.page.show(made.nodes.at(-1), made.nodes.at(-1)));
  }

  /** @param {HistoryRow} row */
  async branch(row) {
    const head = await askText("Name of the new branch, which goes on from this message", "", { done: "Branch" });
    if (head === null) return;
    await this.write(() => this.session.send("POST", "branch", { head: head.trim(), node: row.node.id }), async () => {
      await this.page.show(row.node.id);
      notice(`You are on ${head.trim()}.`);
    });
  }

  /** @param {HistoryRow} row */
  async regenerate(row) {
    await this.write(() => this.session.send("POST", `nodes/${encodeURIComponent(row.node.id)}/regenerate`), async (made) => {
      await this.page.show(made.node);
      notice(`Branch ${made.head} is ready for another answer.`);
    });
  }

  /** @param {string} name Of a node or checkpoint. @param {string} old */
  async label(name, old) {
    const label = await askText("Label (empty: none)", old, { empty: true });
    if (label === null) return;
    await this.attempt(async () => {
      await this.session.send("POST", `nodes/${encodeURIComponent(name)}/label`, { label: label.trim() || null });
      await this.page.refresh();
    });
  }

  /** @param {HistoryRow} row */
  async retract(row) {
    await this.attempt(async () => {
      await this.session.send("POST", `nodes/${encodeURIComponent(row.node.id)}/${row.node.retracted ? "unretract" : "retract"}`);
      await this.page.refresh();
    });
  }

  /** Write the rest of an answer whose writer is gone. @param {string} stream @param {number} offset @param {string} text What there is of it. */
  async proceed(stream, offset, text) {
    const rest = await askText("Go on where the answer ends", "", { long: true, done: "Finish the answer", before: text });
    if (rest === null) return;
    await this.attempt(async () => {
      await this.session.send("POST", `streams/${stream}/pieces`, { offset, text: rest, flush: true });
      await this.session.send("POST", `streams/${stream}/end`, { outcome: "complete" });
      await this.page.refresh();
    });
  }

  /** @param {string} stream */
  async keep(stream) {
    await this.attempt(async () => {
      await this.session.send("POST", `streams/${stream}/keep`);
      await this.page.refresh();
    });
  }

  /** @param {string} stream */
  async discard(stream) {
    if (!(await confirm("Discard this answer?", "What there is of it is deleted for good.", "Discard"))) return;
    await this.attempt(async () => {
      await this.session.send("POST", `streams/${stream}/discard`);
      await this.page.refresh();
    });
  }

  /** @param {string} checkpoint */
  async rewind(checkpoint) {
    await this.attempt(async () => {
      await this.session.send("POST", "rewind", { checkpoint });
      const card = await this.session.open();
      if (card.node) await this.page.show(card.node);
      notice("Rewound: the session goes on from this checkpoint.");
    });
  }

  /** @param {string} head */
  async switch(head) {
    await this.attempt(async () => {
      await this.session.send("POST", "switch", { head });
      await this.page.refresh();
      notice(`The session stands on ${head} now.`);
    });
  }

  /**
   * The field below a conversation. It goes on from the end that is shown: on the head that stands there, or else on a branch.
   * @param {() => string | null} leaf
   */
  composer(leaf) {
    const field = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 1, "aria-label": "Message", placeholder: "Go on from here…", title: "Ctrl+Enter sends" }));
    const send = button("Send", () => this.say(field, leaf()), { class: "primary" });
    field.addEventListener("keydown", (event) => { if (sends(event)) this.say(field, leaf()); });
    return h("form.composer", { onsubmit: (/** @type {Event} */ event) => event.preventDefault() }, field, send);
  }

  /** @param {HTMLTextAreaElement} field @param {string | null} leaf */
  async say(field, leaf) {
    const content = field.value;
    if (!content.trim() || field.readOnly) return;
    field.readOnly = true;
    const done = await this.write(async () => {
      const heads = Object.entries((await this.session.open()).heads || {});
      const there = heads.filter(([, node]) => node === leaf).map(([name]) => name);
      const head = there.find((name) => name === this.session.card?.head) ?? there[0];
      const place = leaf === null ? {} : head ? { head, expect: leaf } : { parent: leaf };
      return this.session.send("POST", "messages", { messages: [{ role: "user", content }], ...place });
    }, (made) => this.page.show(made.nodes.at(-1)));
    field.readOnly = false;
    if (done) field.value = "";
    field.focus();
  }
}
