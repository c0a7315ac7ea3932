"""Query a session: history by pages, tree, branches, checkpoints, notes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.checkpoint.context import Context
from treering.errors import NotFoundError, UsageError
from treering.format.blobs import is_digest
from treering.format.erasure import Erased
from treering.format.media import media_type_of
from treering.format.record import Skeleton, decode_record, read_brief
from treering.format.values import copied
from treering.journal.read import Survey, read_lines, survey
from treering.kinds import Kind
from treering.session.blobs import in_runs
from treering.session.content import ContextItem
from treering.session.pairs import whole
from treering.session.payload import decode_payload, decoded_manager, decoded_state, erased_state
from treering.session.reader import Readable
from treering.storage.effects import Items, Stream
from treering.storage.requests import Steps
from treering.transcript.graph import GraphProblem
from treering.transcript.node import Node
from treering.transcript.nodes import Nodes
from treering.transcript.tree import Outline, OutlineRow

NODES_AT_ONCE = 256
NODES_BYTES = 4 * 1024 * 1024
"""Approximate limit for the lines of nodes in memory together: frames in memory hold as much anyway."""


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a page of history."""

    node: Node
    sibling: int
    """Its index among its siblings, from 0 as in `siblings()`; retracted ones count only if the page shows them."""
    siblings: int
    """The number of siblings, itself included."""
    sibling_ids: tuple[str, ...]
    """Their ids, oldest first: `sibling_ids[sibling]` is its own. For each, `newest_leaf` gives the end to show."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """A page of history, newest first."""

    rows: tuple[HistoryRow, ...]
    before: str | None
    """The cursor of the page above; None: this page reaches the root."""


class Siblings(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that have the same parent, oldest first."""

    nodes: tuple[str, ...]
    index: int
    """The index of the node that was asked about, from 0."""


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint with its state and context."""

    info: CheckpointInfo
    context: tuple[ContextItem, ...]
    settings: Mapping[str, Any]
    state: Mapping[str, Any]
    manager: Any
    policy: str
    erased_state: Mapping[str | None, Erased]
    """An `Erased` for each erased value, by key; None: the state of the conversation manager."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """One note: data recorded about a node or the session, which no model sees."""

    id: str
    kind: str
    target: str | None
    brief: Mapping[str, Any]
    payload: Any
    time_ms: int


def history(
    reader: Readable,
    *,
    head: str | None = None,
    node: str | None = None,
    before: str | None = None,
    limit: int = 50,
    retracted: bool = False,
    blobs: bool = True,
) -> Steps[History]:
    """One page of the conversation, from a head towards the root, newest first.

    Args:
        reader: The session.
        head: The head to start from; by default the current one.
        node: Start from this node instead.
        before: The cursor of the page below.
        limit: The maximum number of rows.
        retracted: Show retracted nodes too.
        blobs: Read large images and texts, too; else a `BlobRef` replaces each, and `blob` reads it.

    Raises:
        NotFoundError: There is no such head or node.
    """
    start = node if node is not None else _tip(reader, head)
    page, shown = yield from reader.replica.ask(
        lambda look: look.page(start, before=before, limit=limit, retracted=retracted)
    )
    nodes = yield from reader.content.nodes([row.node for row in page.rows], shown, blobs=blobs)
    rows = (
        HistoryRow(node=found, sibling=row.index, siblings=len(row.siblings), sibling_ids=row.siblings)
        for found, row in zip(nodes, page.rows, strict=True)
    )
    return History(rows=tuple(rows), before=page.before)


def _tip(reader: Readable, head: str | None) -> str | None:
    if head is None:
        return reader.replica.state.tip
    heads = reader.replica.state.heads.heads
    if head not in heads:
        raise NotFoundError(f"no such head. head={head!r}, known={sorted(heads)!r}", kind=Kind.HEAD)
    return heads[head]


def get(reader: Readable, node: str, *, blobs: bool = True) -> Steps[Node]:
    """One node with its payload, later edits applied. `each_node` reads many at once.

    Args:
        reader: The session.
        node: Its id.
        blobs: Read large images and texts, too; else a `BlobRef` replaces each.

    Raises:
        NotFoundError: There is no such node.
    """
    row = yield from reader.replica.ask(lambda look: look.node(node))
    return (yield from reader.content.nodes([row], blobs=blobs))[0]


def each_node(
    reader: Readable,
    nodes: Iterable[str] | None = None,
    *,
    below: str | None = None,
    first: int = 0,
    end: int | None = None,
    blobs: bool = True,
) -> Stream[Node]:
    """Yield nodes with their payloads, later edits applied: many in one pass, with only some in memory at a time.

    Args:
        reader: The session.
        nodes: Only these, by their ids, in this order; by default all nodes, in the order they were recorded.
        below: Only this node and its descendants.
        first: Only nodes recorded at this position or later.
        end: Only nodes recorded before this position.
        blobs: Read large images and texts, too; else a `BlobRef` replaces each, and `blob` reads it.

    Raises:
        NotFoundError: There is no such node.
        UsageError: `nodes` is given together with `below`, `first` or `end`.
    """
    if nodes is not None:
        if below is not None or first != 0 or end is not None:
            raise UsageError("nodes are named: leave out `below`, `first` and `end`", kind=Kind.OPTION)
        return _nodes_named(reader, nodes, blobs=blobs)
    return _nodes_within(reader, below, first, end, blobs=blobs)


def _nodes_named(reader: Readable, nodes: Iterable[str], *, blobs: bool) -> Stream[Node]:
    left = reader.outside.each(nodes)
    while names := list(islice(left, NODES_AT_ONCE)):
        rows = yield from reader.replica.ask(lambda look, names=names: look.all_nodes(names))  # type: ignore[misc]
        yield from _nodes_of(reader, rows, blobs=blobs)


def _nodes_within(reader: Readable, below: str | None, first: int, end: int | None, *, blobs: bool) -> Stream[Node]:
    graph = (yield from reader.replica.index()).graph
    rows = graph.rows if below is None else graph.rows_below(below)
    places = graph.skeletons.places(rows)
    last = len(places) if end is None else bisect_left(places, end)
    for start in range(bisect_left(places, first), last, NODES_AT_ONCE):
        chosen = graph.skeletons.take(rows[start : min(last, start + NODES_AT_ONCE)])
        yield from _nodes_of(reader, chosen, blobs=blobs)


def _nodes_of(reader: Readable, rows: Sequence[Skeleton], *, blobs: bool) -> Stream[Node]:
    """Yield the nodes of some rows, with about `NODES_BYTES` of lines in memory at a time."""
    start = 0
    while start < len(rows):
        sizes = accumulate(row.length for row in rows[start:])
        count = max(1, sum(size <= NODES_BYTES for size in sizes))
        found = yield from reader.content.read(rows[start : start + count])
        for run in in_runs([each.line for each in found]) if blobs else [slice(None)]:
            yield Items((yield from reader.content.made(found[run], blobs=blobs)))
        start += count


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A large image or text, stored as an object of its own."""

    sha256: str
    data: bytes
    media_type: str
    """Detected from the content: `image/png`, ..., `text/plain` for any text, or `application/octet-stream`. The type
    that the message names stands next to its `BlobRef`."""


def blob(reader: Readable, sha256: str) -> Steps[Blob]:
    """One large image or text by its `BlobRef.sha256`, as a page read with `blobs=False` names it.

    Raises:
        NotFoundError: The session has no blob of that digest, or the blob was erased, or is damaged.
    """
    data = (yield from reader.blobs.read(sha256)) if is_digest(sha256) else None
    if data is None:
        raise NotFoundError(f"no such blob. sha256={sha256!r}", kind=Kind.MISSING_BLOB)
    return Blob(sha256=sha256, data=data, media_type=media_type_of(data))


def original(reader: Readable, node: str) -> Steps[Any]:
    """The payload of a node as it was first recorded, without later edits."""
    at = (yield from reader.replica.ask(lambda look: look.node(node))).at
    lines = yield from reader.replica.lines_at([at])
    yield from reader.blobs.fetch(lines.values())
    return decode_payload(bytes(decode_record(lines[at]).body), reader.blobs.at_hand)


def path(reader: Readable, node: str | None = None, *, limit: int | None = None) -> Steps[tuple[str, ...]]:
    """Ids from a root down to a node, by default the head's.

    Args:
        reader: The session.
        node: The last node of the path.
        limit: Only the last `limit` ids.

    Raises:
        NotFoundError: There is no such node.
        UsageError: `limit` is less than 1.
    """
    end = reader.replica.state.tip if node is None else node
    if limit is None:
        graph = (yield from reader.replica.index()).graph
        return tuple(map(graph.skeletons.ids.__getitem__, graph.path_rows(end)))
    rows = yield from reader.replica.ask(lambda look: look.path(end, limit=limit))
    return tuple(row.id for row in rows)


def children(reader: Readable, node: str | None) -> Steps[tuple[str, ...]]:
    """Ids of the children of a node, oldest first; those of None are the roots."""
    return tuple((yield from reader.replica.ask(lambda look: look.children(node))))


def siblings(reader: Readable, node: str) -> Steps[Siblings]:
    """The children of a node's parent, the node itself included."""
    ids, place = yield from reader.replica.ask(lambda look: look.siblings(node))
    return Siblings(nodes=tuple(ids), index=place)


def newest_leaf(reader: Readable, node: str) -> Steps[str]:
    """The end of the branch to show when a user goes to another version of a message.

    From the node it descends to the child recorded last, again and again, until a node has no children. A retracted
    child is skipped if it has siblings that are not retracted. A node without children is its own end.

    Raises:
        NotFoundError: There is no such node.
    """
    return (yield from reader.replica.ask(lambda look: look.newest_leaf(node)))


def leaves(reader: Readable) -> Steps[tuple[str, ...]]:
    """Ids of the nodes without children: the ends of all branches."""
    index = yield from reader.replica.index()
    return tuple(index.graph.leaves())


def tree(reader: Readable) -> Steps[Sequence[OutlineRow]]:
    """The outline of the whole graph, with straight runs folded; reads no payload.

    Each row is made when it is accessed.
    """
    index = yield from reader.replica.index()
    return Outline(index.graph, heads=reader.replica.state.heads, checkpoints=index.checkpoint_nodes())


def nodes(reader: Readable) -> Steps[Nodes]:
    """All nodes without payloads, in the order they were recorded; each is made when it is accessed.

    `ids`, `parents` and further columns of the result give one field of all nodes, without making any.
    """
    return Nodes((yield from reader.replica.index()).graph)


def problems(reader: Readable) -> Steps[tuple[GraphProblem, ...]]:
    """Oddities of the graph: orphans, cycles, duplicate ids. Worth a look, never an error."""
    index = yield from reader.replica.index()
    return tuple(index.graph.problems())


def labels(reader: Readable) -> Steps[Mapping[str, str]]:
    """Label by node or checkpoint; read-only."""
    return MappingProxyType((yield from reader.replica.ask(lambda look: look.labels())))


def checkpoints(
    reader: Readable, *, before: str | None = None, limit: int | None = None
) -> Steps[tuple[CheckpointInfo, ...]]:
    """The checkpoints that were not pruned, oldest first; a label given later is shown.

    Args:
        reader: The session.
        before: Only those made before this checkpoint: the first one of the page that is already shown.
        limit: Only the newest `limit` checkpoints; by default all.

    Raises:
        NotFoundError: There is no such checkpoint.
    """
    return tuple((yield from reader.replica.ask(lambda look: look.checkpoints(before=before, limit=limit))))


def checkpoint(reader: Readable, checkpoint: str) -> Steps[CheckpointView]:
    """One checkpoint of any age: the context and the agent's state.

    Raises:
        NotFoundError: There is no such checkpoint, or it was pruned.
    """
    [found] = yield from checkpoints_at(reader, [checkpoint])
    return found


def checkpoints_at(reader: Readable, checkpoints: Sequence[str]) -> Steps[tuple[CheckpointView, ...]]:
    """Several checkpoints, in the order asked for, with contexts and states; records that they share are read once.

    All of them are in memory together. Messages that several contexts show are the same objects, so copy one before
    you change it.

    Args:
        reader: The session.
        checkpoints: Their ids, for example those of a page of `checkpoints`.

    Raises:
        NotFoundError: There is no such checkpoint, or it was pruned.
    """
    if not checkpoints:
        return ()
    entries = yield from reader.replica.ask(lambda look: look.labelled(checkpoints))
    found = yield from reader.content.load_checkpoints(checkpoints)
    nodes = dict.fromkeys(item for each in found for item in each.context.items)
    shown = Context(tuple(nodes))
    lines = yield from reader.content.context_lines(shown)
    yield from reader.blobs.fetch(lines.values(), shown)
    messages = dict(zip(nodes, reader.content.messages(shown, lines), strict=True))
    return tuple(
        CheckpointView(
            info=entry,
            context=tuple([messages[item] for item in each.context.items]),
            settings=MappingProxyType(copied(each.context.settings)),
            state=decoded_state(each.state),
            manager=decoded_manager(each.manager),
            policy=each.policy,
            erased_state=erased_state(each.state, each.manager),
        )
        for entry, each in zip(entries, found, strict=True)
    )


def context_at(reader: Readable, node: str | None, *, recorded: bool = False) -> Steps[tuple[ContextItem, ...]]:
    """The messages to send to the model at a node, as a `checkout` from this head restores them.

    Args:
        reader: The session.
        node: The node; None is the place before the first one.
        recorded: Include the messages that `Session.context` leaves out.
    """
    restored = yield from reader.content.restore(node, head=reader.head, state=False)
    items = reader.content.messages(restored.context, restored.lines)
    return items if recorded else whole(reader, items)


def notes(reader: Readable, kind: str | None = None, *, on_path: bool = False) -> Steps[tuple[Note, ...]]:
    """Notes, oldest first.

    Args:
        reader: The session.
        kind: Only this kind, for example `usage`, `system` or `link`.
        on_path: Only notes about nodes on the path of the head, and about the session as a whole.
    """
    if not on_path:
        return (yield from _notes(reader, (yield from reader.replica.ask(lambda look: look.notes(kind)))))
    index = yield from reader.replica.index()
    along = index.graph.path(reader.replica.state.tip)
    return (yield from _notes(reader, index.graph.annotations.notes(kind, path=along)))


def extensions(reader: Readable, extension: str | None = None, *, on_path: bool = True) -> Steps[tuple[Note, ...]]:
    """The notes of one extension, or of all extensions, oldest first.

    Args:
        reader: The session.
        extension: Its name; by default all extensions. `Note.brief` names them.
        on_path: Only along the path of the head (the default), and about the session as a whole.
    """
    index = yield from reader.replica.index()
    along = index.graph.path(reader.replica.state.tip) if on_path else None
    return (yield from _notes(reader, index.graph.annotations.extensions(extension, path=along)))


def _notes(reader: Readable, rows: Sequence[Skeleton]) -> Steps[tuple[Note, ...]]:
    lines = yield from reader.replica.lines_at([row.at for row in rows])
    yield from reader.blobs.fetch(lines.values())
    return tuple(note_of(row, payload_in(lines[row.at], reader)) for row in rows)


def note_of(row: Skeleton, payload: object) -> Note:
    """The note that a record holds."""
    return Note(id=row.id, kind=row.kind, target=row.target, brief=read_brief(row), payload=payload, time_ms=row.time)


def payload_in(line: bytes, reader: Readable) -> object:
    """The payload in a record whose blobs were fetched."""
    return decode_payload(bytes(decode_record(line).body), reader.blobs.at_hand)


def usage(reader: Readable) -> Mapping[str, int | float]:
    """Sums of all usage recorded, abandoned branches included."""
    return dict(reader.replica.state.usage)


class SessionSize(msgspec.Struct, frozen=True, kw_only=True):
    """The space that a session takes in the store."""

    records: int
    segments: int
    segment_bytes: int
    tail_records: int
    waste: int
    """The number of segments whose records larger segments hold as well; merging removes them."""


def stored(reader: Readable) -> Steps[SessionSize]:
    """Count records, segments and bytes: one GET of the tail, and a list of the segments; no segment is read."""
    where = yield from survey(reader.keys)
    size = sum(segment.size for segment in where.segments)
    return SessionSize(
        records=where.end,
        segments=len(where.segments),
        segment_bytes=size,
        tail_records=len(where.tail.lines),
        waste=len(where.waste),
    )


def read_all(reader: Readable, first: int = 0) -> Iterator[Steps[list[bytes]]]:
    """Protocols that read all record lines from `first` on, one segment each; run them one after the other."""
    known: Survey | None = None
    done = False
    view = reader.replica.known_view
    life = view.life if view is not None else ""  # a session created again under this name is not read

    def step() -> Steps[list[bytes]]:
        nonlocal known, first, done
        known, lines = yield from read_lines(reader.keys, first, known, life=life)
        if reader.replica.until is not None:
            lines = lines[: max(0, reader.replica.until - first)]
        first += len(lines)
        done = not lines
        return lines

    while not done:
        yield step()


def lines(reader: Readable, first: int = 0) -> Stream[bytes]:
    """Yield every record line, with one segment in memory at a time.

    Args:
        reader: The session.
        first: The position to start from.

    Raises:
        UsageError: It is negative.
    """
    if first < 0:
        raise UsageError(f"no place to start from. first={first}", kind=Kind.OPTION)
    for steps in read_all(reader, first):
        yield Items((yield from steps))
