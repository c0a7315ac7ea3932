/** Elements, made without any HTML text: what users and models wrote can only become text. */

/**
 * Make an element.
 * @param {string} tag Name, with classes behind dots: `div.row.wide`.
 * @param {Record<string, any>} [attributes] `on...` are listeners; true is an empty attribute; false, null and undefined are none.
 * @param {...any} children Nodes, texts, lists of them; null, undefined and false are left out.
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

/**
 * Append children to a node.
 * @param {Node} parent
 * @param {any} child A node, a text, a list of them, or nothing.
 */
export function put(parent, child) {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach((each) => put(parent, each));
  else parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
}

/**
 * Put other children in the place of those that there are.
 * @param {Element} parent
 * @param {...any} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  put(parent, children);
}

/** Make a parent have these children in this order; those that are there already are not moved. @param {Element} parent @param {HTMLElement[]} children */
export function putInOrder(parent, children) {
  const wanted = new Set(/** @type {Element[]} */ (children));
  for (const child of [...parent.childNodes]) if (!wanted.has(/** @type {Element} */ (child))) child.remove();
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
}

const SVG = "http://www.w3.org/2000/svg";
/** Paths on a grid of 16 by 16. */
const ICONS = {
  left: "M10 3 5 8l5 5",
  right: "m6 3 5 5-5 5",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  tree: "M4 2v12M4 6c0 3 8 1 8 5v3",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8ZM8 6.2v3.6M6.2 8h3.6",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2ZM8 5v3.2l2.2 1.3",
  compare: "M5.5 3v10M5.5 13 3 10.5M5.5 13 8 10.5M10.5 13V3M10.5 3 8 5.5M10.5 3 13 5.5",
  tag: "M2.5 2.5h5l6 6-5 5-6-6zM5.3 5.3h.01",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.4 10.4 14 14",
  down: "M8 3v9M4 8.5 8 12.5l4-4",
  close: "m4 4 8 8M12 4l-8 8",
  info: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2ZM8 7.4v3.6M8 5h.01",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
};

/**
 * Make an icon; it says nothing to screen readers, so its button needs a name.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.appendChild(path);
  return svg;
}

/**
 * Make a button.
 * @param {string} name What it does, for people.
 * @param {(event: Event) => void} act
 * @param {{icon?: keyof typeof ICONS, text?: boolean, class?: string} & Record<string, any>} [options] With `icon` and without `text` only the icon is seen.
 */
export function button(name, act, { icon: picture, text = !picture, class: classes = "", ...rest } = {}) {
  const label = text ? {} : { "aria-label": name, title: name };
  return h(`button.button${classes ? `.${classes}` : ""}`, { type: "button", onclick: act, ...label, ...rest }, picture && icon(picture), text && h("span", {}, name));
}

let notices = 0;

/**
 * Tell something at the edge of the window; screen readers say it.
 * @param {string} text
 * @param {boolean} [bad]
 */
export function notice(text, bad = false) {
  let place = document.getElementById("notices");
  if (!place) {
    place = h("div", { id: "notices", role: "status", "aria-live": "polite" });
    document.body.appendChild(place);
  }
  const told = h(`div.notice${bad ? ".bad" : ""}`, { id: `notice-${++notices}` }, h("span", {}, text), button("Dismiss", () => told.remove(), { icon: "close" }));
  place.appendChild(told);
  if (!bad) setTimeout(() => told.remove(), 6000);
}
