/** Starts the page: finds where sessions come from, and follows the fragment of the address. */
import { button, fill, h, notice } from "./dom.js";
import { FileSource } from "./file_source.js";
import { List } from "./list.js";
import { SessionPage } from "./page.js";
import { ServerSource } from "./source.js";

const TOKEN = "treering-token";
const THEME = "treering-theme";

/** The token behind `#token=` or `&token=`; kept for this tab, and taken out of the address. */
function takeToken() {
  const [path, ...rest] = location.hash.replace(/^#(?=token=)/, "#&").split("&");
  const given = rest.find((part) => part.startsWith("token="));
  if (given) {
    sessionStorage.setItem(TOKEN, decodeURIComponent(given.slice("token=".length)));
    history.replaceState(null, "", path === "#" || !path ? "#/" : path);
  }
  return sessionStorage.getItem(TOKEN) || "";
}

/** Light, dark, or as the system is. */
function themeButton() {
  const root = document.documentElement;
  const themes = ["", "light", "dark"];
  const set = (/** @type {string} */ theme) => (theme ? root.setAttribute("data-theme", theme) : root.removeAttribute("data-theme"));
  set(stored(THEME));
  return button("Light or dark", () => {
    const next = themes[(themes.indexOf(root.getAttribute("data-theme") || "") + 1) % themes.length];
    set(next);
    notice(`Colours: ${next || "as the system has them"}.`);
    try {
      localStorage.setItem(THEME, next);
    } catch { /* a file may keep nothing */ }
  }, { icon: "theme", class: "theme" });
}

/** @param {string} name */
function stored(name) {
  try {
    return localStorage.getItem(name) || "";
  } catch {
    return "";
  }
}

class App {
  /** @param {import("./source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** @type {SessionPage | null} */
    this.page = null;
    /** @type {List | null} Kept, so that whoever comes back finds what was searched for, and where. */
    this.list = null;
    this.place = h("div.place");
    const brand = h("a.brand", { href: "#/" }, h("span.rings", { "aria-hidden": "true" }), "Treering");
    fill(document.body, h("header.top", {}, brand, source.readOnly && h("span.chip", {}, "read-only"), h("span.grow"), themeButton()), this.place);
    addEventListener("hashchange", () => this.go());
    // A page that the browser keeps for its back button must not keep its connections, of which there are six for a server.
    addEventListener("pagehide", () => this.page?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }

  /** Show what the address names. */
  async go() {
    const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    const route = parts[0] === "s" ? { key: parts[1], node: parts[2] === "n" ? parts.slice(3).join("/") : undefined, a: parts[2] === "compare" ? parts[3] : undefined, b: parts[2] === "compare" ? parts[4] : undefined } : { key: this.source.only };
    try {
      await this.show(route);
    } catch (error) {
      this.page?.close();
      this.page = null; // another place of the same session is shown on a page of its own
      const said = /** @type {any} */ (error);
      fill(this.place, h("main.failed", {}, h("h1", {}, said.status === 401 ? "This server asks for its token" : "This cannot be shown"), h("p", { role: "alert" }, said.status === 401 ? "Open the address that it printed when it was started; it ends in the token." : String(said.message)), h("a.button", { href: "#/" }, "Sessions")));
    }
  }

  /** @param {import("./page.js").Route} route */
  async show(route) {
    const moved = this.place.hasChildNodes(); // and not just loaded: then the focus begins where browsers begin
    if (this.page && route.key === this.page.session.key) return this.page.goTo(route);
    this.page?.close();
    this.page = null;
    if (!route.key) {
      this.list ??= new List(this.source);
      fill(this.place, this.list.element);
      return this.list.open();
    }
    this.page = new SessionPage(this.source, route.key);
    fill(this.place, this.page.element);
    await this.page.open(route);
    if (moved && document.activeElement === document.body) this.page.conversation.element.focus({ preventScroll: true });
    return undefined;
  }
}

async function start() {
  const source = FileSource.here() ?? new ServerSource(new URL(".", location.href).href, takeToken());
  await source.open().catch(() => undefined); // what is asked next tells why it failed
  return new App(source).go();
}

start();
