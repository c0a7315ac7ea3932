"""Answers that nobody finished: what a user sees of them, and can do with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.forked import serving
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address
from tests.viewer.killed import killed_writer

import treering

pytestmark = pytest.mark.slow


@pytest.fixture
def lost(browser: Browser, own: Own, tmp_path: Path) -> str:
    """A page that shows a question and a part of its answer, whose writer was killed. The id of the answer."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("which way?"))
    stream = killed_writer(tmp_path / "store", "s", "First to the river, then")
    browser.open(address(server, "#/s/s"))
    browser.see("article.open .left-open", "its writer is gone")
    return stream


def test_an_answer_whose_writer_was_killed_says_so(browser: Browser, lost: str) -> None:
    """The text that is stored is shown as a part of an answer without a writer, below the question."""
    assert "First to the river, then" in browser.see("article.open").text
    assert browser.see("article.open .chip.problem").text == "writer gone"
    assert browser.see("article.open").get_attribute("aria-busy") == "false"
    assert [each.text for each in browser.all("article.open .actions button")] == ["Continue", "Keep", "Discard"]


def test_a_lost_answer_is_kept_as_a_partial_message(browser: Browser, own: Own, lost: str) -> None:
    """Keeping makes it a message that says it is a part; a reload shows the same."""
    browser.press("article.open button", "Keep")
    browser.see("article.message:not(.open)", "This is a part of an answer")
    browser.see("article.message:not(.open) .chip.problem", "partial")
    browser.gone("article.open")
    assert own[0].view("s").get(lost).brief["stream"] == "partial"
    browser.open(address(own[1], "#/s/s"))
    browser.see("article.message:not(.open)", "First to the river, then")


def test_a_lost_answer_is_discarded_only_after_a_question(browser: Browser, own: Own, lost: str) -> None:
    """Cancel leaves it there, and the focus at the button; Discard removes it, and nothing of it is left."""
    browser.press("article.open button", "Discard")
    browser.press("dialog button", "Cancel")
    browser.see("article.open", "First to the river")
    browser.press("article.open button", "Discard")
    browser.press("dialog button", "Discard")
    browser.gone("article.open")
    assert own[0].view("s").open_streams() == ()
    assert len(own[0].view("s").path()) == 1


def test_a_lost_answer_is_finished_by_hand(browser: Browser, own: Own, lost: str) -> None:
    """Continuing shows what there is, takes the rest, and makes a whole answer of both."""
    browser.press("article.open button", "Continue")
    assert browser.see("dialog .ask-before").text == "First to the river, then"
    browser.type("dialog textarea", " over the bridge.")
    browser.press("dialog button", "Finish the answer")
    browser.see("article.message:not(.open)", "First to the river, then over the bridge.")
    browser.gone("article.open")
    assert browser.all("article .ended") == []
    assert "stream" not in own[0].view("s").get(lost).brief


def test_a_lost_answer_that_another_writer_goes_on_with_is_live_again(browser: Browser, own: Own, lost: str) -> None:
    """The page that said that the writer is gone shows what the next one writes, without a reload."""
    with own[0].session("s", shared=True) as session:
        answer = session.continue_stream(lost)
        answer.write(" over the bridge")
        answer.flush()
        browser.see("article.open", "First to the river, then over the bridge")
        browser.see("article.open .chip.live", "writing")
        browser.gone("article.open .left-open")
        answer.finish()
    browser.gone("article.open")


def test_failed_and_stopped_answers_look_different(browser: Browser, own: Own) -> None:
    """A failed one is open, says why, and offers what to do; one that the user stopped is a message that says so."""
    store, server = own
    with store.session("s", shared=True) as session:
        session.append(treering.user("count"))
        answer = session.stream()
        answer.write("one, two")
        answer.stop()
        session.append(treering.user("and on?"))
        failed = session.stream()
        failed.write("three,")
        failed.fail("the model is overloaded")
        browser.open(address(server, "#/s/s"))
        browser.see("article.open .left-open", "writing it failed, as the model is overloaded")
        stopped = browser.see("article.message:not(.open)", "one, two")
        assert "Stopped by the user." in stopped.text
        browser.see("article.message:not(.open) .chip:not(.problem)", "stopped")


def test_a_page_that_changes_nothing_only_shows_that_the_writer_is_gone(browser: Browser, tmp_path: Path) -> None:
    """A server that is read-only offers no way to end the answer."""
    with treering.open(tmp_path / "store").session("s") as session:
        session.append(treering.user("which way?"))
    killed_writer(tmp_path / "store", "s", "First to the river")
    with serving(tmp_path / "store", "--read-only") as server:
        browser.open(address(server, "#/s/s"))
        browser.see("article.open .left-open", "its writer is gone")
        assert browser.all("article.open .actions") == []
        browser.driver.get("about:blank")
