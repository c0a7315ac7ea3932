"""A store in a local folder that survives power cuts, with nothing but the standard library.

Theory of operation
-------------------
An object is a file. It is written under a temporary name, synced and renamed, and the folder is synced, so that readers
see the old bytes or the new ones at any instant, also after a power cut. Only logs (keys ending in `.jsonl`) are
written in place; see `local_log`.

A write with a condition compares and renames under the lock of its folder, a file `.lock` beside the object. Every
write to a log takes that lock, with or without a condition, because an append in progress must not lose its file.

A register that another process wrote may not be durable yet: its writer may have been killed before the sync of the
folder. The next write may rely on it, so its folder is synced first. Only the durable part of a log is ever read, see
`local_log`.

Names that start with a dot belong to the driver: locks and temporary files. `NAME.poisoned` marks a log whose sync
failed. Lists hide both. Reading and listing never create anything; a store that does not exist counts as empty.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from _thread import allocate_lock
from collections.abc import Iterator

from treering._late import Kind
from treering.errors import ConflictError, TreeringError, UnavailableError, UnsafeStoreError
from treering.storage import local_disk, local_lock, rules
from treering.storage.local_disk import OS_SYNC, Sync
from treering.storage.local_log import LocalLogs, poisoned
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Batch,
    Delete,
    Deleted,
    Found,
    Get,
    Hold,
    List,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
    key_of,
)

# Limit of the folders remembered as durable, which saves syncs; forgetting them costs only time.
_SETTLED_MAX = 10_000
# What systems answer to a hard link on a file system without them; the folder's rights were checked before.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalDriver:
    """Keeps objects as files below a folder, durably. POSIX only.

    Args:
        root: The folder; the first write creates it.
        sync: How to force bytes to disk.
    """

    name = "local"
    conditional = True
    proven = True
    appends = True

    def __init__(self, root: str | os.PathLike[str], *, sync: Sync = OS_SYNC) -> None:
        self._root = os.path.abspath(root)
        self._sync = sync
        self._logs = LocalLogs(self._root, sync)
        self._settled: set[str] = set()
        self._lasting: dict[str, Version] = {}  # durable versions of registers, unless their folder is doubtful
        self._doubtful: dict[str, int] = {}  # folders, with how often a register of another process was read
        self._mutex = allocate_lock()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the requests one after the other; on a disk, threads would cost more than they save."""
        return tuple(map(self._serve, batch))

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`, in a thread."""
        from treering.storage.threads import in_thread  # for asynchronous code alone

        return await in_thread(self.execute, batch)

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:
        """Lock the file `key` until released or until this process ends, however it ends; see `Driver.hold`."""
        if refused := rules.refusal(Get(key), appends=False):
            raise refused
        try:
            with self._folder(key, write=create) as folder:
                fd = local_disk.open_file(folder, os.path.basename(key), os.O_RDWR | os.O_CREAT)
            return local_lock.FileHold(fd, key, holder, shared=shared)
        except FileNotFoundError as error:
            if create:
                raise local_disk.explain(error, key) from error
            return None
        except OSError as error:
            if isinstance(error, TreeringError):
                raise
            raise local_disk.explain(error, key) from error

    def keeps_versions(self) -> bool | None:
        """Return False, though a file system with snapshots, or a backup, may keep old bytes."""
        return False

    def scrub(self, *keys: str) -> None:
        """Remove the temporary files of writers that were killed."""
        try:
            for key in dict.fromkeys(key[: key.rfind("/") + 1] for key in keys):
                with contextlib.suppress(FileNotFoundError), self._folder(key) as folder:
                    local_disk.sweep_below(folder, self._sync, deep=key in keys)
        except OSError as error:
            raise local_disk.explain(error, keys[0]) from error

    def close(self) -> None:
        """Close the logs kept open; the driver may be used again."""
        self._logs.close()

    def _serve(self, request: Request) -> Answer:
        if refused := rules.refusal(request, appends=True):
            return refused
        try:
            match request:
                case Append():  # first, because most requests are
                    if self._doubtful:
                        self._settle_doubtful()
                    return self._logs.append(request)
                case Get():
                    return self._get(request)
                case Put():
                    self._settle_doubtful()
                    return self._put(request)
                case List():
                    from treering.storage.local_list import list_folder  # resuming lists nothing

                    return list_folder(self._root, request)
                case Delete():
                    return self._delete(request)
        except (UnavailableError, UnsafeStoreError) as error:  # the folder stays locked, or there are no hard links
            return error
        except OSError as error:
            return _explain(error, request)

    def _get(self, get: Get) -> Answer:
        with self._folder(get.key) as folder:
            if rules.is_log(get.key):
                return self._logs.get(get, folder)
            fd = local_disk.open_file(folder, os.path.basename(get.key), os.O_RDONLY)
        try:
            if (get.start, get.end) != (None, None):
                return _get_part(fd, get)
            data = local_disk.read_all(fd)
        finally:
            os.close(fd)
        version = local_disk.content_version(data)
        if version == get.unless:
            return Unchanged()
        if get.register and self._lasting.get(get.key) != version:
            self._doubt(get.key, version)
        return Found(rules.part(data, get), version, len(data))

    def _doubt(self, key: str, version: Version) -> None:
        """Remember that this process read a register that another one wrote, perhaps without syncing its name."""
        folder = os.path.dirname(key)
        with self._mutex:
            self._remember(key, version)
            self._doubtful[folder] = self._doubtful.get(folder, 0) + 1

    def _remember(self, key: str, version: Version) -> None:
        if len(self._lasting) >= _SETTLED_MAX:
            self._lasting.clear()
        self._lasting[key] = version

    def _settle_doubtful(self) -> None:
        """Sync the folders of registers that were read, before a write relies on them."""
        for folder, times in tuple(self._doubtful.items()):
            with contextlib.suppress(FileNotFoundError), self._folder(f"{folder}/") as fd:
                self._sync.whole(fd)
            with self._mutex:
                if self._doubtful.get(folder) == times:  # else another register was read since
                    del self._doubtful[folder]

    def _put(self, put: Put) -> Answer:
        name = os.path.basename(put.key)
        is_log = rules.is_log(put.key)
        with self._folder(put.key, write=True) as folder:
            with local_disk.temporary(folder) as (fd, temporary):
                local_disk.write(fd, put.data)
                self._sync.whole(fd)
                if put.expect is None and not is_log:
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                elif refused := self._swap(folder, put, temporary, name):
                    return refused
            if is_log:
                self._logs.let_go(put.key)
                return Written(rules.log_version(put.data))
            try:
                self._sync.whole(folder)
            except OSError as error:
                return poisoned(put.key, f"sync of the folder failed: {error.strerror}")
        version = local_disk.content_version(put.data)
        if put.expect is not None:
            with self._mutex:
                self._remember(put.key, version)
        return Written(version)

    def _swap(self, folder: int, put: Put, temporary: str, name: str) -> TreeringError | None:
        """Give the temporary file its name if the condition holds; for a log, durably."""
        with local_lock.open_lock(folder) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                local_lock.wait_for_lock(lock.fileno(), put.key)
            if put.expect is not None and (
                refused := rules.mismatch(put.key, put.expect, self._version(put.key, folder))
            ):
                return refused
            if put.keeps_time:  # after a power cut it may be the time of this write
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                os.utime(temporary, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=folder, follow_symlinks=False)
            if put.expect != ABSENT:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                try:  # a link never replaces a file, not even that of a process without locks
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return ConflictError("object exists", key=put.key)
                except OSError as error:
                    if error.errno in _NO_LINKS:
                        raise _needs_links(put.key) from error
                    raise
            return self._logs.replaced(put, folder, lock) if rules.is_log(put.key) else None

    def _version(self, key: str, folder: int) -> Version:
        """Return the version of an object, `ABSENT` if it does not exist; called under the lock."""
        if rules.is_log(key):
            return self._logs.version(key, folder)
        try:
            fd = local_disk.open_file(folder, os.path.basename(key), os.O_RDONLY)
        except FileNotFoundError:
            return ABSENT
        try:
            return local_disk.content_version(local_disk.read_all(fd))
        finally:
            os.close(fd)

    def _delete(self, delete: Delete) -> Answer:
        for keys in _by_folder(delete.keys):
            with contextlib.suppress(FileNotFoundError), self._folder(keys[0]) as folder:
                for key in keys:
                    if refused := self._delete_one(folder, key, delete.expect):
                        return refused
                self._sync.whole(folder)
        return Deleted()

    def _delete_one(self, folder: int, key: str, expect: Version | None) -> TreeringError | None:
        name = os.path.basename(key)
        if expect is None and not rules.is_log(key):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return None
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None  # and no lock file is made in an empty folder
        with local_lock.open_lock(folder) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                local_lock.wait_for_lock(lock.fileno(), key)
            current = self._version(key, folder)
            if current != ABSENT:
                if refused := rules.mismatch(key, expect, current):
                    return refused
                os.unlink(name, dir_fd=folder)
        self._logs.cure(key, folder)
        self._logs.let_go(key)
        return None

    @contextlib.contextmanager
    def _folder(self, key: str, *, write: bool = False) -> Iterator[int]:
        """Open the folder of `key` for the block; to write, it is created and made durable."""
        names = key.split("/")[:-1]
        try:
            fd = self._make_folder(names) if write else local_disk.open_folder(self._root, names)
        except NotADirectoryError:
            if write:
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
        try:
            yield fd
        finally:
            os.close(fd)

    def _make_folder(self, names: list[str]) -> int:
        path = "/".join(names)
        settle = path not in self._settled
        fd = local_disk.make_folder(self._root, names, self._sync, settle=settle)
        if settle:
            local_disk.sweep(fd)
            with self._mutex:
                if len(self._settled) >= _SETTLED_MAX:
                    self._settled.clear()
                self._settled.add(path)
        return fd


def _needs_links(key: str) -> UnsafeStoreError:
    return UnsafeStoreError(
        "a store on a disk needs hard links, which this file system lacks",
        kind=Kind.FEATURE,
        key=key,
        remedy="keep the store on another file system, such as ext4, XFS, Btrfs or APFS; not on FAT or exFAT",
    )


def _explain(error: OSError, request: Request) -> TreeringError:
    if isinstance(request, Put) and isinstance(error, FileNotFoundError):
        return UnavailableError("the folder was removed meanwhile", kind=Kind.VANISHED, key=request.key)
    return local_disk.explain(error, key_of(request))


def _by_folder(keys: tuple[str, ...]) -> list[list[str]]:
    folders: dict[str, list[str]] = {}
    for key in keys:
        folders.setdefault(os.path.dirname(key), []).append(key)
    return list(folders.values())


def _get_part(fd: int, get: Get) -> Answer:
    """Answer without reading the rest. The version names the file, not its bytes, so it satisfies no condition."""
    found = os.fstat(fd)
    version = Version(f"part:{found.st_ino}-{found.st_ctime_ns}-{found.st_size}")
    if version == get.unless:
        return Unchanged()
    start, end, _ = slice(get.start, get.end).indices(found.st_size)
    data = local_disk.read(fd, start, end - start)
    return Found(data, version, found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)
