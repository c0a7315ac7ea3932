"""The main journeys of the viewer on a store on disk, and on one in a bucket of a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import S3Server, seaweedfs
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address, shows, shows_an_answer_grow, talk, texts

import treering

pytestmark = pytest.mark.slow

__all__ = ["seaweedfs"]


@pytest.fixture(params=["disk", pytest.param("bucket", marks=[pytest.mark.s3, pytest.mark.thinned(3)])])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder, and a bucket that is found as AWS tools find theirs."""
    if request.param == "disk":
        return str(tmp_path / "store")
    there: S3Server = request.getfixturevalue("seaweedfs")
    for name, value in {
        "AWS_ENDPOINT_URL": there.endpoint,
        "AWS_ACCESS_KEY_ID": there.key,
        "AWS_SECRET_ACCESS_KEY": there.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return f"s3://{there.bucket}/{tmp_path.name}"


def test_a_session_is_found_and_edited_and_its_versions_are_turned(browser: Browser, own: Own) -> None:
    """From the list to a conversation; an edit makes a version; arrows lead back; one goes on there."""
    store, server = own
    talk(store, "to the sea?", "by train")
    browser.open(address(server))
    browser.press(".card", "to the sea?")
    shows(browser, "to the sea?", "by train")
    browser.menu("to the sea?", "Edit")
    browser.type("dialog textarea", "to the hills?")
    browser.press("dialog button", "Save")
    shows(browser, "to the hills?")
    browser.press("button[aria-label='Previous version']")
    shows(browser, "to the sea?", "by train")
    browser.type("form.composer textarea", "when?")
    browser.press("form.composer button", "Send")
    shows(browser, "to the sea?", "by train", "when?")
    assert texts(store, "main") == ["to the sea?", "by train", "when?"]


def test_an_answer_grows_and_others_are_heard(browser: Browser, own: Own) -> None:
    """An answer is shown while it is written, also after a reload; then what another process records appears."""
    store, server = own
    talk(store, "count")
    with store.session("s", shared=True) as session:
        shows_an_answer_grow(browser, address(server, "#/s/s"), session)
        shows(browser, "count", "one, two, three")
        session.append(treering.user("thanks"))
    shows(browser, "count", "one, two, three", "thanks")


def test_another_answer_begins_on_a_branch(browser: Browser, own: Own) -> None:
    """Another answer is asked for, and streams to where it was asked for; the first is an arrow away."""
    store, server = own
    talk(store, "count", "one")
    browser.open(address(server, "#/s/s"))
    browser.menu("one", "Answer again")
    shows(browser, "count")
    with store.session("s", shared=True) as session, session.stream() as answer:
        answer.write("two")
        answer.flush()
        shows(browser, "count", "two")
    browser.gone("article.open")
    browser.see("article .version", "2/2")
    browser.press("button[aria-label='Previous version']")
    shows(browser, "count", "one")
