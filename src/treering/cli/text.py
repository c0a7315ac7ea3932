"""Text for people: without control sequences, cut to a length, with readable times and sizes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final

from treering.ids import now_ms as current_ms

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line break, characters that change the text direction, and lone surrogates."""
_UNPRINTABLE_IN_JSON: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Those of them that JSON may hold as they are; it can hold them in texts only."""
_RANDOM_ID: Final = re.compile("[0-9a-f-]{17,}")
SHORT_ID_CHARACTERS: Final = 8
ELLIPSIS: Final = "…"


def clean(text: str) -> str:
    """Return text with control characters escaped, so that a terminal does not execute them."""
    return _UNPRINTABLE.sub(_escape, text.replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def clean_json(document: bytes) -> bytes:
    r"""Return the same JSON with these characters as `\u` escapes, so that a terminal does not execute them."""
    if document.isascii() and b"\x7f" not in document:  # an encoder has escaped the others
        return document
    return _UNPRINTABLE_IN_JSON.sub(_escape_in_json, document.decode()).encode()


def _escape_in_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def one_line(text: str, characters_max: int | None = None) -> str:
    """Return text as one clean line, cut if it is longer than `characters_max`."""
    if characters_max is not None:
        text = text[: 8 * characters_max]  # enough, and a message may have megabytes
    line = clean(" ".join(text.split()))
    return line if characters_max is None or len(line) <= characters_max else line[: characters_max - 1] + ELLIPSIS


def short_id(identifier: str | None) -> str:
    """Return an id for people: only the end of a long random one, since ids made at one time differ there."""
    if identifier is None:
        return ""
    if _RANDOM_ID.fullmatch(identifier):
        return ELLIPSIS + identifier[-SHORT_ID_CHARACTERS:]
    return one_line(identifier, 40)


def iso_time(ms: int) -> str:
    """Return a time for programs, in UTC; an unknown one is empty."""
    return _format(ms, "%Y-%m-%dT%H:%M:%S", UTC) + f".{ms % 1000:03d}Z" if ms else ""


def local_time(ms: int) -> str:
    """Return a time for people, in the local time zone."""
    return _format(ms, "%Y-%m-%d %H:%M", None) if ms else ""


def _format(ms: int, form: str, zone: tzinfo | None) -> str:
    try:
        moment = datetime.fromtimestamp(ms // 1000, tz=UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):  # a foreign file may have any number
        return str(ms)
    return moment.strftime(form)


def ago(ms: int, now_ms: int | None = None) -> str:
    """Return roughly how long ago a time was."""
    if not ms:
        return ""
    seconds = ((current_ms() if now_ms is None else now_ms) - ms) // 1000
    if seconds < 60:
        return "just now"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return local_time(ms) if seconds > 30 * 86_400 else f"{seconds // size} {unit} ago"
    return "just now"


def size_text(size: int) -> str:
    """Return a number of bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return ""


def counted(count: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
