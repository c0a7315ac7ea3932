"""Choose the checkpoints to prune, without breaking any checkpoint that is kept.

Rule 1: a kept checkpoint stays readable. It needs its chain of parents up to the nearest full record, and the records
to which that full record refers for values of the state. Of these records only the values are needed, not their chains.
Rule 2: the newest checkpoint is always kept, since the next one is written as a delta of it.

A pruned checkpoint that is needed stays in the journal, but not in lists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo, chain_of
from treering.errors import UsageError


class KeepCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints a prune keeps: each that any of these rules keeps."""

    last: int = 1
    """The newest `last` checkpoints, at least 1."""
    newer_than_ms: int | None = None
    """Checkpoints made at this time or later, in milliseconds since 1970."""
    every_ms: int | None = None
    """The newest checkpoint of each interval of this length, so that old times stay reachable at a coarser step."""
    labelled: bool = True
    """Checkpoints with a label."""
    heads: Collection[str] | None = None
    """The newest checkpoint of each of these heads, so that their branches can be continued; None: of every head that
    has or had checkpoints.

    `Session.prune` also keeps the checkpoints that the current head and the handle's own head continue."""
    ids: Collection[str] = ()
    """The checkpoints with these ids; for example checkpoints that got their label later."""

    def __post_init__(self) -> None:
        """Raise if a limit is less than 1."""
        if self.last < 1 or (self.every_ms is not None and self.every_ms < 1):
            raise UsageError(f"pruning needs limits of at least 1. last={self.last}, every_ms={self.every_ms}")


class PrunePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints a prune keeps and removes. All lists are in the order of positions."""

    kept: tuple[str, ...]
    pruned: tuple[str, ...]
    """Checkpoints that are removed from lists."""
    droppable: tuple[str, ...]
    """Pruned checkpoints whose bodies no kept checkpoint needs."""


def plan(
    entries: Sequence[CheckpointInfo], references: Mapping[str, Collection[str]], keep: KeepCheckpoints
) -> PrunePlan:
    """Return which checkpoints may be pruned.

    Args:
        entries: All checkpoints of the session, in the order of positions.
        references: For every full record, the result of `needs`.
        keep: Which checkpoints must stay.

    Raises:
        UsageError: The references of a full record that is needed are missing.
        CorruptError: The chain of a kept checkpoint has a gap.
    """
    by_id = {entry.id: entry for entry in entries}
    kept = kept_by(entries, keep)
    needed: set[str] = set()
    for checkpoint in kept:
        needed |= _needed(checkpoint, by_id, references)
    pruned = [entry.id for entry in entries if entry.id not in kept]
    return PrunePlan(
        kept=tuple(entry.id for entry in entries if entry.id in kept),
        pruned=tuple(pruned),
        droppable=tuple(checkpoint for checkpoint in pruned if checkpoint not in needed),
    )


def kept_by(entries: Sequence[CheckpointInfo], keep: KeepCheckpoints) -> set[str]:
    """Return the ids of the checkpoints that the rules keep."""
    newest_of_head = {entry.head: entry.id for entry in entries if keep.heads is None or entry.head in keep.heads}
    newest_of_time = {entry.time_ms // keep.every_ms: entry.id for entry in entries} if keep.every_ms else {}
    return (
        {entry.id for entry in entries[-keep.last :]}
        | {entry.id for entry in entries if keep.newer_than_ms is not None and entry.time_ms >= keep.newer_than_ms}
        | {entry.id for entry in entries if keep.labelled and entry.label}
        | {entry.id for entry in entries if entry.id in keep.ids}
        | set(newest_of_head.values())
        | set(newest_of_time.values())
    )


def _needed(
    checkpoint: str, by_id: Mapping[str, CheckpointInfo], references: Mapping[str, Collection[str]]
) -> set[str]:
    chain = chain_of(checkpoint, by_id)
    if chain[0] not in references:
        raise UsageError(f"pruning needs the references of every full checkpoint. checkpoint={chain[0]!r}")
    return {*chain, *references[chain[0]]}
