"""Make sessions from what exists: import, fork, copy. Subagents are sessions linked to the one that asked for them.

All of them are one mechanism, loading: records go straight to segments in the folder of a life that nobody knows yet,
then `latest` is created and the session exists, whole. A load that dies halfway leaves a folder without a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context
from treering.checkpoint.policy import Policy
from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError, UsageError
from treering.format import values
from treering.format.paths import SegmentName, SessionKeys
from treering.format.record import Record, Skeleton, decode_record, encode_checked, skeleton_of_record
from treering.format.register import Card, Tail, TailHeader
from treering.format.segment import build_segment
from treering.ids import new_nonce, now_ms, time_of
from treering.journal import life
from treering.journal.append import rewrite_tail
from treering.journal.read import Segment, Survey, sealed_records
from treering.journal.resume import Registers
from treering.journal.view import View
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.session.index import Index
from treering.session.keeper import RACES_MAX
from treering.session.notes import note
from treering.session.payload import blobs_in, encode_payload
from treering.session.reader import Reader, Restored
from treering.session.recording import checkpoint_records
from treering.session.redaction import Redaction
from treering.session.room import require_card
from treering.session.state import SessionState, encode_state
from treering.session.verbs import flush
from treering.session.writer import Writer
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import ask
from treering.transcript.node import HERE, Draft

SEGMENT_BYTES = 4 * 1024 * 1024  # of record lines; what a load keeps in memory at a time
PATH_ROWS_AT_ONCE = 1000  # records of a path read together when it is copied


class Loader:
    """Writes a session that does not exist yet, from its first record on."""

    def __init__(self, keys: SessionKeys, policy: Policy, card: Card, redaction: Redaction | None = None) -> None:
        self.keys = keys
        self.policy = policy
        self.life = new_nonce()
        self._nonce = new_nonce()
        self._by = f"{self._nonce}.1"
        self.state = SessionState(card if redaction is None else redaction.card(card), policy)
        self.index = Index()
        self._lines: list[bytes] = []
        self._skeletons: list[Skeleton] = []
        self._bytes = 0
        self._segments: list[Segment] = []
        self._blobs: set[str] = set()
        self._seen: Registers | None = None
        self._redaction = redaction
        """For what an importer read; what is copied was stored before, and stays as it is."""
        self._held: Checkpoint | None = None
        """One that an importer read, and that may be the one to stand with."""
        self._appends = 1
        self._copied: str | None = None

    @property
    def end(self) -> int:
        return self.state.end

    def add(self, record: Record) -> Steps[None]:
        """Put a record behind the others; its position is filled in, and its append.

        What is copied and came in one append stays in one: that tells what an import brought.
        """
        if record.by and record.by != self._copied:
            self._copied, self._appends = record.by, self._appends + 1
            self._by = f"{self._nonce}.{self._appends}"
        record = msgspec.structs.replace(record, at=self.end, by=self._by, more=False)
        self._take(record, encode_checked(record))
        if self._is_full:
            yield from self.seal()

    def add_line(self, line: bytes, record: Record | None = None) -> Steps[None]:
        """Put a record line behind the others as it is; it must carry its position."""
        record = record or decode_record(line)
        self._take(record, line)
        if self._is_full and not record.more:
            yield from self.seal()

    def _take(self, record: Record, line: bytes) -> None:
        skeleton = skeleton_of_record(record, len(line))
        self.state.apply(record, line, skeleton)
        self.index.extend([skeleton])
        self._lines.append(line)
        self._skeletons.append(skeleton)
        self._bytes += len(line)

    @property
    def _is_full(self) -> bool:
        return self._bytes >= SEGMENT_BYTES

    def add_draft(self, draft: Draft) -> Steps[None]:
        """Record what an importer read; parents are kept whatever they name."""
        if self._held is not None:
            yield from self._record_held()
        if draft.type == CHECKPOINT:
            self._held = checkpoint_of(draft, self._redaction)
            return
        if self._redaction is not None:
            draft = self._redaction.draft(draft)
        body, large = encode_payload(draft)
        for digest, data in large.items():
            yield from self.add_blob(digest, data)
        identifier = draft.id or self.state.new_id()
        timed = draft.time_ms is not None or time_of(identifier) is not None
        yield from self.add(
            Record(
                at=0,
                by="",
                type=draft.type,
                kind=draft.kind,
                role=draft.role,
                id=identifier,
                parent=None if draft.parent is HERE else draft.parent,
                target=draft.target,
                time=draft.time_ms if timed else now_ms(),
                links=draft.links,
                brief=Raw(values.encode(draft.brief)) if draft.brief else Raw(b"{}"),
                body=body,
            )
        )

    def _record_held(self) -> Steps[None]:
        held, self._held = self._held, None
        if held is not None:
            above = self.state.checkpoint
            new = self._named(held, "main", above.id if above else None)
            yield from self._add_checkpoint(above, new, held.time_ms)

    def _add_checkpoint(self, parent: Checkpoint | None, new: Checkpoint, time_ms: int) -> Steps[None]:
        _, records = checkpoint_records(parent, new, self.state.new_id, time_ms=time_ms or None)
        for record in records:
            yield from self.add(record)

    def _named(self, kept: Checkpoint, head: str, parent: str | None) -> Checkpoint:
        return msgspec.structs.replace(
            kept,
            id=kept.id or self.state.new_id(),
            parent=parent,
            head=head,
            time_ms=kept.time_ms or now_ms(),
            policy=self.policy.name,
        )

    def add_blob(self, digest: str, data: bytes) -> Steps[None]:
        """Store a large part, before the record that refers to it."""
        if digest not in self._blobs:
            yield from self.take_name()
            yield from ask(Put(self.keys.blob(self.life, digest), data), Written)
            self._blobs.add(digest)

    def seal(self) -> Steps[None]:
        """Write what was collected to a segment."""
        if not self._lines:
            return
        yield from self.take_name()
        name = SegmentName(self.end - len(self._lines), self.end, 0, new_nonce())
        key = self.keys.segment(self.life, name)
        data = build_segment(self._lines, key=key, skeletons=self._skeletons)
        yield from ask(Put(key, data), Written)
        self._segments.append(Segment(key, len(data), name))
        self._lines, self._skeletons, self._bytes = [], [], 0

    def take_name(self) -> Steps[None]:
        """Look before the first object is written: who removes folders that no life needs refuses older looks first."""
        if self._seen is None:
            self._seen = yield from life.free_name(self.keys, nonce=new_nonce())

    def stand(self, head: str, node: str | None, kept: Checkpoint | None = None) -> Steps[None]:
        """Let the session stand at a node: with a given context and state, or what the policy makes of the path.

        What an importer read last is given, if it is a checkpoint made at that node.
        """
        if self._held is not None and self._held.node == node:
            kept, self._held = kept or self._held, None
        yield from self._record_held()
        context = kept.context if kept else self.policy.build(self._visible_path(node), self.index.graph)
        yield from self.add(
            Record(
                at=0, by="", type="head", kind="checkout", id=self.state.new_id(), head=head, target=node,
                brief=Raw(b'{"by":"load"}'),  # nobody went there: what is beside the path was not left behind
            )
        )  # fmt: skip
        yield from self.seal()
        self.state.lines |= yield from self._context_lines([item.node for item in context.items])
        self.state.context, self.state.context_at = context, node
        new = kept or Checkpoint(id="", parent=None, head="", node=node, context=context)
        yield from self._add_checkpoint(None, self._named(new, head, None), new.time_ms)

    def _visible_path(self, node: str | None) -> list[Skeleton]:
        hidden = self.index.graph.annotations.retracted
        return [row for row in self.index.graph.path(node) if row.id not in hidden]

    def _context_lines(self, nodes: Sequence[str]) -> Steps[dict[str, bytes]]:
        header = TailHeader(session=self.keys.session, life=self.life, base=self.end, nonce="")
        where = Survey(self.keys, Tail(header=header), tuple(self._segments), ())
        places = {node: self.index.graph.node(node).at for node in nodes}
        try:
            found = yield from sealed_records(where, sorted(places.values()))
        except NotFoundError:
            raise ConflictError(
                f"what was loaded for session {self.keys.session!r} was removed meanwhile",
                kind="exists",
                key=self.keys.latest,
                remedy="load it again: somebody erased or purged under this name",
            ) from None
        return {node: found[at] for node, at in places.items()}

    def finish(self) -> Steps[View]:
        """Let the session exist.

        Raises:
            ConflictError: There is one of that name; what was loaded is gone again.
            UsageError: Its card is too large.
        """
        require_card(self.state.card)
        yield from self.take_name()
        yield from self.seal()
        try:
            view = yield from self._create()
        except ConflictError:
            yield from life.discard(self.keys, self.life)
            raise
        try:
            return (yield from rewrite_tail(view, new_nonce())) or view
        except TreeringError:
            return view  # a tail of its own only saves the first reader a second look

    def _create(self) -> Steps[View]:
        card, lines, nonce = self.state.card, encode_state(self.state), new_nonce()
        return (
            yield from life.create(self.keys, card, lines, life=self.life, nonce=nonce, born=self.end, seen=self._seen)
        )


def fork(
    writer: Writer,
    session: str,
    *,
    at: str | None = None,
    title: str | None = None,
    project: str | None = None,
    extra: Mapping[str, object] | None = None,
) -> Steps[SessionKeys]:
    """Make a new session from the path to a node, with the context, state, labels and edits that belong to it.

    The parent gets a link to it first, so that everything that was copied can be found from there.

    Args:
        writer: The session to fork.
        session: Name of the new one.
        at: The node to fork at; by default where the session stands.
        title: Of the new one; by default the same.
        project: Likewise.
        extra: Likewise; further facts on its card.

    Raises:
        UsageError: It is the same name.
        ConflictError: There is a session of that name.
        NotFoundError: There is no such node.
    """
    if session == writer.keys.session:
        raise UsageError(f"a fork needs another name. session={session!r}")
    given = {"title": title, "project": project, "extra": None if extra is None else dict(extra)}
    card = _child_card(writer, session, at, {name: value for name, value in given.items() if value is not None})
    if writer.options.redaction is not None:
        card = writer.options.redaction.card(card)
    writer.options.hooks.call("before_fork", session=session, node=at)
    yield from flush(writer)
    yield from writer.index()  # which may show that the node in hand was never safe
    yield from writer.anchor()
    node = writer.at_node if at is None else at
    (yield from writer.index()).graph.path(node)
    keys = writer.keys._replace(session=session)
    yield from life.require_free(keys)
    yield from note(writer, "link", {"fork": session}, target=node)
    yield from flush(writer)
    card = msgspec.structs.replace(card, parent_node=node)
    for _ in range(RACES_MAX):
        try:
            yield from _copy_path(writer, Loader(keys, writer.policy, card), node)
        except ConflictError as error:
            if error.kind != "exists":
                raise
            yield from life.require_free(keys)
            continue  # refused by somebody who erases or purges
        writer.options.hooks.call("after_fork", session=session, node=node)
        return keys
    raise UnavailableError("others erase faster than can be copied", kind="busy", key=keys.latest)


def _copy_path(writer: Writer, loader: Loader, node: str | None) -> Steps[None]:
    """Copy what belongs to a node. All of it is read after the name was taken: so it was erased before, or is found."""
    yield from loader.take_name()
    yield from writer.look_again()
    yield from writer.anchor()
    restored = yield from _restored(writer, node)
    index = yield from writer.index()
    rows = _with_shown(index, index.graph.path(node), restored.context)
    yield from _copy_rows(writer, loader, _belonging(index, rows))
    yield from loader.stand("main", node, kept=_kept(restored))
    yield from loader.finish()


def _with_shown(index: Index, rows: Sequence[Skeleton], context: Context) -> list[Skeleton]:
    """A path, and the paths of nodes of other branches that its context shows."""
    every = {row.id: row for row in rows}
    for node in reversed(context.nodes):  # the deepest first: its path has most of the others
        if node not in every:
            every |= {row.id: row for row in index.graph.path(node)}
    return sorted(every.values(), key=lambda row: row.at)


def _restored(writer: Writer, node: str | None) -> Steps[Restored]:
    state = writer.state
    if node == writer.at_node and state.context_at == node:
        return Restored(node, state.context, dict(state.lines), state.checkpoint)
    return (yield from writer.restore(node))


def _kept(restored: Restored) -> Checkpoint:
    found = restored.checkpoint
    return Checkpoint(
        id="",
        parent=None,
        head="",
        node=restored.node,
        context=restored.context,
        state=dict(found.state) if found else {},
        manager=found.manager if found else None,
    )


def _belonging(index: Index, rows: Iterable[Skeleton]) -> list[Skeleton]:
    """The nodes of a path and the notes and edits about them, in order; links to other sessions stay behind."""
    path = list(rows)
    notes = [row for row in index.graph.annotations.notes(path=path) if row.kind not in ("link", "usage")]
    nodes = {row.id for row in path}
    edits = [row for row in index.edits if row.target in nodes]
    return sorted([*path, *notes, *edits], key=lambda row: row.at)


def _child_card(writer: Writer, session: str, node: str | None, given: Mapping[str, Any]) -> Card:
    parent, now = writer.state.card, now_ms()
    facts: dict[str, Any] = {name: getattr(parent, name) for name in ("title", "project", "cwd", "extra")}
    return Card(
        session=session,
        life="",
        write="",
        created=now,
        updated=now,
        parent_session=writer.keys.session,
        parent_node=node,
        **(facts | dict(given)),
    )


def _copy_rows(reader: Reader, loader: Loader, rows: Sequence[Skeleton]) -> Steps[None]:
    for start in range(0, len(rows), PATH_ROWS_AT_ONCE):
        part = rows[start : start + PATH_ROWS_AT_ONCE]
        lines = yield from reader.lines_at([row.at for row in part])
        for row in part:
            record = decode_record(lines[row.at])
            yield from copy_blobs(reader, loader, [bytes(record.body)])
            time = record.time if record.time is not None or time_of(record.id) is not None else row.time
            yield from loader.add(msgspec.structs.replace(record, head="", time=time))


def copy_blobs(reader: Reader, loader: Loader, bodies: Iterable[bytes]) -> Steps[None]:
    """Store the large parts that some bodies refer to with the session being loaded; a missing one stays missing."""
    wanted = {digest for body in bodies for digest in blobs_in(body)}
    for digest in sorted(wanted):
        data = yield from reader.read_blob(digest)
        if data is not None:
            yield from loader.add_blob(digest, data)


def link_child(writer: Writer, session: str, task: str) -> Steps[Card]:
    """Record that a subagent works in a session of its own; return the card that one begins with."""
    if writer.options.redaction is not None:  # before it is cut: half a secret might not be known as one
        task = writer.options.redaction.text(task, "task")
    yield from flush(writer)
    yield from writer.anchor()
    node = writer.at_node
    yield from note(writer, "link", {"child": session, "task": task[:200]}, target=node)
    yield from flush(writer)
    card = _child_card(writer, session, node, {"title": ""})
    return msgspec.structs.replace(card, task=task, extra={})
