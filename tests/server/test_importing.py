"""Conversations that an interface sends again and again: what it added is recorded, and what it sent is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from starlette.testclient import TestClient
from tests.sampling import few
from tests.server.clients import client, two_workers
from tests.server.test_shapes import ui_messages
from tests.server.test_writing import KEY, records
from tests.session.faults import Meeting, tail_write

import treering
from treering.calls import pairing
from treering.ids import new_nonce
from treering.storage.requests import Get, Put, Request

USER = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "weather?"}]}
NEXT = {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "and tomorrow?"}]}
STEP = {"type": "step-start"}
SAID = {"type": "text", "text": "It rains."}


def asked(name: str, **fields: Any) -> dict[str, Any]:
    """A part with a call of a tool; with an output if one is given."""
    state = "output-available" if "output" in fields else "input-available"
    return {"type": "tool-look", "toolCallId": name, "state": state, "input": {}, **fields}


def answer(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The answer of the model, as far as it is written."""
    return {"id": "a1", "role": "assistant", "parts": [*parts], **fields}


DONE = asked("c1", output="rain")


@pytest.fixture
def chat(tmp_path: Path) -> TestClient:
    """A server with an empty session `s`."""
    api = client(tmp_path)
    assert api.post("sessions", json={"id": "s"}).status_code == 201
    return api


def send(api: TestClient, *messages: dict[str, Any]) -> dict[str, Any]:
    """Send a conversation; return the nodes of it."""
    done = api.post("sessions/s/import", json={"messages": messages})
    assert done.status_code == 200, done.text
    answered: dict[str, Any] = done.json()
    return answered


def shown(api: TestClient) -> Any:
    """The conversation as the interface gets it."""
    return api.get("sessions/s/messages").json()


GROWN: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "text behind a result": ([answer(DONE)], [answer(DONE, STEP, SAID)]),
    "a result": ([answer(asked("c1"))], [answer(DONE)]),
    "a result and more": ([answer(asked("c1"))], [answer(DONE, STEP, SAID), NEXT]),
    "another call": ([answer(DONE)], [answer(DONE, STEP, asked("c2", output={"a": 1}), SAID), NEXT]),
    "the first of two results": ([answer(asked("c1"), asked("c2", output="x"))],
                                 [answer(DONE, asked("c2", output="x"), SAID), NEXT]),
    "an output": ([answer(asked("c1", output="so far"))], [answer(DONE)]),
    "data of the interface": ([answer(SAID | {"state": "streaming"})], [answer(SAID, metadata={"tokens": 3})]),
    "the text itself": ([answer(SAID), NEXT], [answer({"type": "text", "text": "It snows."}), NEXT]),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWN)
def test_what_was_added_to_a_message_is_recorded(chat: TestClient, tmp_path: Path, name: str) -> None:
    """The interface gets back what it sent, models get each result behind its call, and sending again adds nothing."""
    nodes: list[str] = []
    for version in GROWN[name]:
        nodes = send(chat, USER, *version)["nodes"]
        assert shown(chat) == [USER, *version]
        end = records(tmp_path, "s")
        assert send(chat, USER, *version)["nodes"] == nodes
        assert records(tmp_path, "s") == end
    view = treering.open(tmp_path).view("s")
    assert view.path() == tuple(nodes)
    found = pairing([item.message for item in view.context])
    assert (found.passed, found.orphans) == ((), ())


def test_an_older_version_of_a_message_changes_nothing(chat: TestClient, tmp_path: Path) -> None:
    """A page that was opened before, or a request that was overtaken, sends less: nothing is taken back."""
    send(chat, USER, answer(DONE, STEP, SAID))
    end = records(tmp_path, "s")
    for older in (answer(DONE), answer(DONE, STEP), answer(asked("c1"))):
        send(chat, USER, older)
    assert records(tmp_path, "s") == end
    send(chat, USER, answer(DONE), NEXT)
    assert shown(chat) == [USER, answer(DONE, STEP, SAID), NEXT]


def test_what_does_not_go_together_is_refused(chat: TestClient, tmp_path: Path) -> None:
    """A result behind which the conversation went on, and a message without a recorded call: nothing is added."""
    send(chat, USER, answer(asked("c1")), NEXT)
    end = records(tmp_path, "s")
    for changed in (answer(DONE), answer(SAID)):
        refused = chat.post("sessions/s/import", json={"messages": [USER, changed, NEXT]})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "stale")
    assert records(tmp_path, "s") == end


def test_what_an_agent_recorded_is_not_changed_by_an_interface_that_shows_it(chat: TestClient, tmp_path: Path) -> None:
    """Its messages stay as they are, in their own format; only the new message is recorded, behind them."""
    with treering.open(tmp_path).session("s", shared=True) as session:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        asking = {"role": "assistant", "content": None, "tool_calls": [call], "usage": {"input": 3}}
        session.append("hi", asking, {"role": "tool", "tool_call_id": "c1", "content": "x"}, treering.assistant("yes"))
        before = session.path()
    page, end = shown(chat), records(tmp_path, "s")
    assert send(chat, *page)["nodes"] == list(before)
    assert records(tmp_path, "s") == end
    send(chat, *page, NEXT)
    assert shown(chat) == [*page, NEXT]
    view = treering.open(tmp_path).view("s")
    assert (view.path(), view.get(before[1]).payload) == ((*before, "u2"), asking)
    marked = [message | {"metadata": {"seen": True}} for message in page]
    send(chat, *marked, NEXT)
    assert shown(chat) == [*marked, NEXT]
    assert treering.open(tmp_path).view("s").get(before[1]).payload.items() >= asking.items()


def test_what_was_erased_stays_erased(chat: TestClient, tmp_path: Path) -> None:
    """An interface that still shows the words, or that was read again, records nothing of them."""
    with treering.open(tmp_path).session("s", shared=True) as session:
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        asking = {"role": "assistant", "content": None, "tool_calls": [call]}
        session.append("hi", asking, {"role": "tool", "tool_call_id": "c1", "content": "x"}, treering.assistant("yes"))
        before = session.path()
        page = shown(chat)
        session.erase(*before[2:])
    end = records(tmp_path, "s")
    for sent in (page, shown(chat)):
        assert send(chat, *sent)["nodes"] == list(before)
        assert records(tmp_path, "s") == end


def test_a_store_that_redacts_compares_what_it_stores(tmp_path: Path) -> None:
    """A secret is not recorded, and is no change when it is sent again."""
    store = treering.aopen(tmp_path, redactor=lambda text: text.replace("secret", "***"))
    api = client(store)
    api.post("sessions", json={"id": "s"})
    for text in ("a secret", "a secret, and another secret"):
        version = answer(asked("c1", output=text), SAID | {"text": text})
        send(api, USER, version)
        end = records(tmp_path, "s")
        send(api, USER, version)
        assert records(tmp_path, "s") == end
    assert shown(api)[1]["parts"][1]["text"] == "a ***, and another ***"


def test_a_repository_of_assistant_ui_grows(chat: TestClient) -> None:
    """An answer that got its result and more text is shown with both, on its branch."""
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "args": {}, "argsText": "{}"}
    user = {"id": "u1", "role": "user", "content": [{"type": "text", "text": "weather?"}]}
    for content in ([call], [call | {"result": "rain"}, SAID]):
        items = [
            {"parentId": None, "message": user},
            {"parentId": "u1", "message": {"id": "a1", "role": "assistant", "content": content}},
        ]
        body = {"format": "assistant-ui", "messages": items, "headId": "a1"}
        assert chat.post("sessions/s/import", json=body).status_code == 200
        page = chat.get("sessions/s/messages?format=assistant-ui").json()
        assert (page["headId"], page["messages"][-1]["message"]["content"]) == ("a1", content)


@settings(max_examples=few(10, 150), deadline=None)
@given(ui_messages)
def test_any_conversation_grows_part_by_part(messages: list[dict[str, Any]]) -> None:
    """Whatever parts the messages have: after each of them was sent, the interface gets them back."""
    api = client(treering.aopen(f"memory://growing-{new_nonce()}"))
    api.post("sessions", json={"id": "s"})
    sent: list[dict[str, Any]] = []
    for message in messages:
        for count in range(len(message["parts"]) + 1):
            version = [*sent, message | {"parts": message["parts"][:count]}]
            send(api, *version)
            assert shown(api) == json.loads(treering.to_json(version))
        sent.append(message)


def _tree(*names: str, head: str | None) -> dict[str, Any]:
    """A line of messages, as assistant-ui exports it."""
    parents = [None, *names]
    items = [
        {"parentId": parent, "message": {"id": name, "role": "user", "content": [{"type": "text", "text": name}]}}
        for parent, name in zip(parents, names, strict=False)
    ]
    return {"format": "assistant-ui", "messages": items} | ({"headId": head} if head is not None else {})


def test_a_branch_that_ends_nowhere_is_refused_before_anything_is_recorded(api: TestClient, folder: Path) -> None:
    """Its end has another message behind it, new or recorded."""
    end = records(folder)
    for _ in range(2):
        refused = api.post("sessions/trip/import", json=_tree("x", "y", head="x"), headers=KEY)
        assert (refused.status_code, records(folder)) == (400, end)
    assert api.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=KEY).status_code == 200
    assert api.post("sessions/trip/import", json=_tree("x", head="x")).status_code == 400


def test_an_import_that_is_sent_again_takes_nobody_along(api: TestClient, folder: Path) -> None:
    """Its branch became the current one once; a key stands for one import, also if it recorded no message."""
    for at in range(2):
        key = {"idempotency-key": f"import {at}"}
        assert api.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=key).status_code == 200
        api.post("sessions/trip/switch", json={"head": "mountains"})
        end = records(folder)
        for worker in (api, client(folder)):
            again = worker.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=key)
            assert (again.status_code, again.json()["nodes"]) == (200, ["x", "y"])
            assert worker.post("sessions/trip/import", json=_tree("x", head=None), headers=key).status_code == 409
        assert (treering.open(folder).view("trip").head, records(folder)) == ("mountains", end)


def test_an_imported_branch_that_another_client_continued_is_shown() -> None:
    """Right behind the append of the import; what was recorded is answered, and the branch is the current one."""
    meeting, store, worker, other = two_workers()
    worker.post("sessions/trip/import", json=_tree("x", "y", head="y"))
    has_written: list[bool] = []

    def reads_again(request: Request) -> bool:
        has_written.extend([True] * isinstance(request, Put))
        return bool(has_written) and isinstance(request, Get)

    def go_on() -> None:
        head = store.view("trip").get("z").head
        assert other.post("sessions/trip/messages", json={"messages": ["on"], "head": head}).status_code == 200

    meeting.before(reads_again, go_on)
    answers = [worker.post("sessions/trip/import", json=_tree("x", "z", head="z"), headers=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    view = store.view("trip")
    assert view.head == view.get("z").head
    assert view.path()[-2] == "z"


def _kill_behind_messages(meeting: Meeting) -> None:
    """Have the second write of an import fail, the one that shows its branch."""
    left = iter([False])

    def fail() -> None:
        raise treering.UnavailableError("down")

    meeting.before(lambda request: isinstance(request, Put) and next(left, True), fail)


def test_an_import_that_was_killed_in_the_middle_is_finished() -> None:
    """Its messages are there, and its branch becomes the current one when it is sent again."""
    meeting, store, worker, other = two_workers()
    _kill_behind_messages(meeting)
    seen = KEY | {"if-match": worker.get("sessions/trip").headers["etag"]}
    assert worker.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=seen).status_code == 503
    assert (store.view("trip").head, store.view("trip").get("y").id) == ("main", "y")
    assert other.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=KEY).status_code == 200
    assert store.view("trip").node == "y"


def test_an_import_with_a_condition_is_finished_when_it_is_sent_again() -> None:
    """It was killed behind its messages: these are no reason to refuse it, and no other client's edit is undone."""
    meeting, store, worker, other = two_workers()
    _kill_behind_messages(meeting)
    sent, seen = _tree("x", "y", head="y"), KEY | {"if-match": worker.get("sessions/trip").headers["etag"]}
    assert worker.post("sessions/trip/import", json=sent, headers=seen).status_code == 503
    with store.session("trip", shared=True) as session:
        session.amend("x", session.get("x").payload | {"content": "theirs"})
    answers = [each.post("sessions/trip/import", json=sent, headers=seen) for each in (other, worker)]
    assert [(answer.status_code, answer.json()["nodes"]) for answer in answers] == [(200, ["x", "y"])] * 2
    view = store.view("trip")
    assert (view.node, view.get("x").payload["content"]) == ("y", "theirs")
    late = seen | {"idempotency-key": "another"}
    assert other.post("sessions/trip/import", json=_tree("z", head="z"), headers=late).status_code == 409


def test_an_import_with_a_condition_shows_its_branch(api: TestClient, folder: Path) -> None:
    """What it recorded itself is no reason to refuse the rest of it."""
    seen = {"if-match": api.get("sessions/trip").headers["etag"]}
    assert api.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=seen).status_code == 200
    assert treering.open(folder).view("trip").node == "y"


def test_a_key_stands_for_an_import_that_recorded_nothing(chat: TestClient) -> None:
    """All was known already; another conversation with the key is refused."""
    send(chat, USER)
    for messages, status in (([USER], 200), ([USER], 200), ([USER, NEXT], 409)):
        done = chat.post("sessions/s/import", json={"messages": messages}, headers=KEY)
        assert done.status_code == status, done.text


def test_with_if_match_an_import_takes_nobody_along() -> None:
    """All of it is recorded, and another client records something before its branch becomes the current one."""
    meeting, store, worker, other = two_workers()
    worker.post("sessions/trip/import", json=_tree("x", "y", head="y"))
    worker.post("sessions/trip/switch", json={"head": "mountains"})
    seen = {"if-match": worker.get("sessions/trip").headers["etag"]}
    meeting.before(tail_write, lambda: other.post("sessions/trip/messages", json={"messages": ["theirs"]}))
    refused = worker.post("sessions/trip/import", json=_tree("x", "y", head="y"), headers=seen)
    assert (refused.status_code, store.view("trip").head) == (409, "mountains")
