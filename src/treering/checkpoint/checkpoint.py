"""A checkpoint: the state and context from which an agent continues, and its entry in lists.

Checkpoints form a tree of their own, by parents. In the journal each is a small record, a delta to its parent, see
`treering.checkpoint.delta`; here it is resolved. `latest` holds a resolved one, as `encode_checkpoint` writes it.

| field of the record | holds                                                                              |
|---------------------|------------------------------------------------------------------------------------|
| `id`, `parent`      | the checkpoint, and the one it is a change of                                        |
| `head`, `target`    | the head it was made on, and that head's node                                        |
| `brief`             | `full`, `label`, `step`, `metadata`, each only if there is something to say          |
| `body`              | what changed, see `treering.checkpoint.body`                                         |
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw

from treering.checkpoint.body import WHOLE, Whole, read_form, write_form
from treering.checkpoint.context import Context, decode_items, encode_items, least_bytes
from treering.errors import CorruptError
from treering.format.record import Skeleton, read_brief
from treering.format.values import decode, encode, fields_of
from treering.kinds import Kind


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved checkpoint: no other record is needed to use it."""

    id: str
    parent: str | None = None
    head: str
    node: str | None
    """The node that the head pointed to; None before the first node."""
    context: Context = Context()
    state: dict[str, bytes] = {}
    """JSON (`format.values`) by key."""
    manager: bytes | None = None
    """JSON of the conversation manager's own state; None and JSON's null mean the same."""
    policy: str = "default@1"
    """The policy that made the context; stored, so that a later policy does not change what is resumed."""
    label: str | None = None
    """The label it was made with; a later label is a note in the transcript."""
    step: int | None = None
    metadata: dict[str, object] = {}
    """Small values for lists."""
    time_ms: int = 0
    origins: dict[str, str] = {}
    """By key of the state: the checkpoint whose record holds the value. Filled in when it is written."""
    manager_at: str | None = None
    """The checkpoint whose record holds `manager`. Filled in when it is written."""
    pending_bytes: int = 0
    """Bytes of the deltas since the last full record. Filled in when it is written."""
    context_bytes: int = 0
    """A lower bound of the bytes that the context takes in a full record. Filled in when it is written; not stored."""


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as lists show it: the facts in its skeleton."""

    id: str
    parent: str | None
    head: str
    node: str | None
    full: bool
    label: str | None
    step: int | None
    metadata: dict[str, object]
    time_ms: int
    at: int
    """Position of the record."""
    length: int
    """Bytes of the record."""

    def with_label(self, label: str | None) -> CheckpointInfo:
        """Return the entry with a label given later."""
        return msgspec.structs.replace(self, label=label)


def entry_of(skeleton: Skeleton) -> CheckpointInfo:
    """Return the entry of a checkpoint record; fields of its brief with other types count as missing."""
    brief = read_brief(skeleton)
    label, step, metadata = brief.get("label"), brief.get("step"), brief.get("metadata")
    return CheckpointInfo(
        id=skeleton.id,
        parent=skeleton.parent,
        head=skeleton.head,
        node=skeleton.target,
        full=brief.get("full") is True,
        label=label if isinstance(label, str) else None,
        step=step if type(step) is int else None,
        metadata=fields_of(metadata),
        time_ms=skeleton.time,
        at=skeleton.at,
        length=skeleton.length,
    )


def chain_of(checkpoint: str, entries: Mapping[str, CheckpointInfo]) -> list[str]:
    """Return the records that `checkpoint` is resolved from: a full one, then the changes down to itself.

    Raises:
        CorruptError: A record on the way is missing, or the parents go round in a circle.
    """
    chain: list[str] = []
    seen: set[str] = set()
    wanted: str | None = checkpoint
    while wanted is not None and wanted not in seen and wanted in entries:
        chain.append(wanted)
        seen.add(wanted)
        if entries[wanted].full:
            return chain[::-1]
        wanted = entries[wanted].parent
    raise CorruptError(f"checkpoint has no full record above it. checkpoint={checkpoint!r}, missing={wanted!r}")


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the whole checkpoint as JSON on one line; the bodies of its nodes are not part of it."""
    whole = Whole(
        id=checkpoint.id,
        parent=checkpoint.parent,
        head=checkpoint.head,
        node=checkpoint.node,
        label=checkpoint.label,
        step=checkpoint.step,
        metadata=_encode_dict(checkpoint.metadata),
        time=checkpoint.time_ms,
        policy=checkpoint.policy,
        context=encode_items(checkpoint.context.items),
        settings=_encode_dict(checkpoint.context.settings),
        state={key: Raw(value) for key, value in checkpoint.state.items()},
        origins=checkpoint.origins,
        manager=UNSET if checkpoint.manager is None else Raw(checkpoint.manager),
        manager_at=checkpoint.manager_at,
        pending=checkpoint.pending_bytes,
    )
    return write_form(whole)


def decode_checkpoint(raw: Raw | bytes) -> Checkpoint:
    """Decode what `encode_checkpoint` returned.

    Raises:
        CorruptError: `raw` is something else.
    """
    whole = read_form(raw, WHOLE)
    items = decode_items(whole.context)
    return Checkpoint(
        id=whole.id,
        parent=whole.parent,
        head=whole.head,
        node=whole.node,
        context=Context(items, read_dict(whole.settings)),
        state={key: bytes(value) for key, value in whole.state.items()},
        manager=None if whole.manager is UNSET else bytes(whole.manager),
        policy=whole.policy,
        label=whole.label,
        step=whole.step,
        metadata=read_dict(whole.metadata),
        time_ms=whole.time,
        origins=whole.origins,
        manager_at=whole.manager_at,
        pending_bytes=whole.pending,
        context_bytes=least_bytes(items),
    )


def _encode_dict(values: dict[str, object]) -> Raw | msgspec.UnsetType:
    return Raw(encode(values)) if values else UNSET


def read_dict(raw: Raw | msgspec.UnsetType) -> dict[str, object]:
    """Return the dictionary in `raw`; a field that is not there is an empty one.

    Raises:
        CorruptError: It is something else.
    """
    value = {} if raw is UNSET else decode(raw)
    if not isinstance(value, dict):
        raise CorruptError(f"checkpoint field is no object. got={type(value).__name__}", kind=Kind.SHAPE)
    return value
