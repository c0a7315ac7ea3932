"""A store in this process's memory: for tests and experiments, and as the reference for all other drivers."""

from __future__ import annotations

import itertools
import threading
from weakref import WeakSet

import msgspec

from treering.errors import ConflictError, SessionHeldError, TreeringError
from treering.ids import now_ms
from treering.storage import rules
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
)


class _Object(msgspec.Struct, frozen=True):
    data: bytes
    version: Version
    modified_ms: int


class MemoryDriver:
    """Keeps objects in a dict under one lock, so every batch is a single atomic step.

    Args:
        appends: Serve `Append` by the rules of the local driver; else behave like an object store.
    """

    name = "memory"
    conditional = True
    proven = True

    def __init__(self, *, appends: bool = False) -> None:
        self.appends = appends
        self._objects: dict[str, _Object] = {}
        self._holds: dict[str, WeakSet[_MemoryHold]] = {}
        self._lock = threading.RLock()
        self._writes = itertools.count(1)

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the requests one after the other, without other requests in between."""
        with self._lock:
            return tuple(self._serve(request) for request in batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`; there is nothing to wait for."""
        return self.execute(batch)

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:  # noqa: ARG002
        """Hold `key` against every other holder in this process; see `Driver.hold`."""
        with self._lock:
            others = self._holds.setdefault(key, WeakSet())
            for other in others:
                if not (shared and other.shared):
                    remedy = "wait for it, look at it with a view, or open both as shared"
                    raise SessionHeldError(f"already held. holder={other.holder!r}", key=key, remedy=remedy)
            hold = _MemoryHold(self, key, holder, shared=shared)
            others.add(hold)
            return hold

    def keeps_versions(self) -> bool | None:
        """Return False: replaced bytes are gone."""
        return False

    def scrub(self, *keys: str) -> None:
        """Do nothing: the driver keeps only the current bytes of an object."""

    def close(self) -> None:
        """Do nothing: the objects exist until the driver is gone."""

    def snapshot(self) -> dict[str, bytes]:
        """Return a copy of the bytes of all objects, by key."""
        with self._lock:
            return {key: found.data for key, found in sorted(self._objects.items())}

    def _serve(self, request: Request) -> Answer:
        if refused := rules.refusal(request, appends=self.appends):
            return refused
        match request:
            case Get():
                return self._get(request)
            case Put():
                return self._put(request)
            case Append():
                return self._append(request)
            case List():
                return self._list(request)
            case Delete():
                return self._delete(request)

    def _get(self, get: Get) -> Answer:
        found = self._objects.get(get.key)
        if found is None:
            return rules.missing(get.key)
        if found.version == get.unless:
            return Unchanged()
        modified_ms = found.modified_ms if (get.start, get.end) != (None, None) else 0
        return Found(rules.part(found.data, get), found.version, len(found.data), modified_ms=modified_ms)

    def _put(self, put: Put) -> Answer:
        found = self._objects.get(put.key) if put.keeps_time else None
        modified_ms = found.modified_ms if found is not None else None
        return self._refused(put.key, put.expect) or self._write(put.key, put.data, modified_ms)

    def _append(self, append: Append) -> Answer:
        found = self._objects.get(append.key)
        if found is None:
            return rules.missing(append.key)
        expected = rules.split_version(append.expect)
        if expected is None or expected[0] != rules.first_line_digest(found.data) or expected[1] > len(found.data):
            return _changed(append, found)
        length = expected[1]
        if rules.complete_bytes(found.data[length:]):
            return _changed(append, found)
        return self._write(append.key, found.data[:length] + append.data)

    def _list(self, request: List) -> Answer:
        keys = sorted(key for key in self._objects if key.startswith(request.prefix) and key > request.after)
        limit = min(request.limit, LIST_KEYS_MAX)
        found = [(key, self._objects[key]) for key in keys[:limit]]
        entries = tuple(Entry(key, len(each.data), each.modified_ms) for key, each in found)
        return Listed(entries, more=len(keys) > limit)

    def _delete(self, delete: Delete) -> Answer:
        for key in delete.keys:
            if key in self._objects and (refused := self._refused(key, delete.expect)):
                return refused
            self._objects.pop(key, None)
        return Deleted()

    def _refused(self, key: str, expect: Version | None) -> TreeringError | None:
        found = self._objects.get(key)
        return rules.mismatch(key, expect, ABSENT if found is None else found.version)

    def _write(self, key: str, data: bytes, modified_ms: int | None = None) -> Written:
        is_log = self.appends and rules.is_log(key)
        if is_log:
            data = data.rstrip(b"\0")
        version = rules.log_version(data) if is_log else Version(f"m{next(self._writes)}")
        self._objects[key] = _Object(bytes(data), version, now_ms() if modified_ms is None else modified_ms)
        return Written(version)

    def _release(self, hold: _MemoryHold) -> None:
        with self._lock:
            self._holds.get(hold.key, WeakSet()).discard(hold)


class _MemoryHold:
    def __init__(self, driver: MemoryDriver, key: str, holder: str, *, shared: bool) -> None:
        self._driver = driver
        self.key = key
        self.holder = holder
        self.shared = shared

    def release(self) -> None:
        self._driver._release(self)  # noqa: SLF001  # the two classes are one thing


def _changed(append: Append, found: _Object) -> ConflictError:
    return ConflictError(f"log has another end. expected={append.expect!r}, got={found.version!r}", key=append.key)
