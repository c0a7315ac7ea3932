"""Purging: nothing is left of a deleted session, whatever was killed on the way, and nothing of a living one goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest
from tests.session.at_rest import Paused, holding, replaces
from tests.session.backends import Backend, kill
from tests.session.faults import Meeting

from treering.api.store import Store
from treering.errors import NotFoundError, SessionDeletedError, UnsafeStoreError, UsageError
from treering.format.paths import SegmentName
from treering.format.register import Card
from treering.journal.life import create, delete
from treering.journal.purge import purge
from treering.journal.register import LatestRegister
from treering.journal.resume import look, resume
from treering.session.verbs import forking
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Delete, Get, Put, Request, Steps
from treering.storage.run import run
from treering.store.place import Place

SECRET = "swordfish"
CARD = Card(session="s", life="", write="")


def made(backend: Backend, *names: str) -> None:
    """Sessions that say something."""
    for name in names:
        with backend.store().session(name) as session:
            session.append(SECRET)
            session.seal()
            session.append("more")


def stalled_sealer(backend: Backend) -> Paused[None]:
    """Somebody who is about to write a segment of session `s`."""
    session = backend.store().session("s", shared=True)
    session.append(SECRET)
    paused = Paused(session._reader.upkeep.seal(), backend.driver(), replaces("/segments/"))
    kill(session)
    return paused


def left(backend: Backend) -> list[str]:
    """What is stored besides the files that say what the store is, and the locks of disks."""
    own = ("treering.json", "recent.json")
    return [key for key in backend.snapshot() if key not in own and not key.endswith(("/hold", ".lock", "lock"))]


def test_a_deletion_leaves_tombstones_and_a_purge_nothing(backend: Backend) -> None:
    """The name can be used again before and after."""
    made(backend, "s")
    backend.store().delete("s")
    assert len(left(backend)) == 2
    assert holding(backend.snapshot(), SECRET) == []
    assert backend.store().purge("s") == ("s",)
    assert left(backend) == []
    with pytest.raises(NotFoundError):
        backend.store().purge("s")
    made(backend, "s")
    assert len(backend.store().view("s").nodes()) == 2


def test_a_session_that_lives_is_not_purged(backend: Backend) -> None:
    """Neither by name nor with all others."""
    made(backend, "s", "gone")
    backend.store().delete("gone")
    before = backend.snapshot()
    with pytest.raises(UsageError, match="not deleted"):
        backend.store().purge("s")
    assert backend.store().purge() == ("gone",)
    kept = {key: data for key, data in backend.snapshot().items() if "gone" not in key}
    assert kept == {key: data for key, data in before.items() if "gone" not in key}


def test_only_old_tombstones_are_purged_if_asked_for(backend: Backend) -> None:
    """Their age is what the store says of them."""
    made(backend, "s")
    backend.store().delete("s")
    assert backend.store().purge(older_than=timedelta(hours=1)) == ()
    assert backend.store().purge(older_than=timedelta()) == ("s",)


def test_a_stalled_sealer_that_goes_on_after_a_purge_leaves_waste_for_the_next(backend: Backend) -> None:
    """What it writes belongs to no session; a purge of everything finds it."""
    made(backend, "s")
    paused = stalled_sealer(backend)
    backend.store().delete("s")
    backend.store().purge("s")
    with pytest.raises(NotFoundError):
        paused.go_on()
    assert holding(backend.snapshot(), SECRET) != []
    assert backend.store().purge() == ("s",)
    assert left(backend) == []


def test_a_load_that_was_killed_leaves_waste_that_is_removed(backend: Backend) -> None:
    """Its folder is of a life that was never created. A fork that continues afterwards is refused, and repeated."""
    made(backend, "s")
    session = backend.store().session("s", shared=True)
    paused = Paused(forking.fork(session._reader, "fork"), backend.driver(), replaces("latest/fork"))
    kill(session)
    assert any("sessions/fork" in key for key in holding(backend.snapshot(), SECRET))
    backend.store().purge()
    assert not any("sessions/fork" in key for key in holding(backend.snapshot(), SECRET))
    paused.go_on()
    assert backend.store().verify("fork") == []
    assert backend.store().view("fork").context == backend.store().view("s").context


def test_what_older_lives_left_is_removed_from_beside_a_living_session(backend: Backend) -> None:
    """By tidying up."""
    made(backend, "s")
    paused = stalled_sealer(backend)
    backend.store().delete("s")
    with backend.store().session("s") as again:
        again.append("hello")
        with pytest.raises(NotFoundError):
            paused.go_on()
        assert holding(backend.snapshot(), SECRET) != []
        again.optimize(everything=True)
    assert holding(backend.snapshot(), SECRET) == []
    assert len(backend.store().view("s").nodes()) == 1


def test_a_handle_from_before_does_not_bring_it_back(backend: Backend) -> None:
    """It is told that the session was deleted, and nothing is stored again."""
    made(backend, "s")
    session = backend.store().session("s", shared=True)
    kill(session)
    backend.store().delete("s")
    backend.store().purge("s")
    with pytest.raises(NotFoundError):
        session.append("me again")
    assert left(backend) == []


class Careless(MemoryDriver):
    """Deletes whatever version is there."""

    proven = True

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        return super().execute(tuple(Delete(each.keys) if isinstance(each, Delete) else each for each in batch))


def test_a_store_that_ignores_conditions_on_deletions_is_not_purged() -> None:
    """It could delete a session that is created at that moment."""
    driver = Careless()
    store = Store(Place(driver))
    with store.session("s") as session:
        session.append("hello")
    store.delete("s")
    with pytest.raises(UnsafeStoreError, match="conditions on deletions"):
        store.purge("s")
    assert {key for key in driver.snapshot() if "s" in key} >= {"latest/s.jsonl.zst", "sessions/s/tail.jsonl.zst"}


async def test_an_asynchronous_store_purges_as_well(backend: Backend) -> None:
    """By the same protocol."""
    made(backend, "s")
    store = backend.async_store()
    await store.delete("s")
    assert await store.purge() == ("s",)
    assert left(backend) == []


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("purged", [False, True], ids=["deleted", "half purged"])
def test_a_purge_leaves_what_ends_a_life_that_began_meanwhile(*, purged: bool, number: int) -> None:
    """Between its reads of `latest` and the tail a session is created, and deleted by a process that is killed."""
    driver = MemoryDriver()
    keys = Place(driver).keys("s")
    run(create(keys, CARD, (), life="a" * 12, nonce="a" * 12, now_ms=0), driver)
    run(delete(keys, nonce="b" * 12), driver)
    if purged:
        assert run(LatestRegister(keys).remove(expect=run(look(keys), driver).latest_version), driver)
    begun = False

    def meanwhile() -> None:
        run(create(keys, CARD, (), life="c" * 12, nonce="c" * 12, now_ms=0), driver)
        run_until(delete(keys, nonce="d" * 12), driver, lambda request: isinstance(request, Put))

    purging, looks = purge(keys, nonce="e" * 12), count()
    with contextlib.suppress(StopIteration, UsageError):
        batch = next(purging)
        while True:
            answers = driver.execute(batch[:1])
            if batch[0] == Get(keys.latest, register=True) and next(looks) == number:
                begun = True
                meanwhile()
            batch = purging.send((*answers, *driver.execute(batch[1:])))
    if not begun:
        pytest.skip("it looks less often")
    with pytest.raises(SessionDeletedError):
        run(resume(keys), driver)


@pytest.mark.parametrize("register", ["tail", "latest"])
def test_a_purge_spares_a_session_that_began_since_it_looked(register: str) -> None:
    """It deletes the tombstones that it saw, and nothing that stands in their place by then."""
    driver = MemoryDriver()
    store, keys = Store(Place(driver)), Place(driver).keys("s")
    with store.session("s") as session:
        session.append("old")
    store.delete("s")
    key = {"tail": keys.tail, "latest": keys.latest}[register]
    purging = Paused(
        purge(keys, nonce="e" * 12), driver, lambda request: isinstance(request, Delete) and key in request.keys
    )
    with store.session("s") as session:
        session.append("new")
    assert not purging.go_on()
    assert [item.message["content"] for item in store.view("s").context] == ["new"]
    assert store.verify("s") == []


def run_until(steps: Steps[object], driver: MemoryDriver, last: Callable[[Request], bool]) -> None:
    """Run a protocol up to a request, and no further."""
    batch = next(steps)
    while True:
        answers = driver.execute(batch)
        if any(map(last, batch)):
            return
        batch = steps.send(answers)


@pytest.mark.parametrize("name", ["short", "n" * 130, "会" * 14])
def test_what_came_late_is_removed_whatever_the_name(name: str, backend: Backend) -> None:
    """Keys have only the hash of a long name, and after a purge nothing tells the name; what came late goes as well."""
    made(backend, name)
    backend.store().delete(name)
    assert backend.store().purge() == (name,)
    keys = backend.store().place.keys(name)
    late = keys.segment("0123456789ab", SegmentName(0, 1, 0, "aa"))
    foreign = "sessions/=hmine/notes.txt"
    driver = backend.driver()
    driver.execute((Put(late, SECRET.encode()), Put(foreign, b"")))
    scrubbed: list[str] = []
    driver.scrub = lambda *keys: scrubbed.extend(keys)  # type: ignore[method-assign]
    (gone,) = Store(Place(driver)).purge()
    assert scrubbed == [keys.home]
    assert gone == (name if len(name) < 10 else keys.home.split("/")[1])
    assert left(backend) == [foreign]
    assert backend.store().purge() == ()


def test_a_long_name_that_is_used_meanwhile_is_told_by_its_card() -> None:
    """A purge that knows only the hash meets a session of that name: it leaves it alone, or buries it by its name."""
    for deletes in (False, True):
        driver = Meeting(MemoryDriver())
        store, name = Store(Place(driver)), "n" * 130
        late = store.place.keys(name).segment("0123456789ab", SegmentName(0, 1, 0, "aa"))
        driver.execute((Put(late, SECRET.encode()),))

        def meet(store: Store = store, name: str = name, deletes: bool = deletes) -> None:  # noqa: FBT001
            with store.session(name) as session:
                session.append("x")
            if deletes:
                store.delete(name)

        driver.before(lambda request: isinstance(request, Get) and request.key.startswith("latest/"), meet)
        store.purge()
        assert len(store.sessions().rows) == (not deletes)
        with store.session(name) as session:
            assert len(session.context) == (not deletes)
