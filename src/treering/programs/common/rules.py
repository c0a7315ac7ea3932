"""The rules by which programs read the tree of a session file, as data."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.format.values import Fields


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a program reads a tree of entries. The defaults are those of pi."""

    moment: Callable[[object], float | None] | None
    """Converts a time to a number, or an invalid time to None. Children are sorted by that number; children with equal
    numbers are in the order of the file. None: all children are in the order of the file."""
    time: str = "timestamp"
    """The field with the time."""
    roots_ordered: bool = False
    """Whether roots are sorted like children; otherwise they are in the order of the file."""
    orphans: bool = True
    """Whether an entry with a missing parent is a root; otherwise it is not in the tree."""
    needs_id: bool = False
    """Whether the program opens no file whose header has no id."""
    header: str | None = None
    """The only type of header with which the program opens a file; the importer reads other files, too. None: any."""
    outside: frozenset[str] = frozenset()
    """Types of entries that are not in the tree."""
    nameless: bool = True
    """Whether entries without an id are in the tree."""
    unknown: str = "last"
    """The context of a missing entry: that of the `last` entry, or `empty`."""
    leaf_told: bool = False
    """Whether the leaf is `ImportSource.leaf`; otherwise the last entry alone determines it."""
    label: tuple[str, str, str] | None = ("label", "targetId", "label")
    """The type of label entries, and their fields for target and text. A label without text removes the label."""
    labelled_tree: bool = True
    """Whether the nodes of the program's tree include their labels."""
    title: tuple[str, str] | None = ("session_info", "name")
    """The type of title entries, and their field for the title; the last one counts. None: the title in the header."""
    title_trimmed: bool = True
    """Whether white space at the ends of a title is cut off."""
    title_on_path: bool = False
    """Whether only titles that are on the path to the leaf and not empty count."""
    ends: tuple[str, ...] = ()
    """Other characters at which the program ends a line, though JSON may contain them. Its files must be UTF-8."""
    reads: Callable[[Fields], bool] | None = None
    """Tells whether the program accepts an entry; None: it accepts all."""
    refuses: bool = False
    """Whether the program opens no file with an entry that it does not accept; otherwise it skips that entry, and loses
    the entry's ancestors."""
    cuts: frozenset[str] = frozenset()
    """Views that leave out parts of a message."""
    active_by_all: bool = False
    """Whether any entry counts as activity; otherwise only messages of users and assistants."""
