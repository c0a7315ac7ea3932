/** What the model saw at a node: the context there, against the messages on the way to it. */
import { jsonBlock } from "./code.js";
import { fill, h } from "./dom.js";
import { fold, showPayload } from "./parts.js";
import { headlineOf } from "./shapes.js";
import { counted, firstLine, number, roleClass, roleName } from "./words.js";

const ITEMS_SHOWN = 300;
const PATH_MAX = 1000;

export class Seen {
  /**
   * @param {import("./session.js").Session} session
   * @param {{marks: (seen: {nodes: Set<string>, path: Set<string>} | null) => void, go: (node: string) => void}} told
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
    const [context, { ids }] = await Promise.all([this.session.get("context", { node }), this.session.get("path", { node, limit: PATH_MAX })]);
    if (this.node !== node) return undefined;
    const nodes = new Set(/** @type {string[]} */ (context.items.map((/** @type {any} */ item) => item.node)));
    this.told.marks({ nodes, path: new Set(ids) });
    return fill(this.element, this.summary(context, nodes, ids), this.items(context.items), this.settings(context));
  }

  /** @param {any} context @param {Set<string>} nodes @param {string[]} path */
  summary(context, nodes, path) {
    const out = path.filter((node) => !nodes.has(node)).length;
    const more = path.length === PATH_MAX ? " of the last thousand" : "";
    return [
      h("p.lead", {}, h("strong", {}, counted(context.items.length, "message")), " in the context; ", h("strong", {}, number(out)), `${more} on the way here left out.`),
      h("p.hint", {}, out ? "Dimmed messages in the conversation were left out: a compaction replaced them, or they are no messages to the model." : "Nothing on the way here was left out."),
      context.policy && h("p.hint", {}, `Chosen by ${context.policy}.`),
    ];
  }

  /** @param {{node: string, message: any}[]} items */
  items(items) {
    const shown = items.slice(-ITEMS_SHOWN);
    return [
      shown.length < items.length && h("p.hint", {}, `The last ${ITEMS_SHOWN} are shown.`),
      h("ol.context", {}, shown.map((item) => this.item(item))),
    ];
  }

  /** @param {{node: string, message: any}} item */
  item(item) {
    const role = item.message?.role ?? "item";
    const line = firstLine(headlineOf(item.message), 80);
    const content = () => [showPayload(item.message, (sha256) => this.session.blob(sha256)), h("button.button", { type: "button", onclick: () => this.told.go(item.node) }, "Show in the conversation")];
    return h("li", { "data-node": item.node }, fold(`item.${roleClass(role)}`, [h("span.fold-name", {}, roleName(role)), h("span.fold-line", {}, line)], content));
  }

  /** @param {any} context */
  settings(context) {
    const told = Object.entries(context.settings || {}).map(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]);
    const state = context.state && Object.keys(context.state).length ? fold("data", [h("span.fold-name", {}, "State"), h("span.fold-line", {}, Object.keys(context.state).join(", "))], () => jsonBlock(context.state, "State")) : null;
    return [told.length ? [h("h3", {}, "Settings"), h("dl.facts", {}, told)] : null, state && [h("h3", {}, "State of the agent"), state]];
  }
}
