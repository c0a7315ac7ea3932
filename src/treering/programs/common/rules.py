"""How the programs find their way in a session file, as data."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.format.values import Fields


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Where a program differs from the others in reading a tree of entries. The defaults are pi's."""

    moment: Callable[[object], float | None] | None
    """Makes a number of a time, or None of what is no time: children are ordered by it, equal ones by the file. Without
    it they are ordered by the file alone."""
    time: str = "timestamp"
    """The field that holds it."""
    roots_ordered: bool = False
    """Roots are ordered like children; else by the file."""
    orphans: bool = True
    """An entry whose parent is not there is a root of the tree; else it is not in the tree."""
    needs_id: bool = False
    """It opens no file whose header has no id."""
    outside: frozenset[str] = frozenset()
    """Types of entries that are not in the tree."""
    nameless: bool = True
    """Entries without an id are in the tree."""
    unknown: str = "last"
    """What the context of an entry that is not there is: that of the `last` one, or `empty`."""
    leaf_told: bool = False
    """Where it goes on is what `ImportSource.leaf` says; else the last entry alone tells it."""
    label: tuple[str, str, str] | None = ("label", "targetId", "label")
    """Type of the entries that are labels, and their fields for target and text. A label without text takes it off."""
    labelled_tree: bool = True
    """The nodes of the tree have their labels beside them."""
    title: tuple[str, str] | None = ("session_info", "name")
    """Type of the entries that are titles, and their field for it, of which the last one counts. None: the header's."""
    title_trimmed: bool = True
    """White space at the ends of a title is cut off."""
    title_on_path: bool = False
    """Of titles, those on the path to the leaf count that are not empty."""
    ends: tuple[str, ...] = ()
    """Further characters at which the program ends a line, though they may stand in JSON. Its files must be UTF-8."""
    reads: Callable[[Fields], bool] | None = None
    """Tells an entry that the program can read itself; without it, it reads all."""
    refuses: bool = False
    """It opens no file with an entry that it cannot read; else it passes over that entry, and loses what is above."""
    active_by_all: bool = False
    """It takes any entry for activity; else messages of users and assistants."""
