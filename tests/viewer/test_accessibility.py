"""Everybody can use the page: rules of axe on each of its states, the keyboard, and where the focus goes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tests.sampling import WHOLE
from tests.server.clients import Serving
from tests.server.forked import serving
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address
from tests.viewer.killed import killed_writer
from tests.viewer.sample import Sample, record

import treering
from treering.exporters import export_page

WIDE, NARROW = (1280, 900), (390, 844)
LIGHT_AND_DARK = ("light", "dark")


def axe() -> str:
    """The script of axe-core, of a package of which nothing else is used."""
    found = find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("axe.min.js").read_text()


RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then(
  ({violations}) => done(violations.flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html.slice(0, 200)}`))),
  (error) => done([String(error)]),
);
"""


class Writable(NamedTuple):
    """A server on which everything can be changed, of a store with everything."""

    server: Serving
    sample: Sample
    folder: Path


@pytest.fixture(scope="module")
def full(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writable]:
    """The session that has everything, one whose writer was killed, and one in which something was left open."""
    folder = tmp_path_factory.mktemp("accessible") / "store"
    with treering.open(folder) as store:
        sample = record(store)
        with store.session("lost") as session:
            session.append(treering.user("which way?"))
            session.stream().stop()
    killed_writer(folder, "lost", "First to the river, then")
    with serving(folder) as server:
        yield Writable(server, sample, folder)
        chromium.driver.get("about:blank")


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """A browser whose window and colours a test sets."""
    yield browser
    browser.driver.get("about:blank")
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def look(browser: Browser, size: tuple[int, int], scheme: str) -> None:
    """Set the size of the window and the colours that the system asks for."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def states(browser: Browser, full: Writable) -> Iterator[str]:
    """Bring the page into each of its states, and name it."""
    server, sample, _ = full
    browser.open(address(server))
    browser.see(".card")
    yield "list"
    browser.type("#search", "changelog")
    browser.see("section[aria-label='Found in messages'] .card")
    yield "search"
    yield from conversation(browser, address(server, f"#/s/shop/n/{sample.end}"))
    browser.press(".menu-item", "Label")
    browser.see("dialog input")
    yield "dialog"
    browser.press("dialog button", "Cancel")
    browser.gone("dialog")
    yield from panels(browser)
    browser.open(address(server, f"#/s/shop/compare/{sample.end}/{sample.edited}"))
    browser.see("section.side[aria-label='Branch B']", "say in the changelog")
    yield "two branches"
    browser.open(address(server, "#/s/lost"))
    browser.see("article.open .left-open", "its writer is gone")
    yield "open answer"
    browser.type("form.composer textarea", "and then?")
    yield "composer"
    browser.press("article.open button", "Continue")
    browser.see("dialog textarea")
    yield "dialog with a text"
    browser.open(address(server, "#/s/never"))
    browser.see("main.failed")
    browser.problems()
    yield "failed"


def conversation(browser: Browser, page: str) -> Iterator[str]:
    """Open a conversation at a message, what is folded there, the tree beside it and a menu, and name each."""
    browser.open(page)
    browser.see("article.selected")
    yield "conversation"
    browser.driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    yield "unfolded"
    browser.driver.execute_script("document.querySelector('.session').classList.remove('no-tree')")
    browser.see(".tree-row", "Compaction")
    yield "tree"
    browser.driver.execute_script("document.querySelector('article.selected .menu-button').click()")
    browser.see(".menu-item")
    yield "menu"


def panels(browser: Browser) -> Iterator[str]:
    """Open each of the panels, and name it."""
    shown = {
        "seen": "ol.context li",
        "checkpoints": "#panel input[type=range]",
        "compare": "#panel select",
        "labels": ".label-row",
        "about": "#panel dl",
    }
    for panel, there in shown.items():
        browser.press(f"#tab-{panel}")
        browser.see(there)
        yield panel


def states_of_file(browser: Browser, page: Path, sample: Sample) -> Iterator[str]:
    """Bring a page that was exported into each of its states, and name it."""
    yield from conversation(browser, f"{page.as_uri()}#/s/file/n/{sample.end}")
    browser.driver.execute_script("document.getElementById('menu').hidePopover()")
    yield from panels(browser)
    browser.driver.execute_script(f"location.hash = '#/s/file/compare/{sample.end}/{sample.edited}'")
    browser.see("section.side[aria-label='Branch B']", "say in the changelog")
    yield "two branches"


def breaches(browser: Browser, states: Iterator[str], size: tuple[int, int]) -> tuple[list[str], dict[object, object]]:
    """The states that were seen, and which rules of axe each of them breaks in which colours.

    Each state is looked at in both colours, in one of them on a wide and in the other on a narrow window; with
    `make whole` in both on each.
    """
    look(browser, size, "light")
    source, found = axe(), {}
    seen: list[str] = []
    for state in states:
        if not browser.driver.execute_script("return Boolean(window.axe)"):
            browser.driver.execute_script(source)
        turn = (len(seen) + (size == NARROW)) % 2
        seen.append(state)
        for scheme in LIGHT_AND_DARK if WHOLE else LIGHT_AND_DARK[turn : turn + 1]:
            look(browser, size, scheme)
            if broken := browser.driver.execute_async_script(RUN):
                found[state, scheme] = broken
        assert browser.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), state
    return seen, dict(found)


@pytest.mark.parametrize("size", [WIDE, pytest.param(NARROW, marks=pytest.mark.whole)], ids=["wide", "narrow"])
@pytest.mark.slow
def test_no_state_of_the_page_breaks_a_rule(page: Browser, full: Writable, size: tuple[int, int]) -> None:
    """Axe finds no violation on any state of the page, in light and dark, on a wide and on a narrow window."""
    seen, found = breaches(page, states(page, full), size)
    assert found == {}
    assert len(seen) == 17


@pytest.mark.parametrize("size", [pytest.param(WIDE, marks=pytest.mark.whole), NARROW], ids=["wide", "narrow"])
def test_no_state_of_an_exported_page_breaks_a_rule(
    page: Browser, full: Writable, size: tuple[int, int], tmp_path: Path
) -> None:
    """Nor does the same page with the session in it, opened from the disk."""
    with treering.open(full.folder) as store:
        export_page(store.view("shop"), tmp_path / "shop.html")
    seen, found = breaches(page, states_of_file(page, tmp_path / "shop.html", full.sample), size)
    assert found == {}
    assert len(seen) == 10


def test_axe_notices_what_is_broken(page: Browser, full: Writable) -> None:
    """A button without a name and grey on white are found, so an empty result says something."""
    page.open(address(full.server))
    page.see(".card")
    page.driver.execute_script(axe())
    page.driver.execute_script(
        "const bad = document.createElement('button'); document.querySelector('main').append(bad);"
        "document.querySelector('h1').style.color = '#999'"
    )
    found = [each.partition(":")[0] for each in page.driver.execute_async_script(RUN)]
    assert {"button-name", "color-contrast"} <= set(found)


def focused(browser: Browser) -> str:
    """What has the focus, as a screen reader names it."""
    script = (
        "const at = document.activeElement;"
        "return at.getAttribute('aria-label') || at.innerText || at.getAttribute('placeholder') || at.tagName"
    )
    return str(browser.driver.execute_script(script))


def keys(browser: Browser, *each: str) -> None:
    """Press keys, one after the other, wherever the focus is."""
    ActionChains(browser.driver).send_keys(*each).perform()


def tab_to(browser: Browser, name: str, most: int = 60) -> None:
    """Press Tab until something with a name has the focus; each stop on the way is visible, and marked as focused."""
    for _ in range(most):
        keys(browser, Keys.TAB)
        at = focused(browser)
        outlined = browser.driver.execute_script(
            "const at = document.activeElement; if (at === document.body) return true;"
            "const box = at.getBoundingClientRect(); const style = getComputedStyle(at);"
            "return box.width > 0 && (style.outlineStyle !== 'none' || Boolean(at.closest('.composer:focus-within')))"
        )
        assert outlined, f"no focus is seen on {at!r}"
        if at.startswith(name):
            return
    raise AssertionError(f"Tab does not lead to {name!r}")


def test_a_session_is_opened_and_read_by_keys_alone(page: Browser, full: Writable) -> None:
    """From the search to a card, into the conversation, to another version, the tree and a panel, and back."""
    page.open(address(full.server))
    page.see(".card", "Fix the total of the cart")
    page.until(lambda _: focused(page) == "Search")
    tab_to(page, "Fix the total of the cart")
    keys(page, Keys.ENTER)
    page.see("article.message", "says it now")
    page.until(lambda _: focused(page) == "Messages")
    page.driver.execute_script(f"location.hash = '#/s/shop/n/{full.sample.second}'")
    page.until(lambda _: focused(page).endswith("version 1 of 3"))
    keys(page, Keys.ARROW_RIGHT)
    page.until(lambda _: focused(page).endswith("version 2 of 3"))
    page.see("article.selected", "say in the changelog")
    keys(page, Keys.ARROW_UP)
    page.until(lambda _: focused(page).startswith("Assistant"))
    tab_to(page, "More about this message")
    keys(page, Keys.ENTER)
    page.until(lambda _: focused(page) == "What the model saw here")
    keys(page, Keys.ARROW_DOWN, Keys.ESCAPE)
    page.until(lambda _: focused(page) == "More about this message")


def test_the_tree_and_the_panels_are_used_by_keys(page: Browser, full: Writable) -> None:
    """Arrows move in the tree and Enter goes there; arrows move among the tabs; Escape closes the panel."""
    page.open(address(full.server, f"#/s/shop/n/{full.sample.end}"))
    page.see("article.selected", "says it now")
    page.see(".tree-row.chosen")
    page.driver.execute_script("document.querySelector('.tree').focus()")
    keys(page, Keys.HOME, Keys.ARROW_DOWN, Keys.ENTER)
    page.see("article.selected", "say in the changelog")
    page.driver.execute_script("document.querySelector('#tab-seen').focus()")
    keys(page, Keys.ENTER)
    page.see("#panel", "in the context")
    keys(page, Keys.ARROW_RIGHT)
    page.see("#panel input[type=range]")
    page.until(lambda _: focused(page) == "Checkpoints")
    tab_to(page, "Close")
    keys(page, Keys.ESCAPE)
    page.gone("#panel")
    assert focused(page) == "Checkpoints"


@pytest.mark.parametrize("leave", [Keys.ESCAPE, Keys.ENTER], ids=["cancel", "save"])
def test_the_focus_returns_after_a_dialog(page: Browser, own: Own, leave: str) -> None:
    """After a label was given or not, the focus is at the message whose menu was used."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("to the sea?"))
    page.open(address(server, "#/s/s"))
    page.menu("to the sea?", "Label")
    page.see("dialog input")
    assert page.driver.execute_script("return document.activeElement.tagName") == "INPUT"
    keys(page, "a trip", leave)
    page.gone("dialog")
    if leave == Keys.ENTER:
        page.see("article .chip.label", "a trip")
    page.until(lambda _: focused(page) == "More about this message")


def test_what_lies_over_a_narrow_window_is_opened_and_closed(page: Browser, full: Writable) -> None:
    """On a narrow window the tree is hidden at first; it takes the focus when it opens, and Escape gives it back."""
    look(page, NARROW, "dark")
    page.open(address(full.server, f"#/s/shop/n/{full.sample.end}"))
    page.see("article.message", "says it now")
    page.gone(".tree-side")

    page.press("button[aria-label='Branches']")
    page.see(".tree-row", "Compaction")

    keys(page, Keys.ESCAPE)
    page.gone(".tree-side")
    assert focused(page) == "Branches"
    page.press("button[aria-label='Branches']")
    page.press(".tree-row", "say in the changelog")
    page.see("article.selected", "say in the changelog")
    page.gone(".tree-side")


def test_who_comes_back_to_the_list_finds_the_search_and_the_card(page: Browser, full: Writable) -> None:
    """The words that were searched for are still there, and the focus is at the card that was opened."""
    page.open(address(full.server))
    page.type("#search", "turning")
    page.type("#search", "Fix the total")
    page.until(lambda _: len(page.all(".list > .cards .card")) == 1)
    tab_to(page, "Fix the total of the cart")
    keys(page, Keys.ENTER)
    page.see("article.message")
    page.driver.back()
    page.see(".card", "Fix the total of the cart")
    page.until(lambda _: focused(page).startswith("Fix the total of the cart"))
    assert page.see("#search").get_attribute("value") == "Fix the total"
