"""The body of `latest`, the snapshot register: the state in it, and the limits that keep it small enough to be written.

`latest` leaves out parts for which it has no room: readers get them from the journal. It cannot leave out the card, the
heads, by which the rest is found, the sums of usage, and unresolved effects, which have a limit of their own. So
records that would make these too large are refused before they are acknowledged. Other records, and records that make
these smaller, are never refused.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering._late import Kind
from treering.checkpoint import policies
from treering.checkpoint.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint, read_form, write_form
from treering.checkpoint.context import Context, ItemForm, decode_items, encode_items
from treering.checkpoint.policy import Policy, find_policy
from treering.errors import UsageError
from treering.format import register, values
from treering.format.record import Record, decode_record, skeleton_of
from treering.format.register import Card, Latest
from treering.format.values import DEPTH_MAX
from treering.session.state import CARD, FACTS, MODEL, ORIGIN, UNKNOWN, SessionState, recorded
from treering.transcript.heads import decode_heads

DEFAULT_POLICY = policies.DEFAULT_POLICY.name  # imported early, so that resuming loads no code
CARD_RESERVE_BYTES = 1536
"""Reserved on a card for its automatic fields: counts, times, the first prompt, an ordinary head and node, segments."""
ON_CARD = {("node", "model_change"), *(("note", kind) for kind in (*FACTS, ORIGIN, CARD))}
NAME_CHARS_ORDINARY = 200
"""Length of the names of a head and its node together."""
JSON_BYTES_MAX = 6  # of one character
_SHORTER = "make it shorter; what no list shows has room in the state, in messages and in extensions"
ENTRY_CHARS = 30  # around a name: quotes and the like, or a number


class StateLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """First body line of `latest`: everything except the records."""

    type: str = "state"
    heads: dict[str, object] = {}
    checkpoint: Raw | UnsetType = UNSET
    """The newest checkpoint of the current head, in full."""
    context: list[str | ItemForm] | None = None
    """Items of the working context; None: those of the checkpoint."""
    settings: Raw | UnsetType = UNSET
    """The settings of `context`."""
    context_at: str | None = None
    nodes_since: int = 0
    parent_gone: bool = False
    """Whether `checkpoint` was pruned; only early versions wrote this."""
    usage: dict[str, int | float] = {}
    last_usage: dict[str, int | float] = {}
    effects: dict[str, Raw] = {}
    places: list[int] = []
    """Positions of the context's records that are left out, in the order of its nodes; -1: unknown."""
    streams: dict[str, dict[str, Any]] = {}
    """Answers that are being written, by id; see `treering.session.streams`."""
    policy: str = ""
    """Set where there is no room for the context and the checkpoint: the policy that extends the context."""


_PLACE_BYTES = 17  # for a position and a comma

_STATE_LINE = msgspec.json.Decoder(StateLine)  # made at import: see `treering.checkpoint.checkpoint`


def encode_state(state: SessionState) -> tuple[bytes, ...]:
    """Body of `latest`: the state line, then the record lines that its context needs.

    If there is no room, the oldest records are left out; if even the state line is too long, all records, the context
    and the checkpoint are left out. Readers get these from the journal.
    """
    left = register.ROOM_BYTES - len(line := _state_line(state))
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
    """The smallest body of `latest`: only the parts that are needed to read the rest from the journal."""
    line = StateLine(
        heads=state.heads.encode(),
        context_at=UNKNOWN,
        nodes_since=state.nodes_since,
        usage=state.usage,
        last_usage=state.last_usage,
        effects=state.effects,
        streams=state.streams,
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
        usage=state.usage,
        last_usage=state.last_usage,
        effects=state.effects,
        streams=state.streams,
        places=[*places],
        policy=state.policy.name if newest is None and state.context_at == UNKNOWN else "",
    )
    return write_form(line) + b"\n"


def decode_state(latest: Latest, policy: Policy | None, *, key: str) -> SessionState:
    """The state that `latest` holds.

    Args:
        latest: The register.
        policy: Extends the context; None: the policy of the newest checkpoint, or the default if that is unknown.
        key: The key of the register, for error messages.

    Raises:
        CorruptError: `encode_state` did not write the body.
    """
    state = SessionState(recorded(latest.card), policy or find_policy(DEFAULT_POLICY))
    state.end = latest.card.covers
    if not latest.lines:
        return state
    line = read_form(latest.lines[0], _STATE_LINE)
    state.heads = decode_heads(line.heads)
    state.checkpoint = None if isinstance(line.checkpoint, UnsetType) else decode_checkpoint(line.checkpoint)
    if policy is None and (name := state.checkpoint.policy if state.checkpoint else line.policy):
        with suppress(UsageError):  # it is neither built in nor registered in this process
            state.policy = find_policy(name)
    state.context = _decode_context(line, state.checkpoint)
    state.context_at = line.context_at
    state.nodes_since = line.nodes_since
    if line.parent_gone:
        state.checkpoint, state.context_at = None, UNKNOWN
    state.usage, state.last_usage, state.effects = dict(line.usage), dict(line.last_usage), line.effects
    state.streams = line.streams
    state.lines = {decode_record(record, key=key).id: record for record in latest.lines[1:]}
    if line.places:
        missing = [node for node in dict.fromkeys(state.context.nodes) if node not in state.lines]
        state.places = {node: at for node, at in zip(missing, line.places, strict=False) if at >= 0}
    return state


def _decode_context(line: StateLine, checkpoint: Checkpoint | None) -> Context:
    if line.context is None:
        return checkpoint.context if checkpoint else Context()
    settings = {} if isinstance(line.settings, UnsetType) else values.decode(line.settings)
    return Context(decode_items(line.context), settings if isinstance(settings, dict) else {})


def require_room(state: SessionState, records: Sequence[Record]) -> None:
    """Refuse records after which `latest` could not be written.

    Args:
        state: The current state.
        records: The records to append.

    Raises:
        UsageError: The card, the list of heads, or the list of sums of usage would be too large.
    """
    # `latest` names each head twice: where it points to, and where it was placed. Most sessions have one or two.
    heads = state.heads.heads
    names = [*heads, *(node or "" for node in heads.values()), *state.usage, *state.last_usage]
    chars, on_card = sum(map(len, names)), False
    for record in records:
        named = len(record.id) + len(record.head)
        chars += named + len(record.brief)
        named += len(record.target or "")
        on_card = on_card or named > NAME_CHARS_ORDINARY or (record.type, record.kind) in ON_CARD
        on_card = on_card or MODEL in bytes(record.brief)
        if (record.type, record.kind) == ("note", CARD):
            _require_inline(record)
    crowded = JSON_BYTES_MAX * (chars + ENTRY_CHARS * (len(names) + len(records))) > register.ROOM_BYTES // 4
    if not (crowded or on_card):
        return
    after = state.behind(records)
    require_card(after.card, state.card)
    if crowded:
        _require_heads(after, state)


def _require_inline(note: Record) -> None:
    """Refuse a fact for the card that is so large that the session keeps it in an object of its own."""
    from treering.format.blobs import blob_refs_in  # most sessions have no further facts on their card

    if blob_refs_in(bytes(note.body)):
        raise UsageError(
            f"too much for the card that lists read. longest='extra', max={register.CARD_BYTES_MAX}",
            kind=Kind.CARD_TOO_LARGE,
            remedy=_SHORTER,
        )


def require_card(card: Card, before: Card | None = None) -> None:
    """Refuse a card that leaves no room for its automatic fields.

    Args:
        card: The new card.
        before: The current card. If it is too large already, the new one may be as large.

    Raises:
        UsageError: The card is too large; the message names its longest field. Or a field of a new card has a wrong
            type, or its further facts are no plain JSON, or nested too deep.
    """
    if before is None:
        if card.extra:
            _require_plain(card.extra)
        register.require_types(card)
    largest = register.CARD_BYTES_MAX - CARD_RESERVE_BYTES
    size = register.card_size(card)
    if size > largest and (before is None or size > register.card_size(before)):
        longest = register.longest_of(card)
        raise UsageError(
            f"too much for the card that lists read. longest={longest!r}, bytes={size}, max={largest}",
            kind=Kind.CARD_TOO_LARGE,
            remedy=_SHORTER,
        )


def _require_plain(extra: dict[str, Any]) -> None:
    """Refuse further facts that JSON would change; every list reads them."""
    import json  # most cards have no further facts

    from treering.format.nesting import is_deeper

    if is_deeper(extra, DEPTH_MAX):
        raise UsageError(f"extra is nested more than {DEPTH_MAX} deep", kind=Kind.VALUE)
    try:
        plain = json.loads(json.dumps(extra, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UsageError(f"extra is no plain JSON: {error}", kind=Kind.VALUE) from error
    if plain != extra:
        raise UsageError(
            "extra is no plain JSON: it has a tuple, or a key that is no text", kind=Kind.VALUE,
            remedy="pass lists, and keys that are text",
        )  # fmt: skip


def _require_heads(after: SessionState, before: SessionState) -> None:
    largest, size = register.ROOM_BYTES // 2, len(encode_adrift(after))
    if size > largest and size > len(encode_adrift(before)):
        raise UsageError(
            f"too many heads, or names of usage. heads={len(after.heads.heads)}, names={len(after.usage)}, "
            f"bytes={size}, max={largest}",
            kind=Kind.TOO_MANY_HEADS,
            remedy="drop heads that are not needed any more; their nodes stay",
        )
