"""Adding to a log that another process wrote: it may have been killed before its bytes were on disk."""

from __future__ import annotations

import os
from pathlib import Path

from treering.storage.local import LocalDriver
from treering.storage.local_disk import OS_SYNC, Sync
from treering.storage.requests import ABSENT, Append, Found, Get, Put, Version, Written

LOG = "sessions/x/tail.jsonl"


def recording_driver(root: Path) -> tuple[LocalDriver, list[str]]:
    """A driver of its own, as another process has one, and the names of what it syncs."""
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        OS_SYNC.whole(fd)

    return LocalDriver(root, sync=Sync(note, note)), synced


def written(driver: LocalDriver, data: bytes, version: Version) -> Version:
    """Append and return the new version."""
    (answer,) = driver.execute((Append(LOG, data, version),))
    assert isinstance(answer, Written)
    return answer.version


def test_what_is_not_marked_is_synced_before_something_is_added(tmp_path: Path) -> None:
    """The log and its name are made durable first; what a mark covers is not synced again, whoever wrote it."""
    first, _ = recording_driver(tmp_path)
    (answer,) = first.execute((Put(LOG, b"head\n", expect=ABSENT),))
    assert isinstance(answer, Written)
    version = written(first, b"a\n", answer.version)
    second, synced = recording_driver(tmp_path)
    version = written(second, b"b\n", version)
    assert synced == ["tail.jsonl"]
    (tmp_path / "sessions/x/.lock").write_bytes(b"")
    synced.clear()
    version = written(first, b"c\n", version)
    version = written(second, b"d\n", version)
    assert synced == ["tail.jsonl"]
    (tmp_path / "sessions/x/.lock").write_bytes(b"")
    synced.clear()
    written(second, b"e\n", version)
    assert synced == ["tail.jsonl", "x", "tail.jsonl"]


def test_a_log_that_cannot_be_synced_is_not_added_to(tmp_path: Path) -> None:
    """If the writes of another process cannot be synced, nothing is written after them."""
    first, _ = recording_driver(tmp_path)
    (answer,) = first.execute((Put(LOG, b"head\n", expect=ABSENT),))
    assert isinstance(answer, Written)

    def fail(_: int) -> None:
        raise OSError(5, "input/output error")

    (tmp_path / "sessions/x/.lock").write_bytes(b"")
    second = LocalDriver(tmp_path, sync=Sync(fail, OS_SYNC.whole))
    (refused,) = second.execute((Append(LOG, b"a\n", answer.version),))
    assert type(refused).__name__ == "PoisonedError"
    (found,) = first.execute((Get(LOG),))
    assert isinstance(found, Found)
    assert found.data == b"head\n"
