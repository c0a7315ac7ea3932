"""The places of values in a JSON document, so that the exact text of each can be kept.

The parser of the standard library skips the values. An unreadable value is yielded without an end, as the last one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_WHITE: Final = re.compile(r"[ \t\r\n]*")
_CLOSING: Final = {"{": "}", "[": "]"}
_decoder: Final = json.JSONDecoder()


class Span(NamedTuple):
    """A value in a document."""

    key: str
    """Its name in an object; empty in an array."""
    start: int
    end: int | None
    """The place after the value; None if the value is damaged."""


def members(text: str, at: int) -> Iterator[Span]:
    """Yield the members of the object that begins at a place; none if there is no object."""
    return _parts(text, at, "{")


def elements(text: str, at: int) -> Iterator[Span]:
    """Yield the elements of the array that begins at a place; none if there is no array."""
    return _parts(text, at, "[")


def skip_white(text: str, at: int) -> int:
    """Return the place of the next character that is no white space."""
    match = _WHITE.match(text, at)
    return match.end() if match else at


def value_end(text: str, at: int) -> int | None:
    """Return the end of the value at a place; None if the value is damaged."""
    value = _value(text, at)
    return None if value is None else value[1]


def _parts(text: str, at: int, opening: str) -> Iterator[Span]:
    if text[at : at + 1] != opening:
        return
    at = skip_white(text, at + 1)
    while text[at : at + 1] not in ("", _CLOSING[opening]):
        key = ""
        if opening == "{":
            named = _value(text, at)
            if named is None or not isinstance(named[0], str):
                return
            key, at = named[0], skip_white(text, skip_white(text, named[1]) + 1)  # after the colon
        value = _value(text, at)
        yield Span(key, at, None if value is None else value[1])
        if value is None:
            return
        at = skip_white(text, value[1])
        at = skip_white(text, at + 1) if text[at : at + 1] == "," else at


def _value(text: str, at: int) -> tuple[object, int] | None:
    """Return the value at a place and its end; None if no value can be read there."""
    try:
        return _decoder.raw_decode(text, at)
    except (ValueError, RecursionError, StopIteration):
        return None
