"""Convert Python values to JSON and back: exactly, or with an error.

JSON values stand for themselves. Values that JSON lacks are written as a tag, an object whose first key begins with
`$`:

| tag                                         | stands for                                                            |
|---------------------------------------------|-----------------------------------------------------------------------|
| `{"$float":"nan"}`                          | a float that is not finite: `nan`, `inf`, `-inf`                      |
| `{"$int":"9007199254740993"}`               | an integer beyond ±(2**53 - 1), which other JSON readers round        |
| `{"$bytes":"AAE="}`                         | bytes, as base64                                                      |
| `{"$str":"7aCA"}`                           | text with lone surrogates, as base64 of UTF-8 that encodes those, too |
| `{"$tuple":[1,2]}`                          | a tuple                                                               |
| `{"$set":[1,2]}`, `{"$frozenset":[1,2]}`    | a set, its items ordered by their JSON                                |
| `{"$map":[[1,"a"],["$x","b"]]}`             | a dict with keys that are not plain text, or begin with `$`           |
| `{"$datetime":"2026-01-31T12:00:00+01:00"}` | a datetime, naive or with an offset of whole minutes                  |
| `{"$date":"2026-01-31"}`                    | a date                                                                |
| `{"$time":"12:00:00"}`                      | a time, likewise                                                      |
| `{"$timedelta":[1,0,500]}`                  | days, seconds, microseconds                                           |
| `{"$blob":"<sha256>",...}`                  | a part stored elsewhere, see `treering.format.blobs`                  |

A datetime or time in the second of two equal hours (`fold`) is `[text, 1]`. Everything else is refused, also subclasses
of these types: an IntEnum would come back as an int, changed without an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Raw

from treering._late import Kind
from treering.errors import CorruptError, FormatVersionError, UsageError
from treering.format.blobs import FORMS, BlobRef

DEPTH_MAX: Final = 100
"""Most containers around any part. At 4 stack frames each, this stays well within Python's limit of 1,000 frames."""
INTEGER_MAX: Final = 2**53 - 1
"""Greatest integer that every JSON reader keeps (RFC 8259, section 6)."""

Fields = dict[str, Any]
"""The fields of a JSON object from outside, whose types are not known."""

_PATCH: Final = b'{"$patch":["'
_sha256 = "[0-9a-f]{64}"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Return `value` as JSON on one line.

    Raises:
        UsageError: A part of it could not be restored exactly; the message names its path and type.
    """
    try:
        if _is_itself(value, DEPTH_MAX):
            return _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        pass  # lone surrogates; or nested too deep, and the error below names the path
    try:
        return _encoder.encode(_tag(value, DEPTH_MAX))
    except _Refused as refused:
        path = "$" + "".join(reversed(refused.steps))
        raise UsageError(
            f"value cannot be stored: {refused.reason}. path={path!r}", kind=Kind.VALUE, remedy=refused.remedy
        ) from None
    except RecursionError:
        raise UsageError("value is nested too deep for the stack that is left", kind=Kind.VALUE) from None


def decode(raw: bytes | Raw) -> object:
    """Return the value that was given to `encode`; blobs come as `BlobRef`.

    Also reads JSON of other programs that is not strict: lone surrogates, `NaN`, numbers beyond a float's range.

    Raises:
        CorruptError: It is not JSON, or the content of a tag is invalid.
        FormatVersionError: It holds an unknown tag.
    """
    data = bytes(raw)
    try:
        tree = _decoder.decode(data)
    except (ValueError, RecursionError):
        tree = _load_slowly(data)
    if b"$" not in data or b'"$' not in data:  # searching for one byte is several times as fast
        return tree
    try:
        return _untag(tree)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise CorruptError(f"value is not understood: {error}", kind=Kind.VALUE) from error


def copied(value: Any) -> Any:
    """Return a copy of a value that can be stored; its parts that cannot change are not copied."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return kind([copied(item) for item in value])
    return set(value) if kind is set else value


def alike(one: object, other: object) -> bool:
    """Return whether two values are stored alike, in any order of keys. In Python, 1 equals True, and 0.0 -0.0."""
    kind = type(one)
    if kind is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return encode(one) == encode(other) if kind in (float, set, frozenset) else one == other


def is_patch(raw: bytes) -> bool:
    """Return whether JSON is a patch and not a value; see `treering.format.patch`."""
    return raw.startswith(_PATCH)


def is_field_name(key: object) -> TypeGuard[str]:
    """Return whether a key of a dict can name a field of a JSON object; a dict with any other key is a `$map`."""
    return type(key) is str and key[:1] != "$" and (key.isascii() or not _has_surrogates(key))


def fields_of(value: object) -> Fields:
    """Return a value that is a JSON object; anything else has no fields."""
    return value if isinstance(value, dict) else {}


def _load_slowly(data: bytes) -> Any:
    import json  # slow to import, and resuming a session does not need it

    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"value is not JSON: {error}", kind=Kind.VALUE) from error


class _Refused(Exception):  # noqa: N818  # becomes a UsageError when its path is known
    """A value that cannot be stored. Each container on the way out adds its step to the path."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy
        self.steps: list[str] = []


def _is_itself(value: Any, depth: int) -> bool:
    """Return whether a value, apart from lone surrogates, is JSON as it is. Most values are, and need not be copied."""
    parts: Iterable[Any] = (value,)
    if type(value) is dict:
        for key in value:
            if type(key) is not str or "$" in key:  # it may have to be written as a tag, or look like one
                return False
        parts = value.values()
    elif type(value) is list:
        parts = value
    for part in parts:  # this loop runs for every value of every record
        kind = type(part)
        if kind is str:
            continue
        if kind is dict or kind is list:
            if depth < 2 or (part and not _is_itself(part, depth - 1)):
                return False
        elif part is not None and not _is_json(part):
            return False
    return True


def _is_json(value: Any) -> bool:
    """Return whether a value that is neither text nor container is JSON as it is."""
    if type(value) is int:
        return -INTEGER_MAX <= value <= INTEGER_MAX
    return value is None or type(value) is bool or (type(value) is float and math.isfinite(value))


def _tag(value: object, depth: int) -> object:
    tagger = _taggers.get(type(value))
    if tagger is None:
        raise _Refused(f"type {type(value).__qualname__} is not supported", "convert it to plain data first")
    if depth < 0:
        raise _Refused(f"nested more than {DEPTH_MAX} deep, or it contains itself")
    return tagger(value, depth - 1)


def _as_is(value: object, _depth: int) -> object:
    return value


def _tag_str(value: str, _depth: int) -> object:
    if value.isascii() or not _has_surrogates(value):
        return value
    return {"$str": _encode_base64(value.encode("utf-8", "surrogatepass"))}


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _tag_int(value: int, _depth: int) -> object:
    if -INTEGER_MAX <= value <= INTEGER_MAX:
        return value
    try:
        return {"$int": str(value)}
    except ValueError:  # sys.set_int_max_str_digits
        raise _Refused("integer has too many digits") from None


def _tag_float(value: float, _depth: int) -> object:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _tag_bytes(value: bytes, _depth: int) -> object:
    return {"$bytes": _encode_base64(value)}


def _tag_items(items: Iterable[object], depth: int) -> list[object]:
    tagged: list[object] = []
    for item in items:
        try:
            tagged.append(_tag(item, depth))
        except _Refused as refused:
            refused.steps.append(f"[{len(tagged)}]")
            raise
    return tagged


def _tag_tuple(value: tuple[object, ...], depth: int) -> object:
    return {"$tuple": _tag_items(value, depth)}


def _tag_set(value: set[object] | frozenset[object], depth: int) -> object:
    items = sorted(_encoder.encode(_tag(item, depth)) for item in value)
    return {f"${type(value).__name__}": [Raw(item) for item in items]}


def _tag_dict(value: dict[object, object], depth: int) -> object:
    tagged: dict[str, object] = {}
    for key, item in value.items():
        if not is_field_name(key):
            return {"$map": [_tag_pair(key, item, depth) for key, item in value.items()]}
        # Most values are plain text, and this loop runs for each of them.
        tagged[key] = item if type(item) is str and item.isascii() else _tag_entry(key, item, depth)
    return tagged


def _tag_entry(key: object, item: object, depth: int) -> object:
    try:
        return _tag(item, depth)
    except _Refused as refused:
        is_name = type(key) is str and key.isidentifier()
        refused.steps.append(f".{key}" if is_name else f"[{key!r}]")
        raise


def _tag_pair(key: object, item: object, depth: int) -> object:
    try:
        name = _tag(key, depth)
    except _Refused as refused:
        refused.steps.append(f"<key {key!r}>")
        raise
    return [name, _tag_entry(key, item, depth)]


def _tag_datetime(value: datetime, _depth: int) -> object:
    _check_timezone(value)
    return {"$datetime": [value.isoformat(), 1] if value.fold else value.isoformat()}


def _tag_time(value: time, _depth: int) -> object:
    _check_timezone(value)
    return {"$time": [value.isoformat(), 1] if value.fold else value.isoformat()}


def _check_timezone(value: datetime | time) -> None:
    zone = value.tzinfo
    # A named zone would come back as an offset, and finding it by name needs files that differ between machines.
    # RFC 3339 knows offsets of whole minutes only.
    if zone is not None and not (type(zone) is timezone and _is_plain(zone)):
        raise _Refused(f"time zone {zone!r} is not an offset of whole minutes", "use astimezone(timezone.utc)")


def _is_plain(zone: timezone) -> bool:
    offset = zone.utcoffset(None)
    return not offset % timedelta(minutes=1) and repr(zone) == repr(timezone(offset))


def _tag_date(value: date, _depth: int) -> object:
    return {"$date": value.isoformat()}


def _tag_timedelta(value: timedelta, _depth: int) -> object:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _tag_blob(value: BlobRef, _depth: int) -> object:
    tagged: dict[str, object] = {"$blob": value.sha256, "as": value.form, "size": value.size}
    return tagged | {name: text for name in ("prefix", "begins") if (text := getattr(value, name))}


_taggers: Final[dict[type, Callable[[Any, int], object]]] = {
    type(None): _as_is,
    bool: _as_is,
    str: _tag_str,
    int: _tag_int,
    float: _tag_float,
    list: _tag_items,
    dict: _tag_dict,
    bytes: _tag_bytes,
    tuple: _tag_tuple,
    set: _tag_set,
    frozenset: _tag_set,
    datetime: _tag_datetime,
    date: _tag_date,
    time: _tag_time,
    timedelta: _tag_timedelta,
    BlobRef: _tag_blob,
}


def _untag(tree: Any) -> Any:
    if type(tree) is list:
        return [_untag(item) for item in tree]
    if type(tree) is not dict:
        return tree
    first = next(iter(tree), "")
    if first[:1] != "$":
        return {key: _untag(item) for key, item in tree.items()}
    if first == "$blob":
        return _untag_blob(tree)
    if first not in _untaggers:
        raise _unknown(f"value holds an unknown tag. tag={first!r}")
    if len(tree) != 1:
        raise ValueError(f"{first} has company")
    return _untaggers[first](tree[first])


def _untag_blob(tree: dict[str, Any]) -> BlobRef:
    texts = {name: tree.get(name, "") for name in ("prefix", "begins")}
    reference = BlobRef(sha256=tree["$blob"], form=tree["as"], size=tree["size"], **texts)
    are_texts = all(type(text) is str for text in texts.values())
    if not re.fullmatch(_sha256, reference.sha256) or type(reference.size) is not int or not are_texts:
        raise ValueError("blob reference is malformed")
    if reference.form not in FORMS:
        raise _unknown(f"blob is of an unknown form. as={reference.form!r}")
    return reference


def _unknown(message: str) -> FormatVersionError:
    return FormatVersionError(message, kind=Kind.TAG, remedy="upgrade treering")


def _encode_base64(data: bytes) -> str:
    import base64  # few sessions need it, and resuming does not

    return base64.b64encode(data).decode()


def _decode_base64(text: str) -> bytes:
    import base64

    return base64.b64decode(text, validate=True)


def _untag_pairs(pairs: list[Any]) -> dict[Any, Any]:
    return {_untag(key): _untag(item) for key, item in pairs}


def _untag_datetime(value: Any) -> datetime:
    text, fold = (value, 0) if type(value) is str else value
    return datetime.fromisoformat(text).replace(fold=fold)


def _untag_time(value: Any) -> time:
    text, fold = (value, 0) if type(value) is str else value
    return time.fromisoformat(text).replace(fold=fold)


_untaggers: Final[dict[str, Callable[[Any], Any]]] = {
    "$float": float,
    "$int": int,
    "$bytes": _decode_base64,
    "$str": lambda text: _decode_base64(text).decode("utf-8", "surrogatepass"),
    "$tuple": lambda items: tuple(_untag(items)),
    "$set": lambda items: set(_untag(items)),
    "$frozenset": lambda items: frozenset(_untag(items)),
    "$map": _untag_pairs,
    "$datetime": _untag_datetime,
    "$date": date.fromisoformat,
    "$time": _untag_time,
    "$timedelta": lambda parts: timedelta(*parts),
}
