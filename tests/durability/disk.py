"""A disk under the real local driver that tells what a power cut would leave, and that can fail at any call.

The driver's calls to the system go through `Disk`, which performs them and keeps two pictures beside the real folder:
what everybody sees, and what is on the platters. A write reaches the platters with the next sync of its file, a name
with the next sync of its folder, each folder by itself. A sync that fails loses what it should have written for good,
as on Linux: the kernel calls the pages clean, and no later sync writes them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from treering.storage.local import LocalDriver
from treering.storage.local_disk import Sync

Tree = dict[str, bytes | None]
"""Files by path, with their bytes; folders are None."""

# What reads or only concerns this process. Any other call must be modelled before it is used.
HARMLESS = {
    "PathLike", "access", "chmod", "close", "fchmod", "fspath", "fstat", "getpid", "lseek", "lstat", "path", "pread",
    "read", "readlink", "register_at_fork", "scandir", "stat", "strerror", "utime",
}  # fmt: skip
LINE_START_BYTES = 60  # of a record's line: its position and the append it belongs to
SECTOR_BYTES = 64  # real ones are larger; what a disk writes as a whole
FAILS = {
    "open": (errno.EMFILE, errno.EACCES),
    "mkdir": (errno.EROFS, errno.ENOSPC),
    "write": (errno.ENOSPC, errno.EIO),
    "pwrite": (errno.ENOSPC, errno.EIO),
    "replace": (errno.EROFS, errno.EIO),
    "link": (errno.EROFS, errno.ENOSPC),
    "unlink": (errno.EROFS, errno.EIO),
    "ftruncate": (errno.EIO,),
    "fdatasync": (errno.EIO, errno.ENOSPC),
    "fsync": (errno.EIO,),
}
"""The calls that can be made to fail, and how they do."""


class File:
    """The two pictures of one file."""

    def __init__(self) -> None:
        self.seen = b""
        self.written = b""
        """On the platters."""
        self.doomed = False
        """A sync failed: what is not on the platters may be, in part, but no sync says so any more."""

    @property
    def pending(self) -> bool:
        return self.seen != self.written

    def show(self, data: bytes) -> None:
        """Change what everybody sees."""
        self.seen = data

    def sync(self) -> None:
        """Put it on the platters, unless it was given up."""
        if not self.doomed:
            self.written = self.seen

    @property
    def torn(self) -> bytes:
        """The beginning of what was not synced, and what was there before where the rest belongs."""
        start, end = self._unsynced()
        return self._without(start + (end - start) // 2, end)

    @property
    def ended(self) -> bytes:
        """The end of what was not synced, and what was there before where its beginning belongs."""
        start, end = self._unsynced()
        return self._without(start, start + (end - start) // 2)

    @property
    def holed(self) -> bytes:
        """What was not synced, but for a hole in its middle; where it begins, it says whose it is."""
        first, last = self._unsynced()
        start, end = first + LINE_START_BYTES, first + (last - first) // 2
        return self._without(start, end) if end - start >= SECTOR_BYTES else self.torn

    def _without(self, start: int, end: int) -> bytes:
        """What is seen, but for some of it that is not on the platters; zeros where nothing ever was."""
        if len(self.seen) < len(self.written):
            return self.written  # what was cut off is still there
        return self.seen[:start] + self.written.ljust(len(self.seen), b"\0")[start:end] + self.seen[end:]

    def _unsynced(self) -> tuple[int, int]:
        """From where to where what is seen is not what a disk would show without it."""
        before = self.written.ljust(len(self.seen), b"\0")
        places = [at for at, (seen, old) in enumerate(zip(self.seen, before, strict=False)) if seen != old]
        return (places[0], places[-1] + 1) if places else (0, 0)


Names = dict[str, "File | None"]
"""The entries of one folder; folders are None."""


class KilledError(BaseException):
    """What a process meets at its last call to the system: nobody may handle it."""


class Crash(NamedTuple):
    """What a power cut leaves."""

    acknowledged: int
    unsure: int
    """Operations behind these that may be there or not: nobody was told."""
    how: str
    tree: Tree


class Disk:
    """Stands where the local driver expects the module `os`.

    Args:
        folder: Made if it is not there; the store is a folder in it.
        watching: Remember what a power cut would leave at every call.
    """

    def __init__(self, folder: Path, *, watching: bool = True) -> None:
        folder.mkdir(parents=True)
        self.root = folder / "store"
        self.base = str(folder)
        self.sync = Sync(self._sync_data, self._sync_whole)
        self.calls: Counter[str] = Counter()
        self.acknowledged = 0
        self.unsure = 0
        """Operations that were seen to have happened, though nobody was told: they may still be lost."""
        self.crashes: dict[tuple[int, frozenset[Any]], Crash] = {}
        self.watching = watching
        self._files: dict[tuple[int, int], File] = {}
        self._seen: dict[str, Names] = {self.base: {}}
        self._written: dict[str, Names] = {self.base: {}}
        self._fail: tuple[str, int, int] = ("", 0, 0)
        self._fail_next: tuple[str, int] | None = None
        self._dies_at = 0
        self.failed = False
        """The call that was to fail has failed."""

    def __getattr__(self, name: str) -> Any:
        if name not in HARMLESS and not name.isupper():  # the latter are flags
            raise AssertionError(f"the disk of these tests does not know os.{name}")
        return getattr(os, name)

    def driver(self) -> LocalDriver:
        """A driver on this disk, as a new process has one."""
        return LocalDriver(self.root, sync=self.sync)

    def fail(self, call: str, number: int, code: int) -> None:
        """Let the so many-th `call` from now on fail."""
        self._fail_next = None
        self._fail = (call, self.calls[call] + number, code)
        self.failed = False

    def fail_both(self, first: str, number: int, call: str, code: int) -> None:
        """Let the so many-th call of `first` from now on fail, and the next `call` behind it as well."""
        self.fail(first, number, FAILS[first][0])
        self._fail_next = (call, code)

    def kill(self, number: int) -> None:
        """Let the process die at the so many-th change from now on, before it has an effect; see `revive`."""
        self._dies_at = self.changes + number

    def revive(self) -> None:
        """Another process may use the disk."""
        self._dies_at = 0

    @property
    def changes(self) -> int:
        """How many calls there were that change something."""
        return self.calls.total() - self.calls["open"]

    @property
    def dead(self) -> bool:
        """The process was killed."""
        return 0 < self._dies_at <= self.changes

    def acknowledge(self) -> None:
        """Note that an operation has returned: from now on it must survive."""
        self.acknowledged += 1 + self.unsure
        self.unsure = 0
        self.note()

    def leave_open(self) -> None:
        """Record that an operation took effect without an acknowledgement."""
        self.unsure += 1
        self.note()

    # calls

    def open(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        self._call("open")
        new = bool(flags & os.O_CREAT) and not _exists(path, dir_fd)
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        if new:
            file = self._files[_identity(fd)] = File()
            self._seen[_path(dir_fd)][path] = file
            self.note()
        return fd

    def write(self, fd: int, data: bytes) -> int:
        return self._write(fd, data, len(self._files[_identity(fd)].seen), "write")

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._write(fd, data, offset, "pwrite")

    def _write(self, fd: int, data: bytes, offset: int, call: str) -> int:
        if self._next_fails(call):
            with contextlib.suppress(OSError):  # a disk that is full takes what still fits
                self._put(fd, data[: len(data) // 2], offset)
        self._call(call)
        return self._put(fd, data, offset)

    def _put(self, fd: int, data: bytes, offset: int) -> int:
        done = os.pwrite(fd, data, offset)
        file = self._files[_identity(fd)]
        file.show(file.seen[:offset].ljust(offset, b"\0") + bytes(data[:done]) + file.seen[offset + done :])
        self.note()
        return done

    def ftruncate(self, fd: int, length: int) -> None:
        self._call("ftruncate")
        os.ftruncate(fd, length)
        file = self._files[_identity(fd)]
        file.show(file.seen[:length].ljust(length, b"\0"))
        self.note()

    def mkdir(self, name: str, mode: int, *, dir_fd: int) -> None:
        self._call("mkdir")
        os.mkdir(name, mode, dir_fd=dir_fd)
        folder = _path(dir_fd)
        self._seen[folder][name] = None
        self._seen[f"{folder}/{name}"] = {}
        self._written[f"{folder}/{name}"] = {}
        self.note()

    def replace(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self._call("replace")
        os.replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._seen[_path(dst_dir_fd)][target] = self._seen[_path(src_dir_fd)].pop(source)
        self.note()

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int, follow_symlinks: bool = True) -> None:
        self._call("link")
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        self._seen[_path(dst_dir_fd)][target] = self._seen[_path(src_dir_fd)][source]
        self.note()

    def unlink(self, name: str, *, dir_fd: int) -> None:
        self._call("unlink")
        os.unlink(name, dir_fd=dir_fd)
        del self._seen[_path(dir_fd)][name]
        self.note()

    def _sync_data(self, fd: int) -> None:
        self._sync(fd, "fdatasync")

    def _sync_whole(self, fd: int) -> None:
        self._sync(fd, "fsync")

    def _sync(self, fd: int, call: str) -> None:
        file, path = self._files.get(_identity(fd)), _path(fd)
        self.note()
        try:
            self._call(call)
        except OSError:
            if file is not None:
                file.doomed = True
            raise
        if path in self._seen:
            self._written[path] = dict(self._seen[path])
        elif file is not None:
            file.sync()
        self.note()

    def _call(self, name: str) -> None:
        fails, code = self._next_fails(name), self._fail[2]
        self.calls[name] += 1
        if self.dead:
            raise KilledError
        if fails:
            self._fail = ("", 0, 0)
            if self._fail_next is None:
                self.failed = True
            else:
                self.fail(self._fail_next[0], 1, self._fail_next[1])
            raise OSError(code, os.strerror(code))

    def _next_fails(self, name: str) -> bool:
        return self._fail[:2] == (name, self.calls[name] + 1)

    # what a power cut leaves

    def note(self, *, always: bool = False) -> None:
        """Remember what would be left if the power went now."""
        if not (self.watching or always):
            return
        for crash in self.cut():
            self.crashes.setdefault((self.acknowledged, frozenset(crash.tree.items())), crash)

    def cut(self) -> Iterator[Crash]:
        """What a power cut may leave: names and bytes as on the platters or as seen, and parts of the bytes."""
        for names in ("written", "seen"):
            for data in ("written", "torn", "ended", "holed", "seen"):
                tree: Tree = {}
                self._collect(self.base, tree, self._written if names == "written" else self._seen, data)
                yield Crash(self.acknowledged, self.unsure, f"names {names}, bytes {data}", tree)

    def _collect(self, folder: str, tree: Tree, names: dict[str, Names], data: str) -> None:
        for name, file in names[folder].items():
            path = f"{folder}/{name}"
            if file is None:
                tree[path[len(self.base) + 1 :]] = None
                self._collect(path, tree, names, data)
            else:
                tree[path[len(self.base) + 1 :]] = getattr(file, data)

    def unsynced(self) -> list[str]:
        """Objects whose bytes or names are not on the platters; locks, markers and temporary files are no objects."""
        found = []
        for folder, names in self._seen.items():
            for name, file in names.items():
                if name.startswith(".") or name == "hold" or name.endswith(".poisoned"):
                    continue
                lasting = name in self._written[folder] and self._written[folder][name] is file
                if not lasting or (file is not None and file.pending):
                    found.append(f"{folder}/{name}")
        return found


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _path(fd: int | None) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _exists(path: str, dir_fd: int | None) -> bool:
    try:
        os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def installed(disk: Disk) -> Iterator[Disk]:
    """Let the local driver use this disk for the block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("treering.storage.") and hasattr(module, "os"):
                patch.setattr(module, "os", disk)
        yield disk


def restore(tree: Tree, base: Path) -> None:
    """Put what a power cut left into a real folder."""
    for path, data in tree.items():
        if data is None:
            (base / path).mkdir(parents=True)
        else:
            (base / path).write_bytes(data)
