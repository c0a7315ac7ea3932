/** Keeps what is seen where it is while things around it grow or shrink: a picture that came, a fold, a page of older messages. */

const NEAR_END = 80;

export class Anchor {
  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} list Its children are held.
   * @param {HTMLElement[]} growing Whatever else changes height in the scroller.
   * @param {() => boolean} whole Whether the end of the list is the end of all that there is.
   */
  constructor(scroller, list, growing, whole) {
    this.scroller = scroller;
    this.list = list;
    this.whole = whole;
    /** Whether the end stays in view. */
    this.end = true;
    this.last = 0;
    /** @type {HTMLElement | null} */
    this.held = null;
    this.top = 0;
    const watch = new ResizeObserver(() => this.restore());
    [scroller, list, ...growing].forEach((each) => watch.observe(each));
    scroller.addEventListener("scroll", () => this.note(), { passive: true });
    // Whoever opens something at the end wants to see it, and not what comes behind it.
    list.addEventListener("click", () => this.stay(), { capture: true });
  }

  /** Whether the end of the branch is on the screen. */
  atEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return this.whole() && scrollHeight - scrollTop - clientHeight < NEAR_END;
  }

  /** Note what is seen now. Only somebody who scrolls up leaves the end; what grows there does not. */
  note() {
    const { scrollTop } = this.scroller;
    if (!this.end || scrollTop < this.last - 1) this.end = this.atEnd();
    this.last = scrollTop;
    this.hold();
  }

  /** Stay where it is even at the end. */
  stay() {
    this.end = false;
    this.hold();
  }

  hold() {
    const edge = this.scroller.getBoundingClientRect().top;
    const children = /** @type {HTMLElement[]} */ ([...this.list.children]);
    this.held = children.find((each) => each.getBoundingClientRect().bottom > edge) ?? null;
    this.top = this.held ? this.offset(this.held) : 0;
  }

  /** @param {HTMLElement} element */
  offset(element) {
    return element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
  }

  /** What is held, or what was made of the same message in its place. @returns {HTMLElement | null} */
  place() {
    if (!this.held || this.held.isConnected) return this.held;
    const { node } = this.held.dataset;
    return node ? this.list.querySelector(`[data-node="${CSS.escape(node)}"]`) : null;
  }

  toEnd() {
    this.end = true;
    this.restore();
  }

  restore() {
    const place = this.place();
    if (this.end && this.whole()) this.scroller.scrollTop = this.scroller.scrollHeight;
    else if (place) this.scroller.scrollTop += this.offset(place) - this.top;
    this.last = this.scroller.scrollTop;
  }

  /** Change what is above without moving what is seen. @param {() => void} act */
  during(act) {
    if (!this.end) this.hold();
    act();
    this.restore();
  }
}
