"""A backup is right, also of a store in use; it is brought up to date by what changed, and restored like a store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sampling import few
from tests.session.backends import KINDS, Backend, backend_of, kill, memory_backend, texts

import treering
from treering.api.store import Store
from treering.errors import UsageError
from treering.format.segment import read_segment
from treering.maintenance.backup import BackedUp, Backup
from treering.storage.requests import Answer, Batch, Delete, Driver, Hold, Put
from treering.storage.run import run
from treering.storage.wrapper import DriverWrapper
from treering.store.parcels import delete_parcel, get_parcel, put_parcel
from treering.store.place import Place

LARGE = "x" * 300_000
"""Stored as a blob."""


def actions(done: Backup) -> dict[str, str]:
    """What became of each."""
    return {row.name: row.action for row in done.rows}


def one(done: Backup) -> BackedUp:
    """The only row."""
    (row,) = done.rows
    return row


def said(store: Store, name: str = "a") -> list[str]:
    """The context and state of the session for a writer that continues it."""
    return texts(store.view(name).context)


def lines(store: Store, name: str = "a") -> list[bytes]:
    """Every record of the session."""
    return list(store.view(name).lines())


def sound(store: Store) -> bool:
    """Nothing is damaged, nor odd."""
    return not [found for _, every in store.verify_all() for found in every]


def sound_but_for_markers(store: Store) -> bool:
    """As `sound`; whoever was killed behind its swap leaves the older marker, which shows nothing."""
    return {found.kind for _, every in store.verify_all() for found in every} <= {"stray"}


def keys(backend: Backend) -> set[str]:
    """Keys of objects; not what a driver keeps beside them."""
    return {key for key in backend.snapshot() if key.endswith((".zst", ".jsonl")) or "/blobs/" in key}


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store without sessions."""
    return backend_of(request.param, tmp_path / "source")


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty place for a backup, of each kind."""
    return backend_of(request.param, tmp_path / "target")


class Watching(DriverWrapper):
    """Shows each batch, and how many there were, before it is executed."""

    def __init__(self, driver: Driver, watch: Callable[[Batch, int], None]) -> None:
        super().__init__(driver)
        self._watch = watch
        self.count = 0

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Show it, then execute it."""
        self.count += 1
        self._watch(batch, self.count)
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Not used: backups run in threads."""
        return self.execute(batch)


def filled(store: Store) -> None:
    """A session with everything: sealed and unsealed records, blobs, branches, state, edits."""
    with store.session("a", title="T", shared=False) as session:
        first = session.append("one").node
        session.commit(["two", LARGE], state={"n": 1})
        session.seal()
        session.append("three")
        session.seal()
        session.branch("other", node=first)
        session.commit(["four"], state={"n": 2})
        session.label(first, "green")


def test_a_backup_holds_everything(source: Backend, target: Backend) -> None:
    """Every record, state and large part is there, from any kind of store to any; it can be opened and gone on with."""
    store, there = source.store(), target.store()
    filled(store)
    done = store.backup(there)
    assert one(done).action == "copied"
    assert not done.failed
    assert lines(there) == lines(store)
    assert said(there) == said(store)
    assert there.view("a").state == store.view("a").state
    assert there.view("a").info.title == "T"
    assert sound(target.store())
    with target.store().session("a") as session:
        session.append("more")
        session.seal()
        session.append("and more")
    assert sound(target.store())
    assert len(lines(target.store())) > len(lines(store))


def test_it_is_brought_up_to_date_by_what_changed(source: Backend, target: Backend) -> None:
    """Nothing is written for what did not change; a few records more write a segment and a register."""
    filled(source.store())
    with source.store().session("b") as other:
        other.append("of b")
    source.store().backup(target.store())
    before = {key: target.snapshot()[key] for key in keys(target)}
    assert actions(source.store().backup(target.store())) == {"a": "unchanged", "b": "unchanged"}
    assert {key: target.snapshot()[key] for key in keys(target)} == before
    for turn in range(3):
        with source.store().session("a") as session:
            session.append(f"turn {turn}")
        done = {row.name: row for row in source.store().backup(target.store()).rows}
        assert (done["a"].action, done["a"].objects) == ("copied", 2)
        assert done["b"].action == "unchanged"
        assert lines(target.store()) == lines(source.store())
    with source.store().session("a") as session:
        session.optimize(everything=True)
        session.append("last")
    source.store().backup(target.store())
    assert lines(target.store()) == lines(source.store())
    assert sound(target.store())
    assert len([key for key in keys(target) if "sessions/a/" in key and "/segments/" in key]) <= 4


def test_requests_and_bytes_are_those_of_what_changed() -> None:
    """A session that did not change costs two reads and a few lists, however long it is; a grown one its new part."""
    source, target = memory_backend(), memory_backend()
    with source.store().session("a") as session:
        for number in range(30):
            session.append(f"{number}" * 1000)
            if number % 3 == 0:
                session.seal()
    source.store().backup(target.store())
    store, counts = source.counted()
    there, written = target.counted()
    store.backup(there)
    assert counts.counts == {"List": 6, "Get": 2}
    assert written.counts["Put"] == 1  # which says what the store is, if nothing does
    assert written.counts["Get"] <= 3
    with source.store().session("a") as session:
        session.append("new")
    there, written = target.counted()
    source.store().backup(there)
    assert written.counts["Put"] == 4
    assert written.counts["Delete"] == 2  # of a segment, and of the marker before


def test_a_backup_is_restored_by_the_same_tool(source: Backend, target: Backend, tmp_path: Path) -> None:
    """Backed up to an empty place, a backup is the store again; what goes on there can be backed up again."""
    filled(source.store())
    source.store().backup(target.store())
    for kind in KINDS:
        place = backend_of(kind, tmp_path / "restored")
        target.store().backup(place.store())
        assert lines(place.store()) == lines(source.store())
        with place.store().session("a") as session:
            session.append("goes on")
        assert one(place.store().backup(target.store())).action in ("copied", "unchanged")
        assert lines(target.store()) == lines(place.store())
        assert sound(place.store())
        assert sound(target.store())
        filled_again = one(target.store().backup(place.store()))
        assert filled_again.action == "failed"
        assert "in use there" in filled_again.error
        return


def test_erased_bytes_are_gone_with_the_next_backup(source: Backend, target: Backend) -> None:
    """What was erased is in no object of the backup; erasing goes on in one that was restored."""
    store = source.store()
    with store.session("a") as session:
        secret = session.append("SECRET").node
        big = session.append("SECRET" + LARGE).node
        session.commit(["ok"], state={"key": "SECRET"})
        session.seal()
        also = session.append("HIDDEN").node
        session.seal()
    store.backup(target.store())
    with store.session("a") as session:
        session.erase(secret)
        session.erase(big)
        session.erase(state=["key"])
    store.backup(target.store())
    assert lines(target.store()) == lines(store)
    assert sound(target.store())
    with target.store().session("a") as session:
        session.erase(also)
    assert sound(target.store())
    for data in target.store().view("a").lines():
        assert b"SECRET" not in data
        assert b"HIDDEN" not in data
    assert not [key for key in keys(target) if "/blobs/" in key]
    for key in keys(target):
        if "/segments/" in key:
            content = b"".join(read_segment(target.snapshot()[key], key=key))
            assert b"SECRET" not in content
            assert b"HIDDEN" not in content
    assert said(target.store())[2] == "ok"


def test_an_erasure_that_was_cut_short_travels(source: Backend, target: Backend) -> None:
    """Segments that still hold what was erased are cleaned on the way: the backup never gets it."""
    with source.store().session("a") as session:
        secret = session.append("SECRET").node
        session.append("other")
        session.seal()
        session.append("more")

    class StopError(Exception):
        """Stops an erasure."""

    def stop(batch: Batch, count: int) -> None:
        if any(isinstance(each, Put) and "/segments/" in each.key for each in batch):
            raise StopError

    driver = Watching(source.driver(), stop)
    session = Store(Place(driver)).session("a")
    with pytest.raises(StopError):
        session.erase(secret)
    kill(session)
    assert [found.kind for found in source.store().verify("a")] == ["dirty"]
    for _ in range(2):
        assert one(source.store().backup(target.store())).error == ""
    assert one(source.store().backup(target.store())).action == "unchanged"
    assert sound(target.store())
    for key, data in target.snapshot().items():
        if "/segments/" in key:
            assert b"SECRET" not in b"".join(read_segment(data, key=key))


def grow(session: treering.Session) -> None:
    """Append."""
    session.append("grown")


def seal(session: treering.Session) -> None:
    """Append and seal."""
    session.append("grown")
    session.seal()
    session.append("after")


def merge(session: treering.Session) -> None:
    """Make two segments one."""
    session.append("grown")
    session.seal()
    session.optimize(everything=True)


def erase(session: treering.Session) -> None:
    """Take away what stands in segments and a blob."""
    nodes = [row.id for row in session.nodes()]
    session.erase(nodes[0])
    session.erase(nodes[1])


def retract(session: treering.Session) -> None:
    """Change what the model sees."""
    session.retract(session.context[-1].node)
    session.commit(["said"], state={"n": 7})


DEEDS = {"grow": grow, "seal": seal, "merge": merge, "erase": erase, "retract": retract}


@pytest.mark.sampled(3, "deed", "kind", "fresh")
@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("kind", ["memory", "logs"])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.slow
def test_what_others_do_meanwhile_never_makes_it_wrong(kind: str, deed: str, *, fresh: bool) -> None:
    """Somebody appends, seals, merges or erases before each single request: the backup is some moment, and sound.

    Each deed in one or two of the four ways here, in all with `make whole`.
    """
    at, ended = 0, False
    while not ended:
        at += 1
        source, target = backend_of(kind, Path()), memory_backend()
        with source.store().session("a") as session:
            for number in range(4):
                session.append(f"{number}" if number else LARGE)
                session.seal()
            session.append("in the tail")
        if not fresh:
            source.store().backup(target.store())
            with source.store().session("a") as session:
                session.append("more")
                session.seal()
                session.append("and more")
        moments = [lines(source.store())]
        with source.store().session("a", shared=True) as session:

            def act(batch: Batch, count: int, at: int = at, session: treering.Session = session) -> None:
                if count == at:
                    DEEDS[deed](session)

            driver = Watching(source.driver(), act)
            done = one(Store(Place(driver)).backup(target.store()))
            ended = driver.count < at
        moments.append(lines(source.store()))
        assert done.error == ""
        assert sound(target.store())
        there = lines(target.store())
        assert any(there == moment[: len(there)] for moment in moments)
        assert len(there) >= len(moments[0])
        source.store().backup(target.store())
        assert lines(target.store()) == lines(source.store())
        assert sound(target.store())
    assert at > 5


@pytest.mark.sampled(3, "source", "target")
def test_a_killed_backup_leaves_the_moment_before_and_is_finished_by_the_next(source: Backend, target: Backend) -> None:
    """Killed before a request to the backup: what was there can be read and restored; running it again finishes.

    Before every second request here, before each with `make whole`.
    """

    class Killed(BaseException):
        pass

    filled(source.store())
    source.store().backup(target.store())
    killed = 0
    for at in range(1, 60, few(2, whole=1)):
        before = lines(target.store())
        with source.store().session("a") as session:
            session.append(f"{at} {LARGE}")
            session.seal()
            session.append(f"{at} more")
            session.optimize(everything=True)

        def act(batch: Batch, count: int, at: int = at) -> None:
            if count == at:
                raise Killed

        driver = Watching(target.driver(), act)
        try:
            source.store().backup(Store(Place(driver)))
        except Killed:
            killed += 1
        assert lines(target.store()) in (before, lines(source.store()))
        assert not [found for found in target.store().verify("a") if found.severity == "damage"]
        restored = memory_backend()
        assert one(target.store().backup(restored.store())).error == ""
        assert lines(restored.store()) == lines(target.store())
        assert sound(restored.store())
        assert one(source.store().backup(target.store())).error == ""
        assert lines(target.store()) == lines(source.store())
        assert sound_but_for_markers(target.store())
        if driver.count < at:
            break
    assert killed > few(4, whole=8)


def test_a_parcel_whose_write_was_sent_twice_is_backed_up() -> None:
    """A client sends again after a lost reply, and the second try is refused: what is there is the backup's own."""
    source, target = memory_backend().store(), memory_backend()
    run(put_parcel(source.place, "thing", b"content"), source.place.driver)
    driver = target.driver()

    def send_first(batch: Batch, count: int) -> None:
        if any(isinstance(request, Put) and "thing" in request.key for request in batch):
            driver.execute(batch)

    (row,) = source.backup(Store(Place(Watching(driver, send_first)))).rows
    assert (row.action, row.error) == ("copied", "")
    there = target.store().place
    assert run(get_parcel(there, "thing"), there.driver)[0] == b"content"  # type: ignore[index]


def test_namespaces_and_parcels_come_along(source: Backend, target: Backend) -> None:
    """All namespaces below are backed up, nested ones too, and what others keep beside the sessions."""
    store = source.store()
    inner = store.namespace("Ann").namespace("x" * 200)
    for each in (store, store.namespace("Ann"), inner):
        with each.session("a") as session:
            session.append(f"in {each.place.prefix}")
        run(put_parcel(each.place, "thing/1", b"content"), each.place.driver)
    done = store.backup(target.store())
    assert len(done.rows) == 6
    assert not done.failed
    there = target.store()
    for ours, theirs in (
        (store, there),
        (store.namespace("Ann"), there.namespace("Ann")),
        (inner, there.namespace("Ann").namespace("x" * 200)),
    ):
        assert lines(theirs) == lines(ours)
        assert run(get_parcel(theirs.place, "thing/1"), theirs.place.driver)[0] == b"content"  # type: ignore[index]
    run(put_parcel(store.place, "thing/1", b"changed"), store.place.driver)
    run(delete_parcel(inner.place, "thing/1"), inner.place.driver)
    rows = store.backup(there).rows
    assert sorted(row.action for row in rows) == ["copied", "kept", *["unchanged"] * 4]
    assert run(get_parcel(there.place, "thing/1"), there.place.driver)[0] == b"changed"  # type: ignore[index]
    rows = store.backup(there, delete=True).rows
    assert sorted(row.action for row in rows) == ["deleted", *["unchanged"] * 5]
    (row,) = store.namespace("Ann").backup(target.store().namespace("Ann"), sessions=["a"]).rows
    assert row.action == "unchanged"


def test_what_was_deleted_is_kept_unless_asked(source: Backend, target: Backend) -> None:
    """A deleted session stays in the backup and is told; `delete` takes it away, and its name can come again."""
    store, there = source.store(), target.store()
    filled(store)
    store.backup(there)
    store.delete("a")
    assert one(store.backup(there)).action == "kept"
    assert said(there)
    with store.session("a") as session:
        session.append("another")
    refused = one(store.backup(there))
    assert refused.action == "failed"
    assert "created again" in refused.error
    assert len(said(there)) > 1
    assert one(store.backup(there, delete=True)).action == "copied"
    assert said(target.store()) == ["another"]
    assert sound(target.store())
    store.delete("a")
    assert one(store.backup(there, delete=True)).action == "deleted"
    assert store.backup(there, delete=True).rows == ()
    with store.session("a") as session:
        session.append("third")
    assert one(store.backup(there)).action == "copied"
    assert said(target.store()) == ["third"]


def test_what_a_session_lost_is_not_lost_in_the_backup(target: Backend) -> None:
    """A store that went back to an earlier moment, and on from there, does not take the place of a later backup."""
    source = memory_backend()
    store = source.store()
    with store.session("a") as session:
        session.append("one")
    early = source.snapshot()
    with store.session("a") as session:
        session.append("two")
        session.append("three")
    store.backup(target.store())
    for key, data in early.items():
        source.driver().execute((Put(key, data),))
    assert "went back" in one(source.store().backup(target.store())).error
    for number in range(6):
        with source.store().session("a") as session:
            session.append(f"other {number}")
        assert "went back" in one(source.store().backup(target.store())).error
        assert said(target.store()) == ["one", "two", "three"]
    assert one(source.store().backup(target.store(), delete=True)).action == "copied"
    assert lines(target.store()) == lines(source.store())
    assert sound(target.store())


def test_a_session_of_two_moments_is_told_and_not_backed_up(target: Backend) -> None:
    """An older copy restored over newer segments is refused, also by a backup that has nothing of it yet."""
    source = memory_backend()
    with source.store().session("a") as session:
        session.append("one")
    early = source.snapshot()
    with source.store().session("a") as session:
        session.append("two")
        session.seal()
    for key, data in early.items():
        source.driver().execute((Put(key, data),))
    row = one(source.store().backup(target.store()))
    assert row.action == "failed"
    assert "older" in row.error
    assert target.store().sessions().rows == ()


def test_damage_in_the_store_never_replaces_what_is_sound(target: Backend) -> None:
    """A damaged session is reported and its backup kept; other sessions are backed up."""
    source = memory_backend()
    for name in ("a", "b"):
        with source.store().session(name) as session:
            session.append("one")
            session.seal()
    source.store().backup(target.store())
    for name in ("a", "b"):
        with source.store().session(name) as session:
            session.append("two")
            session.seal()
    first, second = sorted(key for key in keys(source) if "sessions/a/" in key and "/segments/" in key)
    good = source.snapshot()
    source.driver().execute((Put(second, good[second][:50]),))
    done = {row.name: row for row in source.store().backup(target.store()).rows}
    assert done["a"].action == "failed"
    assert done["b"].action == "copied"
    assert said(target.store()) == ["one"]
    source.driver().execute((Put(second, good[second]), Put(first, good[first][:50])))
    assert source.store().verify("a")
    assert {row.error for row in source.store().backup(target.store()).rows} == {""}
    assert said(target.store()) == ["one", "two"]
    assert sound(target.store())


def test_damage_in_the_backup_is_mended(source: Backend, target: Backend) -> None:
    """An object that is missing in the backup comes again; a damaged register is replaced when that is asked for."""
    filled(source.store())
    source.store().backup(target.store())
    for part, place in (("/blobs/", 0), ("/segments/", 0), ("/segments/", 1), ("/segments/", 2)):
        key = sorted(key for key in keys(target) if part in key)[place]
        target.driver().execute((Delete((key,)),))
        assert one(source.store().backup(target.store())).action == "copied"
        assert lines(target.store()) == lines(source.store())
        assert sound(target.store())
    latest = "latest/a.jsonl.zst"
    target.driver().execute((Put(latest, b"damaged"),))
    assert "damaged" in one(source.store().backup(target.store())).error
    assert one(source.store().backup(target.store(), delete=True)).action == "copied"
    assert sound(target.store())


def test_a_missing_large_part_is_told(target: Backend) -> None:
    """A session whose large part is lost is backed up without it, and the row says so."""
    source = memory_backend()
    filled(source.store())
    (blob,) = [key for key in keys(source) if "/blobs/" in key]
    source.driver().execute((Delete((blob,)),))
    done = source.store().backup(target.store())
    assert one(done).missing == (blob.rpartition("/")[2],)
    assert done.failed
    assert lines(target.store()) == lines(source.store())


def test_a_place_in_use_is_refused(source: Backend, target: Backend) -> None:
    """A backup is no store to work in: what was appended there is never replaced."""
    filled(source.store())
    source.store().backup(target.store())
    with target.store().session("a") as session:
        session.append("in the backup")
    for delete in (False, True):
        row = one(source.store().backup(target.store(), delete=delete))
        assert row.action == "failed"
        assert "in use there" in row.error
    assert "in the backup" in said(target.store())
    with pytest.raises(UsageError):
        source.store().backup(source.store()) if source.name != "local" else _same_place(source)


def _same_place(source: Backend) -> None:
    store = source.store()
    store.backup(store)


def test_a_namespace_of_the_store_is_refused(tmp_path: Path) -> None:
    """It would be backed up into itself, that again, and so on until keys are too long; the other way round is fine."""
    whole, part = (treering.open(tmp_path, namespace=name) for name in (None, "part"))
    with part.session("a") as session:
        session.append("x")
    with pytest.raises(UsageError):
        whole.backup(part)
    assert [row.id for row in part.each_session(below=True)] == ["a"]
    assert not part.backup(treering.open(tmp_path, namespace="other")).failed


def test_single_sessions(source: Backend, target: Backend) -> None:
    """Only those that are named; a name that is not there is a row that says so."""
    for name in ("a", "b"):
        with source.store().session(name) as session:
            session.append(name)
    told: list[str] = []
    written: list[int] = []
    done = source.store().backup(
        target.store(), sessions=["b", "none"], on_result=lambda row: told.append(row.name), progress=written.append
    )
    assert actions(done) == {"b": "copied", "none": "failed"}
    assert told == ["b", "none"]
    assert written == sorted(written)
    assert [row.id for row in target.store().each_session()] == ["b"]


def test_asynchronous(source: Backend, target: Backend) -> None:
    """The same, awaited."""
    filled(source.store())

    async def back_up() -> Backup:
        return await source.async_store().backup(target.async_store())

    assert one(asyncio.run(back_up())).action == "copied"
    assert lines(target.store()) == lines(source.store())


def test_a_session_just_created(source: Backend, target: Backend) -> None:
    """One without a message, and one that was imported, are backed up as well."""
    with source.store().session("empty") as session:
        session.set_title("nothing yet")
    source.store().copy("empty", name="copied")
    assert actions(source.store().backup(target.store())) == {"empty": "copied", "copied": "copied"}
    assert actions(source.store().backup(target.store())) == {"empty": "unchanged", "copied": "unchanged"}
    assert sound(target.store())


def test_a_segment_that_an_erasure_did_not_come_to(source: Backend, target: Backend) -> None:
    """The segment is written without erased payloads, with the new epoch in its name; the backup stays usable."""
    with source.store().session("a") as session:
        node, _ = session.append("secret").node, session.append("x").node
        session.seal()
        before = {key: data for key, data in source.snapshot().items() if "/segments/" in key}
        session.erase(node)
    after = tuple(key for key in source.snapshot() if "/segments/" in key)
    source.driver().execute((Delete(after), *(Put(key, data) for key, data in before.items())))
    assert {found.kind for found in source.store().verify("a")} == {"dirty"}
    source.store().backup(target.store())
    assert sound(target.store())
    with target.store().session("a") as session:
        session.append("new")
    assert sound(target.store())


BUSY = """
import sys, treering
store = treering.open(sys.argv[1])
for turn in range(40):
    with store.session("a", shared=True) as session:
        node = session.append(f"turn {turn}").node
        session.commit([f"said {turn}", "x" * 40_000], state={"n": turn})
        if turn % 3 == 0:
            session.seal()
        if turn % 7 == 0:
            session.erase(node)
        if turn % 11 == 0:
            session.optimize(everything=True)
    print(turn, flush=True)
"""


def test_another_process_works_meanwhile(tmp_path: Path) -> None:
    """A process appends, seals, merges, erases and closes; every backup in between is sound, and a moment of it."""
    there = treering.open(tmp_path / "backup")
    environment = {**os.environ, "PYTHONPATH": str(Path(treering.__file__).parents[1])}
    command = [sys.executable, "-c", BUSY, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        while process.stdout.readline():
            done = treering.open(tmp_path / "store").backup(there)
            assert [row.error for row in done.rows] == [""]
            assert sound(there)
            ids = [row.id for row in there.view("a").nodes()]
            assert ids == [row.id for row in treering.open(tmp_path / "store").view("a").nodes()][: len(ids)]
    assert process.returncode == 0
    treering.open(tmp_path / "store").backup(there)
    assert lines(there) == lines(treering.open(tmp_path / "store"))
    assert sound(there)


class Unheld(Watching):
    """A store that knows no holds, like S3."""

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:
        """Return None."""
        return None


def test_two_backups_at_once_do_no_harm() -> None:
    """One of two that run into the same place at once ends well, and what is there is sound."""
    for at in range(1, 25):
        source, target = memory_backend(), memory_backend()
        filled(source.store())
        source.store().backup(target.store())
        with source.store().session("a") as session:
            session.append("new")
            session.seal()

        def act(batch: Batch, count: int, at: int = at, source: Backend = source, target: Backend = target) -> None:
            if count == at:
                with source.store().session("a") as session:
                    session.append("newer")
                source.store().backup(Store(Place(Unheld(target.driver(), lambda _batch, _count: None))))

        driver = Unheld(target.driver(), act)
        source.store().backup(Store(Place(driver)))
        assert driver.count < at or said(target.store())[-1] == "newer"
        source.store().backup(target.store())
        assert lines(target.store()) == lines(source.store())
        assert sound(target.store())


def test_no_session_in_use_is_deleted_in_another_place(tmp_path: Path) -> None:
    """It was never backed up there: somebody named the wrong store."""
    source, live = treering.open(tmp_path / "source"), treering.open(tmp_path / "live")
    for store, name, text in ((source, "a", "mine"), (live, "a", "theirs"), (live, "important", "theirs, too")):
        with store.session(name) as session:
            session.append(text)
    done = source.backup(live, delete=True)
    assert actions(done) == {"a": "failed", "important": "failed"}
    assert {row.error for row in done.rows if "in use there" not in row.error} == set()
    assert (said(live), said(live, "important")) == (["theirs"], ["theirs, too"])


@pytest.mark.parametrize("inward", [True, False])
@pytest.mark.parametrize("by_path", [True, False])
def test_a_backup_is_no_namespace_of_its_store_nor_around_it(tmp_path: Path, *, inward: bool, by_path: bool) -> None:
    """Neither by its name, nor by the path of its folder: the one would never end, and the other would replace it."""
    outer = treering.open(tmp_path)
    inner = treering.open(tmp_path / "ns/x") if by_path else treering.open(tmp_path).namespace("x")
    for store in (outer, inner):
        with store.session("s") as session:
            session.append("hi")
    source, target = (outer, inner) if inward else (inner, outer)
    with pytest.raises(UsageError, match="outside of the store"):
        source.backup(target, delete=True)
    assert [said(store, "s") for store in (outer, inner)] == [["hi"], ["hi"]]
    beside = treering.open(tmp_path).namespace("y")
    assert actions(inner.backup(beside)) == {"s": "copied"}
