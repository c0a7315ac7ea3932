"""Measure the viewer in Chromium on a long session. `python -m benchmarks.viewing`.

A program of its own: it records a session of many nodes with branches in a temporary folder, starts `treering serve`,
and drives the Chromium of the system through Selenium. Times are those of the page, from the
beginning of its navigation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from selenium.webdriver.common.by import By
from tests.server.clients import Serving, serving
from tests.viewer.browser import Browser, browsing

import treering

WORDS = 20
"""Of a message: some 100 bytes."""
ASIDE = 100
"""A branch turns aside after each so many messages."""


class Counts(NamedTuple):
    """What the page has cost since it was opened."""

    requests: int
    bytes: int

    @staticmethod
    def of(browser: Browser) -> Counts:
        """Requests to the API that have ended, and what came with them."""
        script = "return performance.getEntriesByType('resource').filter((each) => each.name.includes('/api/'))"
        found = browser.driver.execute_script(f"{script}.map((each) => each.transferSize)")
        return Counts(len(found), sum(found))


class Wait(NamedTuple):
    """Something that the page shows at last."""

    name: str
    shown: str
    """In the language of the page, true once it is there."""


FIRST = "document.querySelector('.messages article')"
TREE = "document.querySelector('.tree-row[data-first]')"


def record(folder: Path, nodes: int) -> list[str]:
    """Record the session, and return the ids of its longest path."""
    with treering.open(folder).session("long", title="A long session") as session:
        turn = (treering.user, treering.assistant)
        left = nodes - nodes // ASIDE
        for first in range(0, left, 1000):
            texts = [f"{at} " + "word " * WORDS for at in range(first, min(left, first + 1000))]
            session.append(*[turn[at % 2](text) for at, text in enumerate(texts)], new_ids=True)
        path = session.path()
        for at in range(0, left, ASIDE):
            aside = {"role": "user", "content": f"aside at {at}"}
            session.append(treering.Draft(role="user", payload=aside, parent=path[at]), new_ids=True)
        session.switch("main")
        return list(path)


def wait(browser: Browser, shown: str) -> float:
    """Wait until something is shown, and return when the page had it first, in ms since it was opened."""
    script = (
        "const done = arguments[0];"
        f"const look = () => ({shown}) ? done(performance.now()) : requestAnimationFrame(look); look()"
    )
    browser.driver.set_script_timeout(120)
    return float(browser.driver.execute_async_script(script))


def opening(browser: Browser, address: str) -> dict[str, float]:
    """Open the session: times until the conversation and the tree are there, requests and bytes."""
    browser.open(address)
    times = {"first message, ms": wait(browser, FIRST), "tree, ms": wait(browser, TREE)}
    wait(browser, "document.querySelector('.chip.live')?.textContent === 'live'")
    counts = Counts.of(browser)
    return {**times, "requests": counts.requests, "kB": counts.bytes / 1000}


def jump(browser: Browser, node: str) -> dict[str, float]:
    """Go to a node from the end: the time, requests and bytes."""
    before, began = Counts.of(browser), browser.driver.execute_script("return performance.now()")
    browser.driver.execute_script(f"location.hash = '#/s/long/n/{node}'")
    at = wait(browser, f"document.querySelector('article.selected[data-node=\"{node}\"]')")
    after = Counts.of(browser)
    return {"ms": at - began, "requests": after.requests - before.requests, "kB": (after.bytes - before.bytes) / 1000}


SCROLL = """
const [step, done] = arguments;
const view = document.querySelector('.conversation');
const list = document.querySelector('.messages');
const seen = new Set();
let most = 0, turns = 0, still = 0;
const began = performance.now();
const move = () => {
  turns += 1;
  for (const each of list.children) if (each.dataset.node) seen.add(each.dataset.node);
  most = Math.max(most, document.querySelectorAll('article.message').length);
  const before = view.scrollTop;
  view.scrollTop += step;
  const busy = list.getAttribute('aria-busy') === 'true';
  still = view.scrollTop === before && !busy ? still + 1 : 0;
  const seconds = (performance.now() - began) / 1000;
  if (still > 20 || seen.size >= SEEN_MAX) done({rows: most, turns, seen: seen.size, seconds});
  else requestAnimationFrame(move);
};
move();
"""


def scroll(browser: Browser, step: int, most: int) -> dict[str, Any]:
    """Scroll by steps, a frame each, until the end or until so many messages were seen."""
    browser.driver.set_script_timeout(900)
    return dict(browser.driver.execute_async_script(SCROLL.replace("SEEN_MAX", str(most)), step))


def heap_mb(browser: Browser) -> float:
    """Memory of the scripts of the tab, after garbage was collected."""
    browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    found = browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
    return float(found["usedSize"]) / 1e6


def tree(browser: Browser) -> dict[str, float]:
    """Jump through the tree from its beginning to its end and back, and count its rows on the page."""
    script = (
        "const done = arguments[0]; const view = document.querySelector('.tree'); let most = 0; let at = 0;"
        "const began = performance.now();"
        "const move = () => { most = Math.max(most, document.querySelectorAll('.tree-row').length);"
        "view.scrollTop = view.scrollHeight * (at <= 40 ? at / 40 : 2 - at / 40); at += 1;"
        "if (at <= 80) requestAnimationFrame(move); else done([most, performance.now() - began]); }; move()"
    )
    most, took = browser.driver.execute_async_script(script)
    wait(browser, "!document.querySelector('.tree-row.waiting')")
    return {"rows held": most, "ms": took}


def tell(name: str, values: dict[str, Any]) -> None:
    """Print a line."""
    shown = ", ".join(
        f"{key} {value:,.1f}" if isinstance(value, float) else f"{key} {value:,}" for key, value in values.items()
    )
    print(f"{name}: {shown}", flush=True)


def measure(browser: Browser, server: Serving, path: list[str], *, runs: int, pages: int) -> None:
    """Measure everything, in the order in which a user meets it."""
    address = f"{server.address}/#/s/long&token={server.token}"
    tell("opening, nothing read before", opening(browser, address))
    found = [opening(browser, address) for _ in range(runs)]
    tell(
        f"opening, median of {runs}",
        {name: float(statistics.median(each[name] for each in found)) for name in found[0]},
    )
    tell("heap, MB", {"after opening": heap_mb(browser)})
    tell("jump to the middle", jump(browser, path[len(path) // 2]))
    tell("jump to the beginning", jump(browser, path[0]))
    before = Counts.of(browser)
    tell("down by pages", scroll(browser, 700, pages))
    tell("up by pages", scroll(browser, -700, pages))
    after = Counts.of(browser)
    tell("both ways", {"requests": after.requests - before.requests, "kB": (after.bytes - before.bytes) / 1000})
    tell("tree, from its beginning to its end and back", tree(browser))
    tell("heap, MB", {"at last": heap_mb(browser)})
    shown: Callable[[], int] = lambda: len(browser.driver.find_elements(By.CSS_SELECTOR, "*"))  # noqa: E731
    tell("elements", {"on the page": shown()})


def main() -> None:
    """Record, serve, open and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pages", type=int, default=4000, help="messages to scroll over each way")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = record(Path(folder) / "store", asked.nodes)
        print(f"recorded {asked.nodes:,} nodes, the longest path {len(path):,}, in {time.perf_counter() - began:.1f} s")
        with serving(Path(folder) / "store") as server, browsing() as browser:
            print(f"Chromium {json.dumps(browser.driver.capabilities['browserVersion'])}")
            measure(browser, server, path, runs=asked.runs, pages=asked.pages)


if __name__ == "__main__":
    main()
