"""A conversation as people read it: from its end, results under their calls, and the versions that they chose."""

from __future__ import annotations

import base64

import pytest
from selenium.webdriver.common.by import By
from tests.server.clients import Serving
from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address
from tests.viewer.sample import Sample, png

import treering

pytestmark = pytest.mark.slow

WHOLE = """
const box = arguments[0].getBoundingClientRect();
const around = document.querySelector('.conversation').getBoundingClientRect();
const below = document.querySelector('.composer');
return box.top >= around.top && box.bottom <= around.bottom
  && (!below || box.bottom <= below.getBoundingClientRect().top);
"""


IN_VIEW = """
const box = arguments[0].getBoundingClientRect();
const around = document.querySelector('.conversation').getBoundingClientRect();
return box.top >= around.top - 1 && box.bottom <= around.bottom;
"""


def whole(browser: Browser, text: str) -> bool:
    """Whether a message is seen from its beginning to its end, with nothing over it."""
    return bool(browser.driver.execute_script(WHOLE, browser.see("article.message", text)))


@pytest.mark.parametrize("size", [(1400, 900), (390, 700)], ids=["wide", "narrow"])
def test_a_conversation_opens_with_its_last_message_whole(browser: Browser, own: Own, size: tuple[int, int]) -> None:
    """The end stays in view though pictures above it come late, and when the window or the field below changes."""
    store, server = own
    with store.session("s") as session:
        image = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(300, 400)).decode()}
        for at in range(8):
            session.append(treering.user([{"type": "text", "text": f"page {at}"}, {"type": "image", "source": image}]))
        session.append(treering.assistant("The last line of all."))
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.open(address(server, "#/s/s"))
        browser.see("article.message", "The last line of all.")
        browser.until(
            lambda _: (
                all(each.get_attribute("naturalWidth") == "300" for each in browser.all("article img"))
                and len(browser.all("article img")) == 8
            )
        )
        browser.until(lambda _: whole(browser, "The last line of all."))
        browser.type("form.composer textarea", "a\n" * 8)
        browser.until(lambda _: whole(browser, "The last line of all."))
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.until(lambda _: whole(browser, "The last line of all."))


def test_who_reads_above_stays_there(browser: Browser, own: Own) -> None:
    """A message that comes while somebody reads an older one moves nothing; a button leads to the end."""
    store, server = own
    with store.session("s") as session:
        session.append(*[treering.user(f"message {at}\n\n" + "word " * 120) for at in range(30)])
    browser.open(address(server, "#/s/s"))
    browser.until(lambda _: whole(browser, "message 29"))
    browser.see(".chip.live", "live")
    article = browser.see("article.message", "message 20")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", article)
    browser.see(".to-end")
    top = browser.driver.execute_script("return arguments[0].getBoundingClientRect().top", article)
    with store.session("s", shared=True) as other:
        other.append(treering.assistant("something new"))
    browser.see(".facts-line", "31 messages")
    browser.see(".tree-row", "something new")
    assert browser.driver.execute_script("return arguments[0].getBoundingClientRect().top", article) == top
    browser.press(".to-end")
    browser.until(lambda _: whole(browser, "something new"))
    browser.gone(".to-end")


def test_a_result_stands_under_its_call(browser: Browser, own: Own) -> None:
    """Of two calls at once each has its own result below it, folded; a failure is told without opening it."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("both please"))
        calls = [{"type": "tool_use", "id": name, "name": name, "input": {"path": name}} for name in ("read", "list")]
        session.append(treering.assistant([{"type": "text", "text": "I look."}, *calls]))
        session.append(treering.tool("b.py\nc.py", call="list"))
        failed = {"type": "tool_result", "tool_use_id": "read", "content": "no such file", "is_error": True}
        session.append(treering.user([failed, {"type": "text", "text": "and be quick"}]))
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "and be quick")
    boxes = [[line.text for line in box.find_elements(By.TAG_NAME, "summary")] for box in browser.all(".call-box")]
    assert [[text.split() for text in box] for box in boxes] == [
        [["read", "read"], ["Failed", "no", "such", "file"]],
        [["list", "list"], ["Result", "b.py", "2", "lines"]],
    ]
    assert not any(each.is_displayed() for each in browser.all(".call-box pre"))
    assert "no such file" not in browser.see("article.user:not(.joined)", "and be quick").text
    browser.press(".call-box summary", "2 lines")
    browser.see(".call-box pre", "c.py")


def test_a_result_whose_call_is_a_page_above_joins_it(browser: Browser, own: Own) -> None:
    """A result stands for itself until the page with its call is read, and then under it, where it was seen."""
    store, server = own
    with store.session("s") as session:
        session.append(*[treering.user(f"message {at}") for at in range(100)])
        session.append(treering.assistant([{"type": "tool_use", "id": "c", "name": "wait", "input": {}}]))
        session.append(treering.tool("done at last", call="c"))
        session.append(*[treering.user(f"later {at}") for at in range(39)])
    browser.open(address(server, "#/s/s"))
    browser.see("article.tool:not(.joined)", "done at last")
    browser.driver.execute_script("document.querySelector('.conversation').scrollTop = 0")
    joined = browser.see(".call-box article.joined", "done at last")
    browser.until(lambda _: browser.driver.execute_script(IN_VIEW, joined))
    first = browser.driver.execute_script("return document.querySelector('.messages article').textContent")
    assert "message 61" in first, "one page above was read, and not all of them"
    assert browser.all("article.tool:not(.joined)") == []


def test_versions_of_a_result_are_reached_from_below_its_call(browser: Browser, own: Own) -> None:
    """A result that was recorded twice says so under its call; the arrows show the other, under the same call."""
    store, server = own
    with store.session("s") as session:
        call = {"type": "tool_use", "id": "c", "name": "dice", "input": {}}
        asked = session.append(treering.assistant([call])).node
        session.append(treering.tool("five", call="c"))
        session.branch("again", node=asked)
        session.append(treering.tool("six", call="c"))
    browser.open(address(server, "#/s/s"))
    browser.see(".call-box article.joined", "six")
    browser.press("button[aria-label='Previous version']")
    browser.see(".call-box article.joined", "five")
    browser.gone(".call-box article.joined", "six")


def test_chosen_versions_are_shown_again(browser: Browser, own: Own) -> None:
    """A reload and another tab of the same browser open the version that was chosen, and what was said behind it."""
    store, server = own
    with store.session("s") as session:
        plan = session.append(treering.system("plan a trip")).node
        first = session.append(treering.user("to the sea?")).node
        session.append(treering.assistant("by train"))
        session.branch("b", node=plan)
        session.append(treering.user("to the hills?"))
        session.append(treering.assistant("on foot"))
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "on foot")
    browser.press("button[aria-label='Previous version']")
    browser.see("article.message", "by train")
    with server.api as api:
        state = f"sessions/s/view-state?viewer={viewer(browser)}"
        browser.until(lambda _: api.get(state).json()["node"] is not None)
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "by train")
    browser.driver.switch_to.new_window("tab")
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "by train")
    browser.driver.get("about:blank")
    browser.driver.close()
    browser.driver.switch_to.window(browser.driver.window_handles[0])
    with store.session("s", shared=True) as other:
        other.switch("main")
        other.append(treering.user("and back?"))
    browser.open(address(server, f"#/s/s/n/{first}"))
    browser.see("article.message", "and back?")


def viewer(browser: Browser) -> str:
    """The name under which this browser is known to the server."""
    return str(browser.driver.execute_script("return localStorage.getItem('treering-viewer')"))


def test_on_a_server_that_is_read_only_the_tab_remembers(browser: Browser, server: Serving, sample: Sample) -> None:
    """Nothing is sent there, and a reload of the tab shows the chosen version all the same."""
    browser.open(address(server, f"#/s/shop/n/{sample.second}"))
    browser.press("article.selected button[aria-label='Next version']")
    browser.see("article.message", "with a line in the changelog")
    browser.open(address(server, "#/s/shop"))
    browser.see("article.message", "with a line in the changelog")
    browser.driver.execute_script("sessionStorage.clear()")


def test_what_the_model_saw_is_right_behind_a_thousand_messages(browser: Browser, own: Own) -> None:
    """Of 2,500 messages before a compaction the first are known to be left out; the context comes by pages."""
    store, server = own
    with store.session("s") as session:
        nodes = session.append(*[treering.user(f"message {at}") for at in range(2500)]).nodes
        session.compact("much was said", kept=nodes[2400])
        end = session.append(treering.assistant("so it is")).node
    browser.open(address(server, f"#/s/s/n/{end}"))
    browser.see("article.selected", "so it is")
    browser.press("#tab-seen")
    browser.see("#panel", "102 messages in the context; 2,400 on the way here left out.")
    assert len(browser.all("ol.context li")) == 60
    browser.press("#panel button", "Earlier messages")
    browser.until(lambda _: len(browser.all("ol.context li")) == 102)
    browser.see("ol.context li:first-child", "Earlier messages of this conversation")
    browser.press(".run-row", "2,400 messages")
    browser.see("article.message.selected", "message 0")
    browser.press("#panel button[aria-label='Close']")
    browser.driver.execute_script(f"location.hash = '#/s/s/n/{end}'")
    browser.see("article.selected", "so it is")
    browser.press("#tab-seen")
    browser.see("#panel", "102 messages in the context")
    browser.see("article.message.was-seen", "message 2499")


def test_what_came_after_the_chosen_message_is_told_from_what_was_left_out(
    browser: Browser, server: Serving, sample: Sample
) -> None:
    """At an older message the model saw what was said before; what follows is said to be later."""
    browser.open(address(server, f"#/s/shop/n/{sample.answer}"))
    browser.see("article.selected", "rounds twice")
    browser.press("#tab-seen")
    browser.see("#panel", "nothing on the way here was left out")
    browser.see("article.message.was-seen", "Why is the total")
    browser.see("article.message.later")
    assert browser.all("article.message.unseen") == []


def test_a_retracted_message_is_found_in_the_tree_and_shown_again(browser: Browser, own: Own) -> None:
    """It leaves the conversation; its row in the tree leads to it, and its menu brings it back."""
    store, server = own
    with store.session("s") as session:
        session.append(treering.user("first"))
        session.append(treering.user("a slip of the tongue"))
        session.append(treering.assistant("never mind"))
    browser.open(address(server, "#/s/s"))
    browser.see("article.message", "never mind")
    browser.menu("a slip of the tongue", "Retract")
    browser.gone("article.message", "a slip of the tongue")
    browser.press(".tree-row.retracted")
    browser.see("article.message.retracted", "a slip of the tongue")
    browser.menu("a slip of the tongue", "Show again")
    browser.gone("article.message.retracted")
    browser.see("article.message", "a slip of the tongue")


def test_an_edit_changes_nothing_but_the_text(browser: Browser, own: Own) -> None:
    """The page cannot hold each value of the rest of a message, such as an id with too many digits."""
    store, server = own
    asked = {"role": "user", "content": "which one?", "channel": 2**53 + 1}
    with store.session("s") as session:
        session.append(asked)
    browser.open(address(server, "#/s/s"))
    browser.menu("which one?", "Edit")
    browser.type("dialog textarea", "which two?")
    browser.press("dialog button", "Save")
    browser.see("article.message .version", "2/2")
    view = store.view("s")
    assert [view.get(root).payload for root in view.children(None)] == [asked, asked | {"content": "which two?"}]


def test_long_numbers_in_arguments_are_not_rounded(browser: Browser, own: Own) -> None:
    """They are JSON as text, of which the page reads numbers."""
    store, server = own
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"post": -9007199254740993}'}}
    with store.session("s") as session:
        session.append("look", {"role": "assistant", "content": None, "tool_calls": [call]})
    browser.open(address(server, "#/s/s"))
    browser.see(".fold-line", '{"post":-9007199254740993}')
