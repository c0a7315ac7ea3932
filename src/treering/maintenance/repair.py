"""Make a new session from the readable records of a damaged one. The damaged one is never changed.

Rule 1: undamaged records are copied line by line. Only their positions change, to close gaps of lost records. No
content is made up: a node whose parent is lost still names it, and becomes a root.
Rule 2: the new session can be used at once. A head on a lost node is moved to the last remaining node of its branch; a
checkpoint that can no longer be restored is removed from the lists; the current position is taken from the registers if
they are undamaged and do not contradict the records, else from the records and the newest checkpoint.
Rule 3: the report lists every difference.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from treering.checkpoint.checkpoint import BODY, Body, Checkpoint, CheckpointInfo, chain_of, entry_of, read_form
from treering.checkpoint.context import Item, decode_items, splice_apply
from treering.checkpoint.policy import Policy
from treering.checkpoint.resolve import needs
from treering.erasure.erasing import erase_copies
from treering.errors import CorruptError, TreeringError
from treering.format.blobs import blob_refs_in
from treering.format.erasure import Erasure
from treering.format.line import CHECKSUM_BYTES, close_line
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record, encode_record, skeleton_of_record
from treering.format.register import Card, decode_tail
from treering.format.stream import Chunk
from treering.journal.stream import read_stream
from treering.kinds import Kind
from treering.maintenance.salvage import RepairLoss, Salvage
from treering.session.loader import Loader
from treering.session.replay import Replay
from treering.session.snapshot import decode_state
from treering.session.state import SessionState
from treering.session.writer import Writer
from treering.storage.effects import Job, on, tell
from treering.storage.requests import Driver, Found, Get, Steps
from treering.storage.run import found_in
from treering.store.loading import Progress
from treering.transcript.graph import Graph

CONTEXTS_KEPT_MAX = 64  # a checkpoint is a delta of a recent one; after a move to another branch it is written in full
IDS_SHOWN_MAX = 100  # of lost objects; the message has the total number

_at = re.compile(rb'\{"at":[0-9]+,')


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair: what was salvaged, and what was lost."""

    session: str
    """The damaged session."""
    into: str
    """The new session."""
    records: int
    """Number of salvaged records, which keep their order."""
    nodes: int
    messages: int
    checkpoints: int
    blobs: int
    losses: tuple[RepairLoss, ...]
    """All that is missing or different, including damage for which another copy was used."""
    orphans: tuple[str, ...]
    """Nodes whose parent is missing; they are kept, as roots."""

    @property
    def lost(self) -> bool:
        """Whether a part of the session is lost."""
        return any(loss.kind != Kind.OBJECT for loss in self.losses)


def repair_session(
    keys: SessionKeys,
    target: Driver,
    into: SessionKeys,
    *,
    policy: Policy,
    card: Card,
    progress: Progress | None = None,
) -> Job[Repair]:
    """Salvage the readable records of a session into a new one.

    Args:
        keys: The damaged session, in the store that the job is run against.
        target: The store of the new session.
        into: The new session.
        policy: Rebuilds the context if no checkpoint has it or names the session's policy.
        card: The card of the new session if the old one is lost.
        progress: Called with the number of records done.

    Raises:
        NotFoundError: There is no such session, or it was deleted.
        ConflictError: A session of the new name exists.
        CorruptError: Nothing can be read.
        FormatVersionError: A newer version wrote a part of it.
    """
    salvage = Salvage(keys)
    yield from salvage.look()
    known = _resumed(salvage, None)
    policy = known.policy if known is not None else policy
    mender = _Mender(salvage, Loader(into, policy, _card(salvage.card or card)))
    try:
        yield from _fill(mender, target, progress)
    except Exception:
        yield from on(target, mender.loader.discard())
        raise
    yield from on(target, mender.create())
    since = yield from _erased_since(salvage)
    if since:
        yield from on(target, erase_copies(into, policy, since))
    return mender.report()


def _fill(mender: _Mender, target: Driver, progress: Progress | None) -> Job[None]:
    """Write all that can be read, without creating the session."""
    salvage = mender.salvage
    for steps in salvage.parts():
        for at, line in (yield from steps):
            for digest in sorted(blob_refs_in(line)):
                blob = yield from _blob(salvage, digest)
                yield from on(target, mender.add_blob(digest, blob, at))
            yield from on(target, mender.add(at, line))
        yield from tell(progress, mender.loader.end)
    for stream in mender.loader.state.streams:
        yield from on(target, mender.loader.add_chunks(stream, (yield from _chunks(salvage, stream, mender))))
    yield from on(target, mender.finish())


def _chunks(salvage: Salvage, stream: str, mender: _Mender) -> Steps[list[Chunk]]:
    """The pieces of an answer that was being written; none, and a loss, if they are damaged."""
    try:
        return (yield from read_stream(salvage.keys, salvage.life, stream))
    except CorruptError as error:
        mender.lose_pieces(stream, error)
        return []


def _erased_since(salvage: Salvage) -> Steps[list[Erasure]]:
    """Erasures in the old session since it was read."""
    key = salvage.keys.tail
    (answer,) = yield (Get(key, register=True),)
    if salvage.tail is None or not isinstance(answer, Found):
        return []
    try:
        now = decode_tail(answer.data, key=key, compressed=not salvage.keys.appends).header
    except CorruptError:
        return []
    return [act for act in now.burials.erasures if act.epoch > salvage.epoch and now.life == salvage.life]


def _card(card: Card) -> Card:
    """The initial card: without counts, which come from the records, and without the old identity."""
    extra = {**card.extra, "repaired_from": card.session}
    return msgspec.structs.replace(
        card, nodes=0, messages=0, checkpoints=0, first_prompt="", born=0, erased=(), erasures=(), extra=extra
    )


def _blob(salvage: Salvage, digest: str) -> Steps[bytes | TreeringError]:
    """A large part of the damaged session, or the error of reading it."""
    key = salvage.keys.blob(salvage.life, digest)
    (answer,) = yield (Get(key),)
    if isinstance(answer, CorruptError):
        return answer
    there = found_in(answer)
    if there is None:
        return CorruptError("a blob is missing", kind=Kind.MISSING_BLOB, key=key)
    if hashlib.sha256(there.data).hexdigest() != digest:
        return CorruptError("a blob's bytes do not have its digest", kind=Kind.BLOB, key=key)
    return there.data


class _Mender:
    """Puts salvaged records into a new session, and makes it usable."""

    def __init__(self, salvage: Salvage, loader: Loader) -> None:
        self.salvage = salvage
        self.loader = loader
        self._known = _resumed(salvage, loader.policy)
        self._replay = Replay(salvage.latest) if self._known is not None and salvage.latest is not None else None
        self._lost: list[RepairLoss] = []
        self._blobs: dict[str, bool] = {}
        self._tips: dict[str, str] = {}  # by head: the last node that was recorded on it
        self._checkpoints = _Checkpoints()
        self.records = 0

    # records

    def add(self, at: int, line: bytes) -> Steps[None]:
        """Add a record at the end."""
        if self._replay is not None:
            self._replay.take([line], at)
        if at != self.loader.end:
            line = _moved(line, self.loader.end)
        record = decode_record(line)
        yield from self.loader.add_line(line, record)
        self.records += 1
        if record.type == "node" and record.head:
            self._tips[record.head] = record.id
        elif record.type == "checkpoint":
            self._checkpoints.add(record, self.loader.index.graph)

    def add_blob(self, digest: str, data: bytes | TreeringError, at: int) -> Steps[None]:
        """Store a large part, or note that it is lost; records keep referring to it."""
        if digest in self._blobs:
            return
        self._blobs[digest] = isinstance(data, bytes)
        if isinstance(data, bytes):
            yield from self.loader.add_blobs({digest: data})
        else:
            self._lose(Kind.BLOB, data.key or "", str(data.args[0]), first=at, end=at + 1, ids=(digest,))

    def lose_pieces(self, stream: str, error: CorruptError) -> None:
        """Note that the stored pieces of an answer that was being written cannot be read."""
        self._lose(Kind.STREAM, error.key or "", str(error.args[0]), ids=(stream,))

    # the end

    def finish(self) -> Steps[None]:
        """Write what makes the records a usable session.

        Raises:
            CorruptError: Nothing in the old session can be read.
        """
        latest = self.salvage.keys.latest
        if not self.records and self.salvage.card is None:
            raise CorruptError("nothing of this session can be read", kind=Kind.NOTHING, key=latest)
        if self._replay is not None and self._replay.differences:
            self._known = None  # the records determine the position, and all of them exist
        if self._known is not None and self._known.end < self.salvage.reach:
            message = f"the registers are older than segments: what they say ends at {self._known.end}"
            self._lose(Kind.OBJECT, self.salvage.keys.tail, message, first=self._known.end, end=self.salvage.reach)
            self._known = None  # the later records determine the position
        yield from self._drop_checkpoints()
        yield from self._move_heads()
        if self._known is not None and self._known.heads.heads:
            yield from self._stand(self._known)
        yield from self.loader.seal()

    def create(self) -> Steps[None]:
        """Create the new session."""
        loader = self.loader
        yield from loader.finish()
        writer = Writer.visiting(loader.keys, loader.policy)  # the fold may not have collected the context's records
        yield from writer.open()
        yield from writer.upkeep.cover(seal=False, again=True)

    def report(self) -> Repair:
        """The result."""
        card = self.loader.state.card
        return Repair(
            session=self.salvage.keys.session,
            into=self.loader.keys.session,
            records=self.records,
            nodes=card.nodes,
            messages=card.messages,
            checkpoints=len(self.loader.index.checkpoints),
            blobs=sum(self._blobs.values()),
            losses=(*self.salvage.losses, *self._lost),
            orphans=tuple(each.node for each in self.loader.index.graph.problems() if each.kind == "orphan"),
        )

    def _lose(
        self, kind: Kind, key: str, message: str, *, first: int | None = None, end: int | None = None,
        ids: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._lost.append(
            RepairLoss(kind=kind, key=key, message=message, first=first, end=end, ids=ids[:IDS_SHOWN_MAX])
        )

    def _drop_checkpoints(self) -> Steps[None]:
        """Remove from the lists checkpoints that lack a record or a node."""
        index = self.loader.index
        listed = len(index.checkpoints)
        broken = tuple(
            name for name in index.checkpoints if not self._checkpoints.restores(name, index.all_checkpoints)
        )
        for name in broken:
            new = self.loader.state.clock.new()
            yield from self.loader.add(Record(at=0, by="", type="edit", kind="prune", id=new, target=name))
        if broken:
            message = f"{len(broken)} of {listed} cannot be restored any more, and are out of the lists"
            self._lose(Kind.CHECKPOINT, self.salvage.keys.latest, message, ids=broken)

    def _move_heads(self) -> Steps[None]:
        """Move every head to an existing node."""
        graph, state = self.loader.index.graph, self.loader.state
        wanted = dict(state.heads.heads)
        if self._known is not None:
            wanted = dict(self._known.heads.heads)
            for head in state.heads.heads.keys() - wanted.keys():  # the record that dropped it is lost
                yield from self._head(head, None, kind="drop")
        for head, node in wanted.items():
            target = node if node is None or node in graph else self._tips.get(head)
            if target != node:
                left = "stands on the last one that is left" if target else "is dropped, for none of its nodes is left"
                message = f"head {head!r} {left}: the node it stood on is lost"
                self._lose(Kind.HEAD, self.salvage.keys.latest, message, ids=(node or "",))
            if target is None and node is not None:
                yield from self._head(head, None, kind="drop")
            elif state.heads.heads.get(head, "") != target:
                yield from self._head(head, target, kind="checkout")

    def _head(self, head: str, node: str | None, *, kind: str) -> Steps[None]:
        if kind == "drop" and head not in self.loader.state.heads.heads:
            return
        brief = msgspec.Raw(b'{"current":false}') if kind == "checkout" else msgspec.Raw(b"{}")
        new = self.loader.state.clock.new()
        yield from self.loader.add(
            Record(at=0, by="", type="head", kind=kind, id=new, head=head, target=node, brief=brief)
        )

    def _stand(self, known: SessionState) -> Steps[None]:
        """Restore the agent's context from the registers, with the messages that are left."""
        graph, heads = self.loader.index.graph, self.loader.state.heads.heads
        head = known.head if known.head in heads else self.loader.state.heads.current
        node = heads.get(head)
        if known.adrift or head != known.head or node != known.tip:
            return  # the newest remaining checkpoint determines the context
        kept = tuple(item for item in known.context.items if item.node in graph)
        if gone := tuple(item.node for item in known.context.items if item.node not in graph):
            self._lose(
                Kind.CONTEXT, self.salvage.keys.latest, f"{len(gone)} messages of the context are lost", ids=gone
            )
        before = known.checkpoint or Checkpoint(id="", parent=None, head=head, node=node)
        yield from self.loader.stand(
            head,
            node,
            kept=msgspec.structs.replace(before, id="", time_ms=0, node=node, context=known.context.with_items(kept)),
        )


def _resumed(salvage: Salvage, policy: Policy | None) -> SessionState | None:
    """The state in the registers, if both are undamaged and fit together."""
    latest, tail = salvage.latest, salvage.tail
    if latest is None or latest.card.life != salvage.life or latest.card.epoch < salvage.epoch:
        return None  # an erasure is pending: `latest` may still show erased payloads
    try:
        state = decode_state(latest, policy, key=salvage.keys.latest)
        if tail is not None:
            state.advance(tail.lines[max(0, state.end - tail.header.base) :])
    except CorruptError:
        return None
    return state if tail is not None or latest.card.covers == latest.card.born else None


def _moved(line: bytes, at: int) -> bytes:
    """The same record at another position; unknown fields are kept."""
    if (match := _at.match(line)) is None:
        return encode_record(msgspec.structs.replace(decode_record(line), at=at))
    return close_line(b'{"at":%d,%b}' % (at, line[match.end() : -CHECKSUM_BYTES]))


class _Checkpoints:
    """Finds which salvaged checkpoints can be restored."""

    def __init__(self) -> None:
        self.needs: dict[str, frozenset[str]] = {}
        """By usable checkpoint: the other checkpoints whose records have values of it."""
        self._lacking: set[str] = set()  # checkpoints whose context shows a lost node
        self._contexts: OrderedDict[str, tuple[Item, ...]] = OrderedDict()

    def add(self, record: Record, graph: Graph) -> None:
        """Add the next checkpoint; the nodes in its context come before it."""
        try:
            body = read_form(record.body, BODY)
            if body.pruned or body.full != entry_of(skeleton_of_record(record, 0)).full:  # pruned or erased
                return
            self.needs[record.id] = needs(record) if body.full else frozenset()
            items = self._items(record, body)
        except CorruptError:
            return
        if items is None:
            return
        self._contexts[record.id] = items
        if len(self._contexts) > CONTEXTS_KEPT_MAX:
            self._contexts.popitem(last=False)
        if any(item.node not in graph for item in items):
            self._lacking.add(record.id)

    def _items(self, record: Record, body: Body) -> tuple[Item, ...] | None:
        """The items of its context; None if it is a delta of a missing checkpoint."""
        if body.full:
            return decode_items(form for form in body.context if not isinstance(form, tuple))
        before = self._contexts.get(record.parent or "")
        splices = [(form[0], form[1], decode_items(form[2])) for form in body.context if isinstance(form, tuple)]
        return None if before is None else splice_apply(before, splices)

    def restores(self, checkpoint: str, entries: Mapping[str, CheckpointInfo]) -> bool:
        """Whether all records that a checkpoint needs exist."""
        try:
            chain = chain_of(checkpoint, entries)
        except CorruptError:
            return False
        wanted = {*chain, *self.needs.get(chain[0], ())}
        return checkpoint not in self._lacking and wanted <= self.needs.keys()
