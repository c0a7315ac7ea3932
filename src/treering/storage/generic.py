"""A store on any fsspec filesystem, for a single writing process.

fsspec has no portable conditional write, so a second writer could silently overwrite the first one's work. The user has
to promise that there is no second writer. Conditions are still checked against the current object: that detects a
process that wrote before this one, and other threads of this process.

Objects are plain files; registers (written with `Put.expect`) are pairs of slots, see `slots`. Nothing is synced:
acknowledged writes survive a crash of the process, but a power cut only if the filesystem ensures that.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import groupby
from typing import Any

from fsspec.asyn import AsyncFileSystem

from treering.errors import AccessError, TreeringError, UnavailableError, UnsafeStoreError, UsageError
from treering.kinds import Kind
from treering.storage import rules, slots
from treering.storage.filesystem import in_this_process, usable
from treering.storage.requests import (
    ABSENT,
    LIST_KEYS_MAX,
    Answer,
    Append,
    Batch,
    Delete,
    Deleted,
    Entry,
    Found,
    Get,
    Hold,
    List,
    Listed,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
    key_of,
)
from treering.storage.threads import in_thread

# Requests of one batch under way at once, on filesystems that wait for a network.
_THREADS_MAX = 16
# Fields in which filesystems report the time of the last change.
_TIME_FIELDS = ("mtime", "LastModified", "last_modified", "updated", "created")

# A register is read and then written: two threads of this process must not do so at once, whichever driver they use.
_LOCKS = tuple(threading.Lock() for _ in range(64))


class GenericDriver:
    """Keeps objects below a path of an fsspec filesystem.

    Args:
        fs: The filesystem.
        path: The path of the store in the filesystem; may be empty.

    Raises:
        UsageError: The filesystem cannot be used from threads.
    """

    name = "fsspec"
    conditional = False
    proven = True
    appends = False

    def __init__(self, fs: Any, path: str = "") -> None:
        self._fs = usable(fs)
        self._root = str(fs._strip_protocol(path)).rstrip("/") if path else ""  # noqa: SLF001
        self._made: set[str] = set()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the requests, in threads where the filesystem waits for a network."""
        self._fs = in_this_process(self._fs)
        if len(batch) < 2 or not isinstance(self._fs, AsyncFileSystem):  # other filesystems may not be safe for threads
            return tuple(self._serve(request) for request in batch)
        with ThreadPoolExecutor(min(len(batch), _THREADS_MAX)) as pool:
            return tuple(pool.map(self._serve, batch))

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`, in a thread."""
        return await in_thread(self.execute, batch)

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:  # noqa: ARG002
        """Return None, since the user promised that there is no other process."""
        return None

    def keeps_versions(self) -> bool | None:
        """Return None: there is no common way to find out."""
        return None

    def scrub(self, *keys: str) -> None:
        """Remove the slots with the bytes that a register held before."""
        for key in keys:
            if not key.endswith("/"):
                with self._lock_of(key), self._explained(key):
                    register = self._register(key)
                    self._remove(register.names[:-1] if register.current else ())

    def close(self) -> None:
        """Do nothing: the filesystem belongs to the caller or to fsspec's cache."""

    def _serve(self, request: Request) -> Answer:
        if refused := self._refusal(request):
            return refused
        try:
            with self._explained(key_of(request)):
                return self._answer(request)
        except TreeringError as error:
            return error

    @contextlib.contextmanager
    def _explained(self, key: str) -> Iterator[None]:
        try:
            yield
        except TreeringError:
            raise
        except Exception as error:  # each filesystem has its own errors
            raise _explain(error, key) from error

    def _answer(self, request: Request) -> Answer:
        match request:
            case Get():
                return self._get(request)
            case Put():
                return self._put(request)
            case List():
                return self._list(request)
            case Delete():
                return self._delete(request)
            case Append():
                raise AssertionError("refused above")

    @staticmethod
    def _refusal(request: Request) -> UsageError | None:
        keys = request.keys if isinstance(request, Delete) else (key_of(request),)
        for key in keys:
            if key.endswith(slots.ENDINGS):
                return UsageError("key has an ending that is used for slots", kind=Kind.KEY, key=key)
        return rules.refusal(request, appends=False)

    # Reading

    def _get(self, get: Get) -> Answer:
        if get.register:
            return self._get_register(get)
        try:
            if (get.start, get.end) == (None, None):
                data = self._fs.cat_file(self._path(get.key))
                return _found(get, data, _content_version(data))
            return self._get_part(get)
        except FileNotFoundError:
            return self._get_register(get)

    def _get_register(self, get: Get) -> Answer:
        current = self._register(get.key).current
        if current is None or current.data is None:
            return rules.missing(get.key)
        return _found(get, current.data, current.version)

    def _get_part(self, get: Get) -> Answer:
        """Read a part between absolute offsets, since filesystems treat negative ones differently."""
        path = self._path(get.key)
        size = int(self._fresh(path).info(path)["size"])
        version = Version(f"part:{size}")
        if version == get.unless:
            return Unchanged()
        start, end, _ = slice(get.start, get.end).indices(size)
        return Found(self._fs.cat_file(path, start=start, end=end) if start < end else b"", version, size)

    def _list(self, request: List) -> Answer:
        folder = self._path(request.prefix).rstrip("/")
        try:
            found: dict[str, dict[str, Any]] = self._fresh(folder).find(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return Listed((), more=False)
        files = {self._key(path): info for path, info in found.items()}
        named = groupby(sorted(filter(_is_ours, files), key=_without_ending), key=_without_ending)
        wanted = [(key, list(names)) for key, names in named if key.startswith(request.prefix) and key > request.after]
        limit = min(request.limit, LIST_KEYS_MAX)
        entries = tuple(self._entry(key, {name: files[name] for name in names}) for key, names in wanted[:limit])
        return Listed(entries, more=len(wanted) > limit)

    def _entry(self, key: str, files: dict[str, dict[str, Any]]) -> Entry:
        """Describe an object; a register by the slot that was written last, or the current slot on a tie."""
        times = {name: _modified_ms(info) for name, info in files.items()}
        newest = [name for name in files if times[name] == max(times.values())]
        name = newest[0] if len(newest) == 1 else self._register(key).names[-1]
        size = int(files[name]["size"])
        return Entry(key, size if name == key else slots.payload_bytes(size), times[name])

    # Writing

    def _put(self, put: Put) -> Answer:
        if put.expect is None:
            self._write(put.key, put.data)
            return Written(_content_version(put.data))
        with self._lock_of(put.key):
            register = self._register(put.key)
            current = register.current.version if register.current else ABSENT
            if refused := rules.mismatch(put.key, put.expect, current):
                return refused
            raw, version = slots.encode_slot(register.generation, put.data)
            self._write(register.target, raw)
        return Written(version)

    def _write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        folder = posixpath.dirname(path)
        if folder and folder not in self._made:
            self._fs.makedirs(folder, exist_ok=True)
            self._made.add(folder)
        try:
            self._fs.pipe_file(path, data)
        except FileNotFoundError:  # another program removed the folder
            self._fs.makedirs(folder, exist_ok=True)
            self._fs.pipe_file(path, data)

    def _delete(self, delete: Delete) -> Answer:
        if delete.expect is not None:
            with self._lock_of(delete.keys[0]):
                register = self._register(delete.keys[0])
                current = register.current.version if register.current else ABSENT
                if current != ABSENT and (refused := rules.mismatch(delete.keys[0], delete.expect, current)):
                    return refused
                self._remove(register.names)
            return Deleted()
        for folder, keys in groupby(sorted(delete.keys), key=posixpath.dirname):
            there = self._names(folder)
            for key in keys:
                if key in there:
                    self._remove((key,))
                elif there & {key + ending for ending in slots.ENDINGS}:
                    self._remove(self._register(key).names)
        return Deleted()

    def _remove(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            with contextlib.suppress(FileNotFoundError):
                self._fs.rm_file(self._path(key))

    # Names and slots

    def _register(self, key: str) -> slots.Register:
        """Read both slots; raises `CorruptError` or `UnsafeStoreError`."""
        raw = {}
        for ending in slots.ENDINGS:
            with contextlib.suppress(FileNotFoundError):
                raw[key + ending] = self._fs.cat_file(self._path(key + ending))
        if not raw and self._fresh(self._path(key)).exists(self._path(key)):
            remedy = "open the store the way it was made, without single_writer"
            raise UnsafeStoreError("register was written without slots", kind=Kind.LAYOUT, key=key, remedy=remedy)
        return slots.read_register(key, raw)

    def _names(self, folder: str) -> set[str]:
        """Return the keys of the objects in a folder; slots have their own names."""
        path = self._path(folder)
        try:
            return {self._key(name) for name in self._fresh(path).ls(path, detail=False)}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def _fresh(self, path: str) -> Any:
        """Return the filesystem after dropping its cached listings of a path."""
        self._fs.invalidate_cache(path)
        self._fs.invalidate_cache(posixpath.dirname(path))
        return self._fs

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}" if self._root else key

    def _key(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    def _lock_of(self, key: str) -> threading.Lock:
        return _LOCKS[hash(self._path(key)) % len(_LOCKS)]


def _found(get: Get, data: bytes, version: Version) -> Answer:
    return Unchanged() if version == get.unless else Found(rules.part(data, get), version, len(data))


def _content_version(data: bytes) -> Version:
    return Version(hashlib.blake2b(data, digest_size=16).hexdigest())


def _is_ours(name: str) -> bool:
    return rules.refusal(Get(_without_ending(name)), appends=False) is None


def _without_ending(name: str) -> str:
    for ending in slots.ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name


def _modified_ms(info: Mapping[str, Any]) -> int:
    value = next((info[field] for field in _TIME_FIELDS if info.get(field)), 0)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return int((value.timestamp() if isinstance(value, datetime) else value) * 1000)


def _explain(error: Exception, key: str) -> TreeringError:
    if isinstance(error, FileNotFoundError):
        ours: TreeringError = rules.missing(key)
    elif isinstance(error, PermissionError):
        ours = AccessError("filesystem refused", key=key, remedy="check the credentials and rights of this filesystem")
    else:
        ours = UnavailableError(f"filesystem failed. error={type(error).__name__}", kind=Kind.FILESYSTEM, key=key)
    ours.__cause__ = error
    return ours
