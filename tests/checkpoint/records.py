"""Skeletons of a path, and checkpoints in a row as a journal would hold them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Raw

from treering.checkpoint.checkpoint import Checkpoint, CheckpointInfo, chain_of, entry_of
from treering.checkpoint.delta import Written, write
from treering.checkpoint.resolve import needs, resolve
from treering.format.record import Record, Skeleton, decode_record, encode_record, skeleton_of
from treering.format.values import encode


def skeleton(node: str, kind: str = "message", role: str = "", /, **brief: object) -> Skeleton:
    """Return a node record's skeleton as far as policies look at it."""
    return Skeleton(0, "node", kind, node, None, "main", role, None, 0, None, encode(brief), 100, False)


class Shelf:
    """Checkpoints as they were written, and what can be made of their stored lines again."""

    def __init__(self) -> None:
        self.written: dict[str, Checkpoint] = {}
        """As `write` returned them."""
        self.lines: dict[str, bytes] = {}
        self.bodies: list[bytes] = []

    def put(self, new: Checkpoint, *, navigated: bool = False) -> Written:
        """Write a checkpoint and store its line."""
        parent = None if new.parent is None else self.written[new.parent]
        written = write(parent, new, navigated=navigated)
        record = Record(
            at=len(self.lines),
            by="w.0",
            type="checkpoint",
            id=new.id,
            parent=new.parent,
            head=new.head,
            target=new.node,
            time=new.time_ms,
            brief=Raw(written.brief),
            body=Raw(written.body),
        )
        self.written[new.id] = written.checkpoint
        self.lines[new.id] = encode_record(record)
        self.bodies.append(written.body)
        return written

    @property
    def entries(self) -> dict[str, CheckpointInfo]:
        """All entries by id, in the order of positions."""
        return {identifier: entry_of(skeleton_of(line)) for identifier, line in self.lines.items()}

    def references(self) -> dict[str, Collection[str]]:
        """What each full record refers to."""
        return {entry.id: needs(self.record(entry.id)) for entry in self.entries.values() if entry.full}

    def record(self, checkpoint: str) -> Record:
        """Return a stored record."""
        return decode_record(self.lines[checkpoint])

    def read(self, checkpoint: str, lines: Mapping[str, bytes] | None = None) -> Checkpoint:
        """Resolve a checkpoint from lines (by default all): its chain, and what the full record needs, no others."""
        lines = self.lines if lines is None else lines
        chain = [decode_record(lines[identifier]) for identifier in chain_of(checkpoint, self.entries)]
        referred = {identifier: decode_record(lines[identifier]) for identifier in needs(chain[0])}
        return resolve(chain, referred.__getitem__)
