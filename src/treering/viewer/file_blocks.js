/** The blocks of data in a page that was exported; docs/reference/page.md describes them. */
import { fromBase64 } from "./parts.js";

/** Blocks that are kept unpacked: those of what is on the screen, and a few before. */
const KEPT_MAX = 48;

export class Blocks {
  constructor() {
    /** @type {Map<string, Promise<any>>} */
    this.kept = new Map();
  }

  /** The bytes of a block; null if the page has none of that name. @param {string} name @returns {Promise<Blob | null>} */
  async bytes(name) {
    const element = document.getElementById(`treering-${name}`);
    if (!element) return null;
    const packed = new Blob([fromBase64(element.textContent || "")]);
    if (element.getAttribute("data-form") === "plain") return packed;
    return new Response(packed.stream().pipeThrough(new DecompressionStream("deflate"))).blob();
  }

  /** What a block of JSON holds. @param {string} name @returns {Promise<any>} */
  read(name) {
    const found = this.kept.get(name) ?? this.bytes(name).then(async (blob) => JSON.parse(await /** @type {Blob} */ (blob).text()));
    this.kept.delete(name);
    this.kept.set(name, found);
    while (this.kept.size > KEPT_MAX) this.kept.delete(this.kept.keys().next().value ?? "");
    return found;
  }

  /**
   * An entry of the blocks of a kind.
   * @param {string} kind
   * @param {number[]} firsts By block: its first entry.
   * @param {number} number
   */
  async entry(kind, firsts, number) {
    let [low, high] = [0, firsts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (firsts[middle] <= number) low = middle;
      else high = middle - 1;
    }
    return (await this.read(`${kind}-${low}`))[number - firsts[low]];
  }
}
