"""The interface of a program's part `repair`: how its entries refer to each other, and which of them it refuses.

Rule: the way in which a program handles damage is described here as data; `treering.importers.file_repair` knows no
program by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from treering.format.values import Fields
from treering.programs import known_programs, part_of


class Carrier(msgspec.Struct, frozen=True):
    """A type of entry that can contain a record of a type that the program refuses."""

    type: str
    name: str
    """The field for the sort of its content."""
    data: str
    """The field for the record."""
    as_text: bool
    """Whether the record is kept as JSON text."""


def session_header(session: str, time: object) -> Fields:
    """Return a header in the format of most programs; without a folder, since no entry names it.

    Args:
        session: The id of the session.
        time: The time of the first entry, in the entry's own format.
    """
    return {"type": "session", "version": 3, "id": session, "timestamp": time, "cwd": ""}


class TreeRules(msgspec.Struct, frozen=True, kw_only=True):
    """How entries of a tree refer to each other, and which of them the program reads: the constant `TREE`."""

    id: str = "id"
    parent: str
    pointers: tuple[str, ...]
    """Other fields that hold ids of entries."""
    asides: frozenset[str]
    """Types of entries that have no children: labels, names and the like."""
    types: frozenset[str]
    """All known types."""
    carrier: Carrier | None = None
    """The entry type for entries of unknown types, if the program loses them or does not open a file with them."""
    escaped: tuple[str, ...] = ()
    """Characters that the program takes for the end of a line."""
    linear_below: int = 0
    """Files of versions below this have no tree."""
    id_bytes: int = 4
    """Bytes of the ids that are made for entries without one; they are written in hexadecimal."""
    loose: bool = False
    """Whether entries without an id are valid, outside the tree."""
    header: Callable[[str, object], Fields] = session_header
    """Makes a header for a file that lost its own, from the session's id and the time of the first entry."""
    lane: tuple[str, ...] = ()
    """Fields that separate conversations in one file; an entry never gets a parent from another conversation."""


def tree_rules(name: str) -> TreeRules | None:
    """Return the rules by which the entries of a program's files form a tree; None if they form none."""
    found = getattr(part_of(name, "repair"), "TREE", None)
    return found if isinstance(found, TreeRules) else None


def program_of_entry(record: Fields) -> str | None:
    """Return the name of the program that writes entries like this one; None if no program recognizes it.

    A program recognizes entries by the function `is_entry(record)` of its part `repair`.
    """
    return next((name for name in known_programs() if _is_entry(name, record)), None)


def _is_entry(name: str, record: Fields) -> bool:
    check = getattr(part_of(name, "repair"), "is_entry", None)
    return check is not None and bool(check(record))


def whole_document(name: str, header: Fields, records: Iterable[Mapping[str, object]]) -> bytes | None:
    """Return a session as the single document in which a program keeps it; None if the program writes lines.

    Args:
        name: The program, which makes the document by the function `document(header, records)` of its part `repair`.
        header: The readable part of the document, without its records.
        records: The messages.
    """
    make = getattr(part_of(name, "repair"), "document", None)
    return cast(bytes, make(header, records)) if make is not None else None
