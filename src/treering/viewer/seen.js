/** What the model saw at a node: the context there, a page at a time, and which messages on the way were left out. */
import { jsonBlock } from "./code.js";
import { button, fill, h, notice } from "./dom.js";
import { fold, showPayload } from "./parts.js";
import { headlineOf } from "./shapes.js";
import { counted, firstLine, number, roleClass, roleName, shortId } from "./words.js";

const PAGE = 60;
const RUNS_SHOWN = 20;

/** @typedef {{first: string, last: string, at: [number, number], count: number}} Run */

/** Which messages of a branch the model saw at one of its nodes. */
export class Marks {
  /** @param {number} at Position of that node in the journal. @param {Run[]} runs What was left out. */
  constructor(at, runs) {
    this.at = at;
    this.runs = runs;
  }

  /** @param {import("./message.js").Node_} node @returns {"" | "later" | "unseen" | "was-seen"} */
  placeOf(node) {
    if (node.at > this.at) return "later";
    if (node.kind === "compaction") return "was-seen";
    if (node.kind !== "message" && node.kind !== "custom_message") return "";
    return this.runs.some((run) => run.at[0] <= node.at && node.at <= run.at[1]) ? "unseen" : "was-seen";
  }
}

export class Seen {
  /**
   * @param {import("./session.js").Session} session
   * @param {{marks: (seen: Marks | null) => void, at: (node: string) => Promise<number>, go: (node: string) => void}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    this.node = "";
    this.element = h("div.panel-body");
  }

  /** @param {string} node */
  async show(node) {
    this.node = node;
    if (!node) return fill(this.element, h("p.hint", {}, "Choose a message to see what the model saw there."));
    const context = await this.session.get("context", { node, limit: PAGE });
    const runs = context.left_out.runs.slice(-RUNS_SHOWN);
    const said = runs.length ? await this.session.previews(runs.map((/** @type {Run} */ run) => run.first)) : {};
    const at = await this.told.at(node);
    if (this.node !== node) return undefined;
    this.told.marks(new Marks(at, context.left_out.runs));
    return fill(this.element, this.summary(context), this.leftOut(context.left_out, runs, said), h("h3", {}, "In the context"), this.items(context), this.settings(context));
  }

  /** @param {any} context */
  summary({ total, left_out: { messages }, policy }) {
    return [
      h("p.lead", {}, h("strong", {}, counted(total, "message")), " in the context; ", messages ? [h("strong", {}, number(messages)), " on the way here left out."] : "nothing on the way here was left out."),
      policy && h("p.hint", {}, `Chosen by ${policy}.`),
    ];
  }

  /** @param {any} leftOut @param {Run[]} runs The last ones. @param {Record<string, string>} said */
  leftOut(leftOut, runs, said) {
    if (!runs.length) return null;
    const rows = runs.map((run) => h("li", {}, h("button.button.run-row", { type: "button", onclick: () => this.told.go(run.first) }, h("strong", {}, counted(run.count, "message")), h("span.fold-line", {}, `from “${firstLine(said[run.first] || shortId(run.first), 60)}”`))));
    return [
      h("h3", {}, "Left out"),
      h("p.hint", {}, "Replaced by a summary, retracted, or not chosen. They are dimmed in the conversation."),
      runs.length < leftOut.runs.length && h("p.hint", {}, `The last ${RUNS_SHOWN} of ${number(leftOut.runs.length)}${leftOut.complete ? "" : " or more"} stretches:`),
      h("ul.plain-list", {}, rows),
    ];
  }

  /** @param {any} context */
  items(context) {
    const list = h("ol.context", {}, context.items.map((/** @type {any} */ item) => this.item(item)));
    let { before } = context;
    const { node } = this;
    const more = button("Earlier messages of the context", async () => {
      try {
        const asked = before;
        const page = await this.session.get("context", { node, limit: PAGE, before });
        if (asked !== before) return; // it was asked for twice
        list.prepend(...page.items.map((/** @type {any} */ item) => this.item(item)));
        before = page.before;
        more.hidden = before === null;
      } catch (error) {
        notice(String(/** @type {Error} */ (error).message), true);
      }
    });
    more.hidden = before === null;
    return [more, list];
  }

  /** @param {{node: string, message: any}} item */
  item(item) {
    const role = item.message?.role ?? "item";
    const line = firstLine(headlineOf(item.message), 80);
    const content = () => [showPayload(item.message, (sha256) => this.session.blob(sha256)), h("div", {}, button("Show in the conversation", () => this.told.go(item.node)))];
    return h("li", { "data-node": item.node }, fold(`item.${roleClass(role)}`, [h("span.fold-name", {}, roleName(role)), h("span.fold-line", {}, line)], content));
  }

  /** @param {any} context */
  settings(context) {
    const told = Object.entries(context.settings || {}).map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]);
    const state = context.state && Object.keys(context.state).length ? fold("data", [h("span.fold-name", {}, "State"), h("span.fold-line", {}, Object.keys(context.state).join(", "))], () => jsonBlock(context.state, "State")) : null;
    return [told.length ? [h("h3", {}, "Settings"), h("dl.facts", {}, told)] : null, state && [h("h3", {}, "State of the agent"), state]];
  }
}
