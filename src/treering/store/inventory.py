"""Find the sessions and namespaces of a store without its cards, which may be lost.

A namespace exists while anything is stored in it, even if only the tombstone of a session.
"""

from __future__ import annotations

from collections.abc import Callable

from treering.errors import CorruptError, FormatVersionError, NotFoundError
from treering.format.paths import (
    LATEST,
    NAMESPACES,
    SESSIONS,
    decode_id,
    namespaces_in,
    session_of_latest,
    session_of_tail,
    shown_namespace,
)
from treering.format.register import decode_card, decode_tail
from treering.storage.requests import Found, Get, Steps
from treering.storage.run import checked, list_all, list_folders


def stored_sessions(prefix: str, *, appends: bool) -> Steps[dict[str, str]]:
    """Keys of registers by the names of all sessions, including deleted sessions and sessions whose card is lost.

    If the key is a digest, the name is read from the register; if that cannot be read, the digest is returned instead.

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


def namespaces(prefix: str, *, appends: bool) -> Steps[dict[str, str]]:
    """Find the namespaces directly below one.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.

    Returns:
        Their prefixes by name, in the order of the names.
    """
    (folders,) = yield from list_folders([f"{prefix}{NAMESPACES}"], on_disk=appends)
    found = {name: f"{prefix}{NAMESPACES}{folder}/" for folder in folders if (name := shown_namespace(folder))}
    return dict(sorted(found.items()))


def prefixes(prefix: str, *, appends: bool) -> Steps[list[str]]:
    """Find all namespaces below one, however deep; return its own prefix, then theirs in the order of their names."""
    found, level = [prefix], [prefix]
    while level:
        below = yield from list_folders([f"{each}{NAMESPACES}" for each in level], on_disk=appends)
        level = [
            f"{each}{NAMESPACES}{folder}/"
            for each, folders in zip(level, below, strict=True)
            for folder in folders
            if shown_namespace(folder)
        ]
        found += level
    return sorted(found, key=namespaces_in)
