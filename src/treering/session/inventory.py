"""Find out what a store holds without its cards: all sessions, also where a card is lost, and the namespaces."""

from __future__ import annotations

from collections.abc import Callable

from treering.errors import CorruptError, FormatVersionError, NotFoundError
from treering.format.paths import LATEST, NAMESPACES, SESSIONS, decode_id, session_of_latest, session_of_tail
from treering.format.register import decode_card, decode_tail
from treering.storage.requests import Found, Get, List, Listed, Steps
from treering.storage.run import ask, checked, list_all

BEHIND_SLASH = "0"  # the character behind the slash: after `x0` comes what is behind the folder `x/`


def stored_sessions(prefix: str, *, appends: bool) -> Steps[dict[str, str]]:
    """Keys of registers by the names of all sessions, deleted ones included; also of those whose card is lost.

    Where the key is a digest, the register tells the name; if it cannot be read, the digest stands for the name.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
    """
    tails = yield from _keys_below(f"{prefix}{SESSIONS}", session_of_tail, prefix)
    cards = yield from _keys_below(f"{prefix}{LATEST}", session_of_latest, prefix)
    named: dict[str, str] = {}
    for encoded, key in (tails | cards).items():
        name = decode_id(encoded)
        if name is None:
            name = yield from _told_name(encoded, key, prefix, appends=appends)
        named[name] = key
    return named


def _keys_below(folder: str, name_of: Callable[[str, str], str | None], prefix: str) -> Steps[dict[str, str]]:
    """Keys by the encoded names that `name_of` finds in them."""
    entries = yield from list_all(folder)
    return {name: entry.key for entry in entries if (name := name_of(entry.key, prefix))}


def _told_name(encoded: str, key: str, prefix: str, *, appends: bool) -> Steps[str]:
    (answer,) = yield (Get(key, register=True),)
    if isinstance(answer, NotFoundError):
        return encoded
    data = checked(answer, Found).data
    try:
        if session_of_tail(key, prefix):
            return decode_tail(data, key=key, compressed=not appends).header.session
        return decode_card(data, key=key).session
    except (CorruptError, FormatVersionError):
        return encoded


def namespaces_below(prefix: str) -> Steps[list[tuple[str, str]]]:
    """Prefixes and encoded names of the namespaces right below `prefix`: a LIST for each, which skips to the next."""
    found: list[tuple[str, str]] = []
    start = after = f"{prefix}{NAMESPACES}"
    while True:
        listed = yield from ask(List(start, after=after if after != start else "", limit=1), Listed)
        if not listed.entries:
            return found
        name = listed.entries[0].key.removeprefix(start).partition("/")[0]
        found.append((f"{start}{name}/", name))
        after = f"{start}{name}{BEHIND_SLASH}"
