"""What a long session costs the page: requests, and elements that it holds, however long the session is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.server.clients import Serving
from tests.server.forked import serving
from tests.viewer.browser import Browser
from tests.viewer.conversations import address

import treering

NODES, BRANCHES = 5000, 50
ROWS_MAX = 160
"""Messages on the page at a time."""
TREE_ROWS_MAX = 60


class Long(NamedTuple):
    """A server of a long session, and the ids of its longest path."""

    server: Serving
    path: tuple[str, ...]


@pytest.fixture(scope="module")
def long(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Long]:
    """A session of 5,000 messages, of which 50 turn aside."""
    folder = tmp_path_factory.mktemp("long") / "store"
    with treering.open(folder).session("long") as session:
        session.append(*[treering.user(f"message {at}") for at in range(NODES - BRANCHES)])
        path = session.path()
        for at in range(BRANCHES):
            aside = {"role": "user", "content": f"aside {at}"}
            session.append(treering.Draft(role="user", payload=aside, parent=path[at * 99]))
        session.switch("main")
    with serving(folder) as server:
        yield Long(server, path)
        chromium.driver.get("about:blank")


def asked(browser: Browser) -> list[str]:
    """What the page asked for since it was opened or this was called last, but for what goes on: the feed of events."""
    script = (
        "const found = performance.getEntriesByType('resource').map((each) => each.name);"
        "performance.clearResourceTimings(); return found"
    )
    return [name.partition("/api/v1/")[2] for name in browser.driver.execute_script(script) if "/api/v1/" in name]


def held(browser: Browser) -> tuple[int, int]:
    """How many messages and rows of the tree are elements of the page."""
    return len(browser.all("article.message")), len(browser.all(".tree-row"))


def test_opening_takes_at_most_ten_requests(browser: Browser, long: Long) -> None:
    """Server, card, choice, place in the tree, a page of messages, what they took, rows of the tree and their texts.

    The last two are asked for twice where the window lies on two pages of rows.
    """
    browser.open(address(long.server, "#/s/long"))
    browser.see("article.message", f"message {NODES - BRANCHES - 1}")
    browser.see(".tree-row.chosen")
    browser.see(".chip.live", "live")
    browser.see(".tree-line", "aside 49")
    found = asked(browser)
    assert len(found) <= 10, found
    messages, rows = held(browser)
    assert messages <= ROWS_MAX
    assert rows <= TREE_ROWS_MAX


def test_a_jump_to_the_middle_reads_no_pages_between(browser: Browser, long: Long) -> None:
    """Where the branch ends, ids below, a page around it, its place in the tree; and the choice is remembered."""
    browser.open(address(long.server, "#/s/long"))
    browser.see(".tree-row.chosen")
    browser.see(".tree-line", "aside 49")
    asked(browser)
    browser.driver.execute_script(f"location.hash = '#/s/long/n/{long.path[NODES // 2]}'")
    browser.see("article.selected", f"message {NODES // 2}")
    browser.see(".tree-line", "aside 25")
    found = asked(browser)
    assert len(found) <= 10, found
    assert held(browser)[0] <= ROWS_MAX


@pytest.mark.parametrize(("begin", "step"), [(0, 900), (-1, -900)], ids=["down", "up"])
def test_scrolling_holds_few_rows_and_misses_none(browser: Browser, long: Long, begin: int, step: int) -> None:
    """Over 400 messages by pages in either direction every one is seen once in its order; few are held at a time."""
    browser.open(address(long.server, f"#/s/long/n/{long.path[begin]}"))
    browser.see("article.selected")
    most, seen = browser.driver.execute_async_script(
        "const [step, done] = arguments; const list = document.querySelector('.messages'); let most = 0;"
        "const seen = []; const move = () => { for (const { dataset } of step > 0 ? list.children : [...list.children]"
        ".reverse()) if (dataset.node && !seen.includes(dataset.node)) seen.push(dataset.node);"
        "most = Math.max(most, list.children.length); if (seen.length >= 400) return done([most, seen]);"
        "document.querySelector('.conversation').scrollTop += step; return requestAnimationFrame(move); }; move()",
        step,
    )
    whole = [*long.path] if step > 0 else [*reversed(long.path)]
    assert seen[:400] == whole[:400]
    assert most <= ROWS_MAX
    assert held(browser)[0] <= ROWS_MAX


def test_the_tree_holds_the_rows_of_the_window(browser: Browser, long: Long) -> None:
    """From its beginning to its end and back only the rows that are seen are elements."""
    browser.open(address(long.server, "#/s/long"))
    browser.see(".tree-line", "aside 49")
    for key in ("0", "view.scrollHeight / 2", "view.scrollHeight", "0"):
        browser.driver.execute_script(f"const view = document.querySelector('.tree'); view.scrollTop = {key}")
        browser.until(lambda _: browser.all(".tree-row") and not browser.all(".tree-row.waiting"))
        assert held(browser)[1] <= TREE_ROWS_MAX
    browser.see(".tree-line", "aside 0")


def test_switching_to_another_version_far_above_reads_one_page(browser: Browser, long: Long) -> None:
    """A version near the beginning of a long branch is shown without what lies behind it."""
    browser.open(address(long.server, f"#/s/long/n/{long.path[100]}"))
    browser.see("article.selected .version", "1/2")
    browser.see(".tree-line", "aside 1")
    asked(browser)
    browser.press("article.selected button[aria-label='Next version']")
    browser.see("article.selected", "aside 1")
    found = [each for each in asked(browser) if "/history" in each]
    assert len(found) <= 2, found
