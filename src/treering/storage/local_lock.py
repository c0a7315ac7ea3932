"""Locks of the local driver: one file per folder for short steps, one file per session for whole processes.

Rule 1: a lock file is never replaced, renamed or deleted. A process that waited for a lock on a file which has since
lost its name would hold a useless lock.
Rule 2: the lock file of a folder says in one line, the mark, how far the log there is durable. A log grows in place, so
its file shows lines whose sync is still under way, and may fail; readers answer with what is marked. A mark is written
under the lock, after the sync of all that it covers. It names the first line and a length, as the version of a log
does; a log that replaced another one has another first line.
Rule 3: nobody waits for a lock without end. It is held for one write and its sync; a process that has it for long was
stopped, or its disk hangs. Whoever waits is told which process that is.
Rule 4: a mark is not synced. After a power cut it covers less than is durable, or as much: never more. Where it is
missing, torn, or of another log, the log is synced before it is shown.

`flock` belongs to the open file and not to the process, so a forked child shares the locks of its parent and could keep
them after the parent died. Everything that keeps a lock file open is therefore enlisted here and closed in children.
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

# `weakref` gives the same class, but loads others first.
try:
    from _weakrefset import WeakSet
except ImportError:
    from weakref import WeakSet

LOCK_NAME = ".lock"
LOCKS_TABLE = "/proc/locks"
# A sync takes milliseconds, and seconds on a disk that others keep busy.
LOCK_SECONDS_MAX = 30
# Between two tries, a tenth of the time waited so far: no call of the system waits for a lock and ends on time. Whoever
# waits for one write hardly loses time so, and fifty processes that wait for each other do not fill the processor.
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.0001, 0.005
_MARK_BYTES_MAX = 100  # a word, 16 digits, a length, 8 digits, and what is between them
HOLDER_BYTES_MAX = 4096  # a line about a process is a few hundred bytes


class Inherited(Protocol):
    """Something with descriptors that a forked child must not keep."""

    def forget(self) -> None:
        """Close them without releasing what the parent locked."""
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

    Meant for a `with` whose block begins by taking it. Leaving such a block is one step of the interpreter's own;
    the exit of a context manager written in Python can be interrupted before it gives the lock back.
    """
    return FolderLock(local_disk.open_file(folder, LOCK_NAME, os.O_RDWR | os.O_CREAT), "r+")


def open_lock_to_read(folder: int) -> FolderLock | None:
    """Open the lock file of a folder without creating it; None if there is none, so nobody wrote to a log here.

    Who may not write it can take the lock all the same.
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
    """Take a lock that somebody else had when it was tried.

    Args:
        fd: The open lock file.
        key: What is to be written, for messages.

    Raises:
        UnavailableError: Others have had it for `LOCK_SECONDS_MAX`. Nothing was written.
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
    """Return the error for a lock that another process has for too long; it names that, where the system tells."""
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
    """The process that has the lock on an open file; None if the system does not tell. Linux does."""
    found = os.fstat(fd)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open(LOCKS_TABLE, encoding="ascii") as table:  # pathlib takes long to import
            locks = table.read().splitlines()
    except OSError:
        return None
    # Whoever waits for it is listed, too, behind an arrow. A process of another container has the number 0.
    holders = [int(each[4]) for line in locks if (each := line.split())[1:2] == ["FLOCK"] and each[5] == file]
    return next((pid for pid in holders if pid > 0), None)


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][:1] in "Tt"
    except OSError:
        return False  # it has just ended


def try_share_lock(lock: FileIO) -> bool:
    """Take the lock with other readers if no writer has it; tell whether we have it now.

    Another reader that syncs is no sign that something is being written. And who may not write the lock file could not
    take it alone on NFS.
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
    """Note that the log of this version is durable; called under the lock. A disk that fails costs readers a sync."""
    said = f"durable {version}".encode()
    # The checksum tells a reader that it sees a line which is half written. What follows the line does not count.
    with contextlib.suppress(OSError):
        os.pwrite(lock.fileno(), b"%b %08x\n" % (said, zlib.crc32(said)), 0)


class FileHold:
    """A lock on a file, held until released or until this process ends."""

    def __init__(self, fd: int, key: str, holder: str, *, shared: bool) -> None:
        """Take over `fd`, which is closed if the lock is not to be had."""
        self._mutex = allocate_lock()
        self._fd = fd  # from here on it is closed with this object, wherever an interrupt strikes
        try:
            _take(fd, key, shared=shared)
            # Over what stood there, not instead of it: ext4 waits for the disk when a file is emptied and written anew,
            # which made this the dearest step of resuming. Only the first line counts.
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
                fd, self._fd = self._fd, -1  # before it is closed: closed twice, it may be somebody else's by then
                os.close(fd)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_fd", -1) >= 0 and not is_finalizing():  # at the end of a process the modules go first
            self.release()

    def forget(self) -> None:
        """Close the descriptor in a forked child: the hold is the parent's."""
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
