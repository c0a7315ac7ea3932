"""The title slot of oh-my-pi: a first line of fixed width that is rewritten in place when the title changes.

    {"type":"title","v":1,"title":"...","source":"user","updatedAt":"2026-01-05T08:00:01.000Z","pad":"      "}

The slot is no entry. Its title takes precedence over that of the header, even if it is empty.
"""

from __future__ import annotations

from typing import Final

import msgspec

from treering.programs.common.lines import decode
from treering.programs.common.writing import encode_javascript

TITLE_SLOT_BYTES: Final = 256
"""The bytes of the whole line with its line break. oh-my-pi overwrites exactly these bytes, so a slot of another width
would overwrite a part of the header."""
_SOURCES: Final = frozenset({"auto", "user"})


class TitleSlot(msgspec.Struct, frozen=True):
    """The contents of a title slot."""

    title: str
    """The title; empty if the session has none."""
    source: str = ""
    """`auto` or `user`; empty if it is not stated. oh-my-pi never replaces a title from a user."""
    updated_at: str = ""
    """The ISO 8601 text in the slot."""


def read_title_slot(line: bytes) -> TitleSlot | None:
    """Parse a line as a title slot of any width; None if it is no title slot."""
    try:
        value, _ = decode(line)
    except (ValueError, RecursionError):
        return None
    return title_slot_of(value)


def title_slot_of(value: object) -> TitleSlot | None:
    """Convert a JSON value to a title slot; None if it is no title slot, or has a newer version."""
    if not isinstance(value, dict) or value.get("type") != "title" or value.get("v") != 1:
        return None
    title, source, updated = value.get("title"), value.get("source", ""), value.get("updatedAt")
    if not (isinstance(title, str) and isinstance(updated, str) and isinstance(value.get("pad"), str)):
        return None
    if not isinstance(source, str) or (source and source not in _SOURCES):
        return None
    return TitleSlot(title, source, updated)


def build_title_slot(slot: TitleSlot) -> bytes:
    """Return the line for a title, `TITLE_SLOT_BYTES` long; a longer title is cut between two characters."""
    title = slot.title[:TITLE_SLOT_BYTES]
    room = TITLE_SLOT_BYTES - len(_line(slot, "", ""))
    while len(encode_javascript(title)) - 2 > room:
        title = title[:-1]
    return _line(slot, title, " " * (room - len(encode_javascript(title)) + 2))


def _line(slot: TitleSlot, title: str, pad: str) -> bytes:
    source = {"source": slot.source} if slot.source else {}
    return (
        encode_javascript({"type": "title", "v": 1, "title": title, **source, "updatedAt": slot.updated_at, "pad": pad})
        + b"\n"
    )
