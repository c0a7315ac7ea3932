"""A call that is interrupted between any two steps leaves a handle that tells the truth, and gives back its locks.

An interrupt is whatever is not an error of ours: Ctrl-C, a cancelled task, no memory left, a hook that raises. Here
each verb is interrupted behind the calls it makes (a sample; all with `make interrupts`), and the handle goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

import pytest
from tests.drivers import PassingDriver
from tests.s3faults.verbs import WRITING, Call, Stored, Verb, stored
from tests.sampling import few
from tests.session.faults import says, seen
from tests.session.interrupts import Point, Points, named

from treering import Hooks, NotFoundError, UsageError, user
from treering.api.async_store import AsyncStore
from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.ids import IdClock
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Batch, Driver, Put
from treering.store.place import Place

WHOLE = os.environ.get("TREERING_INTERRUPTS") == "whole"
EVERY = 1 if WHOLE else few(197, whole=37)
"""Of the places where a verb can be interrupted, one in so many is tried; a prime, so that each run of them is cut."""
ERRORS = (KeyboardInterrupt, MemoryError, asyncio.CancelledError)
SECONDS_MAX = 20  # then something waits for a lock that nobody will give back

OF_STORES = {"session", "spawn", "load", "copy", "repair", "delete", "purge", "retain"}
OF_SESSIONS = sorted(WRITING.keys() - OF_STORES)


# An interrupt may strike where a coroutine or a file was made and nothing refers to it yet.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file <_io.FileIO:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Hangs(BaseException):
    """Nothing happens any more."""


class Scene(NamedTuple):
    """A store with a session in it, opened by this process, and as another one would open it."""

    call: Call
    other: Store


class Waits:
    """An asynchronous session as the table of verbs calls it: each coroutine is run to its end."""

    def __init__(self, session: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._session, self._loop = session, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **options: self._loop.run_until_complete(found(*args, **options))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs only while something is waited for."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        yield loop


@pytest.fixture(autouse=True, scope="module")
def known_heap() -> Iterator[None]:
    """Leave alone what other tests made: `Points` collects before each call, and all of it would take seconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def ends(tmp_path: Path) -> Iterator[None]:  # its thousands of files are removed behind this
    """Stop a test that hangs."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Hangs("a lock was not given back")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def scene(kind: str, verb: Verb, folder: Path, loop: asyncio.AbstractEventLoop) -> Scene:
    """A new one; `kind` is the driver and whether the session is asynchronous."""
    signal.alarm(SECONDS_MAX)
    where, _, how = kind.partition(", ")
    there = stored(appends=where == "disk")
    memory = MemoryDriver()
    new: Callable[[], Driver] = lambda: memory  # noqa: E731
    if where == "disk":
        for key, data in there.objects.items():
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(data)
        new = partial(LocalDriver, folder)
    else:
        memory.execute(tuple(Put(key, data) for key, data in there.objects.items()))
    store = Store(Place(new()))
    session: Any
    if how:
        opened = loop.run_until_complete(AsyncStore(Place(new())).session("s", durability=verb.durability))
        session = Waits(opened, loop)
    else:
        session = store.session("s", durability=verb.durability)
    return Scene(Call(store, session, there), Store(Place(new())))


def shown(handle: Session | View) -> dict[str, object]:
    """What a handle shows, but for ids that chance chose."""
    facts = seen(handle)
    return {name: facts[name] for name in ("settings", "state", "manager", "head")} | {
        "heads": set(handle.heads),
        "said": [item.message for item in handle.context],
    }


def met_by(verb: Verb, made: Scene) -> list[Point]:
    """Where this verb can be interrupted."""
    points = Points()
    points(lambda: verb.call(made.call))
    return list(points.met)


@pytest.mark.sampled(3, "name", "kind")
@pytest.mark.parametrize("kind", ["disk", "memory", "disk, awaited", "memory, awaited"])
@pytest.mark.parametrize("name", OF_SESSIONS)
def test_a_handle_goes_on_after_an_interrupt(
    name: str, kind: str, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """The handle shows the session before or after the call, and a resume finds its next record.

    Each verb in one or two of the four ways here, in all with `make whole`; at all places with `make interrupts`.
    """
    verb = WRITING[name]
    whole = scene(kind, verb, tmp_path / "whole", loop)
    before = shown(whole.call.session)
    places = met_by(verb, whole)
    after = shown(whole.other.view("s"))
    first = sum(map(ord, name + kind)) % EVERY
    struck = 0
    for number, place in enumerate(places[first::EVERY]):
        made = scene(kind, verb, tmp_path / f"{number}", loop)
        session = made.call.session
        error = ERRORS[number % len(ERRORS)]
        points = Points(place, error)
        with contextlib.suppress(error):
            points(partial(verb.call, made.call))
        struck += points.struck
        where = f"{error.__name__} in front of {named(place)}"
        if not verb.ends:
            now = shown(session)
            assert verb.steps or now in (before, after), where
            session.append("on it goes")
            session.flush()
            view = made.other.view("s")
            assert seen(session) == seen(view), where
            assert session.path() == view.path(), where
            assert view.heads.keys() <= before["heads"] | after["heads"], where  # type: ignore[operator]
            lines = b"".join(view.lines())
            assert lines.count(b'"on it goes"') == 1, where
            assert lines.count(b'"content":"X"') <= 1, where
        session.close()
        session.close()
        assert [found for found in made.other.verify("s") if found.severity == "damage"] == [], where
        with made.other.session("s") as another:
            another.append("by another")
    assert struck > len(places) // EVERY // 2  # what is cached makes some calls needless the second time


def test_records_that_an_interrupted_look_took_in_are_found() -> None:
    """A handle remembers rows that it read; it forgets them where it may have taken in half of what another wrote."""
    reads = Points()
    shared_read(reads)
    places = [place for place in reads.met if place[0].co_filename.endswith("rows.py")]
    assert len(places) > 10
    for place in places:
        points = Points(place)
        reader, expected = shared_read(points)
        found = [row.node.id for row in reader.history().rows]
        assert found == expected, named(place)
        assert [reader.children(node) for node in found] == [(), *[(node,) for node in found[:-1]]], named(place)


def shared_read(points: Points) -> tuple[Session, list[str]]:
    """A page that is read, as `points` says, after another writer added nodes; the nodes that it has to show."""
    store = Store(Place(MemoryDriver()))
    writer = store.session("s", shared=True)
    writer.append("a", "b")
    reader = store.session("s", shared=True)
    reader.history()
    writer.append("c", "d")
    reader.refresh()
    with contextlib.suppress(KeyboardInterrupt):
        points(reader.history)
    return reader, [*reversed(writer.path())]


@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("name", sorted(OF_STORES - {"delete", "retain"}))
def test_a_store_goes_on_after_an_interrupt(
    name: str, kind: str, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """What was interrupted holds no lock, and the session it was about is as it was."""
    verb = WRITING[name]
    whole = scene(kind, verb, tmp_path / "whole", loop)
    places = met_by(verb, whole)
    for number, place in enumerate(places[sum(map(ord, name)) % EVERY :: EVERY]):
        made = scene(kind, verb, tmp_path / f"{number}", loop)
        before = shown(made.call.session)
        with contextlib.suppress(KeyboardInterrupt):
            Points(place)(partial(verb.call, made.call))
        where = f"in front of {named(place)}"
        assert shown(made.call.session) == before, where
        made.call.session.append("on it goes")
        made.call.session.close()
        assert [found for found in made.other.verify("s") if found.severity == "damage"] == [], where
        with made.other.session("s") as another:
            another.append("by another")


@pytest.mark.parametrize("event", ["after_compaction", "after_navigation", "after_checkpoint"])
def test_a_hook_that_raises_behind_an_event_undoes_nothing(event: str) -> None:
    """What was recorded stays, and the handle stands there."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    store = Store(Place(MemoryDriver()))
    session = store.session("s", hooks=Hooks(**{event: fail}))
    nodes = [session.append(text).node for text in "abc"]
    calls: dict[str, Callable[[], object]] = {
        "after_compaction": lambda: session.compact("gist", kept=nodes[1]),
        "after_navigation": lambda: session.checkout(nodes[0]),
        "after_checkpoint": lambda: session.commit(["d"], label="l", state={"k": 1}),
    }
    with pytest.raises(ZeroDivisionError):
        calls[event]()
    assert seen(session) == seen(store.view("s"))
    session.append("on it goes")
    assert seen(session) == seen(store.view("s"))
    assert list(session.heads) == ["main"]


class Signals(PassingDriver):
    """Calls something while the session waits for the store, as a signal handler would."""

    handler: Callable[[], object] = staticmethod(lambda: None)

    def execute(self, batch: Batch) -> Any:
        self.handler()
        return self.inner.execute(batch)


def test_a_signal_handler_that_uses_the_session_is_refused() -> None:
    """A call in the middle of another one of the same thread raises, and the one under way is not disturbed."""
    driver = Signals(MemoryDriver())
    session = Store(Place(driver)).session("s")
    session.append("a")
    refused: list[UsageError] = []

    def handler() -> None:
        assert says(session) == ["a"]  # looking is allowed
        with pytest.raises(UsageError, match="in the middle of another call") as caught:
            session.append("from the handler")
        refused.append(caught.value)

    driver.handler = handler
    session.append("b")
    driver.handler = lambda: None
    assert [error.kind for error in refused] == ["reentered"]
    assert says(session) == ["a", "b"]
    assert seen(session) == seen(Store(Place(driver)).view("s"))


@pytest.mark.parametrize("call", ["write", "flush", "stop", "fail", "close"])
def test_a_signal_handler_that_uses_an_answer_is_refused(call: str) -> None:
    """While this thread stores pieces of it, and the session is not closed either; the answer goes on."""
    signal.alarm(SECONDS_MAX)
    driver = Signals(MemoryDriver())
    session = Store(Place(driver)).session("s")
    answer = session.stream()
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: answer.write("by the handler"),
        "flush": answer.flush,
        "stop": answer.stop,
        "fail": lambda: answer.fail("by the handler"),
        "close": session.close,
    }
    refused: list[str] = []

    def handler() -> None:
        if threading.current_thread() is threading.main_thread():  # the answer has a thread that stores it
            with pytest.raises(UsageError, match="in the middle of another call") as caught:
                calls[call]()
            refused.append(caught.value.kind)

    answer.write("one ")
    driver.handler = handler
    answer.flush()
    driver.handler = lambda: None
    answer.write("two")
    answer.finish()
    assert set(refused) == {"reentered"}
    session.append("next")
    assert says(session) == ["one two", "next"]


@pytest.mark.parametrize("call", ["write", "flush"])
def test_a_signal_handler_that_uses_an_answer_waits_for_no_lock(call: str) -> None:
    """Wherever it strikes in a call of the answer, it is refused, or what it does is done before or after that call."""
    signal.alarm(SECONDS_MAX)
    store = Store(Place(MemoryDriver()))
    session = store.session("s")
    answer = session.stream()
    refused: list[str] = []

    def use(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return"):
            try:
                answer.flush() if call == "flush" else answer.write(".")
            except UsageError as error:
                refused.append(error.kind)

    sys.setprofile(use)
    try:
        answer.write("one")
        answer.flush()
    finally:
        sys.setprofile(None)
    assert set(refused) == {"reentered"}
    answer.finish()
    (said,) = says(store.view("s"))
    assert str(said).strip(".").replace(".", "") == "one"


def test_a_forked_child_waits_for_no_lock_of_a_thread_of_its_parent() -> None:
    """A thread that was in a call at the fork is not in the child, and gives nothing back. The child is refused."""
    signal.alarm(SECONDS_MAX)
    driver = Signals(MemoryDriver())
    session = Store(Place(driver)).session("s")
    session.append("a")
    answer = session.stream()
    begun, gate = threading.Event(), threading.Event()

    def handler() -> None:
        if threading.current_thread().name == "slow":
            begun.set()
            gate.wait()

    driver.handler = handler
    refused: dict[Callable[[], object], list[Callable[[], object]]] = {
        lambda: session.append("b"): [lambda: session.append("c"), session.flush, session.release, session.close],
        answer.flush: [answer.flush, answer.finish, lambda: answer.write("d"), lambda: answer.fail("e")],
    }
    answer.write("text")
    for under_way, calls in refused.items():
        begun.clear()
        gate.clear()
        thread = threading.Thread(target=under_way, name="slow")
        thread.start()
        begun.wait()
        session._pid += 1  # as in a child
        answer._pid += 1
        for call in calls:
            with pytest.raises(UsageError, match="another process"):
                call()
        session._pid -= 1
        answer._pid -= 1
        gate.set()
        thread.join()
    node = answer.finish().node
    assert session.get(node).payload["content"] == "text"
    assert says(session) == ["a", "b"]
    session.close()


@pytest.mark.parametrize("kind", ["memory", "memory, awaited"])
@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_a_signal_handler_that_looks_disturbs_no_call(
    durability: Literal["sync", "turn"], kind: str, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    """A handler that reads properties, wherever Python runs one and also right behind a call, changes nothing."""
    verb = WRITING["append"]._replace(durability=durability)
    made = scene(kind, verb, tmp_path, loop)
    session = made.call.session
    before = says(session)
    looks = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal looks
        if event in ("call", "c_return"):  # what a profiler is told is where the interpreter looks for signals
            assert session.head == "main"
            looks += 1

    for text in ("a", "b"):
        sys.setprofile(look)
        try:
            session.append(text)
        finally:
            sys.setprofile(None)
    sys.setprofile(look)
    try:
        with pytest.raises(NotFoundError):
            session.checkout("nowhere")
    finally:
        sys.setprofile(None)
    assert looks > 100
    assert says(session) == [*before, "a", "b"]
    session.flush()
    assert says(made.other.view("s")) == [*before, "a", "b"]


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_a_signal_handler_that_records_is_refused_wherever_it_strikes(durability: Literal["sync", "turn"]) -> None:
    """Also while the call computes. In front of it and behind it a handler may record, and nothing of that is lost."""
    signal.alarm(SECONDS_MAX)
    store = Store(Place(MemoryDriver()))
    session = store.session("s", durability=durability)
    session.append("first")
    acknowledged: list[str | None] = []
    refused: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return"):
            try:
                acknowledged.append(session.append("from the handler").node)
            except UsageError as error:
                refused.append(error.kind)

    for text in ("a", "b"):
        sys.setprofile(record)
        try:
            session.append(text)
        finally:
            sys.setprofile(None)
    assert set(refused) == {"reentered"}
    assert len(refused) > 100
    assert len(acknowledged) > 2
    for _ in range(2):
        said = says(session)
        assert [text for text in said if text != "from the handler"] == ["first", "a", "b"]
        assert len(said) == 3 + len(acknowledged)
        session.flush()
    assert says(session) == says(store.view("s"))
    assert list(session.heads) == ["main"]


def test_ids_made_in_a_signal_handler_differ() -> None:
    """A handler may make an id, for another session, in the middle of another one."""
    signal.alarm(SECONDS_MAX)
    clock, ahead = IdClock(), IdClock()
    made: list[str] = []

    def make(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_return"):
            made.append(clock.new())

    for _ in range(3):
        far = ahead.new()
        sys.setprofile(make)
        try:
            found = clock.new()
            clock.observe(far)
        finally:
            sys.setprofile(None)
        assert clock.new() > max(*made, far, found)
        made.append(found)
    assert len(made) == len(set(made)) > 20


def test_code_that_a_call_runs_may_call_the_session() -> None:
    """A hook, and what yields the messages or names of a call, may record and read, more than once."""
    store = Store(Place(MemoryDriver()))

    def hook(_: object) -> None:
        session.append("from the hook")
        session.append("once more")

    def messages() -> Iterator[str]:
        for number in range(2):
            session.note("mine", {"for": number})
            yield f"message {number}"

    session = store.session("s", hooks=Hooks(before_checkpoint=hook))
    session.commit(messages(), label="l")
    assert says(session) == ["from the hook", "once more", "message 0", "message 1"]
    assert len(list(session.notes("mine"))) == 2
    nodes = session.each_node(node.id for node in session.each_node())
    assert [node.payload["content"] for node in nodes] == says(session)
    assert seen(session) == seen(store.view("s"))


@pytest.mark.parametrize("name", ["commit", "keep_stream", "finish"])
def test_an_interrupted_call_can_be_repeated(name: str) -> None:
    """As after `UnavailableError`: where it recorded already what it was given, it records and expects that no more."""
    points = Points()
    points(repeatable(name)[1])
    inside = [place for place in points.met if "/api/" not in place[0].co_filename]  # elsewhere it may have ended
    struck, refused = 0, list[str]()
    for place in inside[:: few(31, whole=1)]:
        session, call = repeatable(name)
        points = Points(place)
        with contextlib.suppress(KeyboardInterrupt):
            points(call)
        if not points.struck:  # what is imported once is not met again
            continue
        struck += 1
        try:
            assert len(call().nodes) == 1, named(place)
        except UsageError as error:
            refused.append(error.kind)
        assert says(session)[:2] == ["first", "answer"], named(place)
        assert len(session.path()) == 2, named(place)
        assert list(session.heads) == ["main"], named(place)
    assert struck > 5
    assert set(refused) == ({"duplicate_id"} if name == "finish" else set())  # it asks for another answer


def repeatable(name: str) -> tuple[Session, Callable[[], Any]]:
    """A new session, and a call of this verb that records an answer."""
    signal.alarm(SECONDS_MAX)
    session = Store(Place(MemoryDriver())).session("s")
    session.commit(["first"], state={"n": 1})
    if name == "commit":
        message, place, made = user("answer", id="mine"), session.node, session.checkpoint_id
        return session, partial(session.commit, [message], state={"n": 2}, expect=place, expect_checkpoint=made)
    answer = session.stream()
    answer.write("answer")
    if name == "keep_stream":
        answer.fail("tired")
        return session, partial(session.keep_stream, answer.id)
    times = count()
    return session, lambda: answer.finish(**({"model": "m"} if next(times) else {}))


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_what_a_hook_did_stays_if_the_call_around_it_is_interrupted(durability: Literal["sync", "turn"]) -> None:
    """Its calls returned, so what they recorded is kept, buffered or not, though the hook raises afterwards."""
    store = Store(Place(MemoryDriver()))

    def hook(_: object) -> None:
        session.record_usage(input=3, turn=False)
        session.append("from the hook")
        raise ZeroDivisionError

    session = store.session("s", durability=durability, hooks=Hooks(before_compaction=hook))
    session.append("first")
    with pytest.raises(ZeroDivisionError):
        session.compact("gist")
    session.append("last")
    session.flush()
    assert says(session) == ["first", "from the hook", "last"]
    assert session.usage == {"input": 3}
    assert seen(session) == seen(store.view("s"))


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_a_call_goes_on_when_its_hook_caught_an_interrupt(durability: Literal["sync", "turn"]) -> None:
    """Only the call of the hook is undone, wherever it was interrupted. The call around it stays, as it was told."""
    points, struck = Points(), 0
    around_another(points, durability)
    for place in [*points.met][:: few(7, whole=1)]:
        points = Points(place)
        store, session = around_another(points, durability)
        struck += points.struck
        said = says(session)
        assert said in (["first", "outer"], ["first", "inner", "outer"]), named(place)
        session.append("last")
        session.flush()
        assert says(session) == [*said, "last"], named(place)
        assert seen(session) == seen(store.view("s")), named(place)
        assert list(session.heads) == ["main"], named(place)
    assert struck > 5


def around_another(points: Points, durability: Literal["sync", "turn"]) -> tuple[Store, Session]:
    """Append a message whose hook appends another one, which is interrupted as `points` says."""
    signal.alarm(SECONDS_MAX)
    store = Store(Place(MemoryDriver()))

    def hook(payload: Any) -> Any:
        if payload["content"] == "outer":
            with contextlib.suppress(KeyboardInterrupt):
                points(lambda: session.append("inner"))
        return payload

    session = store.session("s", durability=durability, hooks=Hooks(before_append=hook))
    session.append("first")
    session.append("outer")
    return store, session


def test_what_was_put_off_is_kept() -> None:
    """Messages that wait for the end of a turn are neither lost nor doubled, wherever their flush is interrupted."""
    points = Points()

    def waiting() -> tuple[Store, Session]:
        store = Store(Place(MemoryDriver()))
        session = store.session("s", durability="turn")
        session.append("one")
        session.append(user("two"))
        return store, session

    _, session = waiting()
    points(session.flush)
    for place in points.met:
        store, session = waiting()
        with contextlib.suppress(KeyboardInterrupt):
            Points(place)(session.flush)
        assert says(session) == ["one", "two"], named(place)
        session.append("three")
        session.flush()
        assert says(store.view("s")) == ["one", "two", "three"], named(place)


def test_the_table_of_the_store_is_whole() -> None:
    """The session that the verbs are tried on is the same on a disk as elsewhere."""
    disk, memory = (shape(stored(appends=appends)) for appends in (True, False))
    assert disk == memory


def shape(there: Stored) -> set[str]:
    """What is stored, but for what chance named."""
    return {key.split("/")[1].partition(".")[0] for key in there.objects if "/" in key}
