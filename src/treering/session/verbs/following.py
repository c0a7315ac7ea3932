"""Follow a session: yield each of its events once, as they happen."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo, entry_of
from treering.errors import UsageError
from treering.format.erasure import Erasure
from treering.format.record import Skeleton, read_brief, skeleton_of
from treering.journal.view import deleted
from treering.journal.watch import Follower, Place
from treering.kinds import Kind
from treering.session.blobs import in_runs
from treering.session.reader import Readable
from treering.session.verbs.reading import Note, note_of, payload_in
from treering.storage.effects import Items, Stream
from treering.transcript.node import Node, node_of


class EventType(StrEnum):
    """The type of an event: the type of the record, or an erasure or deletion."""

    NODE = "node"
    NOTE = "note"
    EDIT = "edit"
    HEAD = "head"
    CHECKPOINT = "checkpoint"
    ERASURE = "erasure"
    DELETION = "deletion"
    """The session was deleted; this is the last event. A later session of the same name is not followed."""
    OTHER = "other"
    """A record of a type that this version does not know."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of how a node is shown, or the pruning of a checkpoint."""

    id: str
    kind: str
    """`amend`: the node has another payload; `retract`: it is hidden; `prune`: the checkpoint was removed."""
    target: str
    """The node or checkpoint."""
    undo: bool
    """Whether this undoes an edit of that kind: the node is shown again, or as it was first recorded."""
    payload: Any
    """The new payload, for `amend`."""
    time_ms: int


class HeadMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a head by navigation. A node that is appended moves its head, too: see `Node.head`."""

    head: str
    node: str | None
    """The node that it points to now; None: the place before the first node, or the head was dropped."""
    dropped: bool
    """Whether the head was dropped: it does not exist any more."""
    current: bool
    """Whether it became the current head, with which the session is opened."""
    time_ms: int


class ErasureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads were erased: delete any copies that you have."""

    ids: tuple[str, ...]
    """Ids of the nodes and notes, including those of which only copies in edits and checkpoints were erased."""
    state: tuple[str | None, ...]
    """Keys of the agent's state whose values until then were erased; None: the state of the conversation manager."""
    time_ms: int
    reason: str


Value: TypeAlias = Node | Note | Edit | HeadMove | CheckpointInfo


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in a session."""

    type: EventType
    at: int
    """Position of its record; for erasures and deletions, which have no record, the position of the next record."""
    after: str
    """A cursor: `events(after=...)` continues after this event, also in another process."""
    value: Node | Note | Edit | HeadMove | CheckpointInfo | ErasureInfo | None
    """The record's content, without later edits; None for a deletion and for types that this version does not know."""


def events(
    reader: Readable, *, first: int | None = None, after: str | None = None, poll_seconds: float = 1.0
) -> Stream[Event]:
    """Yield each event of the session once, by any writer, in order; waits for new ones.

    Events are nodes, notes, edits, moves of heads, checkpoints, erasures, and at last the deletion of the session. A
    payload that is erased before its event is yielded is an `Erased`; a later erasure is an event of its own.

    All followers of a session through one store share one conditional GET for each `poll_seconds`.

    Args:
        reader: The session.
        first: The position to start from. All erasures so far are yielded, too, after the existing records.
        after: Continue after an event: its `after`. No event is repeated or left out, whatever happened since.
            By default start after the records that this view or session shows.
        poll_seconds: How long to wait between polls.

    Raises:
        UsageError: Both `first` and `after` are given, or one of them is no place in a session.
        NotFoundError: The session has no record yet.
        CorruptError: Records that were yielded before are gone: an older copy of the session was restored.
    """
    return _events(reader, _follower(reader, first, after, poll_seconds))


def _events(reader: Readable, follower: Follower) -> Stream[Event]:
    while True:
        place = follower.place
        told = yield from follower.more()
        for run in in_runs(told.lines):
            lines = told.lines[run]
            yield from reader.blobs.fetch(lines)
            yield Items([_event(reader, line, place) for line in lines])
        yield Items([_erasure(act, follower.place) for act in told.acts])
        if told.ended:
            end = follower.place
            yield Items([Event(type=EventType.DELETION, at=end.at, after=end.text, value=None)])
            return


def _follower(reader: Readable, first: int | None, after: str | None, poll_seconds: float) -> Follower:
    """A follower from a place on; by default from the end of the records that the caller sees now."""
    place = _place(reader, first, after)
    return Follower(reader.replica.watch(place.life), place, poll_seconds)


def _place(reader: Readable, first: int | None, after: str | None) -> Place:
    if first is not None and (after is not None or first < 0):
        raise UsageError(f"no place to start from. first={first}, after={after!r}", kind=Kind.OPTION)
    if after is not None:
        return Place.of(after)
    view = reader.replica.view
    return Place.end_of(view) if first is None else Place(view.life, first, 0)


def follow(reader: Readable, *, poll_seconds: float = 1.0, first: int | None = None) -> Stream[Node]:
    """Yield nodes as they are added, by any writer; waits for new ones. `events` yields all kinds of events.

    Args:
        reader: The session.
        poll_seconds: How long to wait between polls.
        first: The position to start from; by default the end of the journal.

    Raises:
        SessionDeletedError: The session was deleted.
        NotFoundError: The session has no record yet.
    """
    return _nodes(reader, _follower(reader, first, None, poll_seconds))


def _nodes(reader: Readable, follower: Follower) -> Stream[Node]:
    while True:
        told = yield from follower.more()
        lines = [line for line in told.lines if skeleton_of(line).type == "node"]
        for run in in_runs(lines):
            yield from reader.blobs.fetch(lines[run])
            yield Items([_node(reader, line, skeleton_of(line)) for line in lines[run]])
        if told.ended:
            raise deleted(reader.keys)


def _event(reader: Readable, line: bytes, place: Place) -> Event:
    row = skeleton_of(line)
    known = row.type in _VALUES
    return Event(
        type=EventType(row.type) if known else EventType.OTHER,
        at=row.at,
        after=Place(place.life, row.at + 1, place.epoch).text,
        value=_VALUES[row.type](reader, line, row) if known else None,
    )


def _erasure(act: Erasure, place: Place) -> Event:
    ids = dict.fromkeys(name for _, name in act.records if name)
    value = ErasureInfo(ids=tuple(ids), state=act.state, time_ms=act.time, reason=act.reason)
    after = Place(place.life, place.at, act.epoch).text
    return Event(type=EventType.ERASURE, at=place.at, after=after, value=value)


def _node(reader: Readable, line: bytes, row: Skeleton) -> Node:
    return node_of(row, payload_in(line, reader), label=None, retracted=False, amended=False)


def _note(reader: Readable, line: bytes, row: Skeleton) -> Note:
    return note_of(row, payload_in(line, reader))


def _edit(reader: Readable, line: bytes, row: Skeleton) -> Edit:
    undo = read_brief(row).get("undo") is True
    payload = payload_in(line, reader) if row.kind == "amend" and not undo else None
    return Edit(id=row.id, kind=row.kind, target=row.target or "", undo=undo, payload=payload, time_ms=row.time)


def _head(_reader: Readable, _line: bytes, row: Skeleton) -> HeadMove:
    dropped = row.kind == "drop"
    current = not dropped and read_brief(row).get("current") is not False
    return HeadMove(
        head=row.head, node=None if dropped else row.target, dropped=dropped, current=current, time_ms=row.time
    )


def _checkpoint(_reader: Readable, _line: bytes, row: Skeleton) -> CheckpointInfo:
    return entry_of(row)


_VALUES: dict[str, Callable[[Readable, bytes, Skeleton], Value]] = {
    "node": _node,
    "note": _note,
    "edit": _edit,
    "head": _head,
    "checkpoint": _checkpoint,
}
