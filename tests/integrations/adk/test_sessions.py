"""Sessions of ADK on a store: what a runner needs, beside others, after a kill, and what it costs."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions._rewind_utils import rewind_session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types
from tests.sampling import few
from tests.session.backends import Backend, memory_backend
from tests.session.faults import OneFault, Unreliable, tail_write
from tests.storage.processes import start

import treering
from treering.api.store import Store
from treering.errors import UnavailableError, UsageError
from treering.integrations.adk import TreeringSessionService
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.requests import Append, Put, Request
from treering.store.place import Place

WRITERS, EACH = 4, few(4, whole=8)
EVENTS, SEALS = 50, 15
"""What an event takes is one request; and now and then a seal, or a card."""


def services(backend: Backend, count: int = 2) -> list[TreeringSessionService]:
    """Services of one store, each as a process of its own has it."""
    return [TreeringSessionService(backend.store()) for _ in range(count)]


def said(text: str, state: dict[str, Any] | None = None, author: str = "user", **fields: Any) -> Event:
    """An event in which somebody says something."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, content=content, actions=EventActions(state_delta=state or {}), **fields)


async def new(service: TreeringSessionService, name: str = "talk", state: dict[str, Any] | None = None) -> Session:
    """A new session."""
    return await service.create_session(app_name="shop", user_id="ann", session_id=name, state=state)


async def got(service: TreeringSessionService, name: str = "talk", **config: Any) -> Session:
    """A session as it is now."""
    found = await service.get_session(
        app_name="shop", user_id="ann", session_id=name, config=GetSessionConfig(**config) if config else None
    )
    assert found is not None
    return found


def texts(session: Session) -> list[str]:
    """What its events say."""
    return [part.text or "" for event in session.events if event.content for part in event.content.parts or ()]


# sessions


async def test_a_session_comes_back_as_it_was(anywhere: Backend) -> None:
    """With its events, its state and its time, also in another process, and what is temporary is nowhere."""
    first, second = services(anywhere)
    session = await new(first, state={"app:open": True, "user:name": "Ann", "n": 0, "temp:x": 1})
    assert session.state == {"app:open": True, "user:name": "Ann", "n": 0}
    assert await got(second) == session
    call = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"at": None}))
    picture = types.Part.from_bytes(data=bytes(range(256)) * 300, mime_type="image/png")
    await first.append_event(session, said("hello", {"n": 1, "temp:y": 2, "app:open": None}, invocation_id="i"))
    await first.append_event(session, Event(author="bot", content=types.Content(role="model", parts=[call, picture])))
    await first.append_event(session, said("not yet", partial=True))
    assert session.state.pop("temp:y") == 2
    assert session.state == {"app:open": None, "user:name": "Ann", "n": 1}
    assert await got(second) == session
    assert base64.b64encode(bytes(range(256)) * 300) not in b"".join(anywhere.snapshot().values())
    assert len((await got(second, num_recent_events=1)).events) == 1
    assert texts(await got(second, num_recent_events=0)) == []
    await second.delete_session(app_name="shop", user_id="ann", session_id="talk")
    assert await first.get_session(app_name="shop", user_id="ann", session_id="talk") is None
    with pytest.raises(SessionNotFoundError):
        await first.append_event(session, said("too late"))
    again = await new(second)
    assert again.state == {"app:open": None, "user:name": "Ann"}
    with pytest.raises(StaleSessionError):
        await first.append_event(session, said("into another one of that name"))


async def test_shared_state_is_of_the_app_or_the_user(backend: Backend) -> None:
    """Other sessions see it at once, also in lists; a user's own is that of no other user."""
    first, second = services(backend)
    session, other = await new(first), await new(second, "other")
    stranger = await second.create_session(app_name="shop", user_id="bob", session_id="talk")
    await first.append_event(session, said("hi", {"app:a": 1, "user:u": 2, "own": 3}))
    assert (await got(second, "other")).state == {"app:a": 1, "user:u": 2}
    assert await second.get_user_state(app_name="shop", user_id="ann") == {"u": 2}
    assert await second.get_user_state(app_name="shop", user_id="bob") == {}
    await second.append_event(other, said("ho", {"user:u": {"deep": [1]}}))
    everybody = (await first.list_sessions(app_name="shop")).sessions
    mine = (await first.list_sessions(app_name="shop", user_id="ann")).sessions
    assert [(each.user_id, each.id) for each in everybody] == [("bob", "talk"), ("ann", "talk"), ("ann", "other")]
    assert [each.state for each in everybody] == [
        {"app:a": 1},
        {"app:a": 1, "user:u": {"deep": [1]}, "own": 3},
        {"app:a": 1, "user:u": {"deep": [1]}},
    ]
    assert mine == everybody[1:]
    assert stranger.state == {}
    assert (await first.list_sessions(app_name="none")).sessions == []


async def test_what_cannot_be_named_is_not_there(backend: Backend) -> None:
    """An empty app or user has no sessions, and none can be made."""
    (service,) = services(backend, 1)
    with pytest.raises(UsageError):
        await service.create_session(app_name="shop", user_id="")
    assert await service.get_session(app_name="", user_id="ann", session_id="x") is None
    assert (await service.list_sessions(app_name="shop", user_id="")).sessions == []


async def test_one_of_two_creates_a_session(backend: Backend) -> None:
    """The other one is told."""
    pair = services(backend)
    done = await asyncio.gather(*(new(each, state={"by": at}) for at, each in enumerate(pair)), return_exceptions=True)
    assert [type(each) for each in done if isinstance(each, BaseException)] == [AlreadyExistsError]
    (made,) = [each for each in done if isinstance(each, Session)]
    assert await got(pair[0]) == made
    with pytest.raises(AlreadyExistsError):
        await new(pair[1], "  talk ")
    assert (await got(pair[1], " talk\n")).id == "talk"
    assert (await new(pair[1], "  ")).id.strip()


async def test_any_event_can_be_kept(backend: Backend) -> None:
    """One that is nested too deep for a record, one without content, and values that have no form in JSON."""
    first, second = services(backend)
    session = await new(first)
    deep: Any = {}
    for _ in range(150):
        deep = {"in": deep}
    response = types.Part(function_response=types.FunctionResponse(name="look", response=deep))
    await first.append_event(session, Event(author="bot", content=types.Content(role="user", parts=[response])))
    actions = EventActions(state_delta={"f": print, "n": 2**60, "x": float("inf")})
    await first.append_event(session, Event(author="bot", actions=actions))
    found = await got(second)
    assert found.events[0] == session.events[0]
    assert found.state["n"] == 2**60
    assert "print" in found.state["f"]
    assert found.events[1].content is None


async def test_text_that_utf_8_cannot_hold(backend: Backend) -> None:
    """The transcript has it as it was said; ADK, whose JSON is UTF-8, gets U+FFFD. Bytes of the state become text."""
    first, second = services(backend)
    session = await new(first, state={"b": bytes([255])})
    await first.append_event(session, said("half \ud83d", state={"s": "\ud83d", "b": bytes([255, 0])}))
    (event,) = (await got(second)).events
    assert event.content is not None
    assert event.content.parts is not None
    assert event.content.parts[0].text == "half \ufffd"
    view = backend.store().namespace("shop").namespace("ann").view("talk")
    assert view.get(view.history().rows[0].node.id).payload["parts"][0]["text"] == "half \ud83d"
    await first.append_event(await got(first), said("goes on"))
    assert [each.author for each in (await got(second)).events] == ["user", "user"]


async def test_the_transcript_knows_what_was_said(backend: Backend) -> None:
    """Pages, roles, calls and sums, without ADK; a text that was erased is gone from the session."""
    (service,) = services(backend, 1)
    session = await new(service)
    call = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"at": 1}))
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=2)
    model = types.Content(role="model", parts=[types.Part(text="let me look"), call])
    answer = types.Part(function_response=types.FunctionResponse(id="c", name="look", response={"found": "a cat"}))
    await service.append_event(session, said("what is there?"))
    await service.append_event(session, Event(author="bot", content=model, usage_metadata=usage))
    await service.append_event(session, Event(author="bot", content=types.Content(role="user", parts=[answer])))
    store = backend.store().namespace("shop").namespace("ann")
    view = store.view("talk")
    rows = view.history().rows
    assert [row.node.role for row in rows] == ["tool", "assistant", "user"]
    assert view.usage["input"] == 7
    assert view.open_calls() == ()
    with store.session("talk", shared=True) as opened:
        opened.erase(rows[2].node.id)
    assert "what is there?" not in str(await got(service))
    assert len((await got(service)).events) == 3


async def test_a_rewind_is_a_branch(backend: Backend) -> None:
    """What it takes back stays in the list of events, and beside the path of the head."""
    first, second = services(backend)
    session = await new(first)
    for number in range(4):
        await first.append_event(session, said(f"{number}", {"n": number}, invocation_id=f"i{number}"))
    await rewind_session(session_service=first, session=session, rewind_before_invocation_id="i2")
    await first.append_event(session, said("other", invocation_id="i4"))
    found = await got(second)
    assert found == session
    assert found.state["n"] == 1
    assert texts(found) == ["0", "1", "2", "3", "other"]
    store = backend.store().namespace("shop").namespace("ann")
    path = [row.node.payload.get("parts") for row in store.view("talk").history().rows]
    assert path == [[{"text": "other"}], None, [{"text": "1"}], [{"text": "0"}]]
    await rewind_session(session_service=second, session=found, rewind_before_invocation_id="i0")
    first.close()
    assert await got(services(backend, 1)[0]) == found
    assert store.verify("talk") == []


# beside others


async def test_nothing_is_lost_where_many_write(anywhere: Backend) -> None:
    """Who was overtaken is told and reads again; each event is there once, and each change of shared state."""
    many = services(anywhere, WRITERS)
    await new(many[0])

    async def write(number: int) -> None:
        for at in range(EACH):
            event = said(f"{number} {at}", {f"app:{number}": at, f"{number}": at})
            while True:
                session = await got(many[number])
                try:
                    await many[number].append_event(session, event)
                    break
                except StaleSessionError:
                    continue

    await asyncio.gather(*map(write, range(WRITERS)))
    found = await got(many[0])
    for number in range(WRITERS):
        assert [text for text in texts(found) if text[0] == str(number)] == [f"{number} {at}" for at in range(EACH)]
        assert found.state[f"app:{number}"] == found.state[str(number)] == EACH - 1
    assert len(found.events) == WRITERS * EACH


async def test_tasks_may_share_a_session(backend: Backend) -> None:
    """Agents of one invocation that run side by side append to one object; none of them is stale."""
    (service,) = services(backend, 1)
    session = await new(service)
    await asyncio.gather(*(service.append_event(session, said(f"{number}")) for number in range(20)))
    found = await got(service)
    assert sorted(texts(found), key=int) == [str(number) for number in range(20)]
    assert len(session.events) == 20


async def test_a_session_that_another_service_read_is_compared_with_what_is_stored(backend: Backend) -> None:
    """Not with what a service saw last: another one appended to it, or deleted it and made it anew."""
    first, second = services(backend)
    await first.append_event(await new(first), said("a"))
    session = await got(second)
    await second.append_event(session, said("b"))
    await first.append_event(session, said("c"))
    assert texts(await got(second)) == ["a", "b", "c"]
    await second.delete_session(app_name="shop", user_id="ann", session_id="talk")
    session = await new(second)
    await first.append_event(session, said("d"))
    assert texts(await got(second)) == ["d"]


async def test_a_session_made_by_hand_is_compared_by_its_time(backend: Backend) -> None:
    """As one that came from a client, which has no mark."""
    (service,) = services(backend, 1)
    session = await new(service)
    await service.append_event(session, said("a"))
    copy = Session.model_validate_json(session.model_dump_json())
    await service.append_event(copy, said("b"))
    session._storage_update_marker = None
    with pytest.raises(StaleSessionError):
        await service.append_event(session, said("c"))
    assert texts(await got(service)) == ["a", "b"]


@pytest.mark.parametrize("name", ["s" * 600, "ü" * 300, "\U0001f332" * 200])
async def test_names_may_be_long(backend: Backend, name: str) -> None:
    """Of a session, a user or an app: with its state, in lists, and in another process."""
    first, second = services(backend)
    for where in (("shop", "ann", name), ("shop", name, "talk"), (name, "ann", "talk")):
        app, user, session = where
        made = await first.create_session(app_name=app, user_id=user, session_id=session, state={"app:n": 1})
        await first.append_event(made, said("a", {"user:m": 2, "own": 3}))
        found = await second.get_session(app_name=app, user_id=user, session_id=session)
        assert found is not None
        assert (texts(found), found.state) == (["a"], {"app:n": 1, "user:m": 2, "own": 3})
        listed = (await second.list_sessions(app_name=app)).sessions
        assert where in [(each.app_name, each.user_id, each.id) for each in listed]


# failures


def faulty(backend: Backend, plan: Any) -> TreeringSessionService:
    """A service on a store that fails."""
    return TreeringSessionService(Store(Place(FaultyDriver(backend.driver(), plan))))


def records_event(request: Request) -> bool:
    """A request that records an event."""
    return isinstance(request, Put | Append) and "/ann/sessions/talk/tail" in request.key


def sets_app(request: Request) -> bool:
    """A request that sets state of the app."""
    return isinstance(request, Put | Append) and "shop/sessions/app/tail" in request.key


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("wanted", [records_event, sets_app])
async def test_an_event_without_an_answer_may_be_sent_again(fault: Fault, wanted: Any) -> None:
    """It is there once, with all that it sets."""
    backend, plan = memory_backend(), OneFault()
    service = faulty(backend, plan)
    session = await new(service, state={"app:n": 0})
    event = said("a", {"app:n": 1, "own": 1})
    plan.arm(fault, wanted)
    with suppress(UnavailableError):  # the store may be asked again
        await service.append_event(session, event)
    assert not plan.pending
    if len(session.events) == 0:
        await service.append_event(session, event)
    await service.append_event(session, said("b"))
    found = await got(services(backend, 1)[0])
    assert texts(found) == texts(session) == ["a", "b"]
    assert found.state == session.state == {"app:n": 1, "own": 1}


async def test_events_never_come_without_the_state_that_they_set(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process adds events that set state of the user while a session is read."""
    reader, writer = services(backend)
    await new(reader, state={"user:plan": "free", "app:open": False})
    of_sessions = reader._sessions

    async def late(function: Any, *args: Any) -> Any:
        """Run a call at once; that which reads the session as late as it can, after those events."""
        if function == of_sessions.use:
            await asyncio.sleep(0)
            session = await got(writer)
            await writer.append_event(session, said("paid", {"user:plan": "paid", "app:open": True}))
            await writer.append_event(session, said("thank you"))
        return function(*args)

    monkeypatch.setattr(of_sessions, "aside", late)
    found = await got(reader)
    assert texts(found) == ["paid", "thank you"]
    assert found.state == {"user:plan": "paid", "app:open": True}


async def test_what_an_event_left_to_do_is_done_before_the_next() -> None:
    """Also if its caller goes on as if nothing had happened."""
    backend, plan = memory_backend(), OneFault()
    service = faulty(backend, plan)
    session = await new(service, state={"app:n": 0})
    plan.arm(Fault.BEFORE, sets_app)
    with pytest.raises(UnavailableError):
        await service.append_event(session, said("a", {"app:n": 1}))
    await service.append_event(session, said("b"))
    found = await got(services(backend, 1)[0])
    assert (texts(found), found.state) == (["a", "b"], {"app:n": 1})


async def test_an_event_is_known_by_all_that_it_says(backend: Backend) -> None:
    """One that is sent again is there once; another one is kept, also if somebody gave both one id."""
    first, second = services(backend)
    session = await new(first)
    event = said("a", {"app:n": 1}, id="e")
    for each in (event, event, event.model_copy(deep=True), said("b", id="e")):
        await first.append_event(session, each)
    assert texts(session) == texts(await got(second)) == ["a", "b"]


async def test_who_finds_an_event_does_what_its_process_did_not(anywhere: Backend) -> None:
    """A process is killed between an event and the state of the app that it sets; later changes are not undone."""
    plan = OneFault()
    killed, (first, second) = faulty(anywhere, plan), services(anywhere)
    session = await new(killed, state={"app:n": 0})
    plan.arm(Fault.BEFORE, sets_app)
    with pytest.raises(UnavailableError):
        await killed.append_event(session, said("a", {"app:n": 1, "user:m": 1}))
    assert (await new(first, "other")).state == {"app:n": 0}
    assert (await got(first)).state == {"app:n": 1, "user:m": 1}
    other = await got(first, "other")
    await first.append_event(other, said("b", {"app:n": 2}))
    for service in (first, second):
        found = await got(service)
        assert (texts(found), found.state) == (["a"], {"app:n": 2, "user:m": 1})


WRITER = """
import asyncio
import treering
from google.adk.events.event import Event
from treering.integrations.adk import TreeringSessionService

async def main():
    service = TreeringSessionService(treering.open(sys.argv[1]))
    session = await service.create_session(app_name="shop", user_id="ann", session_id="talk")
    for number in range(100_000):
        await service.append_event(session, Event(author="user", message=str(number), state={"app:n": number, "n": number}))
        print(number, flush=True)

asyncio.run(main())
"""  # noqa: E501


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Any) -> None:
    """Of a process that is killed while it appends; the state is that of the newest event."""
    with start(WRITER, tmp_path / "store") as writer:
        assert writer.stdout is not None
        while (last := int(writer.stdout.readline())) < 20:
            pass
        writer.kill()
        last = max([last, *map(int, writer.stdout.read().split("\n")[:-1])])
    found = await got(TreeringSessionService(treering.open(str(tmp_path / "store"))))
    assert texts(found) == [str(number) for number in range(len(found.events))]
    assert found.state["n"] == found.state["app:n"] == len(found.events) - 1 >= last


# what it costs


def counted(backend: Backend) -> tuple[TreeringSessionService, CountingDriver]:
    """A service in a new process, and what counts its requests."""
    store, counts = backend.counted()
    return TreeringSessionService(store), counts


async def test_an_event_takes_one_request() -> None:
    """Also one that sets state; two if it sets state of the app; and a look at a session takes three small reads."""
    service, counts = counted(memory_backend())
    session = await new(service, state={"app:n": 0, "user:n": 0})
    for key, puts in (("own", 1), ("app:n", 2)):
        counts.reset()
        for number in range(EVENTS):
            await service.append_event(session, said(f"{number}", {key: number}))
        assert counts.counts["Put"] <= puts * (EVENTS + SEALS)
        assert counts.counts["Get"] <= SEALS
    await got(service)
    counts.reset()
    await got(service)
    assert (counts.counts["Get"], counts.total) == (3, 3)


async def test_resuming_takes_two_reads_of_each_session_however_long_it_is() -> None:
    """Of the session, and of the state of the app and of the user."""
    backend = memory_backend()
    (service,) = services(backend, 1)
    session = await new(service, state={"app:n": 0, "user:n": 0})
    for number in range(300):
        await service.append_event(session, said(f"{number}" * 40, {"n": number}))
    service.close()
    again, counts = counted(backend)
    counts.reset()
    assert len((await got(again)).events) == 300
    assert counts.total == counts.counts["Get"] <= 6


async def test_a_value_that_cannot_be_stored_changes_nothing(backend: Backend) -> None:
    """Also if it is one of the app or the user, which are recorded behind the event: the session can still be read."""
    deep: dict[str, Any] = {}
    for _ in range(120):
        deep = {"a": deep}
    (service,) = services(backend, 1)
    session = await new(service)
    for name in ("user:deep", "app:deep"):
        with pytest.raises(UsageError):
            await service.append_event(session, said("a", {name: deep}))
        with pytest.raises(UsageError):
            await new(service, "other", {"user:x": 1, name: deep})
    await service.append_event(session, said("b"))
    found = await got(service)
    assert (texts(found), found.state) == (["b"], {})


async def test_what_was_erased_or_amended_is_said_by_who_said_it(backend: Backend) -> None:
    """An amendment may have the form of Gemini or of a chat; what was erased is a note."""
    (service,) = services(backend, 1)
    session = await new(service)
    for author, text in (("user", "a"), ("model", "b"), ("model", "c"), ("model", "d")):
        content = types.Content(role=author, parts=[types.Part(text=text)])
        await service.append_event(session, Event(author=author, content=content))
    store = backend.store().namespace(session.app_name).namespace(session.user_id)
    with store.session("talk", shared=True) as open_session:
        path = open_session.path()
        open_session.amend(path[1], {"role": "model", "parts": [{"text": "right"}]})
        open_session.amend(path[2], {"role": "assistant", "content": "good"})
        open_session.erase(path[3])
    events = (await got(service)).events
    shown = [(each.content.role, each.content.parts[0].text) for each in events if each.content and each.content.parts]
    assert shown == [("user", "a"), ("model", "right"), ("model", "good"), ("model", "[erased]")]
    assert [each.author == "user" for each in events] == [True, False, False, False]


@pytest.mark.parametrize("user", ["bob", "b" * 300])
async def test_a_copied_session_is_the_other_users(backend: Backend, user: str) -> None:
    """Its card names the user that it was copied from; lists and reads go by where it is."""
    [service] = services(backend, 1)
    await service.append_event(await new(service), said("hello"))
    await service.create_session(app_name="shop", user_id=user, session_id="own")
    service.close()
    app = backend.store().namespace("shop")
    app.namespace("ann").copy("talk", app.namespace(user), name="copied")
    app.namespace("ann").copy("talk", app)  # nobody's
    [service] = services(backend, 1)
    listed = (await service.list_sessions(app_name="shop", user_id=user)).sessions
    assert {(each.user_id, each.id) for each in listed} == {(user, "copied"), (user, "own")}
    listed = (await service.list_sessions(app_name="shop")).sessions
    known = {("ann", "talk"), (user, "own")} | ({(user, "copied")} if user == "bob" else set())
    assert {(each.user_id, each.id) for each in listed} == known
    found = await service.get_session(app_name="shop", user_id=user, session_id="copied")
    assert found is not None
    assert found.user_id == user


async def test_an_event_that_a_reload_showed_is_not_recorded_once_more() -> None:
    """It was recorded without an answer, and another process's event came behind it."""
    bucket = Unreliable()
    first, second = TreeringSessionService(bucket.store), TreeringSessionService(bucket.sound)
    await new(first, state={"n": 0})
    session, event = await got(first), said("mine", {"n": 1}, id="e1")
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        await first.append_event(session, event)
    await second.append_event(await got(second), said("other", {"n": 2}))
    with pytest.raises(StaleSessionError):
        await first.append_event(session, event)
    session = await got(first)
    assert texts(session) == ["mine", "other"]
    await first.append_event(session, event)
    there = await got(second)
    assert (texts(there), there.state) == (["mine", "other"], {"n": 2})
