/** The nodes of a page that was exported, by numbers: who follows whom, without what was said. */

export class FileGraph {
  /** @param {{ids: string[], parents: number[], retracted: number[]}} index */
  constructor({ ids, parents, retracted }) {
    this.ids = ids;
    this.parents = Int32Array.from(parents);
    this.retracted = new Set(retracted);
    const count = ids.length;
    /** By node, and at the end for the roots: the first child, and behind it the sibling that was recorded next. */
    this.first = new Int32Array(count + 1).fill(-1);
    this.next = new Int32Array(count).fill(-1);
    const last = new Int32Array(count + 1).fill(-1);
    for (let number = 0; number < count; number += 1) {
      const parent = this.parents[number] < 0 ? count : this.parents[number];
      if (last[parent] < 0) this.first[parent] = number;
      else this.next[last[parent]] = number;
      last[parent] = number;
    }
    /** @type {Map<string, number> | null} */
    this.numbers = null;
  }

  /** The number of a node, or -1. @param {string} id */
  number(id) {
    this.numbers ??= new Map(this.ids.map((each, number) => [each, number]));
    return this.numbers.get(id) ?? -1;
  }

  /** Children in the order they were recorded; those of -1 are the roots. @param {number} number */
  children(number) {
    const found = [];
    for (let child = this.first[number < 0 ? this.ids.length : number]; child >= 0; child = this.next[child]) found.push(child);
    return found;
  }

  /** @param {number} number @param {boolean} [retracted] With those that are hidden. */
  siblings(number, retracted = true) {
    const all = this.children(this.parents[number]);
    return retracted ? all : all.filter((each) => !this.retracted.has(each));
  }

  /** The end of the branch to show below a node. @param {number} number */
  leaf(number) {
    for (;;) {
      const children = this.children(number);
      if (!children.length) return number;
      number = children.findLast((each) => !this.retracted.has(each)) ?? children[children.length - 1];
    }
  }

  /** Whether a node is another one, or descends from it. @param {number} number @param {number} above */
  isBelow(number, above) {
    let at = number;
    while (at >= 0 && at !== above) at = this.parents[at];
    return at >= 0;
  }

  /** From a root down to a node. @param {number} number */
  path(number) {
    const found = [];
    for (let at = number; at >= 0; at = this.parents[at]) found.push(at);
    return found.reverse();
  }

  /**
   * A page of a branch, newest first.
   * @param {number} start -1: none.
   * @param {number} limit
   * @param {boolean} retracted
   * @returns {{numbers: number[], more: boolean}}
   */
  page(start, limit, retracted) {
    const numbers = [];
    for (let at = start; at >= 0; at = this.parents[at]) {
      if (!retracted && this.retracted.has(at)) continue;
      if (numbers.length === limit) return { numbers, more: true };
      numbers.push(at);
    }
    return { numbers, more: false };
  }
}
