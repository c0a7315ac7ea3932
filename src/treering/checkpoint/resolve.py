"""Resolve checkpoints from the small records that `treering.checkpoint.delta` writes.

`chain_of` returns the records of a checkpoint, `needs` the records to which the first of them refers; `resolve` takes
both. Reading and writing are separate modules, since every resume reads checkpoints and few resumes write one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import UNSET

from treering._late import Kind
from treering.checkpoint.checkpoint import BODY, Body, Checkpoint, entry_of, read_dict, read_form
from treering.checkpoint.context import Context, decode_items, growth_bytes, least_bytes, splice_apply
from treering.errors import CorruptError, NotFoundError, UsageError
from treering.format.erasure import is_erased
from treering.format.record import Record, skeleton_of_record
from treering.format.values import is_patch

Lookup: TypeAlias = Callable[[str], Record]
"""Returns the record of a checkpoint by its id."""

_NULL: Final = b"null"


def needs(record: Record) -> frozenset[str]:
    """Return the ids of the checkpoints to whose records a full record refers; a delta refers to none."""
    body = read_form(record.body, BODY)
    origins = set(body.keys.values())
    return frozenset(origins if body.manager_at is None else origins | {body.manager_at})


def resolve(chain: Sequence[Record], lookup: Lookup, known: dict[str, Checkpoint] | None = None) -> Checkpoint:
    """Return the checkpoint of the last record of `chain`.

    Args:
        chain: A full record, then deltas; each is the parent of the next, see `chain_of`.
        lookup: Returns the records that the full record `needs`.
        known: Checkpoints of the chain that were resolved before, by id; the others are added.

    Raises:
        CorruptError: A record does not fit the one before, or lacks a value to which another record refers.
    """
    done = {} if known is None else known
    checkpoint: Checkpoint | None = None
    for record in chain:
        checkpoint = done.get(record.id) or apply_body(checkpoint, record, lookup)
        done[record.id] = checkpoint
    if checkpoint is None:
        raise UsageError("a chain of checkpoints has at least one record")
    return checkpoint


def apply_body(parent: Checkpoint | None, record: Record, lookup: Lookup) -> Checkpoint:
    """Return the checkpoint that `record` holds; `parent` is ignored if it is a full record.

    Raises:
        NotFoundError: Pruning dropped the body, or a body to which it refers.
        CorruptError: The body is damaged or does not fit `parent`, or a record that it refers to lacks the value.
    """
    body = _unpruned(record.id, read_form(record.body, BODY))
    if body.full:
        return _applied(_referred(record.id, body, lookup), body, record)
    if parent is None or parent.id != record.parent:
        raise CorruptError(f"checkpoint is a change of one not at hand. id={record.id!r}, parent={record.parent!r}")
    return _applied(parent, body, record)


def _unpruned(checkpoint: str, body: Body) -> Body:
    if body.pruned:
        raise NotFoundError(f"checkpoint was pruned. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
    return body


def _referred(checkpoint: str, body: Body, lookup: Lookup) -> Checkpoint:
    """Return an empty checkpoint with the values that a full record takes from other records."""
    read: dict[str, Body] = {}

    def body_of(origin: str) -> Body:
        if origin not in read:
            read[origin] = _unpruned(origin, read_form(lookup(origin).body, BODY))
        return read[origin]

    state: dict[str, bytes] = {}
    for key, origin in body.keys.items():
        value = body_of(origin).set.get(key)
        if value is None or is_patch(bytes(value)):
            raise CorruptError(f"checkpoint lacks a value it is said to hold. id={origin!r}, key={key!r}")
        state[key] = bytes(value)
    manager = None
    if body.manager_at is not None:
        raw = body_of(body.manager_at).manager
        if raw is UNSET:
            raise CorruptError(f"checkpoint lacks the manager state it is said to hold. id={body.manager_at!r}")
        manager = bytes(raw)
    return Checkpoint(
        id=checkpoint, head="", node=None, state=state, manager=manager, origins=body.keys, manager_at=body.manager_at
    )


def _applied(base: Checkpoint, body: Body, record: Record) -> Checkpoint:
    entry = entry_of(skeleton_of_record(record, 0))
    dropped = {*body.drop, *body.set}
    kept = {key: value for key, value in base.state.items() if key not in dropped}
    own = {key: _value(base, key, bytes(raw)) for key, raw in body.set.items()}
    held = [key for key, raw in body.set.items() if not is_patch(bytes(raw))]
    manager, manager_at = base.manager, base.manager_at
    if body.manager is not UNSET:
        cleared = bytes(body.manager) == _NULL
        manager, manager_at = (None, None) if cleared else (bytes(body.manager), record.id)
    context, context_bytes = _context(base, body)
    return Checkpoint(
        id=record.id,
        parent=record.parent,
        head=record.head,
        node=record.target,
        context=context,
        state=kept | own,
        manager=manager,
        policy=body.policy or base.policy,
        label=entry.label,
        step=entry.step,
        metadata=entry.metadata,
        time_ms=entry.time_ms,
        origins={key: base.origins[key] for key in kept if key in base.origins} | dict.fromkeys(held, record.id),
        manager_at=manager_at,
        pending_bytes=0 if body.full else base.pending_bytes + len(bytes(record.body)),
        context_bytes=context_bytes,
    )


def _value(base: Checkpoint, key: str, raw: bytes) -> bytes:
    """Return the value of a key of the state by a record: as it is, or patched."""
    if not is_patch(raw):
        return raw
    from treering.format.patch import apply_patch  # few sessions have one

    old = base.state.get(key)
    return old if old is not None and is_erased(old) else apply_patch(old, raw)  # it may hold a part of the erased one


def _context(base: Checkpoint, body: Body) -> tuple[Context, int]:
    """Return the context of a record, and a lower bound of its bytes."""
    old = base.context
    forms = [form for form in body.context if not isinstance(form, tuple)]
    splices = [(form[0], form[1], decode_items(form[2])) for form in body.context if isinstance(form, tuple)]
    if splices if body.full else forms:
        raise CorruptError("checkpoint mixes items and splices", kind=Kind.SHAPE)
    if body.full:
        items = decode_items(forms)
        size = least_bytes(items)
    else:
        items = splice_apply(old.items, splices)
        size = base.context_bytes + growth_bytes(old.items, splices)
    settings = {name: value for name, value in old.settings.items() if name not in body.unset}
    return Context(items, settings | read_dict(body.settings)), size
