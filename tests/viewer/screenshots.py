"""Take the pictures of the viewer in the documentation: `python -m tests.viewer.screenshots`.

They show a session that is made for them, so nothing of the computer is on them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.server.clients import Serving, serving
from tests.viewer.browser import Browser, browsing
from tests.viewer.conversations import address
from tests.viewer.sample import Sample, record

import treering

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
BYTES_MAX = 150_000
"""Of a picture: a page with three of them is read on a phone."""


def take(browser: Browser, name: str) -> None:
    """Keep what is in the window as a picture."""
    picture = FOLDER / f"{name}.png"
    browser.driver.save_screenshot(str(picture))
    size = picture.stat().st_size
    if size > BYTES_MAX:
        sys.exit(f"a picture is too large. name={name!r}, most={BYTES_MAX}")


def theme(browser: Browser, name: str) -> None:
    """Show the page light or dark, whatever the system is."""
    browser.driver.execute_script(f"document.documentElement.setAttribute('data-theme', '{name}')")


def pictures(browser: Browser, server: Serving, sample: Sample) -> None:
    """Take all pictures."""
    browser.driver.set_window_size(1280, 800)
    browser.open(address(server, f"#/s/shop/n/{sample.second}"))
    browser.see("article.selected .version", "1/3")
    browser.see(".tree-row")
    for name in ("light", "dark"):
        theme(browser, name)
        take(browser, f"viewer-{name}")
    theme(browser, "light")
    browser.press("#tab-checkpoints")
    browser.see("#panel", "docs added")
    take(browser, "viewer-checkpoints")
    browser.driver.set_window_size(1600, 800)
    browser.open(address(server, f"#/s/shop/compare/{sample.end}/{sample.edited}"))
    browser.see("section.side[aria-label='Branch B']", "say in the changelog")
    theme(browser, "light")
    take(browser, "viewer-compare")


def main() -> None:
    """Record a session, serve it, and take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    place = tempfile.mkdtemp()
    try:
        with treering.open(place) as store:
            sample = record(store)
        with serving(place, "--read-only") as server, browsing() as browser:
            pictures(browser, server, sample)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
