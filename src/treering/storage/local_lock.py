"""Locks of the local driver: one file per folder for single writes, one file per session for a whole process.

Rule 1: a lock file is never replaced, renamed or deleted. Otherwise a process could wait for a lock on a file that has
lost its name, and then hold a useless lock.
Rule 2: the lock file of a folder contains one line, the mark, which records how far the log there is durable. A log
grows in place, so its file shows lines whose sync is still under way and may fail; readers answer with the marked
lines. A mark is written under the lock, after the sync of all lines that it covers. It names the first line and a
length, as the version of a log does; a log that replaced another one has a different first line.
Rule 3: no process waits for a lock without end. A lock is held for one write and its sync; a process that holds it for
long was stopped, or its disk hangs. The error for the waiting process names that process.
Rule 4: a mark is not synced. After a power cut it never covers more than is durable. If it is missing, torn, or of
another log, the log is synced before it is shown.

`flock` belongs to the open file and not to the process, so a forked child shares the locks of its parent and could keep
them after the parent died. Therefore every object that keeps a lock file open is registered here, and closed in
children.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
import zlib
from _thread import allocate_lock
from collections.abc import Callable
from io import FileIO
from typing import Protocol

from treering._late import Kind
from treering.errors import SessionHeldError, UnavailableError
from treering.storage import local_disk
from treering.storage.requests import ABSENT, Version

# `weakref` has the same class, but imports other modules first.
try:
    from _weakrefset import WeakSet
except ImportError:
    from weakref import WeakSet

LOCK_NAME = ".lock"
LOCKS_TABLE = "/proc/locks"
# A sync takes milliseconds, or seconds on a disk that other processes keep busy.
LOCK_SECONDS_MAX = 30
# The pause between two tries is a tenth of the time waited so far, since no system call waits for a lock with a
# timeout. So a process that waits for one write loses little time, and fifty processes that wait for each other do not
# keep the processor busy.
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.0001, 0.005
_MARK_BYTES_MAX = 100  # a word, 16 digits, a length, 8 digits, and separators
HOLDER_BYTES_MAX = 4096  # a line about a process is a few hundred bytes


class Inherited(Protocol):
    """An object with descriptors that a forked child must not keep."""

    def forget(self) -> None:
        """Close them without releasing the parent's locks."""
        ...


_enlisted: WeakSet[Inherited] = WeakSet()


def enlist(inherited: Inherited) -> None:
    """Have `inherited` forget its descriptors in every child forked from now on."""
    _enlisted.add(inherited)


def _forget_all() -> None:
    for inherited in list(_enlisted):
        inherited.forget()


os.register_at_fork(after_in_child=_forget_all)


class FolderLock(FileIO):
    """The open lock file of a folder."""

    def __init__(self, fd: int, mode: str) -> None:
        super().__init__(fd, mode)
        enlist(self)

    def forget(self) -> None:
        """Close it in a forked child."""
        self.close()


def open_lock(folder: int) -> FolderLock:
    """Open the lock file of a folder, and create it if needed; closing it releases the lock.

    Use it in a `with` whose block begins by taking the lock. The interpreter closes a file at the end of the block in
    one step, while the exit of a context manager written in Python can be interrupted before it releases the lock.
    """
    return FolderLock(local_disk.open_file(folder, LOCK_NAME, os.O_RDWR | os.O_CREAT), "r+")


def open_lock_to_read(folder: int) -> FolderLock | None:
    """Open the lock file of a folder without creating it; None if it does not exist, so no process wrote a log here.

    A process without permission to write the file can still take the lock.
    """
    for flags, mode in ((os.O_RDWR, "r+"), (os.O_RDONLY, "r")):
        try:
            return FolderLock(local_disk.open_file(folder, LOCK_NAME, flags), mode)
        except FileNotFoundError:
            return None
        except OSError as error:
            if flags == os.O_RDONLY or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
    return None


def wait_for_lock(fd: int, key: str) -> None:
    """Take a lock that another process had at the first try.

    Args:
        fd: The open lock file.
        key: The key to be written, for messages.

    Raises:
        UnavailableError: Other processes have had it for `LOCK_SECONDS_MAX`. Nothing was written.
    """
    begun, waited = time.monotonic(), 0.0
    while True:
        time.sleep(min(max(_PAUSE_SECONDS_MIN, waited / 10), _PAUSE_SECONDS_MAX))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - begun
            if waited > LOCK_SECONDS_MAX:
                raise kept_locked(fd, key) from None
        else:
            return


def kept_locked(fd: int, key: str) -> UnavailableError:
    """Return the error for a lock that another process holds for too long; it names that process if it is known."""
    pid = _locked_by(fd)
    if pid is None:
        who, remedy = (
            "another process",
            "find it with `lsof` on the file .lock beside the object, and let it go on or end it",
        )
    else:
        who = f"process {pid}, which is {'stopped' if _is_stopped(pid) else 'running'},"
        remedy = f"let it go on (`kill -CONT {pid}`) or end it"
    return UnavailableError(
        f"{who} keeps the folder locked", kind=Kind.LOCKED, key=key, remedy=f"{remedy}, then try again"
    )


def _locked_by(fd: int) -> int | None:
    """The process that has the lock on an open file; None if the system does not report it. Linux does."""
    found = os.fstat(fd)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open(LOCKS_TABLE, encoding="ascii") as table:  # pathlib takes long to import
            locks = table.read().splitlines()
    except OSError:
        return None
    # Waiting processes are listed, too, behind an arrow. A process of another container has the number 0.
    holders = [int(each[4]) for line in locks if (each := line.split())[1:2] == ["FLOCK"] and each[5] == file]
    return next((pid for pid in holders if pid > 0), None)


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][:1] in "Tt"
    except OSError:
        return False  # it has just ended


def try_share_lock(lock: FileIO) -> bool:
    """Take the lock together with other readers if no writer has it; return whether this process has it now.

    Another reader that syncs does not mean that lines are being written. And on NFS, a process without permission to
    write the lock file could not take it exclusively.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_mark(lock: FileIO) -> Version:
    """Return the version of the log that is known to be durable, `ABSENT` if there is no whole mark."""
    line = os.pread(lock.fileno(), _MARK_BYTES_MAX, 0).partition(b"\n")[0]
    said, _, crc = line.rpartition(b" ")
    start, _, version = said.partition(b" ")
    return Version(version.decode()) if start == b"durable" and crc == b"%08x" % zlib.crc32(said) else ABSENT


def write_mark(lock: FileIO, version: Version) -> None:
    """Mark the log of this version as durable; called under the lock. If the disk fails, readers have to sync."""
    said = f"durable {version}".encode()
    # By the checksum a reader detects a line that is half written. Bytes after the line do not count.
    with contextlib.suppress(OSError):
        os.pwrite(lock.fileno(), b"%b %08x\n" % (said, zlib.crc32(said)), 0)


class FileHold:
    """A lock on a file, held until released or until this process ends."""

    def __init__(self, fd: int, key: str, holder: str, *, shared: bool) -> None:
        """Take over `fd`, which is closed if the lock cannot be taken."""
        self._mutex = allocate_lock()
        self._fd = fd  # from here on this object closes it, wherever an interrupt strikes
        try:
            _take(fd, key, shared=shared)
            # Overwrite, do not truncate: ext4 waits for the disk when a file is emptied and written anew, which made
            # this the most expensive step of resuming. Only the first line counts.
            os.pwrite(fd, holder.encode(errors="replace")[:HOLDER_BYTES_MAX] + b"\n", 0)
        except BaseException:
            self.release()
            raise
        enlist(self)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        with self._mutex:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # a forked child may have the file open, too
                fd, self._fd = self._fd, -1  # first, as a second close could hit another file of that number
                os.close(fd)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_fd", -1) >= 0 and not is_finalizing():  # at exit, modules are gone
            self.release()

    def forget(self) -> None:
        """Close the descriptor in a forked child, since the parent has the hold."""
        self._mutex = allocate_lock()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _take(fd: int, key: str, *, shared: bool) -> None:
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        other = local_disk.read(fd, 0, HOLDER_BYTES_MAX).partition(b"\n")[0].decode(errors="replace")
        remedy = "wait for it, look at it with a view, or open both as shared"
        raise SessionHeldError(f"already held. holder={other!r}", key=key, remedy=remedy) from None
