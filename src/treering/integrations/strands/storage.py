"""Strands' `Storage` on a Treering store: for `SnapshotSessionManager`, stash, context offloading and memory."""

from __future__ import annotations

import asyncio
import builtins
import copy
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from strands.storage.search.keyword import KeywordSearchStrategy

# Strands has no public names for the facts that a storage has a namespace, or ends with its process.
from strands.storage.storage import _EPHEMERAL, _NAMESPACED
from strands.types.exceptions import StorageError

from treering.errors import TreeringError
from treering.format.paths import parcel_key
from treering.ids import new_nonce
from treering.storage.requests import ABSENT, Steps, Version
from treering.storage.run import arun
from treering.store.parcels import delete_parcel, get_parcel, parcel_names, put_parcel

if TYPE_CHECKING:
    from strands.storage.search.types import SearchStrategy
    from strands.storage.storage import StorageSearchResult

    from treering.api.async_store import AsyncStore
    from treering.api.store import Store

SEEN_MAX = 10_000
"""The most versions of values that a storage remembers, after reads and writes; about 200 bytes each."""

SENT_MAX = 10
"""The most writes of one value without an answer that a storage remembers."""

T = TypeVar("T")


class _Seen(NamedTuple):
    """What a write may replace."""

    version: Version
    """The version that was read, or written."""
    sent: tuple[str, ...] = ()
    """Ids of the writes since, which had no answer: one of them may have taken effect."""


class TreeringStorage:
    """A `strands.storage.Storage` that keeps values in a Treering store, next to its sessions.

    A write is one request and durable when it returns; a read is one request. Values are compressed and have checksums.
    A storage from `namespace` shares the store and sees only keys below its prefix. Several tasks, threads and event
    loops may use one storage.

    Args:
        store: The store in which values are kept. For one tenant, pass a namespace of the store.
        search_strategy: Called for every write and by `search`. By default `search` reads every value.
        overwrite: A write replaces any value, as in all storages of Strands. If false, a write replaces only the
            version that this storage has read or written itself. If another writer replaced that version, it raises
            `StorageError`, whose cause is a `treering.ConflictError`, so that two processes with one session lose no
            update.
    """

    _namespaced: object = None

    def __init__(
        self,
        store: Store | AsyncStore,
        *,
        search_strategy: SearchStrategy[TreeringStorage] | None = None,
        overwrite: bool = True,
    ) -> None:
        self._place = store.place
        self._search_strategy = search_strategy
        self._seen: OrderedDict[str, _Seen] | None = None if overwrite else OrderedDict()
        self._prefix = ""
        if self._place.driver.name == "memory":
            self._ephemeral = _EPHEMERAL

    async def write(self, key: str, data: bytes) -> None:
        """Store a value under a key; it is durable when this returns.

        Raises:
            StorageError: The key is invalid, the store failed, or another writer was first; see `overwrite`. If the
                store did not answer, the value may be stored now, later or never, even over a later write.
        """
        name = self._prefix + _normal_key(key)
        failed = f"Failed to write '{key}'"
        if self._seen is None:
            await self._do(failed, put_parcel(self._place, name, bytes(data)))
        else:
            seen, write = self._seen.get(name, _Seen(ABSENT)), new_nonce()
            self._saw(name, _Seen(seen.version, (*seen.sent, write)[-SENT_MAX:]))  # until there is an answer
            steps = put_parcel(self._place, name, bytes(data), expect=seen.version, write=write, own=seen.sent)
            version, seen = await self._do(failed, steps), self._seen.get(name, seen)
            if write in seen.sent:  # else a later write of this storage was answered first
                self._saw(name, _Seen(version, seen.sent[seen.sent.index(write) + 1 :]))
        if not self._place.driver.conditional:
            await self._scrub(name)
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, name[len(self._prefix) :], data)
            except Exception as error:
                raise StorageError(f"Wrote '{key}', but indexing it failed: {error}") from error

    async def read(self, key: str) -> bytes | None:
        """Return the value under a key; None if there is none.

        Raises:
            StorageError: The key is invalid, the store did not answer, or the value is damaged.
        """
        name = self._prefix + _normal_key(key)
        found = await self._do(f"Failed to read '{key}'", get_parcel(self._place, name))
        content, version = found or (None, ABSENT)
        seen = self._seen.get(name) if self._seen is not None else None
        if seen is None or seen.version != version:  # else a write without an answer may still take effect
            self._saw(name, _Seen(version))
        return content

    async def delete(self, key: str) -> None:
        """Remove the value under a key, if it exists. A write of it that had no answer may still bring it back.

        Raises:
            StorageError: The key is invalid, or the store failed.
        """
        name = self._prefix + _normal_key(key)
        await self._do(f"Failed to delete '{key}'", delete_parcel(self._place, name))
        self._saw(name, _Seen(ABSENT))
        await self._scrub(name)

    async def list(self, query: str = "") -> builtins.list[str]:
        """Return the keys that start with `query`, sorted: one LIST for each thousand.

        Raises:
            StorageError: The query is no valid prefix of keys, or the store did not answer.
        """
        start = self._prefix + _normal_prefix(query)
        names = await self._do(f"Failed to list '{query}'", parcel_names(self._place, start))
        return [name[len(self._prefix) :] for name in names]

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """Return the matching values, best first: by the search strategy, or by words in keys and values."""
        return await (self._search_strategy or KeywordSearchStrategy()).search(self, query)

    def namespace(self, prefix: str) -> Self:
        """Return a storage for the keys below `prefix`. It adds the prefix to keys, and removes it from results."""
        scoped = copy.copy(self)
        normal = _normal_prefix(prefix).rstrip("/")
        scoped._prefix = f"{self._prefix}{normal}/" if normal else self._prefix  # noqa: SLF001  # of the same class
        scoped._namespaced = _NAMESPACED  # noqa: SLF001
        return scoped

    async def _do(self, failed: str, steps: Steps[T]) -> T:
        try:
            return await arun(steps, self._place.driver)
        except TreeringError as error:
            raise StorageError(f"{failed}: {error}") from error

    async def _scrub(self, name: str) -> None:
        """Remove old versions that the driver keeps of a replaced or deleted value."""
        await asyncio.to_thread(self._place.driver.scrub, parcel_key(self._place.prefix, name))

    def _saw(self, name: str, seen: _Seen) -> None:
        """Remember what a later write may replace; a forgotten value must be read again."""
        if self._seen is not None:
            self._seen[name] = seen
            self._seen.move_to_end(name)
            if len(self._seen) > SEEN_MAX:
                self._seen.popitem(last=False)


def _normal_key(key: str) -> str:
    """Return a key without superfluous slashes, like the storages of Strands.

    Raises:
        StorageError: It is empty, or a path out of the storage.
    """
    normal = _normal_prefix(key).rstrip("/")
    if not normal:
        raise StorageError("A key must not be empty")
    return normal


def _normal_prefix(prefix: str) -> str:
    """Return a prefix of keys in the same way; it may be empty, and a final slash is kept."""
    normal = re.sub("/+", "/", prefix).lstrip("/")
    if "\\" in prefix or ".." in normal.split("/"):
        raise StorageError(f"A key must not have backslashes or '..' in it. key={prefix!r}")
    return normal
