"""The current state of a session: a fold over its records, resumed from `latest` and advanced record by record.

Rule 1: the fold is deterministic. Folding all records from the start, or the last of them over the state in `latest`,
gives the same state; so any process may write `latest`.
Rule 2: the context follows one head. A node that does not continue it, or a head that moved without a checkpoint,
leaves the context unknown (`adrift`) until a full checkpoint or the graph determines it. It is never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.checkpoint.body import Body, read_form, write_form
from treering.checkpoint.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from treering.checkpoint.context import Context, ItemForm, decode_items, encode_items, replace, without
from treering.checkpoint.delta import apply_body
from treering.checkpoint.policies import default
from treering.checkpoint.policy import Policy, find_policy
from treering.errors import CorruptError, NotFoundError, UsageError
from treering.format import values
from treering.format.record import Record, Skeleton, decode_record, read_brief, skeleton_of, skeleton_of_record
from treering.format.register import Card, Latest, room
from treering.kinds import Kind
from treering.session.tally import Tally, recorded
from treering.transcript.heads import Heads, decode_heads

DEFAULT_POLICY = default.DEFAULT_POLICY.name  # imported early, so that resuming loads no code
_KNOWN_TYPES = frozenset({"node", "note", "head", "edit", "checkpoint"})
_KNOWN_EDITS = frozenset({"amend", "retract", "prune"})


def knows(record: Record) -> bool:
    """Whether the fold understands a record. Unknown kinds of nodes and notes change nothing but themselves."""
    return record.type in _KNOWN_TYPES and (record.type != "edit" or record.kind in _KNOWN_EDITS)


class StateLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """First body line of `latest`: everything except the records."""

    type: str = "state"
    heads: dict[str, object] = {}
    checkpoint: Raw | UnsetType = UNSET
    """The newest checkpoint of the current head, as a full one."""
    context: list[str | ItemForm] | None = None
    """Items of the working context; None: those of the checkpoint."""
    settings: Raw | UnsetType = UNSET
    """The further parts of `context`."""
    context_at: str | None = None
    nodes_since: int = 0
    parent_gone: bool = False
    usage: dict[str, int | float] = {}
    last_usage: dict[str, int | float] = {}
    places: list[int] = []
    """Positions of the context's records that are left out, in the order of its nodes; -1: unknown."""
    policy: str = ""
    """Set where there is no room for the context and the checkpoint: the policy that extends the context."""


_PLACE_BYTES = 17  # of a position and a comma

_STATE_LINE = msgspec.json.Decoder(StateLine)  # made at import: see `treering.checkpoint.body`


class SessionState:
    """The fold. Mutable; one handle owns it."""

    def __init__(self, card: Card, policy: Policy) -> None:
        self._tally = Tally(card)
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
        """Record lines by id: of the nodes in the context, and of those that a prefetched checkpoint refers to."""
        self.places: dict[str, int] = {}
        """Positions of the context's records that are not among the lines, as far as known."""
        self._whole: Context | None = None
        """A context known to lack no lines: it was checked, or extends one that was."""
        self.borrowed: frozenset[str] = frozenset()
        """Keys of `lines` read from the graph instead of folded; `latest` may not have them."""
        self.checkpoint: Checkpoint | None = None
        """The newest checkpoint of the followed head; it holds the agent's state."""
        self.parent_gone = False
        """The checkpoint was pruned: the next one must not be a delta over it."""
        self.nodes_since = 0
        self.usage: dict[str, int | float] = {}
        self.last_usage: dict[str, int | float] = {}

    # queries

    @property
    def card(self) -> Card:
        """The card as of now."""
        return self._tally.card(self.heads)

    def tells_more_than(self, card: Card) -> bool:
        """Whether `card` lacks a field that lists must show at once."""
        return self._tally.tells_more_than(card)

    def new_id(self) -> str:
        """A new id, greater than those of all records folded so far."""
        return self._tally.clock.new()

    def take_back(self, facts: Collection[str]) -> None:
        """Remove erased facts from the card."""
        self._tally.take_back(facts)

    @property
    def head(self) -> str:
        return self.follow or self.heads.current

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
        """The context does not belong to the head's node, or lacks a record."""
        return self.context_at != self.tip or self.lacks_lines

    @property
    def lacks_lines(self) -> bool:
        """A record that the context shows is not in memory."""
        if self._whole is not self.context and self.lines.keys() >= set(self.context.nodes):
            self._whole = self.context
        return self._whole is not self.context

    # folding

    def advance(self, lines: Sequence[bytes]) -> list[Record]:
        """Fold the records at the positions from `end` on; return them."""
        records = [decode_record(line) for line in lines]
        for record, line in zip(records, lines, strict=True):
            self.apply(record, line)
        return records

    def apply(self, record: Record, line: bytes, skeleton: Skeleton | None = None) -> None:
        """Fold the record at position `end`.

        Args:
            record: The record.
            line: Its line.
            skeleton: Its skeleton, if the caller has it.

        Raises:
            CorruptError: It is at another position.
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
            self._checkpoint(record, skeleton)
        elif record.type == "note" and record.kind == "usage":
            self._add_usage(skeleton)
        elif record.type == "edit":
            self._edit(record, skeleton)
        self._tally.add(skeleton, record)

    def behind(self, records: Iterable[Record]) -> SessionState:
        """A copy with the card, heads and usage as they will be after these records; nothing else is folded."""
        after = SessionState(self.card, self.policy)
        after.heads, after.usage, after.last_usage = self.heads, self.usage, self.last_usage
        after.nodes_since, after.parent_gone = self.nodes_since, self.parent_gone
        for record in records:
            if record.type not in ("checkpoint", "edit"):
                after.apply(msgspec.structs.replace(record, at=after.end), b"")
        return after

    def _move(self, skeleton: Skeleton) -> None:
        """Fold a move of a head, or a switch to another: the checkpoint that follows determines the context."""
        before = self.head
        self.heads = self.heads.apply(skeleton)
        if self.head != before or skeleton.head == before:
            self.context_at = UNKNOWN

    def _node(self, skeleton: Skeleton, line: bytes) -> None:
        self.heads = self.heads.apply(skeleton)
        if not skeleton.head or skeleton.head != self.head:
            return
        self.nodes_since += 1
        self.lines[skeleton.id] = line  # even if the context is unknown: the checkpoint that follows may show it
        if skeleton.parent != self.context_at:
            return  # another branch: adrift until a checkpoint or the graph determines the context
        extended = self.policy.extend(self.context, skeleton)
        if extended is not None:
            self._see(extended, skeleton.id)

    def _see(self, context: Context, node: str | None) -> None:
        """Make `context` the one of `node`; drop lines that neither it nor a prefetch needs."""
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

    def _checkpoint(self, record: Record, skeleton: Skeleton) -> None:
        if skeleton.head != self.head:
            return
        parent = self.checkpoint if self.checkpoint and self.checkpoint.id == skeleton.parent else None
        try:
            self.checkpoint = apply_body(parent, record, self.held_record)
        except (NotFoundError, CorruptError):
            # A delta over a checkpoint not in memory, or a value in a record not in memory. The rebuild reads these
            # records, and raises if they are damaged.
            self.checkpoint, self.context_at = None, UNKNOWN
            return
        self.nodes_since, self.parent_gone = 0, False
        changed = self.checkpoint.context != self.context
        if changed:  # else keep the object that is known to lack no lines
            self.context = self.checkpoint.context
        self.context_at = skeleton.target
        if changed or len(self.lines) > len(self.context.items):
            self._forget()

    def held_record(self, checkpoint: str) -> Record:
        """The part of an older checkpoint's record in memory: the state values it wrote that are still current.

        Raises:
            NotFoundError: Nothing of it is in memory.
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

    def _add_usage(self, skeleton: Skeleton) -> None:
        numbers = {name: value for name, value in read_brief(skeleton).items() if type(value) in (int, float)}
        self.last_usage = numbers  # type: ignore[assignment]  # checked by the line above
        sums = {name: self.usage.get(name, 0) + value for name, value in self.last_usage.items()}
        self.usage = self.usage | sums  # replaced, not changed: a savepoint may hold it

    def _edit(self, record: Record, skeleton: Skeleton) -> None:
        if skeleton.kind == "prune" and self.checkpoint and skeleton.target == self.checkpoint.id:
            self.parent_gone = True
        target, brief = skeleton.target, read_brief(skeleton)
        if target is None:
            return
        if brief.get("undo"):
            restored = skeleton.kind in ("amend", "retract") and target in self.lines
            self.context_at = UNKNOWN if restored else self.context_at
        elif skeleton.kind == "retract" and target in self.context.nodes:
            self._see(without(self.context, {target}), self.context_at)
        elif skeleton.kind == "amend" and not brief.get("erased"):  # else its target is erased, and shown as erased
            self.context = replace(self.context, {target: bytes(record.body)})


# No node has this id, so a context at it never belongs to a head.
UNKNOWN = "?"


def encode_state(state: SessionState) -> tuple[bytes, ...]:
    """Body of `latest`: the state line, then the record lines that its context needs.

    If there is no room, the oldest records are left out; or all of them, with the context and the checkpoint. Readers
    get these from the journal.
    """
    left = room() - len(line := _state_line(state))
    if left < 0:  # rule: carry-the-least
        return (encode_adrift(state),)
    if not state.lacks_lines and sum(map(len, state.lines.values())) <= left:
        return (line, *state.lines.values())
    return _encode_in_part(state, left)


def _encode_in_part(state: SessionState, left: int) -> tuple[bytes, ...]:
    """The body without the oldest records of the context; it lists their positions."""
    shown = dict.fromkeys(state.context.nodes)
    left -= _PLACE_BYTES * len(shown)
    kept: dict[str, bytes] = {}
    for node, line in reversed(state.lines.items()):
        if (left := left - len(line)) < 0:  # rule: carry-what-fits
            break
        kept[node] = line
    places = [_place_of(state, node) for node in shown if node not in kept]
    known = max(places, default=-1) >= 0
    return (_state_line(state, places if known else ()), *reversed(kept.values()))


def _place_of(state: SessionState, node: str) -> int:
    line = state.lines.get(node)
    return state.places.get(node, -1) if line is None else skeleton_of(line).at


def encode_adrift(state: SessionState) -> bytes:
    """The smallest body of `latest`: only what is needed to read the rest from the journal."""
    line = StateLine(
        heads=state.heads.encode(),
        context_at=UNKNOWN,
        nodes_since=state.nodes_since,
        parent_gone=state.parent_gone,
        usage=state.usage,
        last_usage=state.last_usage,
        policy=state.policy.name,
    )
    return write_form(line) + b"\n"


def _state_line(state: SessionState, places: Sequence[int] = ()) -> bytes:
    newest = state.checkpoint
    same = newest is not None and newest.context == state.context
    line = StateLine(
        heads=state.heads.encode(),
        checkpoint=Raw(encode_checkpoint(newest)) if newest else UNSET,
        context=None if same else [*encode_items(state.context.items)],
        settings=UNSET if same else Raw(values.encode(state.context.settings)),
        context_at=state.context_at,
        nodes_since=state.nodes_since,
        parent_gone=state.parent_gone,
        usage=state.usage,
        last_usage=state.last_usage,
        places=[*places],
        policy=state.policy.name if newest is None and state.context_at == UNKNOWN else "",
    )
    return write_form(line) + b"\n"


def decode_state(latest: Latest, policy: Policy | None, *, key: str) -> SessionState:
    """The state that `latest` holds.

    Args:
        latest: The register.
        policy: Extends the context; None: the one that made the newest checkpoint, or the default if that is unknown.
        key: For messages.

    Raises:
        CorruptError: Its body was not written by `encode_state`.
    """
    state = SessionState(recorded(latest.card), policy or find_policy(DEFAULT_POLICY))
    state.end = latest.card.covers
    if not latest.lines:
        return state
    line = read_form(latest.lines[0], _STATE_LINE)
    state.heads = decode_heads(line.heads)
    state.checkpoint = None if isinstance(line.checkpoint, UnsetType) else decode_checkpoint(line.checkpoint)
    if policy is None and (name := state.checkpoint.policy if state.checkpoint else line.policy):
        state.policy = _remembered(name) or state.policy
    state.context = _decode_context(line, state.checkpoint)
    state.context_at = line.context_at
    state.nodes_since, state.parent_gone = line.nodes_since, line.parent_gone
    state.usage, state.last_usage = dict(line.usage), dict(line.last_usage)
    state.lines = {decode_record(record, key=key).id: record for record in latest.lines[1:]}
    if line.places:
        missing = [node for node in dict.fromkeys(state.context.nodes) if node not in state.lines]
        state.places = {node: at for node, at in zip(missing, line.places, strict=False) if at >= 0}
    return state


def _remembered(policy: str) -> Policy | None:
    """The policy of a stored context, if it is built in or registered in this process."""
    try:
        return find_policy(policy)
    except UsageError:
        return None


def _decode_context(line: StateLine, checkpoint: Checkpoint | None) -> Context:
    if line.context is None:
        return checkpoint.context if checkpoint else Context()
    settings = {} if isinstance(line.settings, UnsetType) else values.decode(line.settings)
    return Context(decode_items(line.context), settings if isinstance(settings, dict) else {})
