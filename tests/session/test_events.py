"""The feed of everything: each record and each erasure once, in order, wherever a reader goes on."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sampling import few
from tests.session.backends import Backend, backend_of, kill
from tests.storage.processes import wait_until

import treering
from treering import Edit, ErasureInfo, Event, EventType, HeadMove
from treering.api.store import Store
from treering.format.erasure import Erased
from treering.journal import watch
from treering.storage.requests import Answer, Batch, Get
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place


class Following:
    """A feed read as far as a session goes, without waiting for more: it is given up at its first pause."""

    def __init__(self, view: treering.View, *, first: int | None = None, after: str | None = None) -> None:
        self.view = view
        self.after = after
        self._first = first
        self._feed: Any = None
        self.events: list[Event] = []

    def catch_up(self) -> list[Event]:
        """Read what there is."""
        from treering.session.verbs import following
        from treering.storage.effects import Items, Pause, parts

        if self._feed is None:
            where = {"first": self._first} if self.after is None else {"after": self.after}
            stream = following.events(self.view._reader, **where, poll_seconds=0)
            self._feed = parts(stream)
        found: list[Event] = []
        pauses = 0
        for part in self._feed:
            result = self.view.perform(lambda _, part: part, part)
            if isinstance(result, Items):
                found += result.values
                pauses = 0
            elif isinstance(result, Pause):
                pauses += 1
                if pauses == 3:  # one may be for a look that showed what was told
                    break
        self.events += found
        if found:
            self.after = found[-1].after
        return found

    def kill(self) -> None:
        """Read no more; another one goes on behind what this one was told."""
        self._feed = None


def following(backend: Backend, **where: Any) -> Following:
    """A feed in a process of its own."""
    return Following(backend.store().view("s"), **where)


def record_all(backend: Backend) -> tuple[list[Event], dict[str, str | None]]:
    """A session with everything, read while it is written."""
    with backend.store().session("s", title="T") as session:
        first = session.append("one").node
        feed = following(backend, first=0)
        second = session.append("two").node
        session.label(first, "L")
        session.amend(second, {"role": "user", "content": "TWO"})
        session.retract(first)
        session.unretract(first)
        made = session.commit(state={"key": 1}, label="x").checkpoint
        session.branch("idea", node=first)
        session.append("three")
        session.switch("main")
        session.drop_head("idea")
        feed.catch_up()
        session.erase(first, reason="because")
        session.erase(state=["key"])
        feed.catch_up()
    backend.store().delete("s")
    feed.catch_up()
    return feed.events, {"first": first, "second": second, "made": made}


def test_each_type_has_its_value(backend: Backend) -> None:
    """What was recorded stands in the event, later edits not applied, and all of it can be sent as JSON."""
    events, names = record_all(backend)
    values = [event.value for event in events]
    nodes = [value for value in values if isinstance(value, treering.Node)]
    assert [node.payload["content"] for node in nodes] == ["one", "two", "three"]
    [note] = [value for value in values if isinstance(value, treering.Note)]
    assert (note.kind, note.target, note.brief) == ("label", names["first"], {"label": "L"})
    edits = [value for value in values if isinstance(value, Edit)]
    assert [(edit.kind, edit.target, edit.undo) for edit in edits] == [
        ("amend", names["second"], False),
        ("retract", names["first"], False),
        ("retract", names["first"], True),
    ]
    assert [edit.payload for edit in edits] == [{"role": "user", "content": "TWO"}, None, None]
    moves = [value for value in values if isinstance(value, HeadMove)]
    assert [(move.head, move.dropped, move.current) for move in moves] == [
        ("idea", False, True),
        ("main", False, True),
        ("idea", True, False),
    ]
    made = [value for value in values if isinstance(value, treering.CheckpointInfo)]
    assert names["made"] in [each.id for each in made]
    erased = [value for value in values if isinstance(value, ErasureInfo)]
    assert [(each.ids, each.state, each.reason) for each in erased] == [
        ((names["first"],), (), "because"),
        ((), ("key",), ""),
    ]
    assert events[-1].type == EventType.DELETION
    assert [event.type for event in events].count(EventType.DELETION) == 1
    records = [event.at for event in events if event.type not in (EventType.ERASURE, EventType.DELETION)]
    assert records == list(range(len(records)))
    decoded = msgspec.json.decode(treering.to_json(events))
    assert [each["type"] for each in decoded] == [event.type.value for event in events]
    assert decoded[0]["value"]["payload"] == {"role": "user", "content": "one"}


def test_a_reader_goes_on_behind_any_event(backend: Backend) -> None:
    """Behind each event another process is told the rest, and nothing twice."""
    with backend.store().session("s") as session:
        feed = following(backend_ready(backend, session), first=0)
        for number in range(6):
            node = session.append(f"m{number}").node
            if number == 2:
                session.seal()
            if number == 3:
                session.erase(node)
            feed.catch_up()
        session.seal()
        session.optimize(everything=True)
        session.append("last")
        feed.catch_up()
        for count, event in enumerate(feed.events, 1):
            again = following(backend, after=event.after)
            again.catch_up()
            assert summary(again.events) == summary(feed.events[count:])


def backend_ready(backend: Backend, session: treering.Session) -> Backend:
    """A session that can be viewed."""
    session.append("first")
    return backend


def summary(events: list[Event]) -> tuple[list[int], list[str]]:
    """Which records were told, and which erasures: when one is told among later records is a matter of looks."""
    erasures = [event.after.split("-")[1] for event in events if event.type is EventType.ERASURE]
    return [event.at for event in events if event.type is not EventType.ERASURE], erasures


def test_a_view_tells_what_follows_it(backend: Backend) -> None:
    """Without a place the feed begins behind what a view shows, erasures included, however old the view is."""
    with backend.store().session("s") as session:
        node = session.append("a").node
        session.erase(node)
        view = backend.store().view("s")
        assert Following(view).catch_up() == []
        other = session.append("b").node
        session.seal()
        session.append("c")
        session.erase(other)
        found = Following(view).catch_up()
        assert [event.type for event in found] == ["node", "node", "erasure"]
        assert isinstance(getattr(found[0].value, "payload", None), Erased)
        assert getattr(found[0].value, "erased", None) is True


def test_erasures_are_told_behind_the_records_they_name(backend: Backend) -> None:
    """From position 0, with everything ever erased."""
    with backend.store().session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(3)]
        session.seal()
        session.erase(nodes[0])
        nodes.append(session.append("more").node)
        session.erase(nodes[3], nodes[1])
    events = following(backend, first=0).catch_up()
    known: set[str] = set()
    for event in events:
        if isinstance(event.value, treering.Node):
            known.add(event.value.id)
        elif isinstance(event.value, ErasureInfo):
            assert known.issuperset(event.value.ids)
    erased = [event.value.ids for event in events if isinstance(event.value, ErasureInfo)]
    assert [set(ids) for ids in erased] == [{nodes[0]}, {nodes[1], nodes[3]}]


def test_a_feed_ends_with_the_life(backend: Backend) -> None:
    """A session of the same name that is made later is another one: nothing of it is told to readers of the first."""
    store = backend.store()
    with store.session("s") as session:
        session.append("a")
    slow, quick = following(backend, first=0), following(backend, first=0)
    assert quick.catch_up()
    store.delete("s")
    with store.session("s") as session:
        session.append("another session")
        session.seal()
        session.append("b")
    assert [event.type for event in quick.catch_up()] == ["deletion"]
    assert quick.catch_up() == []
    assert [event.type for event in slow.catch_up()] == ["deletion"]
    late = following(backend, after=quick.events[0].after)
    assert [event.type for event in late.catch_up()] == ["deletion"]
    with pytest.raises(treering.SessionDeletedError):
        next(slow.view.follow(first=0))
    assert [event.type for event in following(backend, first=0).catch_up()][:1] == ["node"]


def test_segments_of_another_life_are_not_read(backend: Backend) -> None:
    """A reader far behind the tail of a life that ended, and whose name holds a longer one by then."""
    store = backend.store()
    with store.session("s") as session:
        session.append("a", "b", "c")
        session.seal()
        session.append("d")
    behind = following(backend, first=1)
    store.delete("s")
    with store.session("s") as session:
        session.append(*"uvwxyz")
        session.seal()
        session.append("another session")
    assert [event.type for event in behind.catch_up()] == ["deletion"]


def test_a_place_must_be_one(backend: Backend) -> None:
    """Nonsense is refused, and so is a place behind the end: then an older copy of the session was put back."""
    with backend.store().session("s") as session:
        session.append("a")
        view = backend.store().view("s")
        for bad in ("", "x", "1-2", "-1-0-x", "1-0-", "\u0661-0-x"):
            with pytest.raises(treering.UsageError):
                view.events(after=bad)
        for first, after in ((-1, None), (0, "0-0-x")):
            with pytest.raises(treering.UsageError):
                view.events(first=first, after=after)
        with pytest.raises(treering.CorruptError, match="older copy"):
            next(view.events(first=100, poll_seconds=0))


def test_an_older_copy_is_noticed(tmp_path: Path) -> None:
    """Records that were told do not vanish without a word."""
    backend = backend_of("memory", tmp_path)
    session = backend.store().session("s", shared=True)
    session.append("a")
    feed = following(backend, first=0)
    feed.catch_up()
    key = session._reader.keys.tail
    old = backend.driver().execute((Get(key),))[0].data  # type: ignore[union-attr]
    session.append("b")
    feed.catch_up()
    from treering.storage.requests import Put

    backend.driver().execute((Put(key, old),))
    with pytest.raises(treering.CorruptError, match="older copy"):
        feed.catch_up()
    kill(session)


class Author:
    """Does one thing after the other in a session, by chance."""

    def __init__(self, backend: Backend, chance: random.Random) -> None:
        self.session = backend.store().session("s", shared=True)
        self._chance = chance
        self._nodes = [*self.session.append("first").nodes]
        self._erased: set[str] = set()

    def act(self, step: int) -> None:
        """Do something."""
        self._chance.choice([self.append, self.append, self.turn, self.edit, self.tidy, self.erase, self.move])(step)

    def append(self, step: int) -> None:
        """Add messages, short and long ones."""
        texts = [f"m{step} " * self._chance.choice([1, 1, 2000])] * self._chance.choice([1, 1, 5])
        self._nodes += self.session.append(*texts).nodes

    def turn(self, step: int) -> None:
        """End a turn."""
        self._nodes += self.session.commit([f"t{step}"], state={"n": step}).nodes

    def edit(self, step: int) -> None:
        """Label or amend a node."""
        node = self._chance.choice(self._nodes)
        self.session.label(node, f"L{step}")
        if node not in self._erased:
            self.session.amend(node, {"role": "user", "content": f"A{step}"})

    def tidy(self, step: int) -> None:
        """Seal, merge or prune."""
        what = self._chance.choice(["seal", "merge", "prune"])
        if what == "seal":
            self.session.seal()
        elif what == "merge":
            self.session.optimize(everything=True)
        else:
            self.session.prune(treering.KeepCheckpoints(last=1))

    def erase(self, step: int) -> None:
        """Erase one or two payloads."""
        nodes = {self._chance.choice(self._nodes) for _ in range(self._chance.choice([1, 2]))}
        self._erased |= nodes
        self.session.erase(*nodes)

    def move(self, step: int) -> None:
        """Go elsewhere."""
        self.session.checkout(self._chance.choice(self._nodes))


@pytest.mark.parametrize("seed", range(few(14, whole=40)))
def test_any_interleaving_is_told_once(tmp_path: Path, seed: int) -> None:
    """Whatever is appended, sealed, merged and erased, and whenever readers look or are killed: each thing once."""
    chance = random.Random(seed)
    backend = backend_of(chance.choice(["memory", "logs"]), tmp_path)
    author = Author(backend, chance)
    shared = backend.store()  # some readers follow through one store
    readers = [Following(shared.view("s"), first=0) for _ in range(3)] + [following(backend, first=0)]
    for step in range(40):
        author.act(step)
        for reader in readers:
            if chance.random() < 0.3:
                reader.catch_up()
            if chance.random() < 0.1:
                reader.kill()
                reader.view = chance.choice([shared, backend.store()]).view("s")
    for reader in readers:
        reader.catch_up()
    check_told(backend, readers)
    kill(author.session)


def check_told(backend: Backend, readers: list[Following]) -> None:
    """Each record once, in order; each act of erasing once, in order; nothing erased is left to who applies both."""
    view = backend.store().view("s")
    now = {node.id: view.get(node.id) for node in view.nodes()}
    acts = [act.epoch for act in view._reader.replica.burials.erasures]
    end = view._reader.replica.state.end
    for reader in readers:
        records = [event.at for event in reader.events if event.type is not EventType.ERASURE]
        assert records == list(range(end))
        told = [int(event.after.split("-")[1]) for event in reader.events if event.type is EventType.ERASURE]
        assert told == acts
        held: dict[str, object] = {}
        for event in reader.events:
            if isinstance(event.value, treering.Node):
                held[event.value.id] = event.value.payload
            elif isinstance(event.value, Edit) and event.value.kind == "amend":
                held[event.value.target] = event.value.payload
            elif isinstance(event.value, ErasureInfo):
                held |= dict.fromkeys(event.value.ids)
        for name, node in now.items():
            if node.erased:
                assert held[name] is None or isinstance(held[name], Erased)
            else:
                assert held[name] == node.payload


def test_what_is_kept_for_others_is_erased_as_well(backend: Backend) -> None:
    """A slow reader is shown no payload that an erasure took after the quick one had looked."""
    with backend.store().session("s") as session:
        session.append("a")
        store = backend.store()
        quick, slow = (Following(store.view("s"), first=0) for _ in range(2))
        secret = session.append("secret").node
        quick.catch_up()
        session.seal()
        session.append("b")  # the secret leaves the tail
        quick.catch_up()
        session.erase(secret)
        quick.catch_up()
        found = [event.value for event in slow.catch_up()]
        assert [value.erased for value in found if isinstance(value, treering.Node)] == [False, True, False]


# looks


class Counting(DriverWrapper):
    """Counts looks at tails."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.looks = 0

    def _count(self, batch: Batch) -> None:
        self.looks += sum(isinstance(each, Get) and "/tail" in each.key for each in batch)

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Count, then pass on."""
        self._count(batch)
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Count, then pass on."""
        self._count(batch)
        await asyncio.sleep(0.01)
        return await self.inner.aexecute(batch)


def _is_longer(told: list[str], than: int) -> bool:
    return len(told) > than


def test_threads_share_their_looks(tmp_path: Path) -> None:
    """Thirty threads look as often as one, and all are told everything, soon."""
    backend = backend_of("memory", tmp_path)
    session = backend.store().session("s", shared=True)
    session.append("a")
    driver = Counting(backend.driver())
    store = Store(Place(driver))
    views = [store.view("s") for _ in range(30)]
    driver.looks = 0
    told: list[list[str]] = [[] for _ in views]

    def read(number: int) -> None:
        for event in views[number].events(poll_seconds=0.05):
            told[number].append(event.after)
            if len(told[number]) == 10:
                return

    threads = [threading.Thread(target=read, args=[number], daemon=True) for number in range(30)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for number in range(10):
        session.append(f"m{number}")
        assert wait_until(partial(_is_longer, told[0], number))
    for thread in threads:
        thread.join(10)
    seconds = time.monotonic() - began
    assert all(len(each) == 10 for each in told)
    assert len({tuple(each) for each in told}) == 1
    assert driver.looks <= seconds / 0.05 + 2
    kill(session)


async def test_tasks_share_their_looks(tmp_path: Path) -> None:
    """So do thirty tasks; one that is cancelled in the middle of a look holds up nobody."""
    backend = backend_of("memory", tmp_path)
    session = backend.store().session("s", shared=True)
    session.append("a")
    driver = Counting(backend.driver())
    store = treering.AsyncStore(Place(driver))
    views = [await store.view("s") for _ in range(30)]
    driver.looks = 0
    told: list[list[str]] = [[] for _ in views]

    async def read(number: int) -> None:
        async for event in views[number].events(poll_seconds=0.05):
            told[number].append(event.after)
            if len(told[number]) == 10:
                return

    tasks = [asyncio.create_task(read(number)) for number in range(30)]
    began = time.monotonic()
    await asyncio.sleep(0.005)  # the first one looks
    tasks[0].cancel()
    for number in range(10):
        session.append(f"m{number}")
        await asyncio.sleep(0.03)
    done, late = await asyncio.wait(tasks, timeout=10)
    seconds = time.monotonic() - began
    assert not late
    assert sum(task.cancelled() for task in done) == 1
    assert all(len(each) == 10 for each in told[1:])
    assert len({tuple(each) for each in told[1:]}) == 1
    assert driver.looks <= seconds / 0.05 + 3
    kill(session)


def test_a_look_that_never_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of a loop that was stopped in the middle of its look."""
    monkeypatch.setattr(watch, "LOOK_SECONDS_MAX", 0.05)
    backend = backend_of("memory", tmp_path)
    session = backend.store().session("s", shared=True)
    session.append("a")
    store = backend.store()
    stuck, other = store.view("s"), store.view("s")
    seen = stuck._reader.replica.watch(stuck._reader.replica.view.life)
    assert isinstance(seen.turn(None, 1.0), int)  # and then nothing
    session.append("b")
    assert next(other.events(poll_seconds=0.01)).type == "node"
    kill(session)


def test_a_fork_looks_for_itself() -> None:
    """Who looked and who had the lock stayed in the process before the fork."""
    from treering.format.paths import SessionKeys

    watches = watch.Watches()
    keys = SessionKeys("", "s", False)
    before = watches.of(keys, "x")
    assert watches.of(keys, "x") is before
    watches._process = -1
    watches._lock.acquire()
    assert watches.of(keys, "x") is not before


def test_many_records_between_two_looks_are_read_once_for_all(tmp_path: Path) -> None:
    """Records that were appended and sealed between two looks: one list and one GET, not one for each reader."""
    backend = backend_of("memory", tmp_path)
    session = backend.store().session("s", shared=True)
    session.append("a")
    store, counts = backend.counted()
    readers = [Following(store.view("s")) for _ in range(10)]
    for reader in readers:
        assert reader.catch_up() == []
    session.append("b")
    session.seal()
    session.append("c")
    counts.reset()
    for reader in readers:
        assert len(reader.catch_up()) == 2
    assert counts.counts["List"] == 1
    assert sum("/segments/" in request.key for request in counts.requests if isinstance(request, Get)) == 1
    kill(session)


def test_a_session_tells_what_it_records_itself(backend: Backend) -> None:
    """A handle that writes can follow, too, from where it stands."""
    with backend.store().session("s") as session:
        session.append("a")
        feed = session.events(poll_seconds=0)
        node = session.append("b").node
        assert [getattr(event.value, "id", None) for event in itertools.islice(feed, 1)] == [node]
