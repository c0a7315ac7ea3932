"""Encode results of the package as JSON for other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import Raw

from treering.errors import UsageError
from treering.format import values
from treering.format.erasure import Erased, mark_of
from treering.kinds import Kind


def to_json(value: object) -> bytes:
    """Return a result of this package as JSON, on one line; also dicts and lists of results.

    Results become objects with the names of their attributes. Recorded values in them (payloads, messages, state,
    metadata) have their stored form, in which a tag stands for a type that JSON lacks: `{"$bytes": "AAE="}`. Elsewhere
    tuples become lists, and a mapping with keys that cannot name fields becomes a `$map`: keys that are not text, begin
    with `$`, or have lone surrogates.

    Args:
        value: A result, such as a page, a node, a context or a state; a sequence or mapping of results or plain values.

    Raises:
        UsageError: The value holds an object that is neither a result nor a value that can be recorded.
    """
    try:
        return msgspec.json.encode(_shown(value))
    except RecursionError:
        raise UsageError("value is nested too deep, or it contains itself", kind=Kind.VALUE) from None


def _shown(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        recorded = _recorded(type(value))
        parts = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: stored_form(part) if name in recorded else _shown(part) for name, part in parts}
    if isinstance(value, Mapping):
        if all(map(values.is_field_name, value)):
            return {key: _shown(part) for key, part in value.items()}
        return {"$map": [[_shown(key), _shown(part)] for key, part in value.items()]}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_shown(part) for part in value]
    return stored_form(value)


def stored_form(value: object) -> Raw:
    """Return a recorded value as JSON in its stored form: tags stand for types that JSON lacks, and for erased values.

    Raises:
        UsageError: It holds a value that cannot be recorded.
    """
    if isinstance(value, Erased):
        return Raw(mark_of(value))
    return Raw(values.encode(dict(value) if isinstance(value, Mapping) else value))


@cache
def _recorded(result: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of a type of results that hold recorded values: those whose annotation contains `Any` or `object`."""
    return frozenset(field.name for field in msgspec.structs.fields(result) if _is_any(field.type))


def _is_any(hint: object) -> bool:
    return hint in (Any, object) or any(map(_is_any, get_args(hint)))
