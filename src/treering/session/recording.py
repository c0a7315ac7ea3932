"""Turn drafts into the records of one append: parents, heads, times, and a checkpoint if one is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, replace, without
from treering.checkpoint.delta import write_steps
from treering.checkpoint.policy import extend_all
from treering.errors import UsageError
from treering.format import values
from treering.format.record import EMPTY, Record, encode_record, read_brief, skeleton_of_record
from treering.ids import now_ms, time_of
from treering.kinds import Kind
from treering.session.appender import Buffered
from treering.session.content import ContextItem
from treering.session.payload import encode_payload
from treering.session.position import Place
from treering.session.redaction import Redaction
from treering.session.state import SessionState
from treering.session.writer import Writer
from treering.transcript.heads import Heads
from treering.transcript.node import HERE, Draft, Here

Message = Draft | Mapping[str, Any] | str
"""A message that `append` accepts: a draft, a JSON object with a role, or text from the user."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a commit in addition to its messages."""

    state: Mapping[str, object] = {}
    drop: Sequence[str] = ()
    manager: object = UNSET
    context: Sequence[ContextItem | str] | None = None
    """The context in front of the commit's messages, edited by the caller."""
    as_it_is: bool = False
    """Accept a context that has results without their calls: another program made it and shows it already."""
    label: str | None = None
    step: int | None = None
    metadata: Mapping[str, object] = {}
    navigated: bool = False

    @property
    def says_something(self) -> bool:
        """Whether there is content to keep in addition to the end of a turn."""
        facts = (self.state, self.drop, self.metadata, self.label, self.navigated)
        return any(facts) or self.context is not None or self.step is not None or self.manager is not UNSET


class Recording:
    """Collects the records of one append and tracks the position after each."""

    buffered: tuple[Buffered, ...] = ()
    untold = False
    """Whether a new head that begins here without a checkpoint would get a wrong state."""
    compacts = False
    """Whether a compaction is among the records."""
    made: Checkpoint | None = None

    def __init__(self, writer: Writer, place: Place | None = None) -> None:
        self.writer = writer
        self.state: SessionState = writer.replica.state
        self.records: list[Record] = []
        self.blobs: dict[str, bytes] = {}
        self.ids: list[str] = []
        """Ids of the caller's drafts, recorded already or not."""
        place = place or writer.position.in_hand()
        self.head, self.node, self.own_head = place.head, place.node, place.own_head
        self.moved = self.own_head and self.node != writer.position.node
        self.caught_up = place.caught_up
        """Whether the handle moves to the new checkpoint after the append."""
        self._context: Context | None = self.state.context if self.state.context_at == self.node else None
        self._added: list[Record] = []
        """Nodes and edits not yet applied to `_context`; most appends never need it."""
        self.checkpoint: Checkpoint | None = self.state.checkpoint
        if place.newest is not None:
            self._context, self.checkpoint = place.newest.context, place.newest.checkpoint
        self._nodes = 0
        self._asides: dict[str, str | None] = {}

    @property
    def begins_head(self) -> bool:
        """Whether these records begin a new head, which has no record yet, since another writer moved the old one."""
        heads = self.state.heads.heads
        first = not heads and self.node is None and self.head == self.writer.position.head
        return self.head not in heads and not self.moved and not first

    @property
    def context(self) -> Context | None:
        """The context after the records so far; None if it has to be computed from the path."""
        for are_nodes, records in groupby(self._added, key=lambda record: record.type == "node"):
            if are_nodes and self._context is not None:
                nodes = (skeleton_of_record(record, 0) for record in records)
                self._context = extend_all(self.writer.replica.policy, self._context, nodes)
            elif self._context is not None:
                self._context = reduce(_edited, records, self._context)
        self._added.clear()
        return self._context

    @context.setter
    def context(self, context: Context | None) -> None:
        self._context, self._added = context, []

    def draft(self, draft: Draft, *, here: bool = False) -> str:
        """Record a draft; return its id. With `here` its target is the current node."""
        burials = self.writer.replica.burials
        if draft.type == "edit" and draft.kind == "amend" and draft.target in burials.names:  # rule: no-edits-after
            return draft.id or ""  # the target was erased, so there is nothing left to amend
        if self.writer.options.redaction is not None:
            draft = self.writer.options.redaction.draft(draft)
        body, large = encode_payload(draft, inside=burials.blobs)  # rule: gone-blobs
        if large:
            self.blobs |= large
        identifier, time = draft.id, draft.time_ms
        if identifier is None:
            identifier = self.state.clock.new()
        elif time is None and time_of(identifier) is None:
            time = now_ms()
        parent, head = self._place_node(identifier, draft.parent) if draft.type == "node" else (None, "")
        record = Record(
            at=0,
            by="",
            type=draft.type,
            kind=draft.kind,
            role=draft.role,
            id=identifier,
            parent=parent,
            head=head,
            target=self.node if here else draft.target,
            time=time,
            links=draft.links,
            brief=Raw(values.encode(draft.brief)) if draft.brief else EMPTY,
            body=body,
        )
        self.records.append(record)
        if self.node == identifier or draft.type == "edit":
            self._added.append(record)
        if draft.kind == "compaction":
            self.compacts = True
        return identifier

    def _place_node(self, node: str, parent: str | Here | None) -> tuple[str | None, str]:
        """The parent and head of a new node. If it continues the current node, the handle moves with it."""
        self._nodes += 1
        if parent is HERE or parent == self.node:
            if self.untold and self.begins_head:
                self.keep(Change())
            parent, self.node = self.node, node
            self.moved = self.moved or self.own_head
            return parent, self.head
        aside = self._aside(parent)
        self._asides[aside] = node
        return parent, aside

    def _aside(self, parent: str | None) -> str:
        """The head for a node below another parent: a head that this append made and that ends there, or a new one."""
        known = next((head for head, node in self._asides.items() if node == parent), None)
        taken = Heads({**self.state.heads.heads, self.head: self.node} | self._asides)
        return known or taken.free_name(self.head)

    def move(self, kind: str, head: str, node: str | None, brief: Mapping[str, object] | None = None) -> None:
        """Record that `head` now points to `node` and is the current one."""
        first, unplaced = self.writer.position.head, not self.state.heads.heads and self.node is None
        if unplaced and head != first and self.checkpoint is not None:  # rule: first-head-stays
            self._add_head("branch", first, None)
        self._add_head(kind, head, node, brief)
        self.head, self.node, self.own_head, self.moved = head, node, True, True

    def _add_head(self, kind: str, head: str, node: str | None, brief: Mapping[str, object] | None = None) -> None:
        self.records.append(
            Record(
                at=0, by="", type="head", kind=kind, id=self.state.clock.new(), head=head, target=node,
                brief=Raw(values.encode(dict(brief))) if brief else EMPTY,
            )
        )  # fmt: skip

    def forget(self, head: str) -> None:
        """Record that a head is dropped."""
        self.records.append(Record(at=0, by="", type="head", kind="drop", id=self.state.clock.new(), head=head))

    def give_up(self, checkpoint: str) -> None:
        """Record that a checkpoint is pruned."""
        self.records.append(_given_up(checkpoint, self.state.clock.new()))

    def end(self, changed: Change | None) -> None:
        """Record a checkpoint if `changed` has content to keep, or the schedule makes one due."""
        due = self.writer.options.schedule.due(
            now_ms=now_ms(),
            nodes_since=self.state.nodes_since + self._nodes,
            last_ms=self.checkpoint.time_ms if self.checkpoint else None,
            turn_ended=changed is not None,
        )
        wanted = changed is not None and changed.says_something
        if self.own_head and (wanted or (due and self.context is not None)):
            self.keep(changed or Change(), wanted=wanted)

    def keep(self, change: Change, *, wanted: bool = True) -> None:
        """Record a checkpoint of the position after the records so far.

        Args:
            change: Its content.
            wanted: The caller asked for it. Otherwise it is skipped if it is too large for a record.
        """
        context = self.context
        if context is None:
            raise UsageError("the context of this node is not known", kind=Kind.ADRIFT)
        if self.begins_head:
            self.move("branch", self.head, self.node, {"current": False})
        if self.writer.options.redaction is not None:
            change = redacted(change, self.writer.options.redaction)
        parent = self.checkpoint
        state = dict(parent.state) if parent else {}
        manager = parent.manager if parent else None
        for key in change.drop:
            state.pop(key, None)
        state |= encode_state_values(change.state)
        if change.manager is not UNSET:
            manager = values.encode(change.manager)
        new = Checkpoint(
            id=self.state.clock.new(),
            parent=parent.id if parent else None,
            head=self.head,
            node=self.node,
            context=context,
            state=state,
            manager=manager,
            policy=self.writer.replica.policy.name,
            label=change.label,
            step=change.step,
            metadata=dict(change.metadata),
            time_ms=now_ms(),
        )
        made, records = checkpoint_records(parent, new, self.state.clock.new, navigated=change.navigated)
        if wanted or len(records) == 1:
            self.made = self.checkpoint = made
            self.records += records


def checkpoint_records(
    parent: Checkpoint | None,
    new: Checkpoint,
    new_id: Callable[[], str],
    *,
    navigated: bool = False,
    time_ms: int | None = None,
) -> tuple[Checkpoint, list[Record]]:
    """A checkpoint as it is recorded, and its records; if it is too large for a record, it is split into several.

    Several records form a chain of checkpoints, of which all but the last are pruned at once.

    Args:
        parent: The checkpoint that it is a delta of; None makes a full one.
        new: The checkpoint.
        new_id: Makes ids for the further records.
        navigated: The head moved in another way than by an append.
        time_ms: When it was made, if its id does not contain the time.
    """
    steps = write_steps(parent, new, navigated=navigated, new_id=new_id)
    records = [
        Record(
            at=0, by="", type="checkpoint", id=step.checkpoint.id, parent=step.checkpoint.parent, head=new.head,
            target=new.node, time=time_ms, brief=Raw(step.brief), body=Raw(step.body),
        )
        for step in steps
    ]  # fmt: skip
    records += [_given_up(step.checkpoint.id, new_id()) for step in steps[:-1]]
    return steps[-1].checkpoint, records


def _given_up(checkpoint: str, new: str) -> Record:
    return Record(at=0, by="", type="edit", kind="prune", id=new, target=checkpoint)


def _edited(context: Context, edit: Record) -> Context:
    if edit.target is None or _takes_back(edit):  # the caller that undoes an edit sets the context itself
        return context
    if edit.kind == "retract":
        return without(context, {edit.target})
    return replace(context, {edit.target: bytes(edit.body)}) if edit.kind == "amend" else context


def _takes_back(edit: Record) -> bool:
    return edit.brief is not EMPTY and read_brief(skeleton_of_record(edit, 0)).get("undo") is True


def redacted(change: Change, redaction: Redaction) -> Change:
    """Return a change as it is recorded.

    Raises:
        UsageError: The redaction refuses a value.
    """
    return msgspec.structs.replace(
        change,
        state={key: redaction.value(value, f"state[{key!r}]") for key, value in change.state.items()},
        manager=redaction.value(change.manager, "manager"),
        label=redaction.text(change.label, "label") if change.label else change.label,
        metadata=redaction.value(dict(change.metadata), "metadata"),
    )


def encode_state_values(state: Mapping[str, object]) -> dict[str, bytes]:
    """Encode state values for storage, by key.

    Raises:
        UsageError: A key is not a string, or a value cannot be stored exactly; the message names its path.
    """
    for key in state:
        if type(key) is not str or not key:  # callers are not always type-checked
            raise UsageError(f"a state key must be a non-empty string. got={key!r}", kind=Kind.STATE_KEY)
    encoded = {}
    for key, value in state.items():
        try:
            encoded[key] = values.encode(value)
        except UsageError as error:
            raise UsageError(f"state[{key!r}]: {error}", kind=error.kind) from error
    return encoded


def model_of_role(role: str, name: str, settings: Mapping[str, object]) -> Draft:
    """Return a draft that sets a model for a role, and leaves the model that answers as the settings say.

    Args:
        role: The role.
        name: The model's name, with its provider.
        settings: The settings at the place where it will be recorded.
    """
    # Most policies treat a fact that a change leaves out as unknown, so the model that answers is named again.
    kept = {fact: settings[fact] for fact in ("model", "provider") if settings.get(fact)}
    models = values.fields_of(settings.get("models")) | {role: name}
    return Draft(kind="model_change", payload={"model": name, "role": role}, brief={**kept, "models": models})


def require_text(name: str, value: str) -> str:
    """Return a value that must be text: no reader accepts another one, and callers are not always type-checked.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(value, str):
        raise UsageError(f"the {name} must be text. got={value!r}", kind=Kind.VALUE)
    return value


def require_storable(drafts: Sequence[Draft]) -> None:
    """Refuse drafts that could not be recorded, before they are buffered.

    Raises:
        UsageError: A value cannot be stored exactly, or is too large for a record.
    """
    for draft in drafts:
        body, _ = encode_payload(draft)
        brief = Raw(values.encode(draft.brief)) if draft.brief else EMPTY
        record = Record(
            at=0, by="", type=draft.type, kind=draft.kind, id=draft.id or "", role=draft.role,
            parent=None if isinstance(draft.parent, Here) else draft.parent, target=draft.target, time=draft.time_ms,
            links=draft.links, brief=brief, body=body,
        )  # fmt: skip
        encode_record(record)


def draft_of(message: Message) -> Draft:
    """Convert a message of the caller to a draft.

    Raises:
        UsageError: The message has none of the accepted types, or it is a draft that only importers may record.
    """
    if isinstance(message, Draft):
        if message.type not in ("node", "note", "edit"):
            raise UsageError(
                f"a draft is a node, a note or an edit. type={message.type!r}", kind=Kind.MESSAGE,
                remedy="to record a checkpoint, call `commit`",
            )  # fmt: skip
        return message
    if isinstance(message, str):
        message = {"role": "user", "content": message}
    if isinstance(message, Mapping):
        role = message.get("role")
        return Draft(role=role if isinstance(role, str) else "", payload=dict(message))
    raise UsageError(
        f"cannot record a {type(message).__name__}",
        kind=Kind.MESSAGE,
        remedy="pass treering.user(...), a JSON object with a role, or text",
    )
