"""Give up old checkpoints without breaking one that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Raw

from treering.checkpoint.delta import needs
from treering.checkpoint.prune import Keep, Plan, kept_by, plan
from treering.format.record import decode_record, encode_record
from treering.ids import new_nonce
from treering.journal.merge import Merged, tidy
from treering.session.index import Index
from treering.session.reader import Reader
from treering.session.recording import Recording
from treering.session.verbs import flush
from treering.session.writer import Writer
from treering.storage.requests import Steps

RECORDS_AT_ONCE = 500  # marks of one append


class Pruned(NamedTuple):
    """What was given up."""

    plan: Plan
    merged: Merged | None
    """What dropping the bodies did to the segments; None if nothing was dropped."""


def prune(writer: Writer, keep: Keep, *, dry_run: bool = False) -> Steps[Pruned]:
    """Take checkpoints out of the lists, and the bodies that no kept one needs out of the sealed segments.

    Args:
        writer: The session.
        keep: What must stay. The checkpoint that tells the state where a head stands does, too, unless `keep` names
            other heads.
        dry_run: Only say what would be given up.
    """
    yield from flush(writer)
    chosen = yield from planned(writer, keep)
    if dry_run or not chosen.kept:
        return Pruned(chosen, None)
    for start in range(0, len(chosen.pruned), RECORDS_AT_ONCE):
        part = chosen.pruned[start : start + RECORDS_AT_ONCE]
        yield from writer.write(lambda part=part: _marks(writer, keep, part))  # type: ignore[misc]
    merged = yield from drop_bodies(writer)
    return Pruned(chosen, merged)


def planned(reader: Reader, keep: Keep) -> Steps[Plan]:
    """What a `prune` would give up."""
    index = yield from reader.index()
    return (yield from _plan(reader, index, _with_labels(_with_branches(keep, index), index)))


def _plan(reader: Reader, index: Index, keep: Keep) -> Steps[Plan]:
    """What may go; earlier pruned ones are no candidates, but a kept one may still be a change of them."""
    kept = kept_by(list(index.checkpoints.values()), keep) if index.checkpoints else set()
    every = list(index.all_checkpoints.values())
    rules = Keep(last=1, labelled=False, heads=(), ids=frozenset(kept))
    chosen = plan(every, (yield from _references(reader, index)), rules)
    return msgspec.structs.replace(chosen, pruned=tuple(name for name in chosen.pruned if name in index.checkpoints))


def _with_branches(keep: Keep, index: Index) -> Keep:
    """Keep what tells the state where heads stand, also of one that has no checkpoint of its own yet."""
    heads = {head: node for head, node in index.heads.heads.items() if keep.heads is None or head in keep.heads}
    told = {index.nearest_checkpoint(index.graph.path(node), head=head)[0] for head, node in heads.items()}
    return msgspec.structs.replace(keep, ids=frozenset(keep.ids).union(name for name in told if name is not None))


def _with_labels(keep: Keep, index: Index) -> Keep:
    labelled = index.graph.annotations.labels.keys() & index.checkpoints.keys() if keep.labelled else set()
    return msgspec.structs.replace(keep, ids=frozenset(keep.ids) | labelled)


def _marks(writer: Writer, keep: Keep, checkpoints: tuple[str, ...]) -> Steps[Recording]:
    """Give up some of what was planned, but for what a head needs by now that others made or moved."""
    index = yield from writer.index()
    left = index.checkpoints.keys() - set(_with_branches(keep, index).ids)
    recording = Recording(writer)
    for checkpoint in checkpoints:
        if checkpoint in left:
            recording.give_up(checkpoint)
    return recording


def _references(reader: Reader, index: Index) -> Steps[dict[str, frozenset[str]]]:
    full = [entry for entry in index.all_checkpoints.values() if entry.full]
    references: dict[str, frozenset[str]] = {}
    for start in range(0, len(full), RECORDS_AT_ONCE):
        part = full[start : start + RECORDS_AT_ONCE]
        lines = yield from reader.lines_at([entry.at for entry in part])
        references |= {entry.id: needs(decode_record(lines[entry.at])) for entry in part}
    return references


def drop_bodies(writer: Writer) -> Steps[Merged | None]:
    """Rewrite sealed segments without the bodies of pruned checkpoints that nothing needs any more."""
    index = yield from writer.index()
    keep = Keep(last=1, labelled=False, ids=frozenset(index.checkpoints), heads=())
    gone = frozenset((yield from _plan(writer, index, keep)).droppable)
    if not gone:
        return None
    return (yield from tidy(writer.keys, new_nonce, everything=True, rewrite=_without_bodies(gone)))


def _without_bodies(gone: frozenset[str]) -> Callable[[bytes], bytes]:
    def rewrite(line: bytes) -> bytes:
        if b'"type":"checkpoint"' not in line:
            return line
        record = decode_record(line)
        if record.type != "checkpoint" or record.id not in gone:
            return line
        return encode_record(msgspec.structs.replace(record, body=Raw(b'{"pruned":true}')))

    return rewrite
