"""What a session asks of the system on a local disk, seen by strace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.storage.processes import finish, start

CODE = """
import os, sys, treering
store = treering.open(sys.argv[1])
with store.session("s") as session:
    session.append("first")
    session.append("second")  # opens the log, which then stays open
    for number in range(21):
        if number == 1:  # the first call imports what it needs
            os.path.exists("/begin")
        {verb}
    os.path.exists("/end")
"""
MEMORY = {"brk", "mmap", "munmap", "mremap", "madvise"}
"""The allocator's calls: when it needs more room is no part of an append."""
VERBS = {
    "append": 'session.append(f"message {number}")',
    "commit": 'session.commit([f"message {number}"], state={"n": number})',
    "note": "session.record_usage(input=number)",
}


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("verb", VERBS)
def test_an_append_is_one_write_one_sync_and_one_mark(tmp_path: Path, verb: str) -> None:
    """Each append is one write of the log, one fdatasync, one mark; nothing is opened, and little read."""
    trace = tmp_path / "trace"
    code = CODE.replace("{verb}", VERBS[verb])
    finish(start(code, tmp_path / "store", before=("strace", "-f", "-y", "-o", str(trace)), prelude=""))
    lines = trace.read_text().splitlines()
    begin, end = (next(at for at, line in enumerate(lines) if f'"/{word}"' in line) for word in ("begin", "end"))
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines[begin + 1 : end]]
    assert [call for call in calls if call in ("pwrite64", "fdatasync")] == ["pwrite64", "fdatasync", "pwrite64"] * 20
    assert sum("pwrite64(" in line and "tail.jsonl>" in line for line in lines[begin:end]) == 20
    assert not {"fsync", "openat", "open", "read", "write", "unlink", "rename"} & set(calls)
    assert (
        len([call for call in calls if call not in MEMORY]) <= 20 * 13
    )  # SQLite makes 17 to 19 for each, with synchronous=FULL
    reads = [line.rstrip() for line in lines[begin:end] if "pread64(" in line]
    assert all(line.endswith((" = 1", " = 2")) for line in reads if "tail.jsonl>" in line)
    assert all("tail.jsonl>" in line or "/.lock>" in line for line in reads)


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_resuming_to_write_neither_syncs_nor_empties_a_file(tmp_path: Path) -> None:
    """Opening a session again holds it, reads two files and waits for no disk: neither a sync nor a truncation."""
    store, trace = tmp_path / "store", tmp_path / "trace"
    write = 'treering.open(sys.argv[1]).session("s").commit(["message"], state={"n": 1})'
    finish(start(write, store, prelude="import sys, treering\n"))
    resume = """
import os, sys, treering
store = treering.open(sys.argv[1])
os.path.exists("/begin")
with store.session("s") as session:
    assert session.state == {"n": 1}
os.path.exists("/end")
"""
    finish(start(resume, store, before=("strace", "-f", "-y", "-o", str(trace)), prelude=""))
    lines = trace.read_text().splitlines()
    begin, end = (next(at for at, line in enumerate(lines) if f'"/{word}"' in line) for word in ("begin", "end"))
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines[begin + 1 : end]]
    assert not {"fsync", "fdatasync", "truncate", "ftruncate", "rename", "unlink"} & set(calls)
    assert calls.count("read") + calls.count("pread64") <= 8
    assert len(calls) <= 60


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_resuming_opens_two_files_of_the_session_and_a_lock(tmp_path: Path) -> None:
    """A new process resumes from `latest` and the tail; segments are neither listed nor opened."""
    store = tmp_path / "store"
    code = """
import os, sys, treering
store = treering.open(sys.argv[1])
with store.session("s") as session:
    for number in range(30):
        session.commit([f"message {number}"], state={"n": number})
        if number % 10 == 9:
            session.seal()
"""
    finish(start(code, store, prelude=""))
    trace = tmp_path / "trace"
    resume = """
import os, sys, treering
store = treering.open(sys.argv[1])
os.path.exists("/begin")
view = store.view("s")
assert view.state == {"n": 29}
os.path.exists("/end")
"""
    finish(start(resume, store, before=("strace", "-f", "-y", "-o", str(trace)), prelude=""))
    lines = trace.read_text().splitlines()
    begin, end = (next(at for at, line in enumerate(lines) if f'"/{word}"' in line) for word in ("begin", "end"))
    opened = [line for line in lines[begin:end] if "open" in line.split("(")[0] and "O_DIRECTORY" not in line]
    assert [line.split('"')[1].rpartition("/")[2] for line in opened if str(store) in line] == [
        "s.jsonl.zst",
        ".lock",
        "tail.jsonl",
    ]
    assert not any("getdents" in line or "segments" in line for line in lines[begin:end])
