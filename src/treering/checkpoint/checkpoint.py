"""A checkpoint: the state and context from which an agent continues, and its entry in lists.

Checkpoints form a tree of their own, by parents. In the journal each is a small record, a delta of its parent, see
`treering.checkpoint.delta`. Here checkpoints are resolved. `latest` holds a resolved one, as `encode_checkpoint` writes
it.

| field of the record | holds                                                                              |
|---------------------|------------------------------------------------------------------------------------|
| `id`, `parent`      | the checkpoint, and the checkpoint that it is a change of                            |
| `head`, `target`    | the head it was made on, and that head's node                                        |
| `brief`             | `full`, `label`, `step`, `metadata`, `needs`, each only if there is something to say |
| `body`              | what changed, or all of it; see below                                                |

Values (state, manager, settings, messages edited inline) are JSON already and are embedded as they are. A change:

    {"set":{"step":3},"drop":["plan"],"context":[[0,2,["n7"]],[9,0,["n8"]]],"settings":{"model":"m"},"unset":["mode"],
     "manager":{...},"policy":"default@1"}

`set` and `drop` change keys of the state, `settings` and `unset` the settings of the context; `context` holds splices
`[index, deleted, items]` of the parent's items. In `set` a patch may replace a large value, see
`treering.format.patch`. Unchanged parts are left out. A full record:

    {"full":true,"set":{"step":3},"keys":{"plan":"c4"},"context":["n7","n8"],"settings":{...},"manager_at":"c2",
     "policy":"default@1"}

For each other key of the state, `keys` names the checkpoint whose record holds the value in its own `set`; `manager_at`
does so for `manager`. `needs` in the brief names these checkpoints, too, so that their records are read together with
the full one. An item is the id of its node, or an object with `node` and a `view`, a `message` or both.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering._late import Kind
from treering.checkpoint.context import Context, ItemForm, decode_items, encode_items, least_bytes
from treering.errors import CorruptError
from treering.format.erasure import is_erased
from treering.format.record import Record, Skeleton, read_brief
from treering.format.values import decode, encode, fields_of, is_patch

Forms = list[str | ItemForm]
_LABELS = frozenset({"label", "metadata"})
"""The fields of the brief that only people need."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a checkpoint record."""

    full: bool = False
    set: dict[str, Raw] = {}
    drop: list[str] = []
    keys: dict[str, str] = {}
    context: list[str | ItemForm | tuple[int, int, Forms]] = []
    settings: Raw | UnsetType = UNSET
    unset: list[str] = []
    manager: Raw | UnsetType = UNSET
    manager_at: str | None = None
    policy: str | None = None
    pruned: bool = False
    """Whether the checkpoint was pruned and its body dropped, since no kept checkpoint needs it."""


class Whole(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint that needs no other record to be read."""

    id: str
    parent: str | None = None
    head: str = ""
    node: str | None = None
    label: str | None = None
    step: int | None = None
    metadata: Raw | UnsetType = UNSET
    time: int = 0
    policy: str
    context: Forms = []
    settings: Raw | UnsetType = UNSET
    state: dict[str, Raw] = {}
    origins: dict[str, str] = {}
    manager: Raw | UnsetType = UNSET
    manager_at: str | None = None
    pending: int = 0


def is_pruned(record: Record) -> bool:
    """Whether a record is a checkpoint whose body was dropped by pruning."""
    if record.type != "checkpoint":
        return False
    try:
        return read_form(record.body, BODY).pruned
    except CorruptError:
        return False


def without_label(record: Record) -> Record:
    """The record of a checkpoint without its label and metadata, as pruning leaves it; the same one if it has none."""
    brief = fields_of(decode(record.brief)) if record.type == "checkpoint" else {}
    left = {name: value for name, value in brief.items() if name not in _LABELS}
    return record if len(left) == len(brief) else msgspec.structs.replace(record, brief=Raw(encode(left)))


# Made at import: a type that two threads decode for the first time at once crashes msgspec.
BODY = msgspec.json.Decoder(Body)
WHOLE = msgspec.json.Decoder(Whole)

Form = TypeVar("Form", bound=msgspec.Struct)


def write_form(form: msgspec.Struct) -> bytes:
    """Return `form` as JSON on one line."""
    try:
        return msgspec.json.encode(form)
    except UnicodeEncodeError:  # an id or a key with a lone surrogate, which only the standard library writes
        return _join({name: getattr(form, name) for name in form.__struct_fields__})


def _write(value: object) -> bytes:
    """Return the JSON that `write_form` writes for a form with these fields."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _join(value)


def read_form(raw: Raw | bytes, decoder: msgspec.json.Decoder[Form]) -> Form:
    """Decode a form that `write_form` wrote; fields of newer versions are ignored.

    Raises:
        CorruptError: The bytes are not JSON, or fields have other types.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # damaged, with a lone surrogate, or nested without end
    import json  # slow to import, and a resume does not need it

    try:
        return msgspec.convert(_with_raws(json.loads(bytes(raw))), decoder.type)
    except (ValueError, RecursionError) as error:  # msgspec's errors, too, are ValueErrors
        raise CorruptError(f"checkpoint is not readable. problem={str(error)!r}", kind=Kind.SHAPE) from error


def _join(value: object) -> bytes:
    """Return JSON in ASCII, with raw JSON embedded as it is, and without fields that have no value."""
    import json  # slow to import, and a resume does not need it

    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, ItemForm):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        fields = ((json.dumps(name).encode(), field) for name, field in value.items() if field not in _ABSENT)
        return b"{%b}" % b",".join(b"%b:%b" % (name, _join(field)) for name, field in fields)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join(map(_join, value))
    return json.dumps(value).encode()


_ABSENT = (None, UNSET)
_RAW_FIELDS = frozenset({"settings", "manager", "metadata", "message", "about"})
_RAW_MAPS = frozenset({"set", "state"})


def _with_raws(value: object) -> object:
    """Return decoded JSON with raw JSON put back where forms hold it."""
    if isinstance(value, list):
        return [_with_raws(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {name: _field_with_raws(name, field) for name, field in value.items()}


def _field_with_raws(name: str, field: object) -> object:
    import json  # slow to import, and a resume does not need it

    if name in _RAW_FIELDS:
        return _raw(field)
    if name == "checkpoint":  # a form of its own: it is read by itself, later
        return Raw(json.dumps(field).encode())
    if name in _RAW_MAPS and isinstance(field, Mapping):
        return {key: _raw(entry) for key, entry in field.items()}
    if name == "effects" and isinstance(field, Mapping):  # forms of their own, too, with the bytes that were written
        return {key: Raw(_write(_with_raws(entry))) for key, entry in field.items()}
    return _with_raws(field) if name == "context" else field


def _raw(value: object) -> Raw:
    import json  # slow to import, and a resume does not need it

    encoded = json.dumps(value, separators=(",", ":")).encode()
    if is_erased(encoded) or is_patch(encoded):
        return Raw(encoded)  # not a value
    # Decoded and encoded again by `format.values`, bytes come out as they were first written.
    return Raw(encode(decode(encoded)))


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
    """The label that it was made with; a later label is a note in the transcript."""
    step: int | None = None
    metadata: dict[str, object] = {}
    """Small values for lists."""
    time_ms: int = 0
    origins: dict[str, str] = {}
    """By key of the state: the checkpoint whose record holds the value. Keys are missing whose values no record holds
    as a whole, since they were patched. Filled in when the checkpoint is written."""
    manager_at: str | None = None
    """The checkpoint whose record holds `manager`. Filled in when the checkpoint is written."""
    pending_bytes: int = 0
    """Bytes of the deltas since the last full record. Filled in when the checkpoint is written."""
    context_bytes: int = 0
    """A lower bound of the bytes of the context in a full record. Filled in when the checkpoint is written; not
    stored."""


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as lists show it, without state and context."""

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
    needs: tuple[str, ...] = ()
    """For a full record: the checkpoints whose records hold values of its state, as many as its brief has room for."""

    def with_label(self, label: str | None) -> "CheckpointInfo":
        """Return the entry with a label given later."""
        return msgspec.structs.replace(self, label=label)


def entry_of(skeleton: Skeleton) -> CheckpointInfo:
    """Return the entry of a checkpoint record; fields of its brief with other types count as missing."""
    brief = read_brief(skeleton)
    label, step, metadata = brief.get("label"), brief.get("step"), brief.get("metadata")
    needs = brief.get("needs")
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
        needs=tuple(name for name in needs if isinstance(name, str)) if isinstance(needs, list) else (),
    )


def chain_of(checkpoint: str, entries: Mapping[str, CheckpointInfo]) -> list[str]:
    """Return the ids of the records that `checkpoint` is resolved from: a full one, then the changes down to itself.

    Raises:
        CorruptError: A record on the way is missing, or the parents form a cycle.
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
    """Return the whole checkpoint as JSON on one line; the payloads of its nodes are not part of it."""
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
    """Decode a checkpoint that `encode_checkpoint` encoded.

    Raises:
        CorruptError: `raw` is not such a checkpoint.
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
    """Return the dictionary in `raw`; for a missing field, an empty one.

    Raises:
        CorruptError: `raw` is not a JSON object.
    """
    value = {} if raw is UNSET else decode(raw)
    if not isinstance(value, dict):
        raise CorruptError(f"checkpoint field is no object. got={type(value).__name__}", kind=Kind.SHAPE)
    return value
