"""What is recorded over HTTP, once however often it is sent, and not where others were first."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.clients import client, messages, trip, two_workers
from tests.session.faults import Meeting, Unreliable

import treering
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.exporters import export
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Append, Get, Put, Request
from treering.store.place import Place

KEY = {"idempotency-key": "request-1"}
FORMATS = ("ui", "assistant-ui", "anthropic", "openai")


def records(folder: Path, session: str = "trip") -> int:
    """How many records a session has."""
    return treering.open(folder).view(session).stored().records


def test_a_session_is_created_once(tmp_path: Path) -> None:
    """The card of a new session is answered, also to whoever asks again; another request of its name is refused."""
    api = client(tmp_path)
    for body in ({"title": "T", "project": "p"}, {"messages": messages("hi", "yes")}, {"id": "named"}):
        headers = {"idempotency-key": f"make {body}"}
        first, again = (api.post("sessions", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json()["after"] == again.json()["after"]
        assert first.json()["info"]["title"] == body.get("title", "")
        other = api.post("sessions", json={"id": first.json()["info"]["id"]})
        assert (other.status_code, other.json()["error"]["kind"]) == (409, "exists")
    assert len(api.get("sessions").json()["rows"]) == 3


def test_a_session_whose_creation_had_no_answer_is_created_by_the_next_request() -> None:
    """Though its card is there already: nothing is recorded in it."""
    for fault in (Fault.BEFORE, Fault.AFTER, Fault.LATE):
        for after in range(12):
            bucket = Unreliable()
            bucket.plan.arm(fault, after=after)
            api = client(AsyncStore(bucket.store.place))
            first = api.post("sessions", json={"title": "T"}, headers=KEY)
            bucket.plan.disarm()
            bucket.settle()
            again = [api.post("sessions", json={"title": "T"}, headers=KEY) for _ in range(2)]
            assert [each.status_code for each in again] == [201, 201], (first.status_code, fault, after)
            assert bucket.sound.view(again[0].json()["info"]["id"]).stored().records == 1


@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("body", [{"id": "x", "title": "T"}, {"id": "x", "messages": ["hi"]}])
def test_a_creation_that_is_sent_again_while_it_runs_gets_its_answer(after: int, body: dict[str, Any]) -> None:
    """Of two runs with one key one records, and both are answered; without a key the second one is refused."""
    for key, statuses in ((KEY, [201, 201]), ({}, [201, 409])):
        meeting, store, worker, other = two_workers()
        answers: list[Any] = []

        def run_whole(other: TestClient = other, headers: Any = key, answers: list[Any] = answers) -> None:
            answers.append(other.post("sessions", json=body, headers=headers))

        meeting.before(_write_after(after), run_whole)
        answers.append(worker.post("sessions", json=body, headers=key))
        assert sorted(answer.status_code for answer in answers) == statuses
        assert store.view("x").stored().records == 1
        assert key == {} or answers[0].json() == answers[-1].json()


@pytest.mark.parametrize("after", range(2))
def test_of_two_new_sessions_of_one_name_neither_gets_the_card_of_the_other(after: int) -> None:
    """Two clients create it at the same moment, with other titles: the second one is told."""
    meeting, store, worker, other = two_workers()
    body = {"id": "x", "messages": ["hi"]}
    statuses: list[int] = []
    meeting.before(
        _write_after(after), lambda: statuses.append(other.post("sessions", json=body | {"title": "B"}).status_code)
    )
    statuses.append(worker.post("sessions", json=body | {"title": "A"}).status_code)
    assert sorted(statuses) == [201, 409]
    assert store.view("x").info.title == "BA"[statuses.index(201)]
    assert store.view("x").stored().records == 1


def test_messages_are_appended_once(api: TestClient, folder: Path) -> None:
    """A request that is sent again gets the same answer, and adds nothing, also at another worker."""
    body = {"messages": messages("and then?", "home")}
    first = api.post("sessions/trip/messages", json=body, headers=KEY)
    end = records(folder)
    again = [each.post("sessions/trip/messages", json=body, headers=KEY) for each in (api, client(folder))]
    assert [each.json() for each in again] == [first.json()] * 2
    assert [each.headers["etag"] for each in again] == [first.headers["etag"]] * 2
    assert records(folder) == end
    assert treering.open(folder).view("trip").path()[-2:] == tuple(first.json()["nodes"])
    other = api.post("sessions/trip/messages", json={"messages": messages("another")}, headers=KEY)
    assert (other.status_code, other.json()["error"]["kind"]) == (409, "duplicate_id")


def test_a_key_is_for_one_content(api: TestClient, folder: Path) -> None:
    """A commit or a new session with a used key and any other content is refused, and nothing is recorded."""
    commit = {"messages": ["a"], "state": {"step": 3}}
    assert api.post("sessions/trip/commit", json=commit, headers=KEY).status_code == 200
    new = {"title": "one", "messages": ["one"]}
    made = api.post("sessions", json=new, headers=KEY).json()
    bare = {"idempotency-key": "bare"}
    assert api.post("sessions", json={"project": "p"}, headers=bare).status_code == 201
    end, count = records(folder), len(api.get("sessions").json()["rows"])
    others: list[tuple[str, Any, dict[str, str]]] = [
        ("sessions/trip/commit", {"messages": ["b", "c"], "state": {"paid": True}}, KEY),
        ("sessions/trip/commit", commit | {"state": {"step": 4}}, KEY),
        ("sessions/trip/commit", commit | {"label": "x"}, KEY),
        ("sessions", {"title": "two", "messages": ["two"]}, KEY),
        ("sessions", new | {"title": "two"}, KEY),
        ("sessions", new | {"messages": ["one", "two"]}, KEY),
        ("sessions", {"project": "q"}, bare),
    ]
    for path, body, headers in others:
        for worker in (api, client(folder)):
            refused = worker.post(path, json=body, headers=headers)
            assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "duplicate_id"), body
    assert (records(folder), len(api.get("sessions").json()["rows"])) == (end, count)
    api.patch(f"sessions/{made['key']}", json={"title": "renamed"})
    again = api.post("sessions", json=dict(reversed(new.items())), headers=KEY)
    assert (again.status_code, again.json()["info"]["title"]) == (201, "renamed")


def test_a_key_is_for_one_request(api: TestClient, folder: Path) -> None:
    """A key that an append, an edit, a commit or a label had is refused for anything else, on any route."""
    question, answer = treering.open(folder).view("trip").path()
    requests: list[tuple[str, dict[str, Any]]] = [
        ("messages", {"messages": ["x"]}),
        ("messages", {"messages": ["x"], "head": "mountains"}),
        ("messages", {"messages": ["x"], "parent": question}),
        ("messages", {"messages": ["x", "y"]}),
        ("commit", {"messages": ["x"]}),
        ("commit", {"state": {"step": 9}}),
        (f"nodes/{question}/edit", {"message": "x"}),
        (f"nodes/{answer}/edit", {"message": "x"}),
        (f"nodes/{answer}/label", {"label": "x"}),
        (f"nodes/{question}/label", {"label": "x"}),
    ]
    for at, (path, body) in enumerate(requests):
        assert api.post(f"sessions/trip/{path}", json=body, headers={"idempotency-key": str(at)}).status_code == 200
    end = records(folder)
    for at in range(len(requests)):
        for path, body in requests[:at] + requests[at + 1 :]:
            refused = api.post(f"sessions/trip/{path}", json=body, headers={"idempotency-key": str(at)})
            assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "duplicate_id"), (at, path, body)
    assert records(folder) == end


def test_a_key_is_known_again_where_texts_are_redacted(tmp_path: Path) -> None:
    """Also if the redactor takes everything that looks random."""
    store = treering.aopen(tmp_path, redactor=treering.redact_patterns(["[0-9a-f]{16,}"]))
    api = client(store)
    api.post("sessions", json={"id": "s", "messages": ["a"]}, headers=KEY)
    bodies: list[dict[str, Any]] = [{"messages": ["b"]}, {"messages": []}]
    for body in bodies:
        headers = {"idempotency-key": str(body)}
        first, again = (api.post("sessions/s/commit", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert api.post("sessions", json={"id": "s", "messages": ["a"]}, headers=KEY).status_code == 201


TEXT = {"type": "text", "text": "{}"}
CHANGES: dict[str, tuple[str, str, Any]] = {
    "title": ("PATCH", "", {"title": "{}"}),
    "label": ("POST", "nodes/{node}/label", {"label": "{}"}),
    "message": ("POST", "messages", {"messages": ["{}"]}),
    "commit": ("POST", "commit", {"state": {"step": "{}"}, "merge": True}),
    "import": (
        "POST",
        "import",
        {"messages": [{"id": "x", "role": "user", "parts": [{"type": "text", "text": "{}"}]}]},
    ),
    "switch": ("POST", "switch", {"head": "mountains"}),
    "branch": ("POST", "branch", {"head": "{}"}),
    "regenerate": ("POST", "nodes/{node}/regenerate", None),
    "fork": ("POST", "fork", {"id": "{}"}),
    "discard": ("POST", "streams/{stream}/discard", None),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("headers", [KEY, {}], ids=["with a key", "without"])
def test_with_if_match_nobody_overwrites_what_he_did_not_see(change: str, headers: dict[str, str]) -> None:
    """Two clients have read the same, and send at the same moment: the second is refused."""
    meeting = Meeting(MemoryDriver())
    store = Store(Place(meeting))
    trip(store)
    with store.session("trip") as session:
        stream = session.stream().id
    worker, other = client(AsyncStore(Place(meeting))), client(AsyncStore(Place(meeting.inner)))
    method, path, body = CHANGES[change]
    path = f"sessions/trip/{path.format(node=store.view('trip').node, stream=stream)}".rstrip("/")
    told = {"if-match": worker.get("sessions/trip").headers["etag"]}
    texts = [json.loads(json.dumps(body).replace("{}", said)) for said in ("mine", "theirs")]
    statuses: list[int] = []

    def send(to: TestClient, at: int) -> None:
        known = told | ({"idempotency-key": f"{at}"} if headers else {})
        statuses.append(to.request(method, path, json=texts[at], headers=known).status_code)

    meeting.before(_write_after(0), lambda: send(other, 1))
    send(worker, 0)
    assert statuses[0] in {200, 201, 204}
    assert statuses[1:] == [409]


def test_a_branch_is_begun_below_any_node(api: TestClient, folder: Path) -> None:
    """Messages go below a parent on a head of their own; null is a new root."""
    question = treering.open(folder).view("trip").path()[0]
    done = api.post("sessions/trip/messages", json={"messages": messages("a", "b"), "parent": question}).json()
    view = treering.open(folder).view("trip")
    assert view.path(done["nodes"][-1]) == (question, *done["nodes"])
    assert view.heads[done["head"]] == done["nodes"][-1]
    root = api.post("sessions/trip/messages", json={"messages": ["anew"], "parent": None}).json()
    assert treering.open(folder).view("trip").path(root["nodes"][0]) == tuple(root["nodes"])


def test_the_second_of_two_writers_is_told_where_the_heads_are(api: TestClient, folder: Path) -> None:
    """With `If-Match`, or an expected node, nothing is written over what somebody else did."""
    seen = api.get("sessions/trip")
    with treering.open(folder).session("trip", shared=True) as session:
        node = session.append("first").node
    end = records(folder)
    stale = {"if-match": seen.headers["etag"]}
    requests: list[tuple[str, str, Any]] = [
        ("POST", "messages", {"messages": ["second"]}),
        ("POST", "commit", {"state": {"step": 9}}),
        ("PATCH", "", {"title": "x"}),
        ("POST", f"nodes/{node}/edit", {"message": "x"}),
        ("POST", f"nodes/{node}/regenerate", {}),
        ("POST", f"nodes/{node}/label", {"label": "x"}),
        ("POST", f"nodes/{node}/retract", {}),
        ("POST", "switch", {"head": "mountains"}),
        ("POST", "branch", {"head": "x"}),
        ("POST", "fork", {"id": "x"}),
        ("POST", "import", {"messages": [{"id": "x", "role": "user", "parts": []}]}),
        ("DELETE", "", None),
    ]
    for method, path, body in requests:
        found = api.request(method, f"sessions/trip/{path}".rstrip("/"), json=body, headers=stale)
        assert (found.status_code, found.json()["error"]["kind"]) == (409, "stale"), path
    heads = dict(treering.open(folder).view("trip").heads)
    told = api.post("sessions/trip/messages", json={"messages": ["second"]}, headers=stale).json()["error"]
    assert told["head"] == heads
    expected = api.post("sessions/trip/messages", json={"messages": ["second"], "expect": seen.json()["node"]})
    assert (expected.status_code, expected.json()["error"]["type"]) == (409, "HeadMovedError")
    assert expected.json()["error"]["head"] == heads
    assert records(folder) == end
    for form in ("{}", "W/{}", "*"):  # as it was answered, as a proxy that compresses answers passes it on, and any
        fresh = {"if-match": form.format(api.get("sessions/trip").headers["etag"])}
        assert api.post("sessions/trip/messages", json={"messages": ["second"]}, headers=fresh).status_code == 200


def _of(view: treering.View) -> dict[str, tuple[str, str, Any]]:
    question, answer = view.path()
    checkpoint = view.checkpoints()[0].id
    return {
        "append": ("POST", "messages", {"messages": ["more"]}),
        "commit": ("POST", "commit", {"messages": ["more"], "state": {"step": 7}}),
        "commit state": ("POST", "commit", {"state": {"step": 7}, "label": "here"}),
        "commit nothing": ("POST", "commit", {}),
        "edit": ("POST", f"nodes/{question}/edit", {"message": "when?"}),
        "regenerate": ("POST", f"nodes/{answer}/regenerate", None),
        "label": ("POST", f"nodes/{answer}/label", {"label": "good"}),
        "retract": ("POST", f"nodes/{answer}/retract", None),
        "switch": ("POST", "switch", {"head": "mountains"}),
        "rewind": ("POST", "rewind", {"checkpoint": view.checkpoints()[1].id}),
        "branch": ("POST", "branch", {"head": "new", "node": question}),
        "title": ("PATCH", "", {"title": "new", "status": "done"}),
        "import": ("POST", "import", {"messages": [{"id": "x", "role": "user", "parts": []}]}),
        "fork": ("POST", "fork", {"node": question, "title": f"of {checkpoint}"}),
    }


VERBS = [
    "append", "commit", "commit state", "commit nothing", "edit", "regenerate", "label", "retract", "switch", "rewind",
    "branch", "title", "import", "fork",
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_write_can_be_sent_again(api: TestClient, folder: Path, verb: str) -> None:
    """Whoever lost the answer sends the request again, with the same key and condition, and nothing more happens."""
    method, path, body = _of(treering.open(folder).view("trip"))[verb]
    headers = {**KEY, "if-match": api.get("sessions/trip").headers["etag"]}

    def send(to: TestClient) -> Any:
        return to.request(method, f"sessions/trip/{path}".rstrip("/"), json=body, headers=headers)

    first = send(api)
    assert first.status_code in {200, 201}, first.text
    end = records(folder)
    for again in (send(api), send(client(folder))):
        assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert records(folder) == end


@pytest.mark.parametrize("condition", ["", "if-match", "expect", "expect_checkpoint", "merge"])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_of_two_runs_of_a_request_one_records(verb: str, condition: str) -> None:
    """A request is sent again while it still runs, at another worker: both runs get the answer, and one records."""
    if condition in {"", "if-match"} or verb.startswith("commit") or (verb, condition) == ("append", "expect"):
        after = 0
        while _meets_itself(verb, condition, after):
            after += 1
        assert after > 0


def _meets_itself(verb: str, condition: str, after: int) -> bool:
    """Send a request, and again before one of its writes; return whether it has so many."""
    meeting, store, worker, other = two_workers()
    view = store.view("trip")
    method, path, body = _of(view)[verb]
    expected = {"expect": view.node, "expect_checkpoint": view.checkpoint_id, "merge": True}
    body = body if condition not in expected else body | {condition: expected[condition]}
    etag = worker.get("sessions/trip").headers["etag"]
    headers = KEY | ({"if-match": etag} if condition == "if-match" else {})
    answers: list[Any] = []
    ends: list[tuple[int, Any]] = []

    def send(to: TestClient) -> None:
        answers.append(to.request(method, f"sessions/trip/{path}".rstrip("/"), json=body, headers=headers))

    def end() -> tuple[int, Any]:
        view = store.view("trip")
        return view.stored().records, dict(view.heads)

    def run_whole() -> None:
        send(other)
        ends.append(end())

    meeting.before(_write_after(after), run_whole)
    send(worker)
    for answer in answers:
        assert answer.status_code in {200, 201}, answer.text
        assert answer.json() == answers[0].json()
    assert not ends or [end()] == ends
    return bool(ends)


@pytest.mark.parametrize("headers", [KEY, {}], ids=["with a key", "without"])
def test_a_turn_ends_behind_what_others_were_first_to_record(headers: dict[str, str]) -> None:
    """A commit that expects nothing is recorded, once, whatever is recorded meanwhile."""
    meeting = Meeting(MemoryDriver())
    store = Store(Place(meeting))
    trip(store)
    other = client(AsyncStore(Place(meeting.inner)))
    meeting.before(_write_after(0), lambda: other.post("sessions/trip/commit", json={"messages": ["theirs"]}))
    body = {"messages": ["mine"], "state": {"step": 7}}
    done = client(AsyncStore(Place(meeting))).post("sessions/trip/commit", json=body, headers=headers)
    assert done.status_code == 200, done.text
    view = store.view("trip")
    said = [node.payload["content"] for node in view.each_node()]
    assert [said.count(each) for each in ("mine", "theirs")] == [1, 1]
    again = other.post("sessions/trip/commit", json=body, headers=KEY)
    assert (again.json() == done.json()) == (headers == KEY)


def _write_after(count: int) -> Callable[[Request], bool]:
    """Choose the write behind so many others."""
    left = iter([False] * count)
    return lambda request: isinstance(request, Put | Append) and next(left, True)


def test_a_request_that_is_sent_again_undoes_nothing(api: TestClient, folder: Path) -> None:
    """Its first run was answered, and somebody else decided otherwise since: that stands."""
    answer = treering.open(folder).view("trip").path()[-1]
    requests: list[tuple[str, str, Any, Any]] = [
        ("PATCH", "", {"title": "mine", "status": "done"}, {"title": "theirs", "status": "open"}),
        ("POST", f"nodes/{answer}/label", {"label": "mine"}, {"label": "theirs"}),
        ("POST", f"nodes/{answer}/label", {"label": None}, {"label": "theirs again"}),
    ]
    for at, (method, path, mine, theirs) in enumerate(requests):
        sent = [{"idempotency-key": f"{name} {at}"} for name in ("mine", "theirs", "mine")]
        for headers, body in zip(sent, (mine, theirs, mine), strict=True):
            found = api.request(method, f"sessions/trip/{path}".rstrip("/"), json=body, headers=headers)
            assert found.status_code == 200, found.text
        view = treering.open(folder).view("trip")
        assert (view.info.title, view.info.status) == ("theirs", "open")
        assert view.labels().get(answer) == (None if at == 0 else theirs["label"])
    for verb in ("retract", "unretract", "retract"):
        headers = {"idempotency-key": "hide"} if verb == "retract" else {}
        assert api.post(f"sessions/trip/nodes/{answer}/{verb}", headers=headers).status_code == 200
    assert not treering.open(folder).view("trip").get(answer).retracted


@pytest.mark.parametrize("verb", ["switch", "rewind", "unretract"])
def test_where_somebody_went_since_he_stays(api: TestClient, folder: Path, verb: str) -> None:
    """What navigates is answered when it is sent again, and does not take others along a second time."""
    view = treering.open(folder).view("trip")
    answer, newest = view.path()[-1], view.checkpoints()[-1].id
    mine, theirs = {
        "switch": (("switch", {"head": "mountains"}), ("switch", {"head": "main"})),
        "rewind": (("rewind", {"checkpoint": view.checkpoints()[0].id}), ("rewind", {"checkpoint": newest})),
        "unretract": ((f"nodes/{answer}/unretract", None), (f"nodes/{answer}/retract", None)),
    }[verb]
    if verb == "unretract":
        api.post(f"sessions/trip/{theirs[0]}")
    assert api.post(f"sessions/trip/{mine[0]}", json=mine[1], headers=KEY).status_code == 200
    assert api.post(f"sessions/trip/{theirs[0]}", json=theirs[1]).status_code == 200
    end = records(folder)
    for worker in (api, client(folder)):
        assert worker.post(f"sessions/trip/{mine[0]}", json=mine[1], headers=KEY).status_code == 200
    assert records(folder) == end


def test_an_edit_is_a_sibling(api: TestClient, folder: Path) -> None:
    """An edited message stands beside the old one, on a head of its own, and no other head moves."""
    view = treering.open(folder).view("trip")
    question = view.path()[0]
    done = api.post(f"sessions/trip/nodes/{question}/edit", json={"message": "when?"}).json()
    after = treering.open(folder).view("trip")
    assert after.siblings(done["nodes"][0]).nodes == (question, done["nodes"][0])
    assert {name: after.heads[name] for name in view.heads} == dict(view.heads)
    assert after.head == view.head
    rows = api.get("sessions/trip/history", params={"head": done["head"]}).json()["rows"]
    assert [(row["sibling"], row["siblings"]) for row in rows] == [(1, 2)]


def test_another_text_leaves_the_rest_of_a_message(api: TestClient, folder: Path) -> None:
    """Also what JSON has no value for, and what is so large that pages show a reference to it."""
    asked = {"role": "user", "content": "where?", "channel": 2**53 + 1, "key": b"\x00", "file": "x" * 300_000}
    with treering.open(folder).session("trip", shared=True) as session:
        node = session.append(asked).node
    sent = [api.post(f"sessions/trip/nodes/{node}/edit", json={"text": "when?"}, headers=KEY) for _ in range(2)]
    made = sent[0].json()["nodes"][0]
    assert [each.json()["nodes"] for each in sent] == [[made], [made]]
    assert treering.open(folder).view("trip").get(made).payload == asked | {"content": "when?"}
    for body in ({}, {"text": "a", "message": "b"}, {"text": None}):
        assert api.post(f"sessions/trip/nodes/{node}/edit", json=body).status_code == 400


def test_another_text_of_what_has_no_fields_is_a_message(api: TestClient, folder: Path) -> None:
    """What was erased, or recorded as text alone or in another form, has the role of its node; a summary is refused."""
    with treering.open(folder).session("trip", shared=True) as session:
        other = {"role": "assistant", "parts": [{"text": "yes"}]}
        nodes = session.append(
            treering.Draft(payload="yes", role="assistant"), treering.assistant("secret"), other,
            treering.Draft(kind="compaction", payload={"summary": "yes"}),
        ).nodes  # fmt: skip
        session.erase(nodes[1])
    *messages, compaction = nodes
    assert api.post(f"sessions/trip/nodes/{compaction}/edit", json={"text": "no"}).status_code == 400
    for node in messages:
        made = api.post(f"sessions/trip/nodes/{node}/edit", json={"text": "no"}).json()["nodes"][0]
        assert treering.open(folder).view("trip").get(made).payload == {"role": "assistant", "content": "no"}


def test_another_answer_is_prepared(api: TestClient, folder: Path) -> None:
    """The new head stands at what was asked, and what the model sees there is answered."""
    question, answer = treering.open(folder).view("trip").path()
    made = api.post(f"sessions/trip/nodes/{answer}/regenerate").json()
    assert (made["node"], [item["message"]["content"] for item in made["context"]]) == (question, ["where to?"])
    done = api.post(
        "sessions/trip/messages", json={"messages": [{"role": "assistant", "content": "north"}], "head": made["head"]}
    )
    view = treering.open(folder).view("trip")
    assert view.path(done.json()["nodes"][0]) == (question, done.json()["nodes"][0])
    assert api.post(f"sessions/trip/nodes/{question}/regenerate").status_code == 400


def test_navigation_and_edits(api: TestClient, folder: Path) -> None:
    """Labels, retracting, switching, rewinding, branching, title and status do what the methods of a session do."""
    view = treering.open(folder).view("trip")
    question, answer = view.path()
    api.post(f"sessions/trip/nodes/{answer}/label", json={"label": "good"})
    assert api.get("sessions/trip/labels").json() == {answer: "good"}
    api.post(f"sessions/trip/nodes/{answer}/label", json={"label": None})
    assert api.get("sessions/trip/labels").json() == {}
    api.post(f"sessions/trip/nodes/{answer}/retract")
    assert [row["node"]["id"] for row in api.get("sessions/trip/history").json()["rows"]] == [question]
    api.post(f"sessions/trip/nodes/{answer}/unretract")
    assert len(api.get("sessions/trip/history").json()["rows"]) == 2
    assert api.post("sessions/trip/switch", json={"head": "mountains"}).json()["state"] == {"step": 2}
    assert api.post("sessions/trip/switch", json={"head": "valley"}).status_code == 404
    rewound = api.post("sessions/trip/rewind", json={"checkpoint": view.checkpoints()[0].id}).json()
    assert (rewound["node"], rewound["state"]) == (answer, {"step": 1})
    branched = api.post("sessions/trip/branch", json={"head": "third", "node": question}).json()
    assert (branched["head"], branched["node"]) == ("third", question)
    changed = api.patch("sessions/trip", json={"title": "new", "status": "done"}).json()["info"]
    assert (changed["title"], changed["status"]) == ("new", "done")


def test_a_fork_is_a_session(api: TestClient, folder: Path) -> None:
    """The card of the new session is answered; it names its parent."""
    question = treering.open(folder).view("trip").path()[0]
    made = api.post("sessions/trip/fork", json={"node": question, "id": "other trip", "title": "F"})
    card = made.json()
    assert (made.status_code, card["info"]["parent_session"], card["info"]["title"]) == (201, "trip", "F")
    assert api.get(f"sessions/{card['key']}/path").json() == {"ids": [question]}
    assert api.post("sessions/trip/fork", json={"id": "other trip"}).status_code == 409


def test_a_fork_that_was_killed_behind_its_link_is_made_where_it_began() -> None:
    """Sent again, it goes on with the link that is there, wherever the session went since."""
    meeting, store, worker, other = two_workers()
    node = store.view("trip").node
    headers = KEY | {"if-match": worker.get("sessions/trip").headers["etag"]}
    killed = RuntimeError("the worker was killed")

    def kill() -> None:
        raise killed

    meeting.before(_write_after(1), kill)
    with pytest.raises(RuntimeError, match=str(killed)):
        worker.post("sessions/trip/fork", json={"id": "copy"}, headers=headers)
    assert "copy" not in [info.id for info in store.each_session()]
    other.post("sessions/trip/messages", json={"messages": ["more"]})
    end = store.view("trip").stored().records
    for _ in range(2):
        assert other.post("sessions/trip/fork", json={"id": "copy"}, headers=headers).status_code == 201
    assert store.view("copy").node == node
    assert store.view("trip").stored().records == end


def test_a_fork_of_a_session_without_messages_goes_on_from_its_link() -> None:
    """It was begun where nothing was said, and is made there, though the session has a message by now."""
    meeting = Meeting(MemoryDriver())
    store = Store(Place(meeting))
    with store.session("trip") as session:
        session.set_title("T")

    def fail() -> None:
        raise treering.UnavailableError("down")

    meeting.before(_write_after(1), fail)
    worker, other = client(AsyncStore(Place(meeting))), client(AsyncStore(Place(meeting.inner)))
    assert worker.post("sessions/trip/fork", json={"id": "copy"}, headers=KEY).status_code == 503
    other.post("sessions/trip/messages", json={"messages": ["more"]})
    assert other.post("sessions/trip/fork", json={"id": "copy"}, headers=KEY).status_code == 201
    assert (store.view("copy").node, store.view("copy").info.title) == (None, "T")


@pytest.mark.parametrize("after", range(2))
def test_a_session_of_the_name_is_not_taken_for_the_fork(after: int) -> None:
    """Another client creates it right before the fork is recorded, or behind its link."""
    meeting, store, worker, other = two_workers()
    theirs = {"id": "copy", "messages": ["theirs"]}
    meeting.before(_write_after(after), lambda: other.post("sessions", json=theirs))
    for _ in range(2):
        refused = worker.post("sessions/trip/fork", json={"id": "copy"}, headers=KEY)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "exists")
    assert store.view("copy").info.parent_session is None


def test_a_rewind_brings_back_what_a_conversation_manager_keeps(tmp_path: Path) -> None:
    """Also if nothing else differs."""
    store = treering.open(tmp_path)
    with store.session("trip") as session:
        session.commit(["hi"], manager={"v": 1})
        checkpoint = session.checkpoint_id
        session.commit(manager={"v": 2})
    assert client(tmp_path).post("sessions/trip/rewind", json={"checkpoint": checkpoint}).status_code == 200
    assert store.view("trip").manager == {"v": 1}


def test_a_used_key_answers_no_other_fork(api: TestClient, folder: Path) -> None:
    """A fork at another node, or with another title, is not the one that the key, or the name, stands for."""
    question, answer = treering.open(folder).view("trip").path()
    asked = {"node": question, "title": "F"}
    made = api.post("sessions/trip/fork", json=asked, headers=KEY).json()
    assert api.post("sessions/trip/fork", json=asked, headers=KEY).json() == made
    for other in (asked | {"node": answer}, asked | {"title": "G"}):
        refused = api.post("sessions/trip/fork", json=other, headers=KEY)
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "duplicate_id")
    named = asked | {"id": "named"}
    for _ in range(2):
        assert api.post("sessions/trip/fork", json=named, headers={"idempotency-key": "one"}).status_code == 201
        treering.open(folder).session("named", shared=True).set_title("renamed since")
    for key, other, kind in (
        ("one", named | {"node": answer}, "duplicate_id"),
        ("one", named | {"title": "G"}, "duplicate_id"),
        ("another", named, "exists"),
    ):
        refused = api.post("sessions/trip/fork", json=other, headers={"idempotency-key": key})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (409, kind)
    assert treering.open(folder).view("named").path() == (question,)


def test_a_used_key_prepares_an_answer_to_another_message(api: TestClient) -> None:
    """Its head is not the one of the first request, which stands elsewhere."""
    done = api.post("sessions/trip/messages", json={"messages": ["and then?", "and then?"]}).json()["nodes"]
    heads = {}
    for node in done:
        made = api.post(f"sessions/trip/nodes/{node}/regenerate", headers=KEY).json()
        assert api.get("sessions/trip").json()["heads"][made["head"]] == made["node"]
        heads[node] = made["head"]
    assert len({*heads.values()}) == 2


def test_a_deleted_session_is_deleted_once(api: TestClient) -> None:
    """Deleting again is harmless, and what viewers chose in it is gone as well."""
    node = api.get("sessions/trip").json()["node"]
    api.put("sessions/trip/view-state?viewer=me", json={"node": node})
    assert [api.delete("sessions/trip", headers=KEY).status_code for _ in range(2)] == [204, 204]
    assert api.get("sessions/trip").status_code == 410
    api.post("sessions", json={"id": "trip"})
    assert api.get("sessions/trip/view-state?viewer=me").json() == {"node": None}


def test_a_deletion_can_be_sent_again_with_its_condition(api: TestClient) -> None:
    """The session that the client saw is gone, as it wanted."""
    headers = KEY | {"if-match": api.get("sessions/trip").headers["etag"]}
    assert [api.delete("sessions/trip", headers=headers).status_code for _ in range(2)] == [204, 204]
    assert api.delete("sessions/trip", headers={"if-match": headers["if-match"]}).status_code in {404, 410}


class Unlocked(MemoryDriver):
    """A store without locks, as a bucket is."""

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> None:
        """Lock nothing."""


@pytest.mark.parametrize("headers", [KEY, {}], ids=["with a key", "without"])
def test_a_session_that_went_on_is_not_deleted(headers: dict[str, str]) -> None:
    """Another worker records when the condition was compared, right before the session would be deleted."""
    meeting = Meeting(Unlocked())
    store = Store(Place(meeting))
    trip(store)
    worker, other = client(AsyncStore(Place(meeting))), client(AsyncStore(Place(meeting.inner)))
    told = headers | {"if-match": worker.get("sessions/trip").headers["etag"]}
    reads = itertools.count()
    meeting.before(
        lambda request: isinstance(request, Get) and next(reads) == 1,
        lambda: other.post("sessions/trip/messages", json={"messages": ["theirs"]}),
    )
    refused = worker.delete("sessions/trip", headers=told)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (409, "stale")
    assert store.view("trip").context[-1].message["content"] == "theirs"
    fresh = headers | {"if-match": worker.get("sessions/trip").headers["etag"]}
    assert worker.delete("sessions/trip", headers=fresh).status_code == 204


def test_the_choice_of_each_viewer_is_kept_beside_the_session(api: TestClient, folder: Path) -> None:
    """It is there after a restart, for some viewers; the session has no record of it, and is not changed."""
    node = api.get("sessions/trip").json()["heads"]["mountains"]
    end = records(folder)
    for viewer in range(70):
        assert api.put(f"sessions/trip/view-state?viewer=v{viewer}", json={"node": node}).json() == {"node": node}
    after = client(folder)
    assert after.get("sessions/trip/view-state?viewer=v69").json() == {"node": node}
    assert after.get("sessions/trip/view-state?viewer=v0").json() == {"node": None}  # 64 are kept
    after.put("sessions/trip/view-state?viewer=v69", json={"node": None})
    assert api.get("sessions/trip/view-state?viewer=v69").json() == {"node": None}
    assert api.put("sessions/trip/view-state?viewer=v0", json={"node": "x" * 2000}).status_code == 200
    for body in ({"node": "x" * 2001}, {"node": 1}, {"node": None, "more": 1}, {}):
        assert api.put("sessions/trip/view-state?viewer=v1", json=body).status_code == 400
    assert api.put(f"sessions/trip/view-state?viewer={'v' * 201}", json={"node": None}).status_code == 400
    assert records(folder) == end


def test_a_session_that_somebody_has_for_himself(api: TestClient, folder: Path) -> None:
    """Writing is refused, with who has it; reading goes on."""
    with treering.open(folder).session("trip") as session:
        session.append("mine")
        held = api.post("sessions/trip/messages", json={"messages": ["yours"]})
        assert (held.status_code, held.json()["error"]["type"]) == (423, "SessionHeldError")
        assert api.get("sessions/trip/history").status_code == 200


def test_bodies_are_checked(api: TestClient, folder: Path) -> None:
    """What is no JSON, of another shape or type, too long or nested without end is refused, and nothing is written."""
    end, path = records(folder), "sessions/trip/messages"
    as_json = {"content-type": "application/json"}
    refused: list[tuple[int, Any]] = [
        (400, api.post(path, content=b"{", headers=as_json)),
        (400, api.post(path, json={"messages": 1})),
        (400, api.post(path, json={"messages": ["x"], "unknown": 1})),
        (400, api.post(path, json={"messages": [1]})),
        (400, api.post(path, json={"messages": []})),
        (400, api.post(path, json={"messages": ["x"] * 1001})),
        (400, api.post(path, json={"messages": ["x"], "parent": None, "head": "main"})),
        (400, api.post(path, content=b'{"messages": ["\xff"]}', headers=as_json)),
        (400, api.post(path, content=b'{"messages": [' + b"[" * 100_000, headers=as_json)),
        (400, api.post(path, content=b'{"messages": ["x"]}', headers={"content-type": "text/plain"})),
        (400, api.post(path, content=b"messages=x", headers={"content-type": "application/x-www-form-urlencoded"})),
        (413, api.post(path, content=b" " * (17 * 1024 * 1024), headers=as_json)),
        (404, api.post(path, json={"messages": ["x"], "parent": "nobody"})),
        (404, api.post(path, json={"messages": ["x"], "head": "nobody"})),
        (400, api.post(path, json={"messages": ["x"]}, headers={"idempotency-key": "x" * 201})),
        (400, api.post("sessions", json={"title": "x" * 70_000})),
        (400, api.post("sessions", json={"project": "x" * 70_000})),
        (400, api.post("sessions", json={"cwd": "x" * 70_000})),
        (400, api.post("sessions/trip/fork", json={"title": "x" * 70_000})),
        (400, api.post("sessions/trip/import", json={"messages": [{"id": "x" * 2001, "role": "user", "parts": []}]})),
    ]
    for status, answer in refused:
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["message"]
    assert records(folder) == end


ODD: list[Any] = [
    {"role": {"x": 1}, "content": "hm"},
    {"role": "user", "content": [{"type": {}, "text": "x"}]},
    {"role": "user", "content": [{"guardContent": {}}]},
]


@pytest.mark.parametrize("message", ODD)
def test_odd_messages_are_recorded_and_read(api: TestClient, message: Any) -> None:
    """Fields whose types no API has are data: behind a call they are there in the card, the context and all shapes."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]}
    made = api.post("sessions", json={"messages": ["go", call, message]})
    assert (made.status_code, made.json()["open_calls"]) == (201, [])
    path = f"sessions/{made.json()['key']}"
    for rest in ("", "/context", "/tree", *(f"/messages?format={name}" for name in FORMATS)):
        assert api.get(f"{path}{rest}").status_code == 200, rest


def test_of_two_that_write_at_once_one_is_told(folder: Path) -> None:
    """Two workers get a request each for the same end of a session, at the same moment: one of both is recorded."""
    workers = [client(folder), client(folder)]
    for turn in range(8):
        headers = {"if-match": workers[0].get("sessions/trip").headers["etag"]}
        together = threading.Barrier(2)

        def send(worker: TestClient, headers: dict[str, str] = headers, together: threading.Barrier = together) -> int:
            together.wait()
            return worker.post("sessions/trip/messages", json={"messages": ["mine"]}, headers=headers).status_code

        before = treering.open(folder).view("trip").info.nodes
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(send, workers)) == [200, 409], turn
        view = treering.open(folder).view("trip")
        assert (view.info.nodes, len(view.heads)) == (before + 1, 2)


@pytest.mark.parametrize("form", ["pi", "kit", "evva", "claude"])
def test_marks_of_requests_are_not_exported(tmp_path: Path, form: str) -> None:
    """They are about requests, and no part of the conversation."""
    api = client(tmp_path / "store")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("sessions", {"id": "s"}),
        ("sessions/s/messages", {"messages": messages("to the sea?", "yes")}),
        ("sessions/s/commit", {"state": {"step": 1}}),
    ]
    for path, body in asked:
        assert api.post(path, json=body, headers=KEY | {"idempotency-key": path}).status_code in {200, 201}
    with treering.open(tmp_path / "store") as store:
        view = store.view("s")
        assert {note.kind for note in view.notes()} == {"created", "request_mark"}
        done = export(view, tmp_path / "out", format=form)
    assert (done.left_out, done.same_context) == ([], True)
    assert "request_mark" not in (tmp_path / "out").read_text()
