"""The local driver among several processes: locks, forks, kills, limits of the system, and what strace sees."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.session.faults import recorded
from tests.storage.processes import finish, start

import treering
from treering.errors import SessionHeldError, UnavailableError
from treering.storage import local_lock
from treering.storage.local import LocalDriver
from treering.storage.requests import ABSENT, Append, Found, Get, Hold, Put, Written
from treering.testing.conformance import ask

LOG = "sessions/x/tail.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the store will be; not there yet."""
    return tmp_path / "store"


def held(driver: LocalDriver, holder: str) -> Hold:
    """The lock of a session, which nobody else has."""
    hold = driver.hold("sessions/x/hold", shared=False, holder=holder)
    assert hold is not None
    return hold


def test_no_append_of_any_process_is_lost(root: Path) -> None:
    """Four processes append at what they read; every line acknowledged to one of them is there once, in its order."""
    ask(LocalDriver(root), Put(LOG, b"head\n", expect=ABSENT), Written)
    code = """
driver = LocalDriver(sys.argv[1])
for i in range(25):
    line = f"{sys.argv[2]}-{i}\\n".encode()
    while True:
        answer = ask(driver, Append(sys.argv[3], line, ask(driver, Get(sys.argv[3])).version))
        if isinstance(answer, Written):
            break
        assert isinstance(answer, ConflictError), answer
"""
    processes = [start(code, root, name, LOG) for name in "abcd"]
    for process in processes:
        finish(process)
    lines = ask(LocalDriver(root), Get(LOG), Found).data.decode().splitlines()[1:]
    for name in "abcd":
        assert [line for line in lines if line[0] == name] == [f"{name}-{i}" for i in range(25)]
    assert len(lines) == 100


def test_no_update_of_any_process_is_lost(root: Path) -> None:
    """Four processes count in one register by compare-and-swap, and every success counts."""
    ask(LocalDriver(root), Put("latest/n", b"0", expect=ABSENT), Written)
    code = """
driver = LocalDriver(sys.argv[1])
for _ in range(25):
    answer = None
    while not isinstance(answer, Written):
        found = ask(driver, Get("latest/n"))
        answer = ask(driver, Put("latest/n", b"%d" % (int(found.data) + 1), expect=found.version))
"""
    processes = [start(code, root) for _ in range(4)]
    for process in processes:
        finish(process)
    assert ask(LocalDriver(root), Get("latest/n"), Found).data == b"100"


def test_what_was_acknowledged_survives_a_kill(root: Path) -> None:
    """A writer killed during writes loses no acknowledged line, and other processes continue at once."""
    code = """
driver = LocalDriver(sys.argv[1])
version = ask(driver, Put(sys.argv[2], b"head\\n", expect=ABSENT)).version
for i in range(1_000_000):
    version = ask(driver, Append(sys.argv[2], b"%d\\n" % i, version)).version
    print(i, flush=True)
"""
    with start(code, root, LOG) as process:
        assert process.stdout
        seen = [process.stdout.readline() for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        seen += process.stdout.readlines()
    acknowledged = [line.strip() for line in seen if line.endswith("\n")]
    driver = LocalDriver(root)
    found = ask(driver, Get(LOG), Found)
    assert found.data.decode().splitlines()[1 : len(acknowledged) + 1] == acknowledged
    ask(driver, Append(LOG, b"on\n", found.version), Written)


def test_a_stopped_process_is_named_to_who_waits_for_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the lock between its write and its sync. Once it goes on, both appends count, each once."""
    code = """
import signal, treering
from treering.storage.local_disk import Sync
def stop(fd):
    print("stops", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.fsync(fd)
session = treering.open(sys.argv[1]).session("x", shared=True)
session._driver._logs._sync = Sync(stop, os.fsync)
session.append("theirs")
"""
    with treering.open(root).session("x", shared=True) as session:
        session.append("first")
        process = start(code, root)
        assert process.stdout
        assert process.stdout.readline() == "stops\n"
        with monkeypatch.context() as patch:
            patch.setattr(local_lock, "LOCK_SECONDS_MAX", 0.05)
            while "stopped" not in (error := refusal(lambda: session.append("ours"))):  # it is about to
                assert "running" in error
        assert f"process {process.pid}, which is stopped, keeps the folder locked" in error
        assert f"kill -CONT {process.pid}" in error
        process.send_signal(signal.SIGCONT)
        finish(process)
        session.append("ours")
    assert sorted(map(str, recorded(treering.open(root).view("x")))) == ["first", "ours", "theirs"]


def refusal(call: Callable[[], object]) -> str:
    """What is said by the error of a call that the store did not answer."""
    with pytest.raises(UnavailableError) as told:
        call()
    assert told.value.kind == "locked"
    return f"{told.value} {told.value.remedy}"


def test_a_full_disk_leaves_no_torn_line(root: Path) -> None:
    """A write that the system cuts short is taken back, and the same append succeeds once there is room."""
    code = """
import json, resource
driver = LocalDriver(sys.argv[1])
version = ask(driver, Put(sys.argv[2], b"head\\n", expect=ABSENT)).version
version = ask(driver, Append(sys.argv[2], b"a" * 3000 + b"\\n", version)).version
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
failed = ask(driver, Append(sys.argv[2], b"b" * 3000 + b"\\n", version))
replaced = ask(driver, Put(sys.argv[2], b"c" * 5000 + b"\\n", expect=version))
size = os.path.getsize(f"{sys.argv[1]}/{sys.argv[2]}")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
again = ask(driver, Append(sys.argv[2], b"b" * 3000 + b"\\n", version))
names = sorted(os.listdir(f"{sys.argv[1]}/sessions/x"))
kinds = [[type(each).__name__, getattr(each, "kind", "")] for each in (failed, replaced, again)]
print(json.dumps([kinds, size, names]))
"""
    kinds, size, names = json.loads(finish(start(code, root, LOG)))
    assert kinds == [["UnavailableError", "full"], ["UnavailableError", "full"], ["Written", ""]]
    assert size == 3006
    assert names == [".lock", "tail.jsonl"]


def test_too_many_open_files_is_an_error_with_a_remedy(root: Path) -> None:
    """A process without free descriptors gets an error that says so, and works again when it has some."""
    code = """
import resource
driver = LocalDriver(sys.argv[1])
ask(driver, Put("a/x", b"1"))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
resource.setrlimit(resource.RLIMIT_NOFILE, (kept[-1] + 1, hard))
answers = driver.execute((Get("a/x"), Put("a/x", b"2"), List("a/")))
assert all(type(answer) is UnavailableError and answer.kind == "descriptors" for answer in answers), answers
for fd in kept:
    os.close(fd)
assert ask(driver, Get("a/x")).data == b"1"
"""
    finish(start(code, root))


def test_a_forked_child_has_its_own_descriptors(root: Path) -> None:
    """After a fork the child appends through files of its own, and parent and child exclude each other."""
    code = """
driver = LocalDriver(sys.argv[1])
key = sys.argv[2]
version = ask(driver, Put(key, b"head\\n", expect=ABSENT)).version
version = ask(driver, Append(key, b"parent\\n", version)).version
child = os.fork()
if not child:
    for name in os.listdir("/proc/self/fd"):
        try:
            assert "store" not in os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass
for i in range(20):
    while not isinstance(ask(driver, Append(key, b"%d\\n" % bool(child), ask(driver, Get(key)).version)), Written):
        pass
if child:
    assert os.waitpid(child, 0)[1] == 0
    lines = ask(driver, Get(key)).data.splitlines()
    assert (lines.count(b"0"), lines.count(b"1"), len(lines)) == (20, 20, 42), lines
"""
    finish(start(code, root, LOG))


def test_a_hold_ends_with_its_process_even_if_a_child_lives_on(root: Path) -> None:
    """A forked child neither keeps the session held after its parent died, nor gives it up while the parent lives."""
    code = """
import signal
driver = LocalDriver(sys.argv[1])
hold = driver.hold("sessions/x/hold", shared=False, holder=f"process {os.getpid()}")
if os.fork():
    signal.pause()
hold.release()
os.write(1, f"{os.getpid()}\\n".encode())
sys.stdin.read()
"""
    process = start(code, root)
    assert process.stdout
    assert process.stdin
    child = int(process.stdout.readline())  # it has tried to release the hold
    driver = LocalDriver(root)
    with pytest.raises(SessionHeldError, match=f"process {process.pid}"):
        driver.hold("sessions/x/hold", shared=True, holder="us")
    process.kill()
    process.wait()
    os.kill(child, 0)  # it still lives
    held(driver, "us").release()
    process.stdin.close()
    process.stdout.close()


def test_who_is_refused_learns_of_the_newest_holder_only(root: Path) -> None:
    """A holder's line is written over a longer one without emptying the file first, and nothing of that is shown."""
    driver = LocalDriver(root)
    held(driver, "somebody with a very long name").release()
    hold = held(driver, "short")
    with pytest.raises(SessionHeldError) as refused:
        LocalDriver(root).hold("sessions/x/hold", shared=False, holder="us")
    hold.release()
    assert "holder='short'" in str(refused.value)


def test_a_process_that_closes_nothing_ends_in_silence(root: Path) -> None:
    """What is still open when the interpreter has taken its modules down is left to the system."""
    code = """
driver = LocalDriver(sys.argv[1])
version = ask(driver, Put(sys.argv[2], b"head\\n", expect=ABSENT)).version
ask(driver, Append(sys.argv[2], b"line\\n", version))
os.kept = driver, driver.hold("sessions/x/hold", shared=False, holder="us")
"""
    assert not finish(start(code, root, LOG, before=("sh", "-c", 'exec "$@" 2>&1', "sh")))


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_an_append_is_one_write_one_sync_and_one_mark(root: Path, tmp_path: Path) -> None:
    """Seen from the system, an append writes the log once, syncs it once, marks that, and does little else."""
    code = """
driver = LocalDriver(sys.argv[1])
version = ask(driver, Put(sys.argv[2], b"head\\n", expect=ABSENT)).version
version = ask(driver, Append(sys.argv[2], b"line\\n", version)).version
batch = [f"line {i}\\n".encode() for i in range(20)]
os.path.exists("/begin")
for line in batch:
    version = ask(driver, Append(sys.argv[2], line, version)).version
os.path.exists("/end")
"""
    trace = tmp_path / "trace"
    finish(start(code, root, LOG, before=("strace", "-y", "-o", str(trace))))
    lines = trace.read_text().splitlines()
    begin, end = (next(i for i, line in enumerate(lines) if f'"/{word}"' in line) for word in ("begin", "end"))
    calls = [line.partition("(")[0] for line in lines[begin + 1 : end]]
    assert calls.count("fdatasync") == 20
    assert [call for call in calls if call in ("pwrite64", "fdatasync")] == ["pwrite64", "fdatasync", "pwrite64"] * 20
    assert sum("pwrite64(" in line and "tail.jsonl>" in line for line in lines[begin:end]) == 20
    assert not {"fsync", "openat", "open", "read", "write"} & set(calls)
    looks = [line for line in lines[begin:end] if "pread64(" in line and "tail.jsonl>" in line]
    assert all(line.rstrip().endswith((" = 1", " = 2")) for line in looks)
    assert len(calls) <= 20 * 10
