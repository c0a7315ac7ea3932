"""Lists of checkpoints, and the writes along the ancestors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite, get_checkpoint_id

from treering.errors import NotFoundError
from treering.format.values import fields_of
from treering.integrations.langgraph import names
from treering.integrations.langgraph.codec import Codec
from treering.integrations.langgraph.kept import COUNTERS, Kept
from treering.integrations.langgraph.thread import Entries, Entry, Thread
from treering.kinds import Kind
from treering.storage.requests import Steps

PAGE_FIRST: Final = 16
PAGE_MAX: Final = 512
"""The number of checkpoints in the first read and in the largest one: a caller may want only the newest."""


class Wanted(NamedTuple):
    """The conditions on the checkpoints of a list."""

    ns: str | None
    id: str | None
    before: str | None
    filter: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,  # noqa: A002
        before: RunnableConfig | None,
    ) -> Wanted:
        """Read the arguments that LangGraph passes to `list`."""
        there = config["configurable"] if config is not None else {}
        ns = there.get("checkpoint_ns")
        below = get_checkpoint_id(before) if before is not None else None
        return cls(None if ns is None else names.short(ns), there.get("checkpoint_id"), below, filter or {})

    def may_show(self, entry: Entry) -> bool:
        """Tell whether a checkpoint may match, from the facts that the session lists."""
        if self.ns not in (None, entry.ns) or self.id not in (None, "", entry.id):
            return False
        if self.before and entry.id >= self.before:
            return False
        known = [name for name in self.filter if name in entry.meta or entry.whole]
        return all(entry.meta.get(name) == self.filter[name] for name in known)

    def shows(self, entry: Entry, kept: Kept, codec: Codec) -> bool:
        """Tell whether a checkpoint matches, from its whole metadata."""
        if entry.whole or all(name in entry.meta for name in self.filter):
            return True
        metadata = kept.metadata(codec)
        return all(metadata.get(name) == value for name, value in self.filter.items())


def pages(
    use: Callable[[Callable[[Thread], Steps[Any]]], Any], wanted: Wanted, limit: int | None, codec: Codec
) -> Iterator[list[Kept]]:
    """Yield the checkpoints of one thread, the newest first, a page at a time.

    Args:
        use: Runs an operation on the thread.
        wanted: Which checkpoints.
        limit: The most checkpoints to yield.
        codec: Decodes metadata.
    """
    if limit is not None and limit <= 0:
        return
    found: list[Entry] = use(lambda thread: _listed(thread, wanted))
    start, size, shown = 0, PAGE_FIRST, 0
    while start < len(found) and (limit is None or shown < limit):
        if limit is not None:
            size = max(1, min(size, limit - shown))
        part = found[start : start + size]
        kept: list[tuple[Entry, Kept]] = use(partial(_load, part))
        page = [each for entry, each in kept if wanted.shows(entry, each, codec)]
        start, size, shown = start + len(part), min(4 * size, PAGE_MAX), shown + len(page)
        yield page


def _load(part: Sequence[Entry], thread: Thread) -> Steps[list[tuple[Entry, Kept]]]:
    return (yield from thread.load_again(part))


def _listed(thread: Thread, wanted: Wanted) -> Steps[list[Entry]]:
    if not (yield from thread.look()):
        return []
    found = [entry for entry in (yield from thread.entries()).values() if wanted.may_show(entry)]
    return sorted(found, key=lambda entry: entry.id, reverse=True)


def delta_history(
    thread: Thread, ns: str, checkpoint: str | None, channels: Sequence[str], codec: Codec
) -> Steps[dict[str, DeltaChannelHistory]]:
    """Return the writes to some channels along the ancestors of a checkpoint, and the value before these writes.

    A checkpoint that LangGraph put holds them itself. Ancestors are read only of those that others put, which do not
    tell their delta channels.

    Raises:
        NotFoundError: Ancestors with such writes were removed.
    """
    walk = _Walk(channels, codec)
    yield from thread.look()
    found = yield from thread.find(ns, checkpoint or thread.newest_id(ns) or "")
    if found is None:
        return walk.found()
    walk.take_above(found)
    size = PAGE_FIRST
    while walk.remaining:
        entries = yield from thread.entries()
        above = list(_above(entries[names.short(ns), found.id], entries, size))
        for found in (yield from thread.load(above)):
            walk.take(found)
            walk.take_above(found)
        if len(above) < size:
            walk.require_whole(found)
            break
        size = min(4 * size, PAGE_MAX)
    return walk.found()


def _above(child: Entry, entries: Entries, most: int) -> Iterator[Entry]:
    seen = {child.id}
    for _ in range(most):
        above = entries.get((child.ns, child.parent or ""))
        if above is None or above.id in seen:
            return
        seen.add(above.id)
        yield above
        child = above


class _Walk:
    """The writes found so far on the way up to the ancestors, newest first."""

    def __init__(self, channels: Sequence[str], codec: Codec) -> None:
        self.remaining = set(channels)
        self._codec = codec
        self._writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
        self._seeds: dict[str, Any] = {}

    def take(self, kept: Kept) -> None:
        """Add the next ancestor: its writes come after its values."""
        for write in reversed(kept.pending_writes(self._codec)):
            if write[1] in self.remaining:
                self._writes[write[1]].append(write)
        for channel in [channel for channel in self.remaining if kept.has(channel)]:
            self._seeds[channel] = kept.value(channel, self._codec)
            self.remaining.discard(channel)

    def take_above(self, kept: Kept) -> None:
        """Add the writes of all ancestors of a checkpoint, for each channel for which it holds them."""
        for channel in [channel for channel in self.remaining if kept.covers(channel)]:
            self._writes[channel] += reversed(kept.writes_above(channel, self._codec))
            if channel in kept.seeds:
                self._seeds[channel] = self._codec.decode(kept.seeds[channel])
            self.remaining.discard(channel)

    def require_whole(self, oldest: Kept) -> None:
        """Raise if some writes are missing: those of the ancestors of the oldest checkpoint that is there."""
        lost = sorted(fields_of(oldest.metadata(self._codec).get(COUNTERS)).keys() & self.remaining)
        if lost and oldest.parent is not None:
            raise NotFoundError(
                f"checkpoints with writes to a delta channel were removed. checkpoint={oldest.id!r}, channels={lost!r}",
                kind=Kind.CHECKPOINT,
                remedy="continue from an earlier checkpoint; the channel cannot be rebuilt at this one",
            )

    def found(self) -> dict[str, DeltaChannelHistory]:
        """Return the writes by channel, oldest first."""
        history: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self._writes.items():
            entry: DeltaChannelHistory = {"writes": writes[::-1]}
            if channel in self._seeds:
                entry["seed"] = self._seeds[channel]
            history[channel] = entry
        return history
