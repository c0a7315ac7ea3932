/**
 * A session that is inside the page, as `treering export --format html` writes it. It answers what `ServerSource` answers
 * of one session, so the rest of the viewer does not know where its data come from. It cannot write, follow or list.
 */
import { answerOf } from "./file_answers.js";
import { Blocks } from "./file_blocks.js";
import { FileGraph } from "./file_graph.js";
import { FileStates } from "./file_states.js";
import { Refused } from "./source.js";

const VERSION = 1;
const KEY = "file";

export class FileSource {
  /** The source in this page; null: there is none. */
  static here() {
    return document.getElementById("treering-index") ? new FileSource() : null;
  }

  constructor() {
    this.blocks = new Blocks();
    this.readOnly = true;
    /** The only session there is. */
    this.only = KEY;
    /** @type {Record<string, any>} */
    this.features = {};
    /** @type {any} */
    this.index = null;
  }

  /** Read the index. */
  async open() {
    const index = await this.blocks.read("index");
    this.blocks.kept.delete("index");
    if (index.version > VERSION) throw new Refused(400, { message: `this page was written in version ${index.version} of its layout` });
    this.index = index;
    this.graph = new FileGraph(index);
    this.states = new FileStates(index, this.blocks, this.graph);
    this.checkpointNumbers = new Map(index.checkpoints.map((/** @type {string} */ id, /** @type {number} */ number) => [id, number]));
  }

  /** @param {string} path @param {Record<string, any>} [query] @returns {Promise<any>} */
  async get(path, query = {}) {
    const [, key, what = "", name = ""] = /^sessions\/([^/]+)(?:\/(tree\/locate|[a-z-]+)(?:\/(.*))?)?$/.exec(path) || [];
    const answer = key === KEY && answerOf(name && what === "checkpoints" ? "checkpoint" : what);
    if (!answer) throw new Refused(404, { message: "this page does not have that" });
    return answer(this, query, decodeURIComponent(name));
  }

  /** @param {string} _ @param {string} sha256 */
  async blob(_, sha256) {
    const found = await this.blocks.bytes(`blob-${sha256}`);
    if (found) return found;
    throw new Refused(404, { message: this.index.images_left_out.includes(sha256) ? "left out of this file" : "not in this file" });
  }

  /** Never: what happened later is not in the file. @returns {Promise<any>} */
  async send() {
    throw new Refused(403, { message: "a file cannot be changed from its page" });
  }

  /** Likewise. @returns {Promise<any>} */
  async follow() {
    throw new Refused(404, { message: "a file has no news" });
  }

  /** @param {string} id */
  number(id) {
    const number = /** @type {FileGraph} */ (this.graph).number(id);
    if (number < 0) throw new Refused(404, { message: `no such node: ${id}` });
    return number;
  }

  /** @param {string} id */
  checkpointNumber(id) {
    const number = this.checkpointNumbers?.get(id);
    if (number === undefined || this.states?.hidden.has(number)) throw new Refused(404, { message: `no such checkpoint: ${id}` });
    return number;
  }

  /** @param {number} number @returns {Promise<any>} */
  entry(number) {
    return this.blocks.entry("nodes", this.index.blocks.nodes, number);
  }

  /** Checkpoints that lists show, oldest first. @returns {number[]} */
  listed() {
    return this.index.checkpoints.map((/** @type {string} */ _, /** @type {number} */ number) => number).filter((/** @type {number} */ number) => !this.states?.hidden.has(number));
  }

  /** @param {number[]} numbers */
  async infos(numbers) {
    return Promise.all(numbers.map(async (number) => (await this.states?.form(number)).info));
  }

  /** What there is at a checkpoint or a node. @param {string} name */
  async point(name) {
    const states = /** @type {FileStates} */ (this.states);
    return this.checkpointNumbers?.has(name) ? states.checkpoint(this.checkpointNumber(name)) : states.at(this.number(name));
  }
}
