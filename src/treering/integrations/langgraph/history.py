"""Lists of checkpoints, and the writes along the ancestors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite, get_checkpoint_id

from treering.errors import NotFoundError
from treering.format import values
from treering.integrations.langgraph import names
from treering.integrations.langgraph.codec import Codec
from treering.integrations.langgraph.kept import Kept
from treering.integrations.langgraph.thread import Entries, Entry, Thread
from treering.kinds import Kind
from treering.storage.requests import Steps

COUNTERS: Final = "counters_since_delta_snapshot"
"""The part of LangGraph's metadata with the delta channels that have writes in ancestors, and no value of their own."""
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

    Raises:
        NotFoundError: `Session.prune` or a retention policy removed ancestors with such writes.
    """
    walk = _Walk(channels, codec)
    yield from thread.look()
    entries = yield from thread.entries()
    child = entries.get((names.short(ns), checkpoint or thread.newest_id(ns) or ""))
    size = PAGE_FIRST
    while child is not None and walk.remaining:
        above = list(_above(child, entries, size))
        for entry, kept in zip(above, (yield from thread.load(above)), strict=True):
            walk.take(kept)
            child = entry
        if len(above) < size:
            if walk.remaining:
                walk.take_folds((yield from thread.folds(ns)), child.id)
                yield from _require_whole(thread, child, walk.remaining, codec)
            break
        size = min(4 * size, PAGE_MAX)
    return walk.found()


def _require_whole(thread: Thread, oldest: Entry, channels: Collection[str], codec: Codec) -> Steps[None]:
    """Raise unless the writes to some channels are complete, though the checkpoint before the oldest one is missing."""
    if not channels or oldest.parent is None or (yield from thread.lacks_runs()):
        return
    [kept] = yield from thread.load([oldest])
    lost = sorted(kept.metadata(codec).get(COUNTERS, {}).keys() & channels)
    if lost:
        raise NotFoundError(
            f"checkpoints with writes to a delta channel were pruned. checkpoint={oldest.id!r}, channels={lost!r}",
            kind=Kind.CHECKPOINT,
            remedy="prune such threads only with TreeringSaver.prune; the channel cannot be rebuilt any more",
        )


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

    def take_folds(self, folds: Mapping[str, object], child: str) -> None:
        """Add the writes that pruning kept of the ancestors of a checkpoint."""
        for channel in list(self.remaining):
            fold = folds.get(channel)
            if not isinstance(fold, dict) or fold.get("child") != child:
                continue
            for task, form in reversed(fold["writes"]):
                self._writes[channel].append((task, channel, self._codec.value_of(form)))
            if "seed" in fold:
                self._seeds[channel] = self._codec.value_of(fold["seed"])
            self.remaining.discard(channel)

    def found(self) -> dict[str, DeltaChannelHistory]:
        """Return the writes by channel, oldest first."""
        history: dict[str, DeltaChannelHistory] = {}
        for channel, writes in self._writes.items():
            entry: DeltaChannelHistory = {"writes": writes[::-1]}
            if channel in self._seeds:
                entry["seed"] = self._seeds[channel]
            history[channel] = entry
        return history


def folds_of(thread: Thread, codec: Codec) -> Steps[dict[str, bytes]]:
    """Return the values from which delta channels of the newest checkpoints are rebuilt once ancestors are pruned.

    Returns:
        Encoded values, by key of the session's state.
    """
    folds: dict[str, bytes] = {}
    for ns in thread.namespaces:
        kept = thread.newest(ns)
        counters = kept.metadata(codec).get(COUNTERS) if kept is not None else None
        if kept is None or not counters:
            continue
        history = yield from delta_history(thread, ns, kept.id, list(counters), codec)
        for channel, found in history.items():
            writes = [[task, codec.form_of(value)] for task, _, value in found["writes"]]
            fold: dict[str, object] = {"child": kept.id, "writes": writes}
            if "seed" in found:
                fold["seed"] = codec.form_of(found["seed"])
            folds[names.fold_key(ns, channel)] = values.encode(fold)
    return folds
