"""`TreeringSessionRepository`: what Strands' repositories promise, for several processes, erased if redacted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session import RepositorySessionManager, SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from tests.integrations.strands.fake_model import Call, Calls, FakeModel, Redacted
from tests.servers import S3Server
from tests.session.at_rest import holding
from tests.session.backends import Backend, backend_of
from tests.session.faults import Unreliable
from tests.storage.processes import finish, start

import treering
from treering.api.store import Store
from treering.errors import CorruptError, SessionHeldError, UnavailableError
from treering.integrations.strands import TreeringSessionRepository, repository as module
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Append, Put, Request
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
from treering.store.place import Place

S3 = pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.thinned(3)])
SECRET = "the launch code is 0000"


@pytest.fixture(params=["memory", "local", S3])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind; on a server one test in three here, all with `make whole`."""
    if request.param != "s3":
        return backend_of(request.param, tmp_path / "store")
    server: S3Server = request.getfixturevalue("seaweedfs")
    prefix = f"repository-{os.urandom(6).hex()}"
    url, options = f"{server.bucket}/{prefix}", server.storage_options
    return Backend("s3", lambda: RetryingDriver(S3Driver(url, storage_options=options)), lambda: server.objects(prefix))


@pytest.fixture
def kept(place: Backend) -> Iterator[TreeringSessionRepository]:
    """A repository with one session `s` and one agent `a`."""
    with TreeringSessionRepository(place.store()) as made:
        made.create_session(Session("s", SessionType.AGENT))
        made.create_agent("s", agent_of())
        yield made


def agent_of(**facts: Any) -> SessionAgent:
    """An agent that knows something."""
    known: dict[str, Any] = {"agent_id": "a", "state": {"key": b"\0\xff"}, "conversation_manager_state": {"n": 1}}
    return SessionAgent(**known | facts)


def said(number: int, text: str = "", **facts: Any) -> SessionMessage:
    """A message with an identity, bytes and a picture."""
    picture = {"image": {"format": "png", "source": {"bytes": bytes(range(256))}}}
    content = [{"text": text or f"message {number}"}, picture]
    message: Any = {"role": "user", "content": content, "tracking_id": f"t-{number}"}
    return SessionMessage(message=message, message_id=number, **facts)


def anew(place: Backend) -> TreeringSessionRepository:
    """A repository of a new process."""
    return TreeringSessionRepository(place.store())


class Orchestrator:
    """What the repository needs of a graph or swarm."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.id = "graph"
        self.state = state

    def serialize_state(self) -> dict[str, Any]:
        """Its state."""
        return self.state


def test_what_is_stored_comes_back_equal(place: Backend, kept: TreeringSessionRepository) -> None:
    """Sessions, agents and messages are read as they were written, also by another process."""
    assert isinstance(kept, SessionRepository)
    agent = agent_of(agent_id="b", _internal_state={"interrupt_state": {"activated": True}})
    message = said(0, created_at="2026-01-31T12:00:00+00:00", updated_at="2026-02-01T12:00:00+00:00")
    kept.create_agent("s", agent)
    kept.create_message("s", "b", message)
    with anew(place) as other:
        session = other.read_session("s")
        assert session is not None
        assert (session.session_id, session.session_type) == ("s", SessionType.AGENT)
        assert other.read_agent("s", "b") == agent
        assert other.read_agent("s", "a") is not None
        assert other.read_message("s", "b", 0) == message
        assert other.list_messages("s", "b") == [message]


def test_what_is_not_there(kept: TreeringSessionRepository) -> None:
    """Reading what is not there is None, updating it an error, and an agent without messages has none."""
    assert kept.read_session("other") is None
    assert kept.read_agent("s", "other") is None
    assert kept.read_agent("other", "a") is None
    assert kept.read_message("s", "a", 0) is None
    assert kept.read_message("s", "other", 0) is None
    assert kept.read_multi_agent("s", "graph") is None
    assert kept.read_multi_agent("other", "graph") is None
    assert kept.list_messages("s", "a") == []
    for refused in (
        lambda: kept.update_agent("s", agent_of(agent_id="other")),
        lambda: kept.update_message("s", "a", said(0)),
        lambda: kept.create_message("s", "other", said(0)),
        lambda: kept.create_agent("other", agent_of()),
        lambda: kept.list_messages("s", "other"),
        lambda: kept.update_multi_agent("s", Orchestrator({})),  # type: ignore[arg-type]
        lambda: kept.create_multi_agent("other", Orchestrator({})),  # type: ignore[arg-type]
        lambda: kept.delete_session("other"),
    ):
        with pytest.raises(SessionException, match="does not exist"):
            refused()


def test_what_is_there_is_not_made_again(place: Backend, kept: TreeringSessionRepository) -> None:
    """A second session, agent or message of one name is refused, and the first one stays; the same message is fine."""
    kept.create_message("s", "a", said(0))
    kept.create_message("s", "a", said(0))
    for one in (kept, anew(place)):
        with pytest.raises(SessionException, match="exists already"):
            one.create_session(Session("s", SessionType.AGENT))
        with pytest.raises(SessionException, match="exists already"):
            one.create_agent("s", agent_of(state={}))
        with pytest.raises(SessionException):
            one.create_message("s", "a", said(0, "another"))
        assert one.list_messages("s", "a") == [said(0, created_at=_created(one, 0), updated_at=_updated(one, 0))]
        found = one.read_agent("s", "a")
        assert found is not None
        assert found.state == {"key": b"\0\xff"}


def _created(one: TreeringSessionRepository, number: int) -> str:
    found = one.read_message("s", "a", number)
    assert found is not None
    return found.created_at


def _updated(one: TreeringSessionRepository, number: int) -> str:
    found = one.read_message("s", "a", number)
    assert found is not None
    return found.updated_at


def test_updates_keep_the_time_of_creation(place: Backend, kept: TreeringSessionRepository) -> None:
    """An update replaces everything but the time of creation; the last of several counts."""
    first = kept.read_agent("s", "a")
    assert first is not None
    kept.create_message("s", "a", said(7, created_at="then"))
    for number in range(3):
        changed = agent_of(state={"n": number}, conversation_manager_state={}, created_at="later", updated_at="now")
        kept.update_agent("s", changed)
        kept.update_message("s", "a", said(7, f"version {number}", created_at="later", updated_at=f"at {number}"))
    with anew(place) as other:
        assert other.read_agent("s", "a") == agent_of(
            state={"n": 2}, conversation_manager_state={}, created_at=first.created_at, updated_at="now"
        )
        assert other.read_message("s", "a", 7) == said(7, "version 2", created_at="then", updated_at="at 2")


def test_messages_are_in_the_order_of_their_numbers(kept: TreeringSessionRepository) -> None:
    """10 comes after 9, whenever they were made; offset and limit count in that order."""
    for number in (10, 0, 9, 11, 2):
        kept.create_message("s", "a", said(number))

    def numbers(*window: int | None, **named: int) -> list[int]:
        return [message.message_id for message in kept.list_messages("s", "a", *window, **named)]  # type: ignore[arg-type]

    assert numbers() == [0, 2, 9, 10, 11]
    assert numbers(2) == [0, 2]
    assert numbers(2, 3) == [10, 11]
    assert numbers(offset=4) == [11]
    assert numbers(None, 9) == []
    assert numbers(0) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_a_redacted_message_is_erased(place: Backend, kept: TreeringSessionRepository, *, sealed: bool) -> None:
    """What a redacted message said, before and after it was changed, is nowhere in the store; the rest stays."""
    kept.create_message("s", "a", said(0))
    kept.create_message("s", "a", said(1, f"at first {SECRET}", created_at="then"))
    kept.update_message("s", "a", said(1, SECRET))
    kept.create_message("s", "a", said(2))
    if sealed:
        kept.close()
        with place.store().session("s/agents/a") as session:
            session.seal()
    assert holding(place.snapshot(), SECRET)
    redacted: Any = {"role": "user", "content": [{"text": "[blocked]"}], "tracking_id": "t-1"}
    kept.update_message("s", "a", said(1, SECRET, redact_message=redacted))
    assert not holding(place.snapshot(), SECRET)
    with anew(place) as other:
        found = other.read_message("s", "a", 1)
        assert found is not None
        assert found.to_message() == found.message == redacted
        assert found.created_at == "then"
        assert [message.message_id for message in other.list_messages("s", "a")] == [0, 1, 2]
        once_more: Any = {"role": "user", "content": [{"text": "[gone]"}]}
        other.update_message("s", "a", said(1, redact_message=once_more))
        assert not holding(place.snapshot(), "[blocked]")
    found = kept.read_message("s", "a", 1)
    assert found is not None
    assert found.to_message() == once_more
    kept.update_message("s", "a", said(1, "said anew", updated_at="now"))
    assert anew(place).read_message("s", "a", 1) == said(1, "said anew", created_at="then", updated_at="now")


def test_what_another_process_made_is_found(place: Backend, kept: TreeringSessionRepository) -> None:
    """Messages and orchestrators of another process are read, listed and updated by one that was open before."""
    assert kept.list_messages("s", "a") == []
    with anew(place) as other:
        other.create_message("s", "a", said(0))
        other.create_message("s", "a", said(1))
        other.create_multi_agent("s", Orchestrator({"n": 0}))  # type: ignore[arg-type]
    kept.update_message("s", "a", said(1, "changed"))
    kept.update_multi_agent("s", Orchestrator({"n": 1}))  # type: ignore[arg-type]
    assert [message.message["content"][0]["text"] for message in kept.list_messages("s", "a")] == [
        "message 0", "changed",
    ]  # fmt: skip
    assert anew(place).read_multi_agent("s", "graph") == {"n": 1}


def test_a_blocked_result_that_waited_beside_a_question_is_erased(
    place: Backend, kept: TreeringSessionRepository
) -> None:
    """It is gone from the state of the agent, which can still be read if the redaction is interrupted there."""
    result: Any = {"toolUseId": "c", "status": "success", "content": [{"text": SECRET}]}
    waits = {"interrupts": {}, "context": {"results": [result]}, "activated": True}
    internal = {"interrupt_state": waits, "model_state": {"a": 1}}
    kept.update_agent("s", agent_of(_internal_state=internal))
    kept.create_message("s", "a", said(1, SECRET))
    message: Any = {"role": "user", "content": [{"toolResult": result}]}
    kept.create_message("s", "a", SessionMessage(message, 2))
    kept.update_message("s", "a", said(1, SECRET, redact_message=said(1, "[blocked]").message))
    assert holding(place.snapshot(), SECRET) != []
    notice: Any = {"role": "user", "content": [{"toolResult": {**result, "content": [{"text": "[blocked]"}]}}]}
    kept.update_message("s", "a", SessionMessage(message, 2, redact_message=notice))
    assert holding(place.snapshot(), SECRET) == []
    found = TreeringSessionRepository(place.store()).read_agent("s", "a")
    assert found is not None
    assert found._internal_state["model_state"] == {"a": 1}
    assert not found._internal_state["interrupt_state"]["activated"]
    place.store().session("s/agents/a", hold=False).erase(state=["internal_state"])  # a kill before the last append
    found = TreeringSessionRepository(place.store()).read_agent("s", "a")
    assert found is not None
    assert found._internal_state == {}


def test_a_message_that_comes_redacted_is_stored_so(place: Backend, kept: TreeringSessionRepository) -> None:
    """The words of a message that was redacted before it came are never stored."""
    redacted: Any = {"role": "user", "content": [{"text": "[blocked]"}]}
    kept.create_message("s", "a", said(0, SECRET, redact_message=redacted))
    assert not holding(place.snapshot(), SECRET)
    found = anew(place).read_message("s", "a", 0)
    assert found is not None
    assert found.redact_message == found.message == redacted


def test_a_redaction_that_was_cut_short_shows_no_words() -> None:
    """Wherever a redaction ends for want of a store, the message either is as it was, or its words are gone."""
    outcomes = set()
    for allowed in range(40):
        inner = MemoryDriver()
        with TreeringSessionRepository(Store(Place(inner))) as made:
            made.create_session(Session("s", SessionType.AGENT))
            made.create_agent("s", agent_of())
            made.create_message("s", "a", said(0, SECRET))
        left = [allowed]

        def plan(request: Request, left: list[int] = left) -> Fault:
            left[0] -= isinstance(request, Put | Append)
            return Fault.BEFORE if left[0] < 0 else Fault.NONE

        broken = TreeringSessionRepository(Store(Place(FaultyDriver(inner, plan))))
        redacted: Any = {"role": "user", "content": [{"text": "[blocked]"}]}
        try:
            broken.update_message("s", "a", said(0, redact_message=redacted))
        except SessionException as error:
            assert isinstance(error.__cause__, UnavailableError)  # noqa: PT017  # both ends are looked at
        found = TreeringSessionRepository(Store(Place(inner))).read_message("s", "a", 0)
        assert found is not None
        text = found.to_message()["content"][0]["text"]
        outcomes.add(text)
        assert text == SECRET or found.redact_message is not None
        if text == "[blocked]":
            assert not holding(inner.snapshot(), SECRET)
    assert outcomes == {SECRET, "[erased]", "[blocked]"}


def test_the_state_of_orchestrators(place: Backend, kept: TreeringSessionRepository) -> None:
    """States of graphs and swarms are kept with the session, each under its name."""
    kept.create_multi_agent("s", Orchestrator({"id": "graph", "raw": b"\0"}))  # type: ignore[arg-type]
    assert anew(place).read_multi_agent("s", "graph") == {"id": "graph", "raw": b"\0"}
    kept.update_multi_agent("s", Orchestrator({"id": "graph", "done": ["n1"]}))  # type: ignore[arg-type]
    assert anew(place).read_multi_agent("s", "graph") == {"id": "graph", "done": ["n1"]}
    assert anew(place).read_session("s") is not None


def test_a_deleted_session_is_gone_for_everybody(place: Backend, kept: TreeringSessionRepository) -> None:
    """Deleting takes the agents along; who had the session open sees that, and one made anew is empty."""
    kept.create_message("s", "a", said(0))
    other = anew(place)
    assert other.list_messages("s", "a")
    late = anew(place)
    assert late.list_messages("s", "a")
    kept.delete_session("s")
    for _ in range(2):
        with pytest.raises(SessionException, match="agent does not exist"):
            late.create_message("s", "a", said(1))
    assert (other.read_session("s"), other.read_agent("s", "a")) == (None, None)
    assert [row.id for row in place.store().sessions().rows] == []
    other.create_session(Session("s", SessionType.AGENT))
    other.create_agent("s", agent_of(state={}))
    assert kept.list_messages("s", "a") == []
    kept.create_message("s", "a", said(0, "new"))
    assert len(other.list_messages("s", "a")) == 1
    other.close()


def test_agents_that_another_process_made_go_with_their_session(
    place: Backend, kept: TreeringSessionRepository
) -> None:
    """Also if this one has not seen them yet; a session of that name made anew has none of them."""
    other = anew(place)
    other.create_agent("s", agent_of(agent_id="theirs"))
    other.create_message("s", "theirs", said(0, "a secret"))
    kept.delete_session("s")
    assert place.store().sessions().rows == ()
    kept.create_session(Session("s", SessionType.AGENT))
    assert kept.read_agent("s", "theirs") is None
    kept.create_agent("s", agent_of(agent_id="theirs"))
    other.close()


def test_names_that_are_paths_are_refused(kept: TreeringSessionRepository) -> None:
    """No name leads to another session, and a message has a number."""
    for name in ("", " ", ".", "..", "a/b", "a/../b", "a\\b"):
        with pytest.raises(ValueError, match="not a session id"):
            kept.read_session(name)
        with pytest.raises(ValueError, match="not a session id"):
            kept.create_session(Session(name, SessionType.AGENT))
    for name in ("", "a/b", "a\\b"):
        with pytest.raises(ValueError, match="not an agent id"):
            kept.read_agent("s", name)
    for number in ("../../x", None, "1"):
        with pytest.raises(ValueError, match="no integer"):
            kept.read_message("s", "a", number)  # type: ignore[arg-type]


def test_sessions_of_others_are_left_alone(place: Backend) -> None:
    """A session that no repository made is neither read nor deleted."""
    store = place.store()
    with store.session("s") as session:
        session.append("hello")
    with TreeringSessionRepository(store) as made:
        for refused in (made.read_session, made.delete_session):
            with pytest.raises(SessionException, match="not made by a repository"):
                refused("s")
        with pytest.raises(SessionException, match="exists already"):
            made.create_session(Session("s", SessionType.AGENT))
    assert len(store.view("s").context) == 1


def test_a_session_that_is_in_use_is_named(tmp_path: Path) -> None:
    """Who holds a session that is about to be deleted is named, and nothing is changed."""
    with TreeringSessionRepository(treering.open(tmp_path)) as made:
        made.create_session(Session("s", SessionType.AGENT))
    with treering.open(tmp_path).session("s"):
        with pytest.raises(SessionException, match="held") as caught:
            made.delete_session("s")
        assert isinstance(caught.value.__cause__, SessionHeldError)
    assert made.read_session("s") is not None


def test_lists_know_what_a_repository_keeps(place: Backend, kept: TreeringSessionRepository) -> None:
    """After `close` the list of sessions says how many messages each agent has, and what was asked first."""
    kept.create_message("s", "a", said(0, "fix the login"))
    kept.create_message("s", "a", said(1))
    kept.close()
    rows = {row.id: row for row in place.store().each_session()}
    assert rows.keys() == {"s", "s/agents/a"}
    assert (rows["s/agents/a"].messages, rows["s/agents/a"].first_prompt) == (2, "fix the login")
    assert rows["s/agents/a"].parent_session == "s"


def test_damage_is_told(tmp_path: Path) -> None:
    """A damaged session is an error that says so, and not one that does not exist."""
    with TreeringSessionRepository(treering.open(tmp_path)) as made:
        made.create_session(Session("s", SessionType.AGENT))
    latest = tmp_path / "latest/s.jsonl.zst"
    latest.write_bytes(latest.read_bytes()[:-3])
    with pytest.raises(SessionException) as caught:
        TreeringSessionRepository(treering.open(tmp_path)).read_session("s")
    assert isinstance(caught.value.__cause__, CorruptError)


def test_what_cannot_be_stored_is_told(kept: TreeringSessionRepository) -> None:
    """A value that would not come back as it was is refused, and nothing changes."""
    before = kept.read_agent("s", "a")
    with pytest.raises(SessionException, match="cannot be stored"):
        kept.update_agent("s", agent_of(state={"key": object()}))
    assert kept.read_agent("s", "a") == before


PROCESS = """
import sys, treering
from strands.types.session import SessionMessage
from treering.integrations.strands import TreeringSessionRepository
with TreeringSessionRepository(treering.open(sys.argv[1])) as made:
    for number in range(int(sys.argv[2]), 40, 2):
        message = {"role": "user", "content": [{"text": str(number)}]}
        made.create_message("s", "a", SessionMessage(message, number))
"""


@pytest.mark.slow
def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    """Two processes that add messages to one agent at once lose none, and leave one line without branches."""
    with TreeringSessionRepository(treering.open(tmp_path)) as made:
        made.create_session(Session("s", SessionType.AGENT))
        made.create_agent("s", agent_of())
        for process in [start(PROCESS, tmp_path, first, prelude="") for first in (0, 1)]:
            finish(process)
        found = made.list_messages("s", "a")
    assert [message.to_message()["content"][0]["text"] for message in found] == [str(n) for n in range(40)]
    assert len(treering.open(tmp_path).view("s/agents/a").leaves()) == 1


def test_only_so_many_sessions_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions are used, the one not used for longest is closed, and opened again when it is needed."""
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    made = TreeringSessionRepository(Store(Place(MemoryDriver())))
    for name in ("s", "t", "u"):
        made.create_session(Session(name, SessionType.AGENT))
        made.create_agent(name, agent_of())
        made.create_message(name, "a", said(0, name))
    assert len(made._open) == 2
    for name in ("s", "t", "u"):
        assert [message.message["content"][0]["text"] for message in made.list_messages(name, "a")] == [name]


def test_requests(tmp_path: Path) -> None:
    """A message is one request that reads nothing, but for sealing and merging; a look is two reads."""
    store, counts = backend_of("memory", tmp_path).counted()
    made = TreeringSessionRepository(store)
    made.create_session(Session("s", SessionType.AGENT))
    made.create_agent("s", agent_of())
    spent = []
    for number in range(200):
        counts.reset()
        made.create_message("s", "a", said(number))
        spent.append(counts.total)
    assert spent.count(1) >= 160
    assert sum(spent) <= 1.5 * 200
    counts.reset()
    assert made.read_agent("s", "a") is not None
    assert dict(counts.counts) == {"Get": 2}
    counts.reset()
    assert len(TreeringSessionRepository(store).list_messages("s", "a")) == 200
    assert counts.total <= 30


def test_agents_on_a_manager_of_strands(place: Backend) -> None:
    """Strands' own manager on our repository: tools, state and window come back, a redacted prompt does not."""

    def agent(*script: Any) -> Agent:
        manager = RepositorySessionManager("s", session_repository=anew(place))
        window = SlidingWindowConversationManager(window_size=4)
        return Agent(
            model=FakeModel(script), agent_id="a", session_manager=manager, conversation_manager=window,
            callback_handler=None,
        )  # fmt: skip

    one = agent(Calls(Call("nothing")), "first answer", Redacted("[removed]"), "third")
    one("first")
    one.state.set("step", 1)
    one(SECRET)
    assert not holding(place.snapshot(), SECRET)
    one("last question")
    other = agent("more")
    assert [message["content"] for message in other.messages] == [message["content"] for message in one.messages]
    assert other.state.get("step") == 1
    assert len(anew(place).list_messages("s", "a")) > len(other.messages)
    other("again")
    assert "more" in str(agent().messages)


@pytest.mark.parametrize("key", ["state", "created_at"])
def test_a_part_that_was_erased_is_told(kept: TreeringSessionRepository, place: Backend, key: str) -> None:
    """By the error of Strands, also if it is the mark of a session; an agent whose state was erased can be updated."""
    with place.store().session("s/agents/a", shared=True) as session:
        session.erase(state=[key])
    with pytest.raises(SessionException, match="was erased"):
        kept.read_agent("s", "a")
    kept.update_agent("s", agent_of())
    found = kept.read_agent("s", "a")
    assert found is not None
    assert found.state == agent_of().state


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
def test_what_was_interrupted_is_made_or_deleted_by_the_next_call(fault: Fault) -> None:
    """A session or an agent of which only the card was written counts as absent, and a deletion is finished."""
    for after in range(100):
        bucket = Unreliable()
        bucket.plan.arm(fault, after=after)
        with contextlib.suppress(SessionException):
            RepositorySessionManager("s", TreeringSessionRepository(bucket.store))
        made = not bucket.plan.pending
        bucket.plan.arm(fault, after=after)
        with contextlib.suppress(SessionException):
            manager = RepositorySessionManager("s", TreeringSessionRepository(bucket.store))
            Agent(model=FakeModel(["x"]), session_manager=manager, callback_handler=None)
        bucket.plan.disarm()
        bucket.settle()
        manager = RepositorySessionManager("s", TreeringSessionRepository(bucket.sound))
        Agent(model=FakeModel(["x"]), session_manager=manager, callback_handler=None)("hi")
        for row in bucket.sound.sessions().rows:
            with bucket.sound.session(row.id, shared=True) as session:
                session.seal()
        bucket.plan.arm(fault, after=after)
        with contextlib.suppress(SessionException):
            TreeringSessionRepository(bucket.store).delete_session("s")
        deleted = not bucket.plan.pending
        bucket.plan.disarm()
        bucket.settle()
        with contextlib.suppress(SessionException):  # it does not exist any more
            TreeringSessionRepository(bucket.store).delete_session("s")
        assert [key for key in bucket.memory.snapshot() if "/segments/" in key] == [], after
        if not (made or deleted):
            return
    raise AssertionError("a call without end")
