"""The bugs that users report of branches in chats, each as what one sees in a browser where it does not occur.

An edit of the first message, and two tabs that send at one place, are tested in `test_viewer.py`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.sampling import few
from tests.storage.processes import finish, start
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address, shows, talk, texts

import treering

pytestmark = pytest.mark.slow


def test_regenerate_while_an_answer_is_written(browser: Browser, own: Own) -> None:
    """Another answer to an earlier question begins on a branch; the one that is written goes on, and is on its own."""
    store, server = own
    talk(store, "count", "one two", "go on")
    with store.session("s", shared=True) as session, session.stream() as answer:
        answer.write("three ")
        answer.flush()
        browser.open(address(server, "#/s/s"))
        browser.see("article.open", "three")
        browser.menu("one two", "Answer again")
        shows(browser, "count")
        browser.gone("article.open")
        browser.see(".elsewhere", "main")
        answer.write("four")
        answer.flush()
    browser.gone(".elsewhere")
    shows(browser, "count")
    browser.type("form.composer textarea", "in letters, please")
    browser.press("form.composer button", "Send")
    shows(browser, "count", "in letters, please")
    assert texts(store, "main") == ["count", "one two", "go on", "three four"]
    heads = store.view("s").heads
    assert {head for head in heads if head.startswith("answer-")} == heads.keys() - {"main"}


def test_retract_in_the_middle(browser: Browser, own: Own) -> None:
    """What follows a retracted message stays, also when the page is loaded again; the tree leads back to it."""
    store, server = own
    talk(store, "a", "b", "c", "d", "e")
    browser.open(address(server, "#/s/s"))
    shows(browser, "a", "b", "c", "d", "e")
    browser.menu("c", "Retract")
    shows(browser, "a", "b", "d", "e")
    browser.open(address(server, "#/s/s"))
    shows(browser, "a", "b", "d", "e")
    assert [item.message["content"] for item in store.view("s").context] == ["a", "b", "d", "e"]
    browser.press(".tree-row.retracted")
    shows(browser, "a", "b", "c", "d", "e")
    browser.menu("c", "Show again")
    browser.gone(".tree-row.retracted")
    browser.open(address(server, "#/s/s"))
    shows(browser, "a", "b", "c", "d", "e")
    assert [item.message["content"] for item in store.view("s").context] == ["a", "b", "c", "d", "e"]


def test_siblings_of_siblings(browser: Browser, own: Own) -> None:
    """Versions of an answer to a version of a question: each number counts its own siblings, and each place is kept."""
    store, server = own
    talk(store, "one?", "yes")
    browser.open(address(server, "#/s/s"))
    for old, new in (("one?", "two?"), ("two?", "three?")):
        browser.menu(old, "Edit")
        browser.type("dialog textarea", new)
        browser.press("dialog button", "Save")
        shows(browser, new)
    with store.session("s", shared=True) as session:
        third = session.children(None)[2]
        session.switch(next(head for head, node in session.heads.items() if node == third))
        session.append(treering.assistant("no"))
        session.append(treering.assistant("perhaps", parent=third))
    shows(browser, "three?", "no")
    browser.see("article.message .version", "3/3")
    browser.see("article.message .version", "1/2")
    browser.press("article:nth-child(2) button[aria-label='Next version']")
    shows(browser, "three?", "perhaps")
    browser.press("article:nth-child(1) button[aria-label='Previous version']")
    shows(browser, "two?")
    browser.press("article:nth-child(1) button[aria-label='Previous version']")
    shows(browser, "one?", "yes")
    browser.press("article:nth-child(1) button[aria-label='Next version']")
    shows(browser, "two?")
    browser.press("article:nth-child(1) button[aria-label='Next version']")
    shows(browser, "three?", "perhaps")
    assert [each.text for each in browser.all("article .version")] == ["3/3", "2/2"]


def test_switch_during_an_answer(browser: Browser, own: Own) -> None:
    """Who turns to another version while an answer is written sees it on its branch, whole, and goes on below it."""
    store, server = own
    first, _ = talk(store, "to the sea?", "by train")
    with store.session("s", shared=True) as session:
        session.append(treering.user("to the hills?", parent=None))
        session.switch("main")
        session.append(treering.user("when?"))
        with session.stream() as answer:
            answer.write("at ")
            answer.flush()
            browser.open(address(server, f"#/s/s/n/{first}"))
            shows(browser, "to the sea?", "by train", "when?", "at ")
            browser.press("button[aria-label='Next version']")
            shows(browser, "to the hills?")
            browser.see(".elsewhere", "An answer is being written on main")
            browser.press(".elsewhere button")
            shows(browser, "to the sea?", "by train", "when?", "at ")
            browser.press("button[aria-label='Next version']")
            shows(browser, "to the hills?")
            answer.write("noon")
    browser.gone(".elsewhere")
    shows(browser, "to the hills?")
    browser.press("button[aria-label='Previous version']")
    shows(browser, "to the sea?", "by train", "when?", "at noon")
    browser.type("form.composer textarea", "thanks")
    browser.press("form.composer button", "Send")
    shows(browser, "to the sea?", "by train", "when?", "at noon", "thanks")
    assert texts(store, "main")[-1] == "thanks"


def test_a_lost_parent(browser: Browser, own: Own, tmp_path: Path) -> None:
    """A damaged session says what is wrong with it, never that it is empty; what a repair leaves is marked."""
    store, server = own
    with store.session("s", title="Damaged") as session:
        for text in ("begin", "middle", "end"):
            session.append(treering.user(text))
            session.seal()
        session.branch("other", node=session.path()[0])
        session.append(treering.assistant("elsewhere"))
    segments = sorted((tmp_path / "store").glob("sessions/s/*/segments/*"))
    segments[1].unlink()
    browser.open(address(server, "#/s/s"))
    browser.see("main.failed", "segment")
    assert [problem for problem in browser.problems() if "500" not in problem] == []
    store.repair("s", into="t")
    browser.open(address(server, "#/s/t"))
    shows(browser, "begin", "elsewhere")
    browser.see(".tree-row .chip.problem", "orphan")
    browser.press(".tree-row", "end")
    shows(browser, "end")
    browser.press("#tab-about")
    browser.see("#panel", "orphan")


def test_the_same_request_twice(browser: Browser, own: Own) -> None:
    """A message whose answer was lost on the way is sent again by the page, and is there once."""
    store, server = own
    talk(store, "hello")
    browser.open(address(server, "#/s/s"))
    shows(browser, "hello")
    browser.driver.execute_script(
        "const real = window.fetch; window.sent = 0; window.fetch = async (url, options) => {"
        " const answer = await real(url, options);"
        " if (options?.method === 'POST' && !window.sent++) throw new TypeError('the network is gone');"
        " return answer; }"
    )
    browser.type("form.composer textarea", "once")
    browser.press("form.composer button", "Send")
    shows(browser, "hello", "once")
    browser.until(lambda _: browser.driver.execute_script("return window.sent") == 2)
    assert browser.all(".notice") == []
    with server.api as api:
        body = {"messages": [{"role": "user", "content": "twice"}]}
        answers = [api.post("sessions/s/messages", json=body, headers={"idempotency-key": "k"}) for _ in range(2)]
    assert answers[0].json()["nodes"] == answers[1].json()["nodes"]
    shows(browser, "hello", "once", "twice")
    assert texts(store, "main") == ["hello", "once", "twice"]


def test_an_empty_branch(browser: Browser, own: Own) -> None:
    """A branch on which nothing was said yet stays in view and is what one goes on with; so is an empty session."""
    store, server = own
    talk(store, "a", "b", "c")
    browser.open(address(server, "#/s/s"))
    browser.menu("a", "Branch from here")
    browser.type("dialog input", "other")
    browser.press("dialog button", "Branch")
    shows(browser, "a")
    with store.session("s", shared=True) as session:
        session.set_title("Meanwhile")
    browser.see("h1", "Meanwhile")
    shows(browser, "a")
    browser.type("form.composer textarea", "b2")
    browser.press("form.composer button", "Send")
    shows(browser, "a", "b2")
    assert (texts(store, "main"), texts(store, "other")) == (["a", "b", "c"], ["a", "b2"])
    browser.open(address(server))
    browser.press("button", "New session")
    browser.see(".messages", "Nothing was said yet.")
    assert store.view("s").info.nodes == 4
    browser.type("form.composer textarea", "first")
    browser.press("form.composer button", "Send")
    shows(browser, "first")


def test_very_deep(browser: Browser, own: Own) -> None:
    """Of a thousand messages and more each is passed once, in order, on the way from the first to the last."""
    store, server = own
    count = few(1200, whole=3000)
    first = talk(store, *(f"message {number}" for number in range(count)))[0]
    browser.open(address(server, f"#/s/s/n/{first}"))
    browser.see("article.message", "message 0")
    walk = (
        "const [last, done] = arguments, place = document.querySelector('.conversation'), seen = [];"
        "const shown = () => [...document.querySelectorAll('.messages article .body')].map((each) => each.textContent);"
        "const step = () => { for (const text of shown()) if (seen.indexOf(text, -400) < 0) seen.push(text);"
        " if (seen.at(-1) === last) return done(seen);"
        " place.scrollTop = place.scrollHeight; setTimeout(step, 20); }; step();"
    )
    browser.driver.set_script_timeout(60)
    seen = browser.driver.execute_async_script(walk, f"message {count - 1}")
    assert seen == [f"message {number}" for number in range(count)]


def test_very_wide(browser: Browser, own: Own) -> None:
    """Of 300 versions of one message each is one step from the next, and what was recorded as the last is the last."""
    store, server = own
    first, second = talk(store, "question", "answer 0")
    with store.session("s", shared=True) as session:
        made = session.append(*(treering.assistant(f"answer {number}", parent=first) for number in range(1, 300)))
    browser.open(address(server, f"#/s/s/n/{made.nodes[-1]}"))
    browser.see("article.message .version", "300/300")
    shows(browser, "question", "answer 299")
    for number in range(299, 289, -1):
        browser.press("article:nth-child(2) button[aria-label='Previous version']")
        browser.see("article.message .version", f"{number}/300")
    shows(browser, "question", "answer 289")
    browser.open(address(server, f"#/s/s/n/{second}"))
    browser.see("article.message .version", "1/300")
    browser.press("article:nth-child(2) button[aria-label='Next version']")
    shows(browser, "question", "answer 1")
    with server.api as api:
        row = api.get("sessions/s/history", params={"node": second, "limit": 1}).json()["rows"][0]
    assert len(set(row["sibling_ids"])) == 300


SKEWED = """
import sys, time
real = time.time_ns
time.time_ns = lambda: real() + int(sys.argv[2]) * 1_000_000_000
import treering
with treering.open(sys.argv[1]).session("s", shared=True) as session:
    session.append(treering.user(sys.argv[3]))
"""


def test_clocks_that_differ(browser: Browser, own: Own, tmp_path: Path) -> None:
    """Messages stand in the order in which they were recorded, and appear, whatever the clocks of their writers say."""
    store, server = own
    talk(store, "first", "second")
    browser.open(address(server, "#/s/s"))
    shows(browser, "first", "second")
    for hours, text in ((-1, "an hour behind"), (1, "an hour ahead"), (0, "on time")):
        with start(SKEWED, tmp_path / "store", hours * 3600, text, prelude="") as writer:
            finish(writer)
        browser.see("article.message", text)
    with store.session("s", shared=True) as session:
        session.append(msgspec.structs.replace(treering.assistant("from 1970"), time_ms=1))
    wanted = ("first", "second", "an hour behind", "an hour ahead", "on time", "from 1970")
    shows(browser, *wanted)
    browser.open(address(server, "#/s/s"))
    shows(browser, *wanted)
    times = [each.get_attribute("datetime") for each in browser.all("article time")]
    assert times != sorted(times, key=str)
    with server.api as api:
        rows = api.get("sessions/s/history").json()["rows"]
    assert [row["node"]["payload"]["content"] for row in reversed(rows)] == list(wanted)
    browser.open(address(server))
    browser.see(".card", "6 messages")
