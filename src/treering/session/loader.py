"""Load a session that does not exist yet: an import, a copy, a fork, or the records that a repair saved.

Records go straight to segments in the folder of a life that no reader knows yet. Then `latest` is created, and the
whole session exists at once. A load that is killed halfway leaves a folder without a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Raw

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, replace
from treering.checkpoint.policy import Policy
from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError
from treering.format import values
from treering.format.paths import ChunkName, Marks, SegmentName, SessionKeys, file_name
from treering.format.record import Record, Skeleton, body_of, encode_checked, mark_behind, skeleton_of_record
from treering.format.register import SEGMENTS_NAMED_MAX, Card, Tail, TailHeader
from treering.format.segment import build_segment
from treering.format.stream import Chunk
from treering.ids import new_nonce, now_ms, time_of
from treering.journal import life, marker
from treering.journal.append import rewrite_tail
from treering.journal.read import Segment, Survey, sealed_records
from treering.journal.resume import Registers
from treering.journal.stream import ChunkRegister
from treering.journal.view import View
from treering.kinds import Kind
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.session.index import Index
from treering.session.payload import blobs_in, encode_payload
from treering.session.reader import Readable
from treering.session.recording import checkpoint_records
from treering.session.redaction import Redaction
from treering.session.snapshot import encode_state, require_card
from treering.session.state import SessionState
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import ask, checked
from treering.transcript.node import HERE, Draft

SEGMENT_BYTES = 4 * 1024 * 1024  # of record lines; a load keeps this much in memory


class Loader:
    """Writes a session that does not exist yet, from its first record on.

    Args:
        keys: The session.
        policy: Chooses its working context.
        card: Its card, without counts.
        redaction: Applied to imported drafts.
    """

    def __init__(self, keys: SessionKeys, policy: Policy, card: Card, redaction: Redaction | None = None) -> None:
        self.keys = keys
        self.policy = policy
        self.life = new_nonce()
        self._nonce = new_nonce()
        self._by = f"{self._nonce}.1"
        self.state = SessionState(card if redaction is None else redaction.card(card), policy)
        self.index = Index()
        """The index of all records so far; empty after `expect_ordinary`."""
        self._ordinary = False
        self._context: frozenset[str] = frozenset()
        self._places: dict[str, int] = {}
        """The positions of the nodes in the context, if there is no index."""
        self._lines: list[bytes] = []
        self._skeletons: list[Skeleton] = []
        self._bytes = 0
        self._nodes: set[str] = set()
        self._others: set[str] = set()
        """Ids of records that are not nodes."""
        self._odd = False
        """Whether an id came twice, parents form a cycle, or a parent is no node: one segment might not show this."""
        self._segments: list[Segment] = []
        self._blobs: set[str] = set()
        self._mark = ""
        """The mark after the last segment."""
        self._seen: Registers | None = None
        self._redaction = redaction
        """Applied to imported records; copied records were stored before, and stay as they are."""
        self._held: Checkpoint | None = None
        """The last imported checkpoint, which may become the checkpoint of the head."""
        self._appends = 1
        self._copied: str | None = None

    @property
    def end(self) -> int:
        return self.state.end

    def expect_ordinary(self, context: Iterable[str]) -> None:
        """Keep no index of the records to come: the caller knows that ids are unique and parents come before children.

        Args:
            context: The nodes of the context that will be passed to `stand`.
        """
        self._ordinary = True
        self._context = frozenset(context)

    def add(self, record: Record) -> Steps[None]:
        """Add a record at the end; its position and its append are filled in.

        Copied records of one append stay in one append, so that it remains known which records came with an import.
        """
        if record.by and record.by != self._copied:
            self._copied, self._appends = record.by, self._appends + 1
            self._by = f"{self._nonce}.{self._appends}"
        yield from self._put(msgspec.structs.replace(record, at=self.end, by=self._by, more=False))

    def _put(self, record: Record) -> Steps[None]:
        self._take(record, encode_checked(record))
        if self._is_full:
            yield from self.seal()

    def add_line(self, line: bytes, record: Record) -> Steps[None]:
        """Add a record at the end, whose line is stored as it is; it must carry its position."""
        self._take(record, line)
        if self._is_full and not record.more:
            yield from self.seal()

    def _take(self, record: Record, line: bytes) -> None:
        skeleton = skeleton_of_record(record, len(line))
        self.state.apply(record, line, skeleton)
        if not self._ordinary:
            self._look_for_oddities(skeleton)
        elif skeleton.id in self._context:
            self._places[skeleton.id] = skeleton.at
        self._lines.append(line)
        self._skeletons.append(skeleton)
        self._bytes += len(line)

    def _look_for_oddities(self, row: Skeleton) -> None:
        self.index.extend([row])
        is_node, above = row.type == "node", row.parent
        no_node = is_node and above in self._others and above not in self._nodes
        self._odd = self._odd or no_node or row.id in self._nodes or row.id in self._others
        (self._nodes if is_node else self._others).add(row.id)

    @property
    def _is_full(self) -> bool:
        return self._bytes >= SEGMENT_BYTES

    def add_draft(self, draft: Draft) -> Steps[None]:
        """Record an imported draft; its parent is kept, even if no node has that id."""
        if self._held is not None:
            yield from self._record_held()
        if draft.type == CHECKPOINT:
            self._held = checkpoint_of(draft, self._redaction)
            return
        if self._redaction is not None:
            draft = self._redaction.draft(draft)
        body, large = encode_payload(draft)
        yield from self.add_blobs(large)
        identifier = draft.id or self.state.clock.new()
        timed = draft.time_ms is not None or time_of(identifier) is not None
        yield from self._put(
            Record(
                at=self.end,
                by=self._by,
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
        _, records = checkpoint_records(parent, new, self.state.clock.new, time_ms=time_ms or None)
        for record in records:
            yield from self.add(record)

    def _named(self, kept: Checkpoint, head: str, parent: str | None) -> Checkpoint:
        return msgspec.structs.replace(
            kept,
            id=kept.id or self.state.clock.new(),
            parent=parent,
            head=head,
            time_ms=kept.time_ms or now_ms(),
            policy=self.policy.name,
        )

    def add_blobs(self, blobs: Mapping[str, bytes]) -> Steps[None]:
        """Store blobs in parallel, before the records that refer to them."""
        new = blobs.keys() - self._blobs
        if new:
            yield from self.take_name()
            answers = yield tuple(Put(self.keys.blob(self.life, digest), blobs[digest]) for digest in sorted(new))
            for answer in answers:
                checked(answer, Written)
            self._blobs |= new

    def add_chunks(self, stream: str, chunks: Sequence[Chunk]) -> Steps[None]:
        """Store the pieces of an answer, if by the added records it is still being written."""
        if stream not in self.state.streams:
            return
        yield from self.take_name()
        for chunk in chunks:
            name = ChunkName(stream, chunk.header.number)
            register = ChunkRegister(self.keys, self.life, name)
            yield from ask(Put(register.key, register.encode(chunk)), Written)

    def seal(self) -> Steps[None]:
        """Write the collected records to a segment."""
        if not self._lines:
            return
        first, before = self.end - len(self._lines), self._mark
        self._mark = mark_behind(self._lines[-1])
        self._odd = self._odd or any(problem.kind != Kind.ORPHAN for problem in self.index.graph.problems())
        build = partial(build_segment, self._lines, skeletons=self._skeletons, doubtful=self._odd)
        self._segments.append((yield from self.write_segment(first, self.end, Marks(before, self._mark), build)))
        self._lines, self._skeletons, self._bytes = [], [], 0

    def write_segment(self, first: int, end: int, marks: Marks, build: Callable[..., bytes]) -> Steps[Segment]:
        """Write the records from `first` to `end`; they belong to the session once they are passed to `begin_with`.

        Args:
            first: Position of the first record.
            end: One past the position of the last record.
            marks: The marks before the first and after the last record.
            build: Returns the segment; called with the keyword argument `key`.
        """
        name = SegmentName.marked(first, end, 0, new_nonce(), marks)
        key = self.keys.segment(self.life, name)
        data = build(key=key)
        yield from self.take_name()
        yield from ask(Put(key, data), Written)
        return Segment(key, len(data), name)

    def begin_with(self, state: SessionState, segments: Sequence[Segment], mark: str) -> None:
        """Let the session begin with the records of segments that are written already.

        Args:
            state: Folded from these records, with the working context.
            segments: Written by `write_segment`, in order.
            mark: The mark after the last segment.
        """
        self.state, self._segments, self._mark = state, list(segments), mark

    def take_name(self) -> Steps[None]:
        """Read the registers before the first object is written: a purge refuses loads that read them earlier."""
        if self._seen is None:
            self._seen = yield from life.free_name(self.keys, nonce=new_nonce())

    def stand(self, head: str, node: str | None, kept: Checkpoint | None = None) -> Steps[None]:
        """Point the head to a node, with a given context and state, or with the context that the policy makes.

        If the last imported record is a checkpoint made at that node, it is used.
        """
        if self._held is not None and self._held.node == node:
            kept, self._held = kept or self._held, None
        yield from self._record_held()
        context = kept.context if kept else self.policy.build(self._visible_path(node), self.index.graph)
        yield from self.add(
            Record(
                at=0, by="", type="head", kind="checkout", id=self.state.clock.new(), head=head, target=node,
                brief=Raw(b'{"by":"load"}'),  # no navigation: other branches were not left behind by this move
            )
        )  # fmt: skip
        yield from self.seal()
        if kept is None:
            context = yield from self._amended(context)
        nodes = [item.node for item in context.items]
        self.state.lines |= yield from self._lines_at(
            {node: self._places[node] if self._ordinary else self.index.graph.node(node).at for node in nodes}
        )
        self.state.context, self.state.context_at = context, node
        new = kept or Checkpoint(id="", parent=None, head="", node=node, context=context)
        yield from self._add_checkpoint(None, self._named(new, head, None), new.time_ms)

    def _visible_path(self, node: str | None) -> list[Skeleton]:
        hidden = self.index.graph.annotations.retracted
        return [row for row in self.index.graph.path(node) if row.id not in hidden]

    def _amended(self, context: Context) -> Steps[Context]:
        """Return a context of the policy with the payloads of later edits."""
        amended = self.index.graph.annotations.amended
        lines = yield from self._lines_at({node: amended[node] for node in context.nodes if node in amended})
        return replace(context, {node: body_of(line) for node, line in lines.items()})

    def _lines_at(self, places: Mapping[str, int]) -> Steps[dict[str, bytes]]:
        header = TailHeader(session=self.keys.session, life=self.life, base=self.end, nonce="")
        where = Survey(self.keys, Tail(header=header), tuple(self._segments), ())
        try:
            found = yield from sealed_records(where, sorted(places.values()))
        except NotFoundError:
            raise ConflictError(
                f"the segments loaded for session {self.keys.session!r} were removed meanwhile",
                kind=Kind.EXISTS,
                key=self.keys.latest,
                remedy="load it again: another process erased or purged under this name",
            ) from None
        return {node: found[at] for node, at in places.items()}

    def finish(self) -> Steps[View]:
        """Create the session from the loaded segments.

        Raises:
            ConflictError: A session of that name exists; the loaded segments were deleted.
            UsageError: The card is too large.
        """
        require_card(self.state.card)
        yield from self.take_name()
        yield from self.seal()  # rule: load-segments-first
        try:
            view = yield from self._create()  # rule: load-segments-first before this
        except ConflictError:  # rule: discard-refused
            yield from self.discard()
            raise
        try:
            return (yield from rewrite_tail(view, new_nonce())) or view
        except TreeringError:
            return view  # the tail is optional: it only saves the first reader a second read

    def discard(self) -> Steps[None]:
        """Remove what was written, if the session will not be created: no erasure looks for copies there.

        If the store does not answer, it stays; see `life.discard`.
        """
        with suppress(UnavailableError):
            yield from life.discard(self.keys, self.life)

    def _create(self) -> Steps[View]:
        lines, nonce = encode_state(self.state), new_nonce()
        names = tuple(file_name(segment.key) for segment in self._segments)
        card = msgspec.structs.replace(self.state.card, segments=names if len(names) <= SEGMENTS_NAMED_MAX else ())
        born = life.Birth(self.end, self._mark, seen=self._seen)  # rule: load-looks-first
        active_ms = marker.active_ms(card, now_ms())  # lists show when it was active, not when it was loaded
        return (
            yield from life.create(self.keys, card, lines, life=self.life, nonce=nonce, now_ms=active_ms, born=born)
        )


def copy_blobs(reader: Readable, loader: Loader, bodies: Iterable[bytes]) -> Steps[None]:
    """Copy the blobs that some bodies refer to into the session being loaded; a missing one stays missing."""
    wanted = {digest for body in bodies for digest in blobs_in(body)}
    for digest in sorted(wanted):
        data = yield from reader.blobs.read(digest)
        if data is not None:
            yield from loader.add_blobs({digest: data})
