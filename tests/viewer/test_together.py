"""Several who work on one conversation: two users at one place, and a writer that is killed while others read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.storage.processes import start
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address, shows, talk, texts

pytestmark = pytest.mark.slow

HOLD = (
    "const real = window.fetch; window.fetch = async (url, options) => {"
    " if (options?.method === 'POST') await new Promise((go) => { window.letGo = go; });"
    " return real(url, options); }"
)
"""What is sent by the page waits until `letGo` is called: so two users do something at the same moment."""


@contextmanager
def windows(browser: Browser, page: str) -> Iterator[tuple[str, str]]:
    """Two windows that show a page and know nothing of each other, as those of two users. Gives their names."""
    first = browser.driver.current_window_handle
    browser.open(page)
    browser.driver.switch_to.new_window("window")
    try:
        browser.open(page)
        second = browser.driver.current_window_handle
        browser.driver.switch_to.window(first)
        yield first, second
        browser.driver.switch_to.window(second)
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(first)


def test_two_users_send_at_the_same_moment(browser: Browser, own: Own) -> None:
    """The second one is told so, keeps what they wrote, sees the other message, and sends behind it."""
    store, server = own
    talk(store, "hello", "what is it?")
    with windows(browser, address(server, "#/s/s")) as (first, second):
        browser.driver.switch_to.window(second)
        shows(browser, "hello", "what is it?")
        browser.driver.execute_script(HOLD)
        browser.type("form.composer textarea", "cancel it")
        browser.press("form.composer button", "Send")
        browser.until(lambda driver: driver.execute_script("return Boolean(window.letGo)"))
        browser.driver.switch_to.window(first)
        browser.type("form.composer textarea", "book a table")
        browser.press("form.composer button", "Send")
        shows(browser, "hello", "what is it?", "book a table")
        browser.driver.switch_to.window(second)
        browser.driver.execute_script("window.letGo()")
        said = browser.see(".notice.bad").text
        shows(browser, "hello", "what is it?", "book a table")
        field = browser.see("form.composer textarea")
        assert field.get_attribute("value") == "cancel it"
        assert len(browser.problems()) == 1
        browser.driver.execute_script("window.letGo = null")
        browser.press("form.composer button", "Send")
        browser.until(lambda driver: driver.execute_script("return window.letGo && (window.letGo(), true)"))
        shows(browser, "hello", "what is it?", "book a table", "cancel it")
        browser.driver.switch_to.window(first)
        shows(browser, "hello", "what is it?", "book a table", "cancel it")
    assert texts(store, "main") == ["hello", "what is it?", "book a table", "cancel it"]
    assert store.view("s").info.nodes == 4
    assert "somebody else" in said
    assert "Nothing is lost" in said


def test_two_users_edit_one_message_at_the_same_moment(browser: Browser, own: Own) -> None:
    """Each gets their own version; both see that there are three."""
    store, server = own
    talk(store, "to the sea?", "by train")
    with windows(browser, address(server, "#/s/s")) as names:
        for name, text in zip(names, ("to the hills?", "to the woods?"), strict=True):
            browser.driver.switch_to.window(name)
            browser.driver.execute_script(HOLD)
            browser.menu("to the sea?", "Edit")
            browser.type("dialog textarea", text)
            browser.press("dialog button", "Save")
            browser.until(lambda driver: driver.execute_script("return Boolean(window.letGo)"))
        for name in names:
            browser.driver.switch_to.window(name)
            browser.driver.execute_script("window.letGo()")
        for name, text in zip(names, ("to the hills?", "to the woods?"), strict=True):
            browser.driver.switch_to.window(name)
            shows(browser, text)
            browser.see("article .version", "/3")
    view = store.view("s")
    said = [view.get(root).payload["content"] for root in view.children(None)]
    assert (said[0], sorted(said[1:])) == ("to the sea?", ["to the hills?", "to the woods?"])


WRITES = """
import sys, treering
import treering.journal.stream as stream
stream.TTL_MS = 2000  # after so long without a sign of it, it counts as gone; usually 15 seconds
session = treering.open(sys.argv[1]).session("s", shared=True)
answer = session.stream()
answer.write("one, two, ")
answer.flush()
print(answer.id, flush=True)
sys.stdin.read()  # until it is killed
"""


def test_a_writer_is_killed_in_an_answer(browser: Browser, own: Own, tmp_path: Path) -> None:
    """What was written stays on the page, which says that its writer is gone, and goes on with the next one."""
    store, server = own
    talk(store, "count to five")
    browser.open(address(server, "#/s/s"))
    with start(WRITES, tmp_path / "store", prelude="") as writer:
        assert writer.stdout is not None
        stream = writer.stdout.readline().strip()
        browser.see("article.open", "one, two,")
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    browser.see("article.open .chip.problem", "writer gone")
    shows(browser, "count to five", "one, two, ")
    with store.session("s", shared=True) as session:
        answer = session.continue_stream(stream)
        assert answer.text == "one, two, "
        answer.write("three, four, ")
        answer.flush()
        browser.see("article.open .chip", "writing")
        shows(browser, "count to five", "one, two, three, four, ")
        answer.write("five")
        answer.finish()
    browser.gone("article.open")
    shows(browser, "count to five", "one, two, three, four, five")
    assert texts(store, "main") == ["count to five", "one, two, three, four, five"]


def test_an_edit_that_is_refused_is_not_lost(browser: Browser, own: Own) -> None:
    """What was written in an edit is there to be tried again if the server could not be reached."""
    store, server = own
    talk(store, "to the sea?", "by train")
    browser.open(address(server, "#/s/s"))
    shows(browser, "to the sea?", "by train")
    browser.driver.execute_script(
        "const real = window.fetch; window.fetch = async (url, options) => {"
        " if (options?.method === 'POST' && !window.back) throw new TypeError('the network is gone');"
        " return real(url, options); }"
    )
    browser.menu("to the sea?", "Edit")
    browser.type("dialog textarea", "to the hills, after all?")
    browser.press("dialog button", "Save")
    browser.see(".notice.bad", "the network is gone")
    assert browser.see("dialog textarea").get_attribute("value") == "to the hills, after all?"
    browser.driver.execute_script("window.back = true")
    browser.press("dialog button", "Save")
    shows(browser, "to the hills, after all?")
