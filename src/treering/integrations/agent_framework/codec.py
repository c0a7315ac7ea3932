"""Convert values of workflows and sessions to plain data, and back.

Plain data stands for itself: None, booleans, numbers, text, bytes, dates and times, lists, tuples, sets, and dicts
whose keys are text that does not begin with `@`. Any other value is a dict whose first key begins with `@`:

| form                                 | stands for                                                             |
|--------------------------------------|------------------------------------------------------------------------|
| `{"@type": name, "fields": ...}`     | an object of a class in the registry                                   |
| `{"@kind": name, "of": ...}`         | a value of a few types of Python, see `_KINDS`                         |
| `{"@dict": [[key, value], ...]}`     | any other dict                                                         |
| `{"@set": [...]}`, `{"@frozenset"}`  | a set of objects                                                       |
| `{"@class": name}`                   | a class of the registry or of Python, as the type of an answer         |
| `{"@alias": [list, ...]}`, `{"@union": [...]}`, `{"@literal": [...]}` | types made of others                    |

Rule 1: stored data cannot name code to import; see `treering.integrations.agent_framework.registry`.
Rule 2: a value that could not be decoded to an equal value is refused when it is stored. The error names its path.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin
from uuid import UUID

from treering.errors import CorruptError, TreeringError, UsageError
from treering.integrations.agent_framework.registry import Registry
from treering.kinds import Kind

Path: TypeAlias = "tuple[Path, str] | None"
"""The path to a value: the path to its container, and the last step."""

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes, datetime, date, time, timedelta})
_FACTORIES: Final[Mapping[str, Any]] = {
    "": None, "dict": dict, "float": float, "int": int, "list": list, "set": set, "str": str,
}  # fmt: skip
"""The functions that a `defaultdict` may call, by stored name."""
_CLASSES: Final[Mapping[str, Any]] = {
    "Any": Any, "NoneType": type(None), "...": ..., **{each.__name__: each for each in (
        bool, bytes, bytearray, complex, date, datetime, Decimal, dict, float, frozenset, int, list, object, range, set,
        str, time, timedelta, tuple, UUID,
    )},
}  # fmt: skip
"""Classes that may be the types of answers without being registered, by stored name."""


def _factory_of(value: Any) -> str:
    for name, factory in _FACTORIES.items():
        if value.default_factory is factory:
            return name
    raise UsageError("its default_factory cannot be stored", kind=Kind.VALUE, remedy=f"use one of {[*_FACTORIES][1:]}")


_KINDS: Final[Mapping[type, tuple[str, Callable[[Any], object], Callable[[Any], Any]]]] = {
    UUID: ("uuid", str, UUID),
    Decimal: ("decimal", str, Decimal),
    bytearray: ("bytearray", bytes, bytearray),
    complex: ("complex", lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    range: ("range", lambda value: [value.start, value.stop, value.step], lambda parts: range(*parts)),
    OrderedDict: ("ordered", lambda value: [*map(list, value.items())], OrderedDict),
    Counter: ("counter", dict, Counter),
    deque: ("deque", lambda value: [[*value], value.maxlen], lambda parts: deque(*parts)),
    defaultdict: (
        "defaultdict",
        lambda value: [_factory_of(value), dict(value)],
        lambda parts: defaultdict(_FACTORIES[parts[0]], parts[1]),
    ),
}
"""By type of Python: its stored name, a function that encodes a value, and a function that decodes it."""
_MADE: Final = {name: made for name, _, made in _KINDS.values()}


class Codec:
    """Encodes and decodes with the classes of a registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._class_names = {each: name for name, each in _CLASSES.items()} | {
            kind: form.name for kind, form in registry.by_class.items()
        }

    def encode(self, value: object) -> Any:
        """Return a value as plain data, which shares no mutable part with it.

        Raises:
            UsageError: A part of it cannot be stored; the message names its path and type.
        """
        try:
            return self._encode(value, None)
        except RecursionError:
            raise UsageError("value is nested too deep, or it contains itself", kind=Kind.VALUE) from None

    def decode(self, plain: object) -> Any:
        """Return the value that `encode` encoded; a new object each time.

        Raises:
            CorruptError: A class is not registered or has another form now, or `encode` did not make this data.
        """
        try:
            return self._decode(plain)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if isinstance(error, TreeringError):
                raise
            raise CorruptError(f"a value is not understood: {error}", kind=Kind.SHAPE) from error

    # to plain data

    def _encode(self, value: Any, path: Path) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict:
            return self._encode_dict(value, path)
        if kind is list or kind is tuple:
            return kind([self._encode(each, (path, f"[{at}]")) for at, each in enumerate(value)])
        if kind is set or kind is frozenset:
            parts = [self._encode(each, (path, "<item>")) for each in value]
            return kind(parts) if all(type(part) in _PLAIN for part in parts) else {f"@{kind.__name__}": parts}
        if (form := self._registry.by_class.get(kind)) is not None:
            return self._encode_object(value, form.name, path)
        if kind in _KINDS:
            name, stored, _ = _KINDS[kind]
            return {"@kind": name, "of": self._encode(_asked(stored, value, path), path)}
        if isinstance(value, type) or value is Any or get_origin(value) is not None:
            return self._encode_type(value, path)
        raise _refused(value, path)

    def _encode_dict(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        if all(type(key) is str and key[:1] != "@" for key in value):
            return {key: self._encode(each, (path, f".{key}")) for key, each in value.items()}
        pairs = value.items()
        return {
            "@dict": [
                [self._encode(key, (path, "<key>")), self._encode(each, (path, f"[{key!r}]"))] for key, each in pairs
            ]
        }

    def _encode_object(self, value: Any, name: str, path: Path) -> dict[str, Any]:
        _, form = self._registry.by_name[name]
        plain = {"@type": name, "fields": self._encode(_asked(form.fields, value, path), path)}
        if form.is_users:
            self._require_same(value, plain, path)
        return plain

    def _require_same(self, value: object, plain: object, path: Path) -> None:
        """Refuse an object of a user's class that cannot be decoded to an equal object."""
        try:
            again = self.decode(plain)
        except TreeringError as error:
            raise _refused(value, path, f"it does not come back from what is stored of it: {error}") from error
        if type(value).__eq__ is not object.__eq__ and again != value and value == value:  # noqa: PLR0124  # NaN in it
            raise _refused(value, path, "what comes back is not equal to it")

    def _encode_type(self, value: Any, path: Path) -> dict[str, Any]:
        origin, parts = get_origin(value), get_args(value)
        if origin is None:
            if not isinstance(value, Hashable) or value not in self._class_names:  # `Callable` has a list in it
                raise _refused(value, path, f"{value!r} is not registered")
            return {"@class": self._class_names[value]}
        if origin is Literal:
            return {"@literal": self._encode([*parts], path)}
        inner = [self._encode_type(part, path) for part in parts]
        if origin is Union or origin is types.UnionType:
            return {"@union": inner}
        return {"@alias": [self._encode_type(origin, path), *inner]}

    # and back

    def _decode(self, plain: Any) -> Any:
        kind = type(plain)
        if kind is dict:
            first = next(iter(plain), "")
            if first[:1] == "@":
                return self._decode_form(first, plain)
            return {key: self._decode(each) for key, each in plain.items()}
        if kind is list or kind is tuple:
            return kind([self._decode(each) for each in plain])
        return plain

    def _decode_form(self, first: str, plain: dict[str, Any]) -> Any:
        content = plain[first]
        match first:
            case "@type":
                return self._made(content, self._decode(plain["fields"]))
            case "@kind":
                return _MADE[content](self._decode(plain["of"]))
            case "@dict":
                return {self._decode(key): self._decode(each) for key, each in content}
            case "@set" | "@frozenset":
                return (set if first == "@set" else frozenset)(map(self._decode, content))
            case "@class":
                return _CLASSES[content] if content in _CLASSES else self._known(content)[0]
            case "@literal":
                return Literal[tuple(self._decode(content))]
            case "@union":
                return reduce(or_, map(self._decode, content))
            case "@alias":
                origin, *parts = map(self._decode, content)
                return origin[tuple(parts)]
        raise CorruptError(f"a value has an unknown form. form={first!r}", kind=Kind.SHAPE, remedy="upgrade treering")

    def _made(self, name: str, fields: Any) -> Any:
        _, form = self._known(name)
        try:
            return form.made(fields)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise CorruptError(f"an object cannot be made of what was stored. class={name!r}: {error}") from error

    def _known(self, name: str) -> Any:
        if name not in self._registry.by_name:
            raise CorruptError(
                f"a stored value has a class that is not registered. class={name!r}",
                kind=Kind.SHAPE,
                remedy="pass the class in `types`; if it was moved or renamed, as types={name: class}",
            )
        return self._registry.by_name[name]


def _asked(stored: Callable[[Any], object], value: Any, path: Path) -> object:
    """Call the function that encodes a value; its errors become `UsageError`."""
    try:
        return stored(value)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _refused(value, path, str(error)) from error


def _refused(value: object, path: Path, reason: str = "") -> UsageError:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    kind = f"{type(value).__module__}:{type(value).__qualname__}"
    return UsageError(
        f"this value cannot be stored. path={''.join(reversed(steps)).lstrip('.')!r}, "
        f"type={kind!r}" + (f", reason={reason!r}" if reason else ""),
        kind=Kind.VALUE,
        remedy="register its class, or keep plain data in its place",
    )
