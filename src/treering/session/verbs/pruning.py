"""Prune old checkpoints without breaking one that is kept."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from treering.checkpoint.checkpoint import without_label
from treering.checkpoint.prune import KeepCheckpoints, PrunePlan, kept_by, plan
from treering.checkpoint.resolve import needs
from treering.format.record import decode_record, encode_record
from treering.ids import new_nonce
from treering.journal.merge import Merged, optimize
from treering.session.index import Index
from treering.session.reader import Readable
from treering.session.record import flush
from treering.session.recording import Recording
from treering.session.writer import Writer
from treering.storage.requests import Steps

RECORDS_AT_ONCE = 500  # records of one append


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a prune removed, or in a dry run would remove."""

    plan: PrunePlan
    merged: Merged | None
    """The segments rewritten to drop bodies, labels and metadata; None if there were none to drop."""


def prune(writer: Writer, keep: KeepCheckpoints, *, dry_run: bool = False) -> Steps[Pruned]:
    """Remove checkpoints from lists, and remove their labels, metadata and unneeded bodies from sealed segments.

    Args:
        writer: The session.
        keep: The checkpoints to keep. The checkpoint that holds the state of a head is kept, too, unless `keep` names
            other heads; those of the current head and of this handle's head are always kept.
        dry_run: Only return what would be pruned.
    """
    yield from flush(writer)
    chosen = yield from planned(writer, keep)
    if dry_run or not chosen.kept:
        return Pruned(plan=chosen, merged=None)
    pruned: list[str] = []
    for start in range(0, len(chosen.pruned), RECORDS_AT_ONCE):
        part = chosen.pruned[start : start + RECORDS_AT_ONCE]
        made = yield from writer.appender.write(lambda part=part: _marks(writer, keep, part))  # type: ignore[misc]
        pruned += [record.target for record in made.records if record.target is not None]
    left = yield from _left(writer)
    merged = yield from _drop_contents(writer, frozenset(left.droppable))
    return Pruned(plan=msgspec.structs.replace(left, pruned=tuple(pruned)), merged=merged)


def planned(reader: Readable, keep: KeepCheckpoints) -> Steps[PrunePlan]:
    """The checkpoints that `prune` would remove."""
    index = yield from reader.replica.index()
    return (yield from _plan(reader, index, _with_reasons(reader, keep, index)))


def _plan(reader: Readable, index: Index, keep: KeepCheckpoints) -> Steps[PrunePlan]:
    """The plan; checkpoints pruned earlier are no candidates, but a kept one may still be a delta of them."""
    kept = kept_by(list(index.checkpoints.values()), keep) if index.checkpoints else set()
    every = list(index.all_checkpoints.values())
    rules = KeepCheckpoints(last=1, labelled=False, heads=(), ids=frozenset(kept))
    chosen = plan(every, (yield from _references(reader, index)), rules)
    return msgspec.structs.replace(chosen, pruned=tuple(name for name in chosen.pruned if name in index.checkpoints))


def _with_reasons(reader: Readable, keep: KeepCheckpoints, index: Index) -> KeepCheckpoints:
    """Keep also the checkpoints that heads need, and those that got a label later; both may change at any time."""
    return _with_labels(_with_branches(reader, keep, index), index)


def _with_branches(reader: Readable, keep: KeepCheckpoints, index: Index) -> KeepCheckpoints:
    """Keep the checkpoints that hold the state of heads, also of a head without a checkpoint of its own."""
    named = keep.heads if keep.heads is None else {*keep.heads, reader.head, index.heads.current}
    heads = {head: node for head, node in index.heads.heads.items() if named is None or head in named}
    told = {index.nearest_checkpoint(index.graph.path_rows(node), head=head)[0] for head, node in heads.items()}
    return msgspec.structs.replace(keep, ids=frozenset(keep.ids).union(name for name in told if name is not None))


def _with_labels(keep: KeepCheckpoints, index: Index) -> KeepCheckpoints:
    labelled = index.graph.annotations.labels.keys() & index.checkpoints.keys() if keep.labelled else set()
    return msgspec.structs.replace(keep, ids=frozenset(keep.ids) | labelled)


def _marks(writer: Writer, keep: KeepCheckpoints, checkpoints: tuple[str, ...]) -> Steps[Recording]:
    """Record the pruning of some checkpoints, except those that another writer labelled or made a head need."""
    index = yield from writer.replica.index()
    left = index.checkpoints.keys() - set(_with_reasons(writer, keep, index).ids)
    recording = Recording(writer)
    for checkpoint in checkpoints:
        if checkpoint in left:
            recording.give_up(checkpoint)
    return recording


def _references(reader: Readable, index: Index) -> Steps[dict[str, frozenset[str]]]:
    full = [entry for entry in index.all_checkpoints.values() if entry.full]
    references: dict[str, frozenset[str]] = {}
    for start in range(0, len(full), RECORDS_AT_ONCE):
        part = full[start : start + RECORDS_AT_ONCE]
        lines = yield from reader.replica.lines_at([entry.at for entry in part])
        references |= {entry.id: needs(decode_record(lines[entry.at])) for entry in part}
    return references


def _left(writer: Writer) -> Steps[PrunePlan]:
    """The plan that keeps all checkpoints that are not pruned."""
    index = yield from writer.replica.index()
    return (
        yield from _plan(writer, index, KeepCheckpoints(labelled=False, ids=frozenset(index.checkpoints), heads=()))
    )


def _drop_contents(writer: Writer, gone: frozenset[str]) -> Steps[Merged | None]:
    """Rewrite sealed segments without labels and metadata of pruned checkpoints, and without some of their bodies."""
    index = yield from writer.replica.index()
    pruned = frozenset(index.pruned.keys() & index.all_checkpoints.keys())
    entries = map(index.all_checkpoints.__getitem__, pruned)
    if not gone and not any(entry.label is not None or entry.metadata for entry in entries):
        return None
    return (yield from optimize(writer.keys, new_nonce, everything=True, rewrite=_without_contents(pruned, gone)))


def _without_contents(pruned: frozenset[str], gone: frozenset[str]) -> Callable[[bytes], bytes]:
    def rewrite(line: bytes) -> bytes:
        if b'"type":"checkpoint"' not in line:
            return line
        record = decode_record(line)
        if record.type != "checkpoint" or record.id not in pruned:
            return line
        left = without_label(record)
        if record.id in gone:
            left = msgspec.structs.replace(left, body=Raw(b'{"pruned":true}'))
        return line if left is record else encode_record(left)

    return rewrite
