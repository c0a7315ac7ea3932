/** The labels of a session, and what is known of it as a whole. */
import { button, fill, h } from "./dom.js";
import { counted, number, shortId, sizeText, timeText } from "./words.js";

export class Labels {
  /**
   * @param {import("./session.js").Session} session
   * @param {{go: (node: string) => void, checkpoint: (id: string) => void}} told
   */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    this.element = h("div.panel-body");
  }

  async show() {
    const labels = await this.session.get("labels");
    const rows = Object.entries(labels).map(([name, label]) => h("li", {}, h("button.button.label-row", { type: "button", onclick: () => this.go(name) }, h("span.chip.label", {}, String(label)), h("span.hint", {}, shortId(name)))));
    fill(this.element, rows.length ? h("ul.plain-list", {}, rows) : h("p.hint", {}, "No message or checkpoint has a label."));
  }

  /** A label is on a node or on a checkpoint. @param {string} name */
  async go(name) {
    try {
      await this.session.get("tree/locate", { node: name });
    } catch {
      this.told.checkpoint(name);
      return;
    }
    this.told.go(name);
  }
}

export class About {
  /** @param {import("./session.js").Session} session @param {{go: (node: string) => void}} told */
  constructor(session, told) {
    this.session = session;
    this.told = told;
    this.element = h("div.panel-body");
  }

  async show() {
    const [card, problems] = await Promise.all([this.session.get("", { counts: true }), this.session.get("problems")]);
    const { info, counts } = card;
    /** @type {[string, any][]} */
    const facts = [
      ["Session", info.id], ["Namespace", (info.namespace || []).join(" / ")], ["Project", info.project], ["Folder", info.cwd], ["Status", info.status],
      ["Created", timeText(info.created_ms)], ["Active", timeText(info.updated_ms)], ["Model", [info.provider, info.model].filter(Boolean).join(" / ")],
      ["Nodes", number(info.nodes)], ["Messages", number(info.messages)], ["Checkpoints", number(info.checkpoints)], ["Branch ends", counts ? number(counts.leaves) : ""],
      ["Stored", counts?.stored.segment_bytes ? sizeText(counts.stored.segment_bytes) : ""],
      ["Held by", card.lease?.holder],
    ];
    fill(
      this.element,
      h("dl.facts", {}, facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
      section("Usage", card.usage),
      section("Settings", card.settings),
      card.open_calls?.length ? [h("h3", {}, "Calls without a result"), h("ul.plain-list", {}, card.open_calls.map((/** @type {any} */ call) => h("li", {}, button(`${call.name || "tool"} ${call.id}`, () => this.told.go(call.node)))))] : null,
      problems.length ? [h("h3", {}, counted(problems.length, "oddity").replace("ditys", "dities")), h("ul.plain-list", {}, problems.map((/** @type {any} */ each) => h("li", {}, button(`${each.kind} · ${shortId(each.node)}`, () => this.told.go(each.node)))))] : null,
    );
  }
}

/** @param {string} title @param {Record<string, any>} values */
function section(title, values) {
  const rows = Object.entries(values || {});
  return rows.length ? [h("h3", {}, title), h("dl.facts", {}, rows.map(([name, value]) => [h("dt", {}, name.replace(/_/g, " ")), h("dd", {}, typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value))]))] : null;
}
