"""A real browser that shows pages of a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT_SECONDS = 30  # until something is seen; a busy machine takes some
FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "disable-dev-shm-usage",
    "window-size=1400,900",
    # One process shows all pages: starting one for each server takes a tenth of the tests' processor time.
    "process-per-site",
    "renderer-process-limit=1",
    "disable-site-isolation-trials",
)


def installed() -> tuple[str, str] | None:
    """Where Chromium and its driver are; None if one of them is missing.

    The build without windows has the same engine, and takes two thirds of the processor time. It is looked for where
    Debian keeps the program itself: what lies under that name on the path is a script that starts it and waits, the
    driver ends that one, and the browser would run on for ever.
    """
    small = shutil.which("chromium-headless-shell", path="/usr/lib/chromium")
    chromium, driver = small or shutil.which("chromium"), shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


# One script looks for an element where a command for each would ask about it, which takes the browser far longer.
SHOWN = """
const shown = (each) => {
  const {width, height} = each.getBoundingClientRect();
  return width > 0 && height > 0 && each.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
};
const says = (each, text) => shown(each) && each.innerText.replaceAll("\\u00a0", " ").includes(text);
const all = (css) => [...document.querySelectorAll(css)];
"""
SEE = f"{SHOWN} const [css, text] = arguments; return all(css).find((each) => says(each, text)) || null;"
PRESS = f"""{SHOWN}
const [css, text] = arguments;
const found = all(css).find((each) => !each.disabled && (!text || says(each, text)));
found?.click();
return Boolean(found);
"""


class Browser:
    """What a user sees and does, by words on the page rather than by its insides."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Go to an address, as if nothing had been open before."""
        self.driver.get("about:blank")
        self.driver.get(address)

    def all(self, css: str) -> list[WebElement]:
        """All elements of a kind that are on the page now."""
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def see(self, css: str, text: str = "") -> WebElement:
        """Wait for an element with a text, and return it."""
        found: WebElement = self.until(lambda _: self.driver.execute_script(SEE, css, text))
        return found

    def gone(self, css: str, text: str = "") -> None:
        """Wait until no such element is shown."""
        self.until(lambda _: self.driver.execute_script(SEE, css, text) is None)

    def until(self, condition: Callable[[Any], Any]) -> Any:
        """Wait for a condition, and return what it returned; what is replaced meanwhile is looked for again."""
        ignored = (NoSuchElementException, StaleElementReferenceException)
        return WebDriverWait(self.driver, WAIT_SECONDS, 0.05, ignored).until(condition)

    def press(self, css: str, text: str = "") -> None:
        """Click on an element once it is there, as the script of the page sees it."""
        self.until(lambda _: self.driver.execute_script(PRESS, css, text))

    def type(self, css: str, text: str) -> None:
        """Replace the text of a field."""
        field = self.see(css)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def menu(self, message: str, item: str) -> None:
        """Choose something from the menu of the message with a text."""
        article = self.see("article.message", message)
        self.driver.execute_script("arguments[0].querySelector('.menu-button').click()", article)
        self.press(".menu-item", item)

    def messages(self) -> list[str]:
        """The texts of the messages that are shown."""
        bodies = "[...document.querySelectorAll('.messages article .body')].filter((each) => each.checkVisibility())"
        return list(self.driver.execute_script(f"return {bodies}.map((each) => each.textContent)"))

    def problems(self) -> list[str]:
        """What the browser complained of since the last time: errors of scripts, and what the page must not load."""
        return [
            entry["message"]
            for entry in self.driver.execute("getLog", {"type": "browser"})["value"]
            if entry["level"] == "SEVERE"
        ]


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser until the block ends; where there is none the tests are skipped, but not in a build."""
    found = installed()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("chromium and chromium-driver are not installed")
        pytest.skip("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for each in FLAGS:
        options.add_argument(f"--{each}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(found[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
