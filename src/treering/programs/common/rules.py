"""How the programs read the tree of a session file, as data."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.format.values import Fields


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How a program reads a tree of entries. The defaults are those of pi."""

    moment: Callable[[object], float | None] | None
    """Converts a time to a number, an invalid one to None: children are sorted by it, equal ones by the order of the
    file. None: children are in the order of the file."""
    time: str = "timestamp"
    """The field that holds it."""
    roots_ordered: bool = False
    """Roots are sorted like children; otherwise they are in the order of the file."""
    orphans: bool = True
    """An entry with a missing parent is a root; otherwise it is not in the tree."""
    needs_id: bool = False
    """It opens no file whose header has no id."""
    header: str | None = None
    """It opens no file whose header has another type, though such files are read; None: whatever is read is opened."""
    outside: frozenset[str] = frozenset()
    """Types of entries that are not in the tree."""
    nameless: bool = True
    """Entries without an id are in the tree."""
    unknown: str = "last"
    """The context of a missing entry: that of the `last` entry, or `empty`."""
    leaf_told: bool = False
    """The leaf is `ImportSource.leaf`; otherwise it follows from the last entry alone."""
    label: tuple[str, str, str] | None = ("label", "targetId", "label")
    """Type of the entries that are labels, and their fields for target and text. A label without text removes it."""
    labelled_tree: bool = True
    """The nodes of the tree have their labels beside them."""
    title: tuple[str, str] | None = ("session_info", "name")
    """Type of the entries that are titles, and their field for it, of which the last one counts. None: the header's."""
    title_trimmed: bool = True
    """White space at the ends of a title is cut off."""
    title_on_path: bool = False
    """Only titles on the path to the leaf count that are not empty."""
    ends: tuple[str, ...] = ()
    """Further characters at which the program ends a line, though JSON may contain them. Its files must be UTF-8."""
    reads: Callable[[Fields], bool] | None = None
    """Tells whether the program accepts an entry; None: it accepts all."""
    refuses: bool = False
    """It opens no file with an entry that it does not accept; otherwise it skips that entry, and loses its
    ancestors."""
    active_by_all: bool = False
    """Any entry counts as activity; otherwise only messages of users and assistants."""
