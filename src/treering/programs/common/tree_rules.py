"""What the part `repair` of a program offers: how its entries point to each other, and which of them it refuses.

Rule: what a program does with damage is a fact about that program. It is data here; `treering.importers.file_repair`
knows no program by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from treering.format.values import Fields
from treering.programs import known_programs, part_of


class Carrier(msgspec.Struct, frozen=True):
    """A type of entry that can hold a record of a type that the program refuses."""

    type: str
    name: str
    """The field for what it holds."""
    data: str
    """The field for the record."""
    as_text: bool
    """The record is kept as JSON text."""


def session_header(session: str, time: object) -> Fields:
    """Return a header as most programs write it; without a folder, since no entry names it.

    Args:
        session: The id of the session.
        time: The time of the first entry, as that states it.
    """
    return {"type": "session", "version": 3, "id": session, "timestamp": time, "cwd": ""}


class TreeRules(msgspec.Struct, frozen=True, kw_only=True):
    """How entries of a tree point to each other, and which of them the program reads: the constant `TREE`."""

    id: str = "id"
    parent: str
    pointers: tuple[str, ...]
    """Other fields that hold ids of entries."""
    asides: frozenset[str]
    """Types of entries that have no children: labels, names and the like."""
    types: frozenset[str]
    """All types that are known."""
    carrier: Carrier | None = None
    """Keeps entries of unknown types, if the program loses them or does not open a file with them."""
    escaped: tuple[str, ...] = ()
    """Characters that the program takes for the end of a line."""
    linear_below: int = 0
    """Files of versions below this have no tree."""
    id_bytes: int = 4
    """Length of the ids that are made for entries without one; they are written in hexadecimal."""
    loose: bool = False
    """Entries without an id are valid: they are not part of the tree."""
    header: Callable[[str, object], Fields] = session_header
    """Makes a header for a file that lost its own, from the session's id and the time of the first entry."""
    lane: tuple[str, ...] = ()
    """Fields that separate conversations in one file; an entry never gets a parent from another conversation."""


def tree_rules(name: str) -> TreeRules | None:
    """Return how the entries of a program's files form a tree; None if they form none."""
    found = getattr(part_of(name, "repair"), "TREE", None)
    return found if isinstance(found, TreeRules) else None


def program_of_entry(record: Fields) -> str | None:
    """Return the name of the program that writes entries like this one; None if none does, or it does not say so.

    A program says so by the function `is_entry(record)` of its part `repair`.
    """
    return next((name for name in known_programs() if _is_entry(name, record)), None)


def _is_entry(name: str, record: Fields) -> bool:
    check = getattr(part_of(name, "repair"), "is_entry", None)
    return check is not None and bool(check(record))


def whole_document(name: str, header: Fields, records: Iterable[Mapping[str, object]]) -> bytes | None:
    """Return a session as the one document that a program keeps it in; None if it writes lines.

    Args:
        name: Of the program; it makes the document by the function `document(header, records)` of its part `repair`.
        header: What can be read of the document, without its records.
        records: The messages.
    """
    make = getattr(part_of(name, "repair"), "document", None)
    return cast(bytes, make(header, records)) if make is not None else None
