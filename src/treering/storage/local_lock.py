"""Locks of the local driver: one file per folder for short steps, one file per session for whole processes.

Rule: a lock file is never replaced, renamed or deleted. A process that waited for a lock on a file which has since lost
its name would hold a useless lock.

`flock` belongs to the open file and not to the process, so a forked child shares the locks of its parent and could keep
them after the parent died. Everything that keeps a lock file open is therefore enlisted here and closed in children.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import weakref
from collections.abc import Callable
from io import FileIO
from typing import Protocol

from treering.errors import SessionHeldError
from treering.storage import local_disk

LOCK_NAME = ".lock"
HOLDER_BYTES_MAX = 4096  # a line about a process is a few hundred bytes


class Inherited(Protocol):
    """Something with descriptors that a forked child must not keep."""

    def forget(self) -> None:
        """Close them without releasing what the parent locked."""
        ...


_enlisted: weakref.WeakSet[Inherited] = weakref.WeakSet()


def enlist(inherited: Inherited) -> None:
    """Have `inherited` forget its descriptors in every child forked from now on."""
    _enlisted.add(inherited)


def _forget_all() -> None:
    for inherited in list(_enlisted):
        inherited.forget()


os.register_at_fork(after_in_child=_forget_all)


def open_lock(folder: int) -> FileIO:
    """Open the lock file of a folder, and create it if needed; closing it releases the lock.

    Meant for a `with` whose block begins with `take_lock`. Leaving such a block is one step of the interpreter's own;
    the exit of a context manager written in Python can be interrupted before it gives the lock back.
    """
    return FileIO(local_disk.open_file(folder, LOCK_NAME, os.O_RDWR | os.O_CREAT), "r+")


def take_lock(lock: FileIO) -> None:
    """Wait for the lock."""
    fcntl.flock(lock, fcntl.LOCK_EX)


class FileHold:
    """A lock on a file, held until released or until this process ends."""

    def __init__(self, fd: int, key: str, holder: str, *, shared: bool) -> None:
        """Take over `fd`, which is closed if the lock is not to be had."""
        self._mutex = threading.Lock()
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
        self._mutex = threading.Lock()
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
