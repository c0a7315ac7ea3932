"""Answers that come late, not at all, or while something else happens: what is there and was asked for is shown."""

from __future__ import annotations

import pytest
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address, shows, talk, texts

import treering

pytestmark = pytest.mark.slow

HOLD = (
    "const [part] = arguments; const real = window.fetch; window.held = []; window.read = 0;"
    "window.fetch = async (url, options) => {"
    " if (!String(url).includes(part)) return real(url, options);"
    " await new Promise((go) => { window.held.push(go); });"
    " const answer = await real(url, options); const text = await answer.text();"
    " setTimeout(() => { window.read += 1; }); return new Response(text, answer); }"
)
"""Requests with these words in their address wait until `LET_GO`; `READ` tells that the page has their answers."""
LET_GO = "window.held.forEach((go) => go()); window.held = { push: (go) => go() }"
READ = "return window.read > 0"
PAGE_NODES = 40
"""Messages that the viewer reads at once."""
LOSE = (
    "const [part] = arguments; const real = window.fetch; window.lost = 0; window.fetch = async (url, options) => {"
    " if (window.wrote && String(url).includes(part)) { window.lost += 1; throw new TypeError('no network'); }"
    " window.wrote ||= options?.method === 'POST'; return real(url, options); }"
)
"""Behind the first write, requests with these words in their address get no answer."""


def test_what_was_sent_is_not_sent_again_because_it_could_not_be_shown(browser: Browser, own: Own) -> None:
    """The field is empty then, and the message is there once."""
    store, server = own
    talk(store, "to the sea?", "by train")
    browser.open(address(server, "#/s/s"))
    shows(browser, "to the sea?", "by train")
    browser.driver.execute_script(LOSE, "/history")
    browser.type("form.composer textarea", "thanks")
    browser.press("form.composer button", "Send")
    browser.until(lambda _: browser.driver.execute_script("return window.lost > 0"))
    browser.until(lambda _: browser.all("form.composer textarea")[0].get_attribute("value") == "")
    assert texts(store, "main") == ["to the sea?", "by train", "thanks"]


def test_what_happens_while_older_messages_are_read_is_shown_behind_that(browser: Browser, own: Own) -> None:
    """Though nothing else happens that would tell the page."""
    store, server = own
    talk(store, *[f"message {at}" for at in range(120)])
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "message 119")
    browser.driver.execute_script(HOLD, "before=")
    browser.driver.execute_script("document.querySelector('.conversation').scrollTop = 0")
    browser.until(lambda _: browser.driver.execute_script("return window.held.length"))
    with store.session("s", shared=True) as session:
        session.append(treering.user("one more"))
    browser.until(lambda _: "121 messages" in browser.see(".facts-line").text)
    browser.driver.execute_script(LET_GO)
    browser.press(".to-end")
    browser.see("article.message", "one more")


def test_who_goes_to_the_end_while_it_is_looked_for_gets_there(browser: Browser, own: Own) -> None:
    """The page was asked where the branch ends now before somebody wanted to be there."""
    store, server = own
    talk(store, *[f"message {at}" for at in range(30)])
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "message 29")
    browser.driver.execute_script("document.querySelector('.conversation').scrollTop = 0")
    browser.see(".to-end")
    browser.driver.execute_script(HOLD, "/path")
    with store.session("s", shared=True) as session:
        session.append(treering.user("one more"))
    browser.until(lambda _: browser.driver.execute_script("return window.held.length"))
    browser.press(".to-end")
    browser.driver.execute_script(LET_GO)
    browser.see("article.message", "one more")


def test_the_place_that_was_asked_for_last_is_shown(browser: Browser, own: Own) -> None:
    """Also if the answer for another one comes later: in the session, or behind the list that was opened."""
    store, server = own
    nodes = talk(store, *[f"message {at}" for at in range(400)])
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "message 399")
    browser.driver.execute_script(HOLD, f"nodes/{nodes[50]}")
    go = "location.hash = `#/s/s/n/${arguments[0]}`"
    browser.driver.execute_script(go, nodes[50])
    browser.until(lambda _: browser.driver.execute_script("return window.held.length"))
    browser.driver.execute_script(go, nodes[150])
    browser.see("article.selected", "message 150")
    browser.driver.execute_script(LET_GO)
    browser.until(lambda _: browser.driver.execute_script(READ))
    assert browser.see("article.selected").text.count("message 150")
    assert browser.driver.execute_script("return location.hash").endswith(nodes[150])
    # Its page ends half a page behind it; messages above the one before may be read at the same time.
    browser.driver.execute_script(HOLD, f"history?node={nodes[370]}")
    browser.driver.execute_script(go, nodes[350])
    browser.until(lambda _: browser.driver.execute_script("return window.held.length"))
    browser.driver.execute_script("window.left = document.querySelector('main'); location.hash = '#/'")
    browser.see(".card")
    browser.driver.execute_script(LET_GO)
    selected = f"return window.left.querySelector('article.selected[data-node=\"{nodes[350]}\"]') !== null"
    browser.until(lambda _: browser.driver.execute_script(selected))
    assert browser.driver.execute_script("return window.left.querySelectorAll('article').length") == PAGE_NODES
    assert browser.driver.execute_script("return location.hash") == "#/"


def test_a_place_that_cannot_be_shown_is_left_for_another(browser: Browser, own: Own) -> None:
    """The page of the session is made anew."""
    store, server = own
    nodes = talk(store, "to the sea?", "by train")
    browser.open(address(server, "#/s/s"))
    shows(browser, "to the sea?", "by train")
    browser.driver.execute_script("location.hash = '#/s/s/compare/never/never'")
    browser.see("main.failed")
    browser.problems()  # it was told of the request that was refused
    browser.driver.execute_script("location.hash = `#/s/s/n/${arguments[0]}`", nodes[0])
    browser.see("article.selected", "to the sea?")


def test_a_message_behind_a_retracted_end_appears(browser: Browser, own: Own) -> None:
    """The end of the branch is hidden, and goes on."""
    store, server = own
    nodes = talk(store, "to the sea?", "by train", "or by boat?")
    with store.session("s", shared=True) as session:
        session.retract(nodes[2])
        browser.open(address(server, "#/s/s"))
        shows(browser, "to the sea?", "by train")
        session.append(treering.user("thanks"))
        shows(browser, "to the sea?", "by train", "thanks")


def test_the_tree_shows_the_text_that_a_message_has_now(browser: Browser, own: Own) -> None:
    """An amended message has another one."""
    store, server = own
    nodes = talk(store, "to the sea?", "by train")
    with store.session("s", shared=True) as session:
        session.label(nodes[0], "asked")  # so that it has a row of its own
        browser.open(address(server, "#/s/s"))
        browser.see(".tree-row", "to the sea?")
        session.amend(nodes[0], {"role": "user", "content": "to the hills?"})
        browser.see(".tree-row", "to the hills?")


def test_the_checkpoint_of_a_label_is_shown_however_old_it_is(browser: Browser, own: Own) -> None:
    """It is read from further pages, and its label is shown when it changes."""
    store, server = own
    with store.session("s") as session:
        for at in range(240):
            session.commit([treering.user(f"step {at}")], state={"at": at})
        early = session.checkpoints()[3].id
        session.label(early, "early")
    browser.open(address(server, "#/s/s"))
    browser.press("#tab-labels")
    browser.press(".label-row", "early")
    browser.see("#panel .lead", "4 of 240")
    browser.problems()  # the page asked first whether it is the label of a node
    with store.session("s", shared=True) as session:
        session.label(early, "earliest")
    browser.see("#panel .chip.label", "earliest")
    browser.see("#panel .lead", "4 of 240")


def test_branches_that_part_far_back_are_not_called_strangers(browser: Browser, own: Own) -> None:
    """More steps than are compared are said to be more."""
    store, server = own
    with store.session("s") as session:
        root = session.append(treering.user("root")).node
        ends = []
        for name in ("a", "b"):
            session.checkout(root)
            ends.append(session.append(*[treering.user(f"{name} {at}") for at in range(1001)]).node)
    browser.open(address(server, f"#/s/s/compare/{ends[0]}/{ends[1]}"))
    assert "no message in common" not in browser.see("#panel .lead", "further back").text
    browser.see("section.side[aria-label='Branch A'] .hint", "The first 100 of them")


def test_an_odd_message_is_shown_as_data_among_the_others(browser: Browser, own: Own) -> None:
    """A field of another type, or a time that no calendar has, hides nothing else."""
    store, server = own
    odd = {"role": "assistant", "content": "hi", "toolCalls": {"a": 1}}
    with store.session("s") as session:
        session.append(
            "first", odd, treering.Draft(role="user", payload={"role": "user", "content": "last"}, time_ms=9 * 10**15)
        )
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "first")
    browser.see("article.message", "last")
    assert len(browser.all("article.message")) == 3
