"""What may happen around a session on a disk: no descriptors, no rights, no folder, another clock, a fork."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faultlog import FaultLog
from tests.session.backends import local_backend, texts
from tests.storage.processes import finish, start

import treering
from treering.api.session import Session
from treering.errors import AccessError, TreeringError, UnavailableError, UsageError

DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a session `s` that was closed."""
    with local_backend(tmp_path / "store").store().session("s") as session:
        session.commit(["a"], state={"n": 1})
        session.seal()
    return tmp_path / "store"


def reopened(folder: Path) -> list[str]:
    """What a new process finds in the session's context."""
    return texts(local_backend(folder).store().view("s").context)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """A process that has used up its descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    kept: list[int] = []
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    yield
    for fd in kept:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors(folder: Path, fault_log: FaultLog, request: pytest.FixtureRequest) -> None:
    """A process out of descriptors is told so, with what to do; what it has open still works, and nothing is lost."""
    session = local_backend(folder).store().session("s")
    session.append("b")
    session.append("c")
    request.getfixturevalue("few_descriptors")
    session.append("d")  # to the log that is open
    for call in (session.seal, lambda: local_backend(folder).store().view("s")):
        with pytest.raises(UnavailableError) as caught:
            call()
        assert caught.value.kind == "descriptors"
        assert "ulimit" in caught.value.remedy
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    session.append("e")
    session.seal()
    session.close()
    assert reopened(folder) == ["a", "b", "c", "d", "e"]
    fault_log.record("local disk", "files out of descriptors", "UnavailableError, with a remedy")


READ_ONLY = """
import ctypes, os, sys
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)
def call(done):
    if done:
        print("no namespaces", os.strerror(ctypes.get_errno())); sys.exit(0)
call(libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if os.getuid() else 0)))
folder = sys.argv[1].encode()
call(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
call(libc.mount(folder, folder, None, MS_BIND, None))
import treering
from treering.errors import AccessError
store = treering.open(sys.argv[1])
session = store.session("s")
call(libc.mount(folder, folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None))
view = store.view("s")
said = [item.message["content"] for item in view.context]
try:
    session.append("x")
except AccessError as error:
    print("refused", error.kind, bool(error.remedy), said)
try:
    store.session("t").append("x")
except AccessError as error:
    print("refused", error.kind)
"""


def test_on_a_read_only_file_system(folder: Path) -> None:
    """Reading works, writing is refused with what to do, and nothing is changed."""
    before = local_backend(folder).snapshot()
    said = finish(start(READ_ONLY, folder, prelude=""))
    if said.startswith("no namespaces"):
        pytest.skip(f"this user may not mount anything: {said}")
    assert said.splitlines() == ["refused read-only True ['a']", "refused read-only"]
    after = local_backend(folder).snapshot()
    assert {key: data for key, data in after.items() if not key.endswith("hold")} == {
        key: data for key, data in before.items() if not key.endswith("hold")
    }


def told(session: Session) -> set[str]:
    """The kinds of error that everything one can do with a session ends in."""
    found = set()
    for call in (lambda: session.append("x"), session.refresh, session.seal, session.close):
        try:
            call()
        except TreeringError as error:
            found.add(type(error).__name__)
    return found


def test_a_folder_deleted_underneath(folder: Path, fault_log: FaultLog) -> None:
    """Whoever has the session open is told; the file that has lost its name takes nothing, and nothing comes back."""
    session = local_backend(folder).store().session("s")
    session.append("b")
    shutil.rmtree(folder)
    assert "SessionDeletedError" in told(session)
    with pytest.raises(TreeringError):
        session.append("y")
    assert not (folder / "sessions").exists() or local_backend(folder).store().sessions().rows == ()
    with local_backend(folder).store().session("s") as again:
        again.append("anew")
    assert reopened(folder) == ["anew"]
    fault_log.record("local disk", "folder deleted underneath", "a typed error; nothing written into the old file")


def test_a_clock_set_back(folder: Path, fault_log: FaultLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock a day behind, ids still rise, the order stays, and the session is the newest of its list."""
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() - DAY)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - DAY * 1_000_000_000)
    with local_backend(folder).store().session("s") as session:
        for text in "bcd":
            session.commit([text], state={"n": text})
        session.seal()
    view = local_backend(folder).store().view("s")
    ids = [row.id for row in view.nodes()]
    assert ids == sorted(ids)
    assert texts(view.context) == ["a", "b", "c", "d"]
    assert view.state == {"n": "d"}
    assert [entry.node for entry in view.checkpoints()] == ids
    fault_log.record("local disk", "clock set back a day", "order and ids go on")


def _beyond_python() -> int:
    raise OverflowError("timestamp too large to convert to C _PyTime_t")


CLOCKS = {
    "before 1970": lambda: -5_000_000_000_000_000,
    "at 1970": lambda: 0,
    "the year 9000": lambda: 221_845_392_000_000_000_000,
    "the year 10331": lambda: 263_882_790_666_239_999_999,
    "the year 100000": lambda: 3_093_527_980_800_000_000_000,
    "beyond Python": _beyond_python,
}


@pytest.mark.parametrize("year", CLOCKS)
def test_a_clock_in_any_year(folder: Path, monkeypatch: pytest.MonkeyPatch, year: str) -> None:
    """Whatever year the clock shows, everything can be done; with the clock right again, ids still rise."""
    with monkeypatch.context() as odd:
        odd.setattr(time, "time_ns", CLOCKS[year])
        store = local_backend(folder).store()
        with store.session("s") as session:
            node = session.append("b").node
            session.commit(["c"], state={"n": 1})
            session.seal()
            session.retract(node)
            session.erase(node, reason="a test")
        with store.session("t", checkpoints=treering.Schedule(every_seconds=1)) as other:
            other.commit(["x"], state={"n": 1})
        store.copy("s", name="copy")
        store.delete("t")
        store.purge(older_than=timedelta(days=1))
        assert {row.id for row in store.sessions().rows} == {"s", "copy"}
    with local_backend(folder).store().session("s") as session:
        session.append("d")
        ids = [row.id for row in session.nodes()]
        assert ids == sorted(ids)
    assert local_backend(folder).store().verify("s") == []
    assert reopened(folder) == ["a", "c", "d"]


def test_a_fork_in_the_middle(folder: Path, fault_log: FaultLog) -> None:
    """A child that uses its parent's handle is refused, whatever it tries; its end does not end the parent's hold."""
    session = local_backend(folder).store().session("s")
    session.append("b")
    child = os.fork()
    if not child:
        try:
            session.append("by the child")
        except UsageError:
            with contextlib.suppress(UsageError):
                session.close()
            os._exit(0)
        os._exit(1)
    session.append("c")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(TreeringError):
        local_backend(folder).store().session("s")
    session.append("d")
    session.close()
    assert reopened(folder) == ["a", "b", "c", "d"]
    fault_log.record("local disk", "fork in the middle", "the child is refused, the parent goes on")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_everything_is_private(umask: int, tmp_path: Path) -> None:
    """Files are 0600 and folders 0700, whatever the umask: sessions, segments, blobs, locks, what is repaired."""
    if umask == 0o777 and os.getuid():
        pytest.skip("only root can work in folders that it has no rights to")
    before = os.umask(umask)
    try:
        store = local_backend(tmp_path / "store").store()
        with store.session("s") as session:
            session.append("x" * 300_000)
            session.seal()
            session.append("y")
            session.fork("f")
            session.optimize(everything=True)
        store.repair("s", into="r")
    finally:
        os.umask(before)
    found = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.joinpath("store").rglob("*") if path.is_file()}
    folders = {
        stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "store", *tmp_path.joinpath("store").rglob("*/")]
    }
    assert (found, folders) == ({0o600}, {0o700})


def test_no_access_is_no_empty_store(folder: Path) -> None:
    """A store that this user may not read is reported as that."""
    if not os.getuid():
        pytest.skip("root may read everything")
    folder.chmod(0)
    with pytest.raises(AccessError):
        local_backend(folder).store().sessions()
    folder.chmod(0o700)
