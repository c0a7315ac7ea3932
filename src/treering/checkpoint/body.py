"""The JSON of checkpoints: the body of a checkpoint record, and the whole checkpoint that `latest` holds.

Values (state, manager, settings, messages edited inline) are JSON already and are embedded as they are. A change:

    {"set":{"step":3},"drop":["plan"],"context":[[0,2,["n7"]],[9,0,["n8"]]],"settings":{"model":"m"},"unset":["mode"],
     "manager":{...},"policy":"default@1"}

`set` and `drop` change keys of the state, `settings` and `unset` the settings of the context; `context` holds splices
`[index, deleted, items]` of the parent's items. What did not change is left out. And a full record:

    {"full":true,"set":{"step":3},"keys":{"plan":"c4"},"context":["n7","n8"],"settings":{...},"manager_at":"c2",
     "policy":"default@1"}

For the rest of the state, `keys` names the checkpoint whose record holds the value in its own `set`; `manager_at` does
so for `manager`. An item is the id of its node, or an object with `node` and a `view`, a `message` or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.checkpoint.context import ItemForm
from treering.errors import CorruptError
from treering.format.erasure import is_erased
from treering.format.record import Record
from treering.format.values import decode, encode
from treering.kinds import Kind

Forms = list[str | ItemForm]


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
    """The checkpoint was pruned and its body dropped, since no kept checkpoint needs it."""


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
    """Whether it is a checkpoint whose body was dropped by pruning."""
    if record.type != "checkpoint":
        return False
    try:
        return read_form(record.body, BODY).pruned
    except CorruptError:
        return False


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


def read_form(raw: Raw | bytes, decoder: msgspec.json.Decoder[Form]) -> Form:
    """Decode what `write_form` wrote; fields of newer versions are ignored.

    Raises:
        CorruptError: It is not JSON, or its fields have other types.
    """
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # damaged, with a lone surrogate, or nested without end
    import json  # slow to import, and what resumes a session does without

    try:
        return msgspec.convert(_with_raws(json.loads(bytes(raw))), decoder.type)
    except (ValueError, RecursionError) as error:  # msgspec's errors, too, are ValueErrors
        raise CorruptError(f"checkpoint is not readable. problem={str(error)!r}", kind=Kind.SHAPE) from error


def _join(value: object) -> bytes:
    """Return JSON in ASCII, with what is raw embedded as it is and fields without a value left out."""
    import json  # slow to import, and what resumes a session does without

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
_RAW_FIELDS = frozenset({"settings", "manager", "metadata", "message"})
_RAW_MAPS = frozenset({"set", "state"})


def _with_raws(value: object) -> object:
    """Return decoded JSON with raw JSON put back where forms hold it."""
    if isinstance(value, list):
        return [_with_raws(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {name: _field_with_raws(name, field) for name, field in value.items()}


def _field_with_raws(name: str, field: object) -> object:
    import json  # slow to import, and what resumes a session does without

    if name in _RAW_FIELDS:
        return _raw(field)
    if name == "checkpoint":  # a form of its own, whose names are text and no values
        return Raw(json.dumps(field).encode())
    if name in _RAW_MAPS and isinstance(field, Mapping):
        return {key: _raw(entry) for key, entry in field.items()}
    return _with_raws(field) if name == "context" else field


def _raw(value: object) -> Raw:
    import json  # slow to import, and what resumes a session does without

    if is_erased(encoded := json.dumps(value, separators=(",", ":")).encode()):
        return Raw(encoded)  # no value any more
    # Decoded and encoded again by `format.values`, bytes come out as they were first written.
    return Raw(encode(decode(encoded)))
