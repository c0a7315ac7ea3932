"""Logs on disk: appended to with one write and one sync, safe against other processes, torn writes and failed syncs.

Rules
-----
1. An append takes the lock of the log's folder, and checks under it that the log is still the file that it opened, with
the expected first line and length. An inode cannot be reused while a process has it open.
2. A partial write is cut off again before the lock is released.
3. A failed sync poisons the log. The kernel then marks the pages as clean, so a later sync would succeed without having
   written them. Nothing may be acknowledged until the log was replaced. A marker file beside the log shows this to
   other processes, and how far the log is durable in spite of it. The kernel reports a failure only once, so a reader
   whose sync fails poisons the log, too.
4. Readers see durable lines only. A mark records how far a log is durable, see `local_lock`. Lines behind the mark are
   being written by the process that has the lock, and are not shown yet. Or their writer was killed before the sync;
   then the next process that reads or appends syncs the lines and the log's name first. So a power cut tears at most
   one append, and no line that a process relied on is lost.
5. A log that has to grow grows by more than is needed, in the same write: NUL bytes follow its last line. Lines that
   are written over them later change neither the file's length nor its place on the disk, so their sync has to write
   only the bytes themselves. The first NUL byte, and not the file's length, shows where the next append begins; a torn
   end is cut off together with the room behind it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Iterator
from io import FileIO
from typing import TYPE_CHECKING

from treering._late import Kind
from treering.errors import ConflictError, PoisonedError, TreeringError, UnavailableError
from treering.storage import local_disk, local_lock, rules
from treering.storage.local_disk import Sync
from treering.storage.local_lock import read_mark, write_mark
from treering.storage.requests import ABSENT, Answer, Append, Found, Get, Put, Unchanged, Version, Written

if TYPE_CHECKING:
    from treering.storage.open_log import OpenLog

# Each log takes two descriptors, and a process may usually open 1,024.
LOGS_KEPT_MAX = 64
POISON_ENDING = ".poisoned"

# A log grows by half of its size, in whole blocks of common file systems: a small log wastes a block or two.
_BLOCK_BYTES = 4096
_ROOM_BYTES_MAX = 64 * 1024

_REOPENS_MAX = 16  # each reopening means that another process replaced the log

_PAUSE_SECONDS = 0.002
# A reader waits only while another process replaces the log, for one sync of a folder; that process may be stopped.
_PAUSES_MAX = 5000


class LocalLogs:
    """Appends to the logs below `root` and keeps recently used ones open.

    Args:
        root: Absolute path.
        sync: How to force bytes to disk.
    """

    def __init__(self, root: str, sync: Sync) -> None:
        self._root = root
        self._sync = sync
        self._kept: OrderedDict[str, OpenLog] = OrderedDict()
        self._mutex = allocate_lock()
        self._poisoned: dict[str, Version] = {}  # used if even the marker cannot be written
        local_lock.enlist(self)

    def append(self, request: Append) -> Answer:
        """Answer `request`; raises `OSError` if nothing was written."""
        for _ in range(_REOPENS_MAX):
            log = self._keep(request.key)
            with log.mutex:
                if log.fd >= 0 and (answer := self._append_locked(log, request)):
                    return answer
            self._drop(request.key, log)
        return UnavailableError("other processes keep replacing the log", kind=Kind.BUSY, key=request.key)

    def get(self, get: Get, folder: int) -> Answer:
        """Answer with the durable lines; `folder` is the open folder of the log.

        Raises:
            OSError: The log does not exist, or cannot be read, or its lines cannot be synced.
        """
        if get.unless:
            with _opened(folder, get.key) as fd:
                if _ends_at(fd, get.unless):
                    return Unchanged()  # the caller has read it before, so it was durable
        if (lock := local_lock.open_lock_to_read(folder)) is None:
            found = self._get_settled(get, folder, None)
            if (lock := local_lock.open_lock_to_read(folder)) is None:
                return found  # no process was writing here
        with lock:
            for _ in range(_PAUSES_MAX):
                if answer := _get_marked(get, folder, lock):
                    return answer
                if local_lock.try_share_lock(lock):
                    return self._get_settled(get, folder, lock)
                if answer := _get_marked(get, folder, lock, partly=True):
                    return answer
                time.sleep(_PAUSE_SECONDS)
            return local_lock.kept_locked(lock.fileno(), get.key)

    def version(self, key: str, folder: int) -> Version:
        """Return the version of a log as readers see it; called under the lock."""
        try:
            with _opened(folder, key) as fd:
                version = rules.log_version(read_log(fd))
        except FileNotFoundError:
            return ABSENT
        durable = self._durable_though_poisoned(key, folder)
        return durable if durable and _length_in(durable, version) else version

    def replaced(self, put: Put, folder: int, lock: FileIO) -> TreeringError | None:
        """Make the new name of a log durable; called under the lock, so that no reader sees the log before that."""
        try:
            self._sync.whole(folder)
        except OSError as error:
            # The new bytes are visible, but perhaps not on disk: reading them back would prove nothing.
            return self.poison(put.key, f"sync of the folder failed: {error.strerror}")
        self.cure(put.key, folder)
        write_mark(lock, rules.log_version(put.data))
        return None

    def poison(self, key: str, reason: str, durable: Version = ABSENT) -> PoisonedError:
        """Refuse appends to `key` from now on, in every process, and return the error for them.

        Args:
            key: The log.
            reason: What failed.
            durable: The version up to which the log is still durable, and shown; `ABSENT` if that is not known.
        """
        self._poisoned[key] = durable
        with contextlib.suppress(OSError):  # a disk that fails may refuse this as well
            folder = local_disk.open_folder(self._root, key.split("/")[:-1])
            try:
                name = os.path.basename(key) + POISON_ENDING
                with FileIO(local_disk.open_file(folder, name, os.O_WRONLY | os.O_CREAT), "w") as marker:
                    write_mark(marker, durable)  # a power cut loses it; what is read after that was on the disk
                self._sync.whole(folder)
            finally:
                os.close(folder)
        return poisoned(key, reason)

    def let_go(self, key: str) -> None:
        """Close a log that was replaced or deleted, since an open file keeps its erased bytes on the disk.

        Do not call this under the lock, as a thread that uses the log may wait for the lock.
        """
        if log := self._kept.get(key):
            self._drop(key, log)

    def cure(self, key: str, folder: int) -> None:
        """Allow appends to `key` again, after it was replaced durably or deleted; `folder` is its open folder."""
        self._poisoned.pop(key, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.basename(key) + POISON_ENDING, dir_fd=folder)

    def close(self) -> None:
        """Close all descriptors; the next append opens its log again."""
        with self._mutex:
            logs = list(self._kept.values())
            self._kept.clear()
        for log in logs:
            log.close()

    def forget(self) -> None:
        """Close the descriptors in a forked child, whatever the threads of the parent were doing."""
        self._mutex = allocate_lock()
        logs = list(self._kept.values())
        self._kept.clear()
        for log in logs:
            log.mutex = allocate_lock()
            log.close()

    def _append_locked(self, log: OpenLog, request: Append) -> Answer | None:
        """Append to `log`, or return None if another file has its name now."""
        try:
            try:
                fcntl.flock(log.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # in here: an interrupt may strike at once
            except BlockingIOError:
                local_lock.wait_for_lock(log.lock.fileno(), request.key)
            if not log.has_its_name():
                return None
            if request.key in self._poisoned or os.access(log.path + POISON_ENDING, os.F_OK):
                return poisoned(request.key, "an earlier sync failed")
            ours = request.expect == log.version == read_mark(log.lock) and log.is_as_left()
            if not ours and (failed := self._approach(log, request)):
                return failed
            if failed := self._write(log, request):
                return failed
            write_mark(log.lock, log.version)
            return Written(log.version)
        finally:
            fcntl.flock(log.lock, fcntl.LOCK_UN)  # called directly: a function of ours could be interrupted

    def _approach(self, log: OpenLog, request: Append) -> TreeringError | None:
        """Make the log end at the expected version, durably.

        Bytes that are cut off must be gone from the disk before new ones are written there: a power cut could mix them.
        """
        cut = log.cut_torn(request.expect)
        if cut is None:
            return _changed(log, request)
        if cut or read_mark(log.lock) != request.expect:
            if failed := self._settle(log, request):
                return failed
            write_mark(log.lock, request.expect)
        return None

    def _get_settled(self, get: Get, folder: int, lock: FileIO | None) -> Answer:
        """Answer with the log's content, after a sync if it is not marked; called under the lock, if there is one."""
        if lock is not None and (answer := _get_marked(get, folder, lock)):
            return answer
        durable = self._durable_though_poisoned(get.key, folder)
        mark = ABSENT if lock is None else read_mark(lock)
        with _opened(folder, get.key) as fd:
            data = read_log(fd)
            version = rules.log_version(data)
            if lost := _lost_bytes(mark, version):
                return _found(get, data, lost_bytes=lost)
            if durable and (length := _length_in(durable, version)):
                return _found(get, data[:length])
            try:
                self._sync.data(fd)
                self._sync.whole(folder)
            except OSError as error:
                return self._get_unsynced(get, folder, lock, data, error)
        if lock is not None and durable is None and (mark == ABSENT or _length_in(mark, version)):
            write_mark(lock, version)  # a mark with another first line stays, as the first line here may be damaged
        return _found(get, data)

    def _get_unsynced(self, get: Get, folder: int, lock: FileIO | None, data: bytes, error: OSError) -> Answer:
        """Answer with the part that can be shown of a log whose sync failed."""
        if error.errno == errno.EINVAL:
            return _found(get, data)  # read-only file systems, as on a CD, have no sync
        if error.errno != errno.EROFS:
            self.poison(get.key, f"sync failed: {error.strerror}")
        # After an error ext4 refuses writes, and its memory holds data that it never wrote.
        elif lock is not None and (answer := _get_marked(get, folder, lock, partly=True)):
            return answer
        raise error

    def _durable_though_poisoned(self, key: str, folder: int) -> Version | None:
        """The version up to which a poisoned log is durable, `ABSENT` if that is not known; None if it is not poisoned.

        It is stored in the marker, since a mark in the lock file may be older after a power cut.
        """
        try:
            name = os.path.basename(key) + POISON_ENDING
            with FileIO(local_disk.open_file(folder, name, os.O_RDONLY)) as marker:
                return read_mark(marker) or self._poisoned.get(key, ABSENT)
        except FileNotFoundError:
            return self._poisoned.get(key)

    def _settle(self, log: OpenLog, request: Append) -> TreeringError | None:
        """Sync the records that other processes wrote, and the log's name, so that both are durable."""
        try:
            self._sync.data(log.fd)
            folder = local_disk.open_folder(self._root, request.key.split("/")[:-1])
            try:
                self._sync.whole(folder)
            finally:
                os.close(folder)
        except OSError as error:
            return self.poison(request.key, f"sync failed: {error.strerror}", request.expect)
        return None

    def _write(self, log: OpenLog, request: Append) -> TreeringError | None:
        data, end = request.data, log.length + len(request.data)
        if end > log.size:
            data += bytes(_room(end))
        try:
            done = os.pwrite(log.fd, data, log.length)
            while done < len(request.data):  # without the room behind the lines, if need be
                done += os.pwrite(log.fd, memoryview(data)[done:], log.length + done)
        except OSError as error:
            return self._take_back(log, request) or local_disk.explain(error, request.key)
        try:
            self._sync.data(log.fd)
        except OSError as error:
            failed = self.poison(request.key, f"sync failed: {error.strerror}", request.expect)
            with contextlib.suppress(OSError):
                log.cut()  # so that no process relies on lines that may not be on disk
            return failed
        log.ends(end, max(log.size, log.length + done))
        return None

    def _take_back(self, log: OpenLog, request: Append) -> TreeringError | None:
        """Cut off the remains of a failed write; no reader has seen them."""
        try:
            log.cut()
        except OSError as error:
            return self.poison(request.key, f"a failed write could not be cut off: {error.strerror}", request.expect)
        return None

    def _keep(self, key: str) -> OpenLog:
        with self._mutex:
            if log := self._kept.get(key):
                self._kept.move_to_end(key)
                return log
            from treering.storage.open_log import OpenLog  # resuming does not need it

            log = self._kept[key] = OpenLog(self._root, key)
            oldest = self._kept.popitem(last=False)[1] if len(self._kept) > LOGS_KEPT_MAX else None
        if oldest:
            oldest.close()
        return log

    def _drop(self, key: str, log: OpenLog) -> None:
        with self._mutex:
            if self._kept.get(key) is log:
                del self._kept[key]
        log.close()


@contextlib.contextmanager
def _opened(folder: int, key: str) -> Iterator[int]:
    fd = local_disk.open_file(folder, os.path.basename(key), os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def read_log(fd: int) -> bytes:
    """Read a log without the NUL bytes at its end.

    A writer may replace such bytes with lines during the read, in order, but the read may have passed the beginning of
    a line before its end is written. So an end that looks torn is read until it is the same twice: then no process is
    writing it.
    """
    data, before = local_disk.read_all(fd), b""
    while (torn := data[rules.complete_bytes(data) :].rstrip(b"\0")) != before:
        before, data = torn, local_disk.read_all(fd)
    return data.rstrip(b"\0")


def _get_marked(get: Get, folder: int, lock: FileIO, *, partly: bool = False) -> Answer | None:
    """Answer from the log and its mark.

    The mark is read first. If it were read last, it could be about other lines of the same length, as the lines that
    were read may have been cut off between the two reads.

    Args:
        get: The request.
        folder: The open folder of the log.
        lock: The open lock file there.
        partly: Answer with the marked lines if others follow them.

    Returns:
        None if the mark does not show that the log, or with `partly` a part of it, is durable.
    """
    mark = read_mark(lock)
    with _opened(folder, get.key) as fd:
        data = read_log(fd)
    version = rules.log_version(data)
    if mark == version:
        return _found(get, data)
    length = _length_in(mark, version) if partly else 0
    return _found(get, data[:length]) if length else None


def _length_in(mark: Version, version: Version) -> int:
    """Return how many bytes of a log of this version are marked; 0 if the mark is of another or a longer log."""
    marked, there = rules.split_version(mark), rules.split_version(version)
    if marked is None or there is None or marked[0] != there[0] or marked[1] > there[1]:
        return 0
    return marked[1]


def _lost_bytes(mark: Version, version: Version) -> int:
    """Return how many bytes are marked behind the end of a log of this version: they were durable and are gone."""
    marked, there = rules.split_version(mark), rules.split_version(version)
    if marked is None or there is None or marked[0] != there[0]:
        return 0
    return max(0, marked[1] - there[1])


def _found(get: Get, data: bytes, *, lost_bytes: int = 0) -> Answer:
    version = rules.log_version(data)
    if version == get.unless and not lost_bytes:
        return Unchanged()
    return Found(rules.part(data, get), version, len(data), lost_bytes)


def _ends_at(fd: int, version: Version) -> bool:
    """Whether a log has this version, without reading it: followers of a log check this again and again."""
    digest, length = rules.split_version(version) or ("", 0)
    same = digest == rules.first_line_digest(local_disk.read(fd, 0, local_disk.FIRST_LINE_GUESS))
    return same and local_disk.read(fd, max(0, length - 1), 2) in (b"\n", b"\n\0")


def _room(end: int) -> int:
    """How many bytes to leave free behind a log whose lines end at `end`."""
    room = min(end // 2, _ROOM_BYTES_MAX)
    return room + -(end + room) % _BLOCK_BYTES


def _changed(log: OpenLog, request: Append) -> ConflictError:
    got = rules.log_version(local_disk.read_all(log.fd))
    return ConflictError(f"log has another end. expected={request.expect!r}, got={got!r}", key=request.key)


def poisoned(key: str, reason: str) -> PoisonedError:
    """Return the answer to a write whose sync failed, or to a write after a failed sync."""
    return PoisonedError(
        f"file cannot be trusted: {reason}", key=key, remedy="replace it with a put of everything that must not be lost"
    )
