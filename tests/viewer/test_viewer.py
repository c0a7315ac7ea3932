"""The viewer in a real browser: what users see and do."""

from __future__ import annotations

import gzip
import re

import pytest
from tests.server.clients import Serving
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address, shows_an_answer_grow
from tests.viewer.sample import HOSTILE, Sample

import treering
from treering.viewer import assets

ASSETS = {name: asset.data.decode() for name, asset in assets().items()}


def test_all_files_together_are_small() -> None:
    """At most 100 kB are sent for the viewer, compressed."""
    assert sum(len(gzip.compress(text.encode())) for text in ASSETS.values()) <= 100_000


def test_no_text_becomes_html() -> None:
    """No file of the viewer has a way by which text from a session could become elements or code."""
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    assert [name for name, text in ASSETS.items() if re.search(ways, text)] == []


def test_nothing_is_loaded_from_elsewhere() -> None:
    """The page, its style and its modules name only files beside them."""
    assert re.findall(r"(?:src|href)=\"(?!assets/)", ASSETS["index.html"]) == []
    assert "url(" not in ASSETS["viewer.css"].replace("url(data:", "")
    modules = [name for text in ASSETS.values() for name in re.findall(r"from \"([^\"]+)\"", text)]
    assert {name.removeprefix("./") for name in modules} <= ASSETS.keys()


def test_a_session_is_found_in_the_list_and_opened(browser: Browser, server: Serving, sample: Sample) -> None:
    """The list shows titles and first prompts; a click shows the conversation, from its end."""
    browser.open(address(server))
    browser.see(".card", "Why is the total of the cart wrong?")
    browser.press(".card", "Fix the total of the cart")
    browser.see("h1", "Fix the total of the cart")
    browser.see("article.message", "The page Rounding says it now.")
    assert "token" not in browser.driver.current_url


def test_without_the_token_the_page_says_what_is_missing(browser: Browser, server: Serving) -> None:
    """Somebody who has the address alone sees no session, and is told where the token is."""
    browser.open(f"{server.address}/")
    browser.driver.execute_script("sessionStorage.clear()")
    browser.open(f"{server.address}/#/?")
    browser.see("main.failed", "asks for its token")
    assert browser.all(".card") == []
    assert all("401" in problem for problem in browser.problems())


def test_a_search_finds_words_in_messages_and_opens_the_branch(browser: Browser, server: Serving) -> None:
    """A hit on a branch that is not the current one opens that branch at the message."""
    browser.open(address(server))
    browser.type("#search", "changelog what changed for users")
    browser.press("section[aria-label='Found in messages'] .card", "changelog")
    browser.see("article.message.selected", "say in the changelog what changed for users")
    browser.see("article.message .version", "2/3")


def test_a_search_for_titles_goes_on(browser: Browser, own: Own) -> None:
    """More sessions with these words than a page shows are behind the button, as in the list of all."""
    store, server = own
    for number in range(45):
        with store.session(f"s{number}", title=f"Invoice {number}") as session:
            session.append("hello")
    browser.open(address(server))
    browser.type("#search", "invoice")
    browser.see("main .hint", "40 sessions found by title so far")
    twice = "[...document.querySelectorAll('button')].filter((each) => each.textContent === 'More sessions').forEach"
    browser.driver.execute_script(f"{twice}((each) => {{ each.click(); each.click(); }})")
    browser.see("main .hint", "45 sessions found by title")
    browser.gone("button:not([hidden])", "More sessions")
    assert len(browser.all(".card")) == 45


def test_arrows_lead_to_other_versions_and_back(browser: Browser, server: Serving, sample: Sample) -> None:
    """A message with two siblings says which of three it is; arrows show the others, each with what follows it."""
    browser.open(address(server, f"#/s/shop/n/{sample.second}"))
    browser.see("article.selected .version", "1/3")
    browser.press("article.selected button[aria-label='Next version']")
    browser.see("article.selected", "say in the changelog")
    browser.see("article.message", "with a line in the changelog")
    browser.press("article.selected button[aria-label='Next version']")
    browser.see("article.selected .version", "3/3")
    browser.press("article.selected button[aria-label='Previous version']")
    browser.see("article.selected .version", "2/3")
    browser.press("article.selected button[aria-label='Previous version']")
    browser.see("article.selected", "keep the API as it is")
    browser.see("article.message", "The page Rounding says it now.")


def test_messages_show_markdown_code_calls_thinking_and_pictures(
    browser: Browser, server: Serving, sample: Sample
) -> None:
    """Text is set, tools and thinking are folded, and a picture is shown."""
    browser.open(address(server, f"#/s/shop/n/{sample.answer}"))
    browser.see("article strong", "rounds twice")
    browser.see("article pre", "def cart_total")
    browser.see("article table", "1041")
    browser.see("article footer", "2,140 in")
    link = browser.see("article a", "the rules")
    assert link.get_attribute("href") == "https://example.org/rounding"
    assert {"noopener", "noreferrer"} <= set(str(link.get_attribute("rel")).split())
    browser.see("article", "I run the tests first.")
    assert not any(each.is_displayed() for each in browser.all("article pre") if "assert 20.01" in each.text)
    browser.press("article button, article summary", "bash")
    browser.until(lambda _: any(each.get_attribute("naturalWidth") == "320" for each in browser.all("article img")))


def test_what_the_model_saw_leaves_out_what_a_compaction_replaced(
    browser: Browser, server: Serving, sample: Sample
) -> None:
    """At the end the model sees a summary and what follows; what was replaced is dimmed in the conversation."""
    browser.open(address(server, f"#/s/shop/n/{sample.end}"))
    browser.see("article.selected")
    browser.press("#tab-seen")
    browser.see("#panel", "in the context")
    browser.see("article.message.unseen", "All six places round once now.")
    browser.see("article.message.was-seen", "Now the docs.")
    browser.see("ol.context li", "replaced by this summary")


def test_the_slider_shows_each_checkpoint_and_what_it_changed(browser: Browser, server: Serving) -> None:
    """Each place of the slider shows the state then, beside what changed since the checkpoint before."""
    browser.open(address(server, "#/s/shop"))
    browser.see("article.message", "says it now")
    browser.press("#tab-checkpoints")
    browser.see("#panel", "docs added")
    browser.driver.execute_script(
        "const each = document.querySelector('#panel input[type=range]'); each.value = '0';"
        " each.dispatchEvent(new Event('input'))"
    )
    browser.see("#panel", "reproduced")
    browser.see("#panel", "plan")


def test_two_branches_are_compared(browser: Browser, server: Serving, sample: Sample) -> None:
    """A link shows what two branches have since they parted, side by side, with the states at their ends."""
    browser.open(address(server, f"#/s/shop/compare/{sample.end}/{sample.edited}"))
    browser.see("section.side[aria-label='Branch A']", "keep the API")
    browser.see("section.side[aria-label='Branch B']", "say in the changelog")
    browser.see("#panel", "They part behind")


def test_what_is_hostile_stays_text(browser: Browser, server: Serving) -> None:
    """Elements and scripts in a title, a message, a name of a tool and a result are shown, and do nothing."""
    browser.open(address(server))
    browser.see(".card", HOSTILE[:20])
    browser.press(".card", HOSTILE[:20])
    browser.see("h1", HOSTILE)
    browser.see("article.message", "says it now")
    browser.open(address(server, "#/s/hostile"))
    browser.see("h1", HOSTILE)
    browser.until(lambda _: any(HOSTILE in text for text in browser.messages()))
    assert browser.driver.execute_script("return window.hit") is None
    assert browser.all("article script, h1 script, article img[src='x']") == []


def test_where_nothing_can_be_changed_nothing_offers_to(browser: Browser, server: Serving, sample: Sample) -> None:
    """A server that is read-only has no field to write in, and no edits in its menus."""
    browser.open(address(server, "#/s/shop"))
    browser.see("article.message", "says it now")
    browser.see(".chip", "read-only")
    assert browser.all("form.composer") == []


def test_an_edit_becomes_another_version(browser: Browser, own: Own) -> None:
    """Editing the first message makes a second version of it; the first stays, one arrow away, with its answer."""
    store, server = own
    with store.session("s") as session:
        session.commit([treering.user("to the sea?"), treering.assistant("by train")])
    browser.open(address(server, "#/s/s"))
    browser.menu("to the sea?", "Edit")
    browser.type("dialog textarea", "to the mountains?")
    browser.press("dialog button", "Save")
    browser.see("article.message .version", "2/2")
    browser.gone("article.message", "by train")
    browser.press("button[aria-label='Previous version']")
    browser.see("article.message", "by train")
    view = store.view("s")
    roots = [view.get(root).payload["content"] for root in view.children(None)]
    assert roots == ["to the sea?", "to the mountains?"]


def test_two_tabs_that_send_at_one_place_lose_nothing(browser: Browser, own: Own) -> None:
    """What is sent goes behind the message that is shown, or beside what another one recorded there meanwhile."""
    store, server = own
    with store.session("s") as session:
        hello = session.append(treering.assistant("hello")).node
    browser.open(address(server, f"#/s/s/n/{hello}"))
    browser.type("form.composer textarea", "book a table")
    browser.press("form.composer button", "Send")
    browser.see("article.message", "book a table")
    with store.session("s", shared=True) as other:
        other.append(treering.Draft(role="user", payload={"role": "user", "content": "cancel it"}, parent=hello))
    browser.see("article.message .version", "1/2")
    browser.press("button[aria-label='Next version']")
    browser.see("article.message", "cancel it")


def test_what_others_record_appears(browser: Browser, own: Own) -> None:
    """A message that another process appends is shown without a reload, and so is a title."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("are you there?"))
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "are you there?")
    browser.see(".chip.live", "live")
    with store.session("s", shared=True) as other:
        other.append(treering.assistant("yes, I am"))
        other.set_title("A question")
    browser.see("article.message", "yes, I am")
    browser.see("h1", "A question")


def test_an_answer_is_shown_while_it_is_written(browser: Browser, own: Own) -> None:
    """Pieces of an answer appear as they come, also after the page was loaded again; at the end it is a message."""
    store, server = own
    with store.session("s", shared=True) as session:
        session.append(treering.user("count"))
        shows_an_answer_grow(browser, address(server, "#/s/s"), session)
        browser.see("article.message:not(.open)", "one, two, three")
        browser.gone("article.open")


@pytest.mark.slow
def test_a_long_session_keeps_few_elements_on_the_page(browser: Browser, own: Own) -> None:
    """Of 3,000 messages and 300 branches only what is in the window is on the page, and its beginning is reached."""
    store, server = own
    with store.session("long") as session:
        session.append(*[treering.user(f"message {number}") for number in range(3000)])
        first = session.path()[0]
        for number in range(300):
            node = session.path()[number * 9]
            session.append(treering.Draft(role="user", payload={"role": "user", "content": "aside"}, parent=node))
            session.switch("main")
    browser.open(address(server, "#/s/long"))
    browser.see("article.message", "message 2999")
    browser.see(".tree-row")
    assert len(browser.all("article.message")) <= 160
    assert len(browser.all(".tree-row")) <= 120
    browser.driver.execute_script(f"location.hash = '#/s/long/n/{first}'")
    browser.see("article.message", "message 0")
    assert len(browser.all("article.message")) <= 160


def test_a_page_that_begins_to_follow_a_session_that_is_gone_says_so(browser: Browser, own: Own) -> None:
    """It is deleted after the page was loaded, and before the request for its events comes to the server."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("soon gone"))
    browser.open(address(server))
    browser.see(".card", "soon gone")
    browser.driver.execute_script(
        "const ask = fetch; window.fetch = (at, how) => String(at).includes('/events')"
        " ? new Promise((done) => { window.go = () => done(ask(at, how)); }) : ask(at, how);"
    )
    browser.press(".card", "soon gone")
    browser.until(lambda driver: driver.execute_script("return !!window.go"))
    store.delete("s")
    browser.driver.execute_script("window.go()")
    browser.see(".chip", "deleted")
    assert all("410" in problem for problem in browser.problems())


def test_a_page_of_a_session_that_is_gone_says_so(browser: Browser, own: Own) -> None:
    """A session that is deleted while it is shown is said to be; one that never was is an error with a way back."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("soon gone"))
    browser.open(address(server, "#/s/s"))
    browser.see(".chip.live", "live")
    store.delete("s")
    browser.see(".chip", "deleted")
    browser.open(address(server, "#/s/never"))
    browser.see("main.failed", "This cannot be shown")
    assert all(re.search("404|410", problem) for problem in browser.problems())
