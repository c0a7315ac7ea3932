"""JSON with exactly the bytes that other programs write.

msgspec writes the same bytes, except for some numbers, lone surrogates, and the characters that Go escapes. All values
without these are encoded by msgspec.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from typing import Any, Final

import msgspec

_PLAIN_MIN: Final = 1e-5
_PLAIN_MAX: Final = 1e15
"""Between these limits, msgspec and JavaScript write the same digits of a number that is not whole."""
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')
_LONE: Final = re.compile("[\ud800-\udfff]")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_GO_ESCAPES: Final = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}

_encoder = msgspec.json.Encoder()


def plain(value: Any) -> Any:
    """Return a recorded value as JSON has it; the same object if it is JSON already.

    Bytes become base64, a number that is not finite null, a set or tuple a list, a time its text in ISO 8601, a
    duration its seconds, and each key of an object text.
    """
    if type(value) is dict:
        made = {_plain_key(name): plain(part) for name, part in value.items()}
        return value if all(made.get(name, made) is part for name, part in value.items()) else made
    if type(value) is list:
        parts = [plain(part) for part in value]
        return value if all(one is other for one, other in zip(value, parts, strict=True)) else parts
    known = _PLAIN.get(type(value))
    return value if known is None else known(value)


def lacked_by_json(value: Any) -> int:
    """Return how many parts of a value JSON cannot express; a tuple is a list everywhere, so it is none of them."""
    if isinstance(value, dict):
        return sum((type(name) is not str) + lacked_by_json(part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return sum(map(lacked_by_json, value))
    return type(value) in _PLAIN and not (isinstance(value, float) and math.isfinite(value))


def json_text(value: object) -> str:
    """Return the JSON of a recorded value that any program can read."""
    given = plain(value)
    try:
        return _encoder.encode(given).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
        return "".join(_javascript_parts(given))


def _plain_key(name: object) -> str:
    if type(name) is str:
        return name
    return json_text(name)


_PLAIN: Final[dict[type, Callable[[Any], Any]]] = {
    float: lambda number: number if math.isfinite(number) else None,
    bytes: lambda data: base64.b64encode(data).decode(),
    tuple: lambda parts: [plain(part) for part in parts],
    set: lambda parts: sorted(map(plain, parts), key=json_text),
    frozenset: lambda parts: sorted(map(plain, parts), key=json_text),
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
}
"""By type of a value that JSON lacks: what is written in its place."""


def encode_javascript(record: object) -> bytes:
    """Return the bytes that `JSON.stringify` writes for a value (ECMA-262, SerializeJSONProperty), in UTF-8."""
    if _has_odd_number(record):
        return _javascript(record)
    try:
        return _encoder.encode(record)
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
        return _javascript(record)


def _has_odd_number(value: Any) -> bool:
    """Tell whether a value has a number that JavaScript and msgspec may write differently."""
    parts = [value]
    for part in parts:  # runs for every value of every record, so it is a loop without recursion
        kind = type(part)
        if kind is str:
            continue
        if kind is dict:
            parts += part.values()
        elif kind is list or kind is tuple:
            parts += part
        elif kind is float and (part.is_integer() or not _PLAIN_MIN <= abs(part) < _PLAIN_MAX):
            return True
    return False


def _javascript(record: object) -> bytes:
    return "".join(_javascript_parts(record)).encode("utf-8")


def _javascript_parts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        for index, (name, part) in enumerate(value.items()):
            yield f"{',' if index else ''}{_javascript_text(str(name))}:"
            yield from _javascript_parts(part)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, part in enumerate(value):
            yield "," if index else ""
            yield from _javascript_parts(part)
        yield "]"
    elif isinstance(value, str):
        yield _javascript_text(value)
    else:
        yield javascript_number(value) if isinstance(value, float) else json.dumps(value)


def _javascript_text(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"


def javascript_number(value: float) -> str:
    """Return a number in the format of JavaScript (ECMA-262, Number::toString); NaN and infinities are null in JSON."""
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    sign, digits, exponent = _decimal(value)
    if 0 < exponent <= 21:
        whole, rest = digits[:exponent].ljust(exponent, "0"), digits[exponent:]
        return sign + whole + (f".{rest}" if rest else "")
    if -6 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{exponent - 1:+d}"


def _decimal(value: float) -> tuple[str, str, int]:
    """Return the sign, the shortest digits that give the same number, and the place of the point among them."""
    mantissa, _, power = f"{abs(value)!r}".partition("e")
    whole, _, rest = mantissa.partition(".")
    digits = (whole + rest).lstrip("0")
    point = len(whole) if whole.strip("0") else len(digits) - len(rest)
    return "-" if value < 0 else "", digits.rstrip("0"), point + int(power or 0)


def encode_go(record: object) -> bytes:
    """Return the bytes that Go's `encoding/json` writes: as in JavaScript, but `<`, `>`, `&`, U+2028, U+2029 escaped.

    Fields keep their order; the caller must sort the fields of a Go map.
    """
    data = encode_javascript(record)
    for plain, escaped in _GO_ESCAPES.items():
        data = data.replace(plain, escaped)
    return data


def encode_python(record: object) -> bytes:
    """Return the bytes that pydantic's `model_dump_json` writes for a value. Lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(record)
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError):
        return without_lone_surrogates(json.dumps(record, ensure_ascii=False, separators=(",", ":"))).encode()


def without_lone_surrogates(text: str) -> str:
    """Return a text with U+FFFD in place of lone surrogates."""
    return _LONE.sub("\ufffd", text)


def has_lone_surrogates(record: object) -> bool:
    """Tell whether a value has texts with lone surrogates, which JavaScript allows."""
    try:
        _encoder.encode(record)
    except UnicodeEncodeError:
        return True
    except (msgspec.MsgspecError, OverflowError):
        return _LONE.search(json.dumps(record, ensure_ascii=False)) is not None
    return False


def cut_go(text: str, bytes_max: int) -> str:
    """Return the first bytes of a text in the form of Go's JSON: each byte of a cut character is U+FFFD."""
    data = text.encode("utf-8", "surrogatepass")[:bytes_max]
    return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape"))
