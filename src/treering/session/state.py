"""The current state of a session: a fold over its records, resumed from `latest` and advanced record by record.

Rule 1: the fold is deterministic. Folding all records from the start, or the last of them over the state in `latest`,
gives the same state; so any process may write `latest`.
Rule 2: the context follows one head. A node that does not continue it, or a head that moved without a checkpoint,
leaves the context unknown (`adrift`) until a full checkpoint or the graph determines it. It is never guessed.

The state includes the card, the summary that lists show: counts, times, title, model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from treering import session
from treering._late import Kind
from treering.checkpoint.checkpoint import Body, Checkpoint, write_form
from treering.checkpoint.context import Context, replace, without
from treering.checkpoint.policy import Growth, Policy
from treering.checkpoint.resolve import apply_body
from treering.errors import CorruptError, NotFoundError
from treering.format.erasure import NOTE, Erased
from treering.format.record import EMPTY, Record, Skeleton, decode_record, read_brief, skeleton_of_record
from treering.format.register import Card
from treering.format.values import fields_of
from treering.ids import IdClock
from treering.session.payload import decode_payload, first_prompt
from treering.transcript.heads import Heads

_KNOWN_TYPES = frozenset({"node", "note", "head", "edit", "checkpoint"})
_KNOWN_EDITS = frozenset({"amend", "retract", "prune"})
_OF_CONTEXT = frozenset({"head", "edit", "checkpoint"})
"""Types of records that may change the context, in addition to nodes."""


def knows(record: Record) -> bool:
    """Whether the fold understands a record. Unknown kinds of nodes and notes change nothing but themselves."""
    return record.type in _KNOWN_TYPES and (record.type != "edit" or record.kind in _KNOWN_EDITS)


# No node has this id, so a context at it never belongs to a head.
UNKNOWN = "?"
TOGETHER_MIN: Final = 8
"""From this many records on, their nodes are added to the context together; for fewer, copying it costs less."""

# Fields of the card that notes about the whole session set.
FACTS = {"title": ("title",), "place": ("project", "cwd"), "status": ("status",)}
ORIGIN = "origin"
"""Kind of the note that names the file a session was imported from, and how much of it was read."""
UPKEEP = {("edit", "prune"), ("note", ORIGIN)}
"""Records that do not count as activity: upkeep does not change when a session was last active."""
CARD = "card"
"""Kind of the note whose payload is merged into the further facts on the card: objects by name, field by field.

`fields` in its brief names the fields, as `name/field`, so that they can be removed when the note is erased."""
MODEL = b'"model"'
"""Part of the brief of an answer that names its model, as answers imported from other programs do."""
EXTRA = "extra/"
"""Prefix of the names of further facts among the fields of the card."""
told_at_once = attrgetter("first_prompt", *chain.from_iterable(FACTS.values()))
"""Fields that the stored card must show at once; counts and times may lag behind."""
AMOUNT_MAX: Final = 1e300
"""The greatest number of usage, and the greatest sum."""
_NOTHING_YET: dict[str, Any] = {"first_prompt": "", "nodes": 0, "messages": 0, "checkpoints": 0}
"""The values of a session without a record."""


def is_amount(value: object) -> bool:
    """Whether a value is a number that usage can be added up in: not infinite, and no boolean."""
    return isinstance(value, int | float) and value is not True and value is not False and abs(value) <= AMOUNT_MAX


class SessionState:
    """The fold over the records. Mutable; one handle owns it."""

    def __init__(self, card: Card, policy: Policy) -> None:
        self.tally = Tally(card)
        self.clock = self.tally.clock
        """Makes ids greater than those of all records folded so far."""
        self.policy = policy
        self.end = card.born
        """One past the last record folded."""
        self.follow: str | None = None
        """The followed head, whose context is kept; None: the current one."""
        self.heads = Heads()
        self.context = Context()
        self.context_at: str | None = None
        """The node that the context belongs to."""
        self.lines: dict[str, bytes] = {}
        """Record lines by id: of the nodes in the context, and of checkpoints and nodes that a move needs."""
        self.places: dict[str, int] = {}
        """Positions of the context's records that are not among the lines, as far as known."""
        self._whole: Context | None = None
        """A context known to lack no lines: it was checked, or extends a checked context."""
        self._growing: _Growing | None = None
        """The context with the nodes added so far, while several records are folded together."""
        self.borrowed: frozenset[str] = frozenset()
        """Keys of `lines` read from the graph instead of folded; `latest` may not have them."""
        self.checkpoint: Checkpoint | None = None
        """The newest checkpoint of the followed head; it holds the agent's state."""
        self.nodes_since = 0
        self.streams: dict[str, dict[str, Any]] = {}  # answers being written, by id; see `treering.session.streams`
        self.usage: dict[str, int | float] = {}
        self.last_usage: dict[str, int | float] = {}
        self.effects: dict[str, Raw] = {}
        """Unresolved effects, encoded, by the id of their note; see `treering.session.effects`."""

    @property
    def card(self) -> Card:
        """The card as of now."""
        return self.tally.card(self.heads)

    def take_back(self, facts: Collection[str]) -> None:
        """Remove erased facts from the card."""
        self.tally.take_back(facts)

    @property
    def head(self) -> str:
        return self.follow or self.heads.current

    def turn_to(self, head: str | None) -> None:
        """Follow another head from now on; None: the session's current one. What is known belongs to the one before."""
        before, self.follow = self.head, head
        if self.head != before:
            self.context_at = UNKNOWN  # rule: other-head-is-unknown

    @property
    def tip(self) -> str | None:
        """The node that the followed head points to."""
        return self.heads.heads.get(self.head)

    @property
    def state(self) -> dict[str, bytes]:
        """The agent's state, encoded, by key."""
        return self.checkpoint.state if self.checkpoint else {}

    @property
    def manager(self) -> bytes | None:
        """State of the conversation manager, encoded."""
        return self.checkpoint.manager if self.checkpoint else None

    @property
    def adrift(self) -> bool:
        """Whether the context does not belong to the head's node, or lacks a record."""
        return self.context_at != self.tip or self.lacks_lines

    @property
    def lacks_lines(self) -> bool:
        """Whether a record that the context shows is not in memory."""
        if self._whole is not self.context and self.lines.keys() >= set(self.context.nodes):
            self._whole = self.context
        return self._whole is not self.context

    # folding

    def advance(
        self, lines: Sequence[bytes], records: Sequence[Record] = (), *, made: Checkpoint | None = None
    ) -> Sequence[Record]:
        """Fold the records at the positions from `end` on; return them.

        Args:
            lines: Their lines.
            records: The decoded records, if the caller has them.
            made: As for `apply`.
        """
        records = records or [decode_record(line) for line in lines]
        together = len(records) >= TOGETHER_MIN
        try:
            for record, line in zip(records, lines, strict=True):
                if self._growing is None and together and record.type == "node":
                    self._growing = _Growing(self.policy, self.context, self.context_at)
                elif self._growing is not None and record.type in _OF_CONTEXT:
                    self._gather()
                self.apply(record, line, made=made)
        finally:
            if self._growing is not None:
                self._gather()
        return records

    def _gather(self) -> None:
        """End the adding of several nodes: make their common context the current one."""
        growing, self._growing = self._growing, None
        if growing is None or not growing.count:
            return
        before, self.context, self.context_at = self.context, growing.growth.context, growing.at
        if growing.hides:
            self._forget()
        elif self._whole is before:  # the line of each node is there
            self._whole = self.context

    def apply(
        self, record: Record, line: bytes, skeleton: Skeleton | None = None, *, made: Checkpoint | None = None
    ) -> None:
        """Fold the record at position `end`.

        Args:
            record: The record.
            line: Its line.
            skeleton: Its skeleton, if the caller has it.
            made: A checkpoint made just now, which need not be read from its record.

        Raises:
            CorruptError: The record has another position.
        """
        if record.at != self.end:
            raise CorruptError(f"record is out of order. expected={self.end}, got={record.at}")
        self.end += 1
        skeleton = skeleton or skeleton_of_record(record, len(line))
        if record.type == "node":
            self._node(skeleton, line)
        elif record.type == "head":
            self._move(skeleton)
        elif record.type == "checkpoint":
            self._checkpoint(record, skeleton, made)
        elif record.type == "note" and record.kind in ("stream", "stream_end"):
            self.streams = session.streams.fold_note(self.streams, skeleton, record.by)
        elif record.type == "note":
            self.add_note(skeleton, record.body)
        elif record.type == "edit":
            self._edit(record, skeleton)
        self.tally.add(skeleton, record)

    def behind(self, records: Iterable[Record]) -> SessionState:
        """A copy whose card, heads, usage, effects and streams are those after these records; no context is folded."""
        after = SessionState(self.card, self.policy)
        after.heads, after.usage, after.last_usage = self.heads, self.usage, self.last_usage
        after.nodes_since, after.effects, after.streams = self.nodes_since, self.effects, self.streams
        for record in records:
            if record.type not in ("checkpoint", "edit"):
                after.apply(msgspec.structs.replace(record, at=after.end), b"")
        return after

    def _move(self, skeleton: Skeleton) -> None:
        """Fold a move of a head, or a switch to another head: the checkpoint that follows determines the context."""
        before = self.head
        self.heads = self.heads.apply(skeleton)
        if self.head != before or skeleton.head == before:
            self.context_at = UNKNOWN

    def _node(self, skeleton: Skeleton, line: bytes) -> None:
        self.heads = self.heads.apply(skeleton)
        if skeleton.id in self.streams:
            self.streams = {name: facts for name, facts in self.streams.items() if name != skeleton.id}
        if not skeleton.head or skeleton.head != self.head:
            return
        self.nodes_since += 1
        taken = self._growing is not None and self._growing.takes(skeleton)
        if self._growing is not None and not taken:
            self._gather()
        self.lines[skeleton.id] = line  # even if the context is unknown: the checkpoint that follows may show it
        if taken or skeleton.parent != self.context_at:
            return  # another branch: adrift until a checkpoint or the graph determines the context
        extended = self.policy.extend(self.context, skeleton)
        if extended is not None:
            self._see(extended, skeleton.id)

    def _see(self, context: Context, node: str | None) -> None:
        """Make `context` the current one, at `node`; drop lines that it does not need."""
        before, self.context, self.context_at = self.context, context, node
        items = context.items
        if len(items) <= len(before.items) or node not in (items[-1].node, items[0].node):
            self._forget()
        elif self._whole is before:  # it was only extended: at the end, or by a summary in front
            self._whole = context

    def _forget(self) -> None:
        shown = {item.node for item in self.context.items}
        if not self.lines.keys() <= shown:
            self.lines = {node: line for node, line in self.lines.items() if node in shown}

    def _checkpoint(self, record: Record, skeleton: Skeleton, made: Checkpoint | None) -> None:
        if skeleton.head != self.head:
            return
        parent = self.checkpoint if self.checkpoint and self.checkpoint.id == skeleton.parent else None
        at_hand = made is not None and made.id == record.id and (parent is not None or made.parent is None)
        try:
            # Decode the record if it may differ from `made`: the caller can change its metadata objects later, and an
            # empty label, or a bool as the step, is read back as None.
            if made is not None and at_hand and not (made.metadata or made.label == "" or type(made.step) is bool):
                self.checkpoint = msgspec.structs.replace(made, time_ms=skeleton.time)
            else:
                self.checkpoint = apply_body(parent, record, self.held_record)
        except (NotFoundError, CorruptError):
            # A record is not in memory that it is a delta of, or takes a value from; the rebuild reads it, or raises.
            self.checkpoint, self.context_at = None, UNKNOWN
            return
        self.nodes_since = 0
        changed = self.checkpoint.context != self.context
        if changed:  # else keep the object that is known to lack no lines
            self.context = self.checkpoint.context
        self.context_at = skeleton.target
        if changed or len(self.lines) > len(self.context.items):
            self._forget()

    def held_record(self, checkpoint: str) -> Record:
        """The part of an older checkpoint's record in memory: the state values in it that are still current.

        Raises:
            NotFoundError: No part of it is in memory.
        """
        if checkpoint in self.lines:
            return decode_record(self.lines[checkpoint])
        newest = self.checkpoint
        held = {} if newest is None else {key: at for key, at in newest.origins.items() if at == checkpoint}
        manages = newest is not None and newest.manager_at == checkpoint
        if newest is None or not (held or manages):
            raise NotFoundError(f"checkpoint is not in memory. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
        body = Body(
            set={key: Raw(newest.state[key]) for key in held},
            manager=Raw(newest.manager) if manages and newest.manager is not None else UNSET,
        )
        return Record(at=0, by="", type="checkpoint", id=checkpoint, body=Raw(write_form(body)))

    def add_note(self, skeleton: Skeleton, body: Raw = EMPTY) -> None:
        """Fold a note of usage into the sums, and a note of an effect into the unresolved effects."""
        if skeleton.kind.startswith("effect"):
            from treering.session.effects import folded  # most sessions have none

            self.effects = folded(self.effects, skeleton, body)
        if skeleton.kind != "usage":
            return
        brief: dict[str, Any] = read_brief(skeleton)
        numbers: dict[str, Any] = {name: value for name, value in brief.items() if is_amount(value)}
        if brief.get("turn") is not False:
            self.last_usage = numbers
        before = {} if brief.get("reset") is True else self.usage  # replaced, not changed: a savepoint may hold it
        sums = {name: before.get(name, 0) + value for name, value in numbers.items()}
        self.usage = before | {name: min(max(value, -AMOUNT_MAX), AMOUNT_MAX) for name, value in sums.items()}

    def _edit(self, record: Record, skeleton: Skeleton) -> None:
        # rule: pruned-is-gone
        if skeleton.kind == "prune" and self.checkpoint and skeleton.target == self.checkpoint.id:
            self.checkpoint, self.context_at = None, UNKNOWN  # the graph tells which checkpoint holds the state now
        target, brief = skeleton.target, read_brief(skeleton)
        if target is None:
            return
        if brief.get("undo"):
            # Only the graph says what is shown again: what happens to be in memory differs between folds.
            heads, shown = brief.get("heads"), target in self.context.nodes
            told = self.head in heads if isinstance(heads, list) else True
            if told and shown == (skeleton.kind == "amend"):  # rule: undone-is-unknown
                self.context_at = UNKNOWN
        elif skeleton.kind == "retract" and target in self.context.nodes:
            self._see(without(self.context, {target}), self.context_at)
        elif skeleton.kind == "amend" and not brief.get("erased"):  # else its target is erased, and shown as erased
            self.context = replace(self.context, {target: bytes(record.body)})


class _Growing:
    """A context to which nodes are added while records are folded together."""

    def __init__(self, policy: Policy, context: Context, at: str | None) -> None:
        self.growth = Growth(policy, context)
        self.at = at
        """The node that the context belongs to."""
        self.count = 0
        self.hides = False
        """Whether one of the added nodes is not shown."""

    def takes(self, node: Skeleton) -> bool:
        """Add a node at the end; False if it has another parent, or if this needs the whole context."""
        items = self.growth.add(node) if node.parent == self.at else None
        if items is None:
            return False
        self.at = node.id
        self.count += 1
        self.hides = self.hides or not items or items[-1].node != node.id
        return True


class Tally:
    """The fold of the card, kept in counters because making a new card for each record would cost more."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._nodes = card.nodes
        self._messages = card.messages
        self._checkpoints = card.checkpoints
        self._updated = card.updated
        self._max_id = card.max_id
        self.clock = IdClock()
        """Makes ids greater than those of all folded records."""
        self.clock.observe(card.max_id)

    def card(self, heads: Heads) -> Card:
        """The card as of now."""
        return msgspec.structs.replace(
            self._card,
            nodes=self._nodes,
            messages=self._messages,
            checkpoints=self._checkpoints,
            updated=self._updated,
            max_id=self._max_id,
            head=heads.current,
            node=heads.tip,
        )

    def tells_more_than(self, card: Card) -> bool:
        """Whether `card` lacks a field that lists must show at once."""
        return told_at_once(self._card) != told_at_once(card)

    def add(self, skeleton: Skeleton, record: Record) -> None:
        """Fold the next record."""
        if skeleton.type == "node":
            self._nodes += 1
            if skeleton.kind == "message":
                self._messages += 1
                if not self._card.first_prompt and skeleton.role == "user":
                    self._set({"first_prompt": first_prompt(bytes(record.body))})
                elif skeleton.role == "assistant" and MODEL in bytes(record.brief):
                    self._set(_model_of(read_brief(skeleton)))
            elif skeleton.kind == "model_change":
                brief = read_brief(skeleton)
                self._set({name: str(brief[name] or "") for name in ("model", "provider") if name in brief})
        elif skeleton.type == "checkpoint":
            self._checkpoints += 1
        elif skeleton.type == "note":
            self._add_note(skeleton, record)
        if (skeleton.type, skeleton.kind) not in UPKEEP:
            self._updated = max(self._updated, skeleton.time)
        if record.time is None and record.id > self._max_id:  # an id made here: only such ids contain the time
            self._max_id = record.id
            self.clock.observe(record.id)

    def _add_note(self, skeleton: Skeleton, record: Record) -> None:
        if skeleton.kind in FACTS:
            brief = read_brief(skeleton)
            told = {name: brief[name] for name in FACTS[skeleton.kind] if name in brief}
            self._set({name: fact if isinstance(fact, str) else "" for name, fact in told.items()})
        elif skeleton.kind == ORIGIN:
            self._originate(decode_payload(bytes(record.body), {}))
        elif skeleton.kind == CARD:
            facts = decode_payload(bytes(record.body), {})
            if isinstance(facts, Erased):
                fields = read_brief(skeleton).get("fields")
                self.take_back([f"{EXTRA}{field}" for field in fields] if isinstance(fields, list) else ())
            else:
                self._card = _joined(self._card, facts)

    def take_back(self, facts: Collection[str]) -> None:
        """Remove erased facts from the card."""
        self._card = without_facts(self._card, facts)

    def _originate(self, facts: object) -> None:
        """Take the time of the last activity and the parent from the facts about an imported file.

        A copy under another name has this note, too, but was not imported from the file.
        """
        if not isinstance(facts, dict) or facts.get("session") != self._card.session:
            return
        self._set({"extra": {**self._card.extra, ORIGIN: facts}})
        if isinstance(active := facts.get("active_ms"), int):
            self._updated = active
        if isinstance(parent := facts.get("parent_session"), str):
            self._set({"parent_session": parent})

    def _set(self, facts: dict[str, object]) -> None:
        self._card = msgspec.structs.replace(self._card, **facts)


def without_facts(card: Card, facts: Collection[str]) -> Card:
    """The card without facts that were erased, named as in `Erasure.facts`."""
    for fact in facts:
        if fact.startswith(EXTRA):
            name, _, field = fact.removeprefix(EXTRA).partition("/")
            card = _joined(card, {name: {field: None}})
        else:
            card = msgspec.structs.replace(card, **{fact: NOTE if fact == "first_prompt" else ""})
    return card


def _joined(card: Card, facts: object) -> Card:
    """The card with more facts among its further facts; null removes a field."""
    extra = dict(card.extra)
    for name, fields in fields_of(facts).items():
        joined = fields_of(extra.get(name)) | fields_of(fields)
        extra[name] = {field: value for field, value in joined.items() if value is not None}
    return msgspec.structs.replace(card, extra=extra)


def _model_of(brief: dict[str, object]) -> dict[str, object]:
    """The fields of the card that an answer determines; none for an answer outside the conversation (`side`)."""
    if brief.get("side") or not (isinstance(model := brief.get("model"), str) and model):
        return {}
    provider = brief.get("provider")
    named: dict[str, object] = {"provider": provider} if isinstance(provider, str) and provider else {}
    return {"model": model, **named}


def announced(card: Card, records: Iterable[Record]) -> Card:
    """The card of a session to be created with these records, so that lists never show it as empty."""
    tally = Tally(card)
    for record in records:
        tally.add(skeleton_of_record(record, 0), record)
    told = tally.card(Heads())
    return msgspec.structs.replace(card, **{name: getattr(told, name) for name in _NOTHING_YET})


def recorded(card: Card) -> Card:
    """The card, with counts and first prompt reset if it covers no records: the announced records may be lost."""
    return card if card.covers else msgspec.structs.replace(card, **_NOTHING_YET)  # rule: announce-nothing
