"""Ids and parents of the entries of a file in which labels and names are also parents of entries.

pi and similar programs keep labels, names and usage as entries of the tree: other entries name them as their parent. In
Treering they are notes outside the tree. So the parent of an entry below a note is the note's nearest ancestor that is
a node.

Rule: the result for an entry depends only on earlier entries of the file. So if a file has grown, its first drafts are
the same as before.

Ids are unique in Treering. If the file has an id twice, the later entry gets a new id. References after it mean the
later entry, earlier references the earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from hashlib import blake2b
from itertools import dropwhile
from typing import NamedTuple

import msgspec

from treering.programs.common.memo import Facts, Memo, Recalled, new_in


class Place(NamedTuple):
    """The id of an entry, and its place in the tree."""

    id: str
    parent: str | None
    """The nearest ancestor that is a node."""
    above: str | None
    """The parent entry, which may be a note."""
    stand_in: str | None
    """The id of a node that is needed in place of this note, because an earlier entry names the note as its parent."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The state of a chain after an entry, from which another chain can continue."""

    made: int
    renamed: dict[str, str]
    awaited: set[str]
    last: str | None


_PLACE = msgspec.json.Decoder(str | None)


class Chain:
    """Decides the ids and parents of entries.

    Memory: one dictionary entry of two ids for each entry of the file, and nothing of its content.
    """

    def __init__(self, session: str, *, linear: bool = False) -> None:
        self.linear = linear
        """Whether the parent of each entry is the entry before it: old formats had neither ids nor parents."""
        self._session = session
        self._made = 0
        self._above: MutableMapping[str, str | None] = {}
        self._anchors: MutableMapping[str, str | None] = {}  # by note: its nearest ancestor that is a node
        self._renamed: dict[str, str] = {}  # ids of the file that were replaced
        self._awaited: set[str] = set()  # parents that were named and not read yet
        self._last: str | None = None

    @property
    def known(self) -> Known:
        """The state of the chain; valid until the next entry is added."""
        return Known(self._made, self._renamed, self._awaited, self._last)

    @property
    def facts(self) -> Facts:
        """The facts of single entries that are not in the memo; valid until the next entry is added."""
        return {"above": new_in(self._above), "anchors": new_in(self._anchors)}

    def go_on(self, known: Known, memo: Memo) -> None:
        """Continue from the state of another chain of the same file."""
        self._made, self._last = known.made, known.last
        self._above, self._anchors = (Recalled(memo, name, _PLACE) for name in ("above", "anchors"))
        self._renamed, self._awaited = known.renamed, known.awaited

    def add(self, source: str, parent: object, *, note: bool, moves: bool) -> Place:
        """Add the next entry and return its place.

        Args:
            source: Its id in the file, empty if it has none.
            parent: The parent that the file names; an empty text or another type means none.
            note: Whether the entry becomes a note, and no node.
            moves: Whether the entry becomes the leaf.
        """
        above = self._last if self.linear else self.find(parent)
        if above is not None and above not in self._above:
            self._awaited.add(above)
        stand_in = None
        name = source
        if note and source in self._awaited:
            stand_in = source
            self._enter(stand_in, above, note=False)
            name = self.new_id()
        elif self.linear or not source or source in self._above:
            name = self.new_id()
            if source:
                self._renamed[source] = name
        self._enter(name, stand_in or above, note=note)
        self._last = name if moves else self._last
        return Place(name, self.node_at(above), above, stand_in)

    def _enter(self, name: str, above: str | None, *, note: bool) -> None:
        self._above[name] = above
        self._awaited.discard(name)
        if note:
            self._anchors[name] = self.node_at(above)

    def new_id(self) -> str:
        """Return 8 hex digits like those of pi: the same on every import, and not used earlier in the file."""
        while True:
            self._made += 1
            seed = f"{self._session}/{self._made}".encode("utf-8", "surrogatepass")
            name = blake2b(seed, digest_size=4).hexdigest()
            if name not in self._above:
                return name

    def find(self, source: object) -> str | None:
        """Return the unique id for an id of the file: that of the last entry so far that has it."""
        return self._renamed.get(source, source) if isinstance(source, str) and source else None

    def node_at(self, name: str | None) -> str | None:
        """Return `name`, or its nearest ancestor that is a node if it is a note."""
        return name if name is None else self._anchors.get(name, name)

    def kept_from(self, name: str | None, place: Place) -> str | None:
        """Return the first node at or below `name` on the path to `place`; `name` itself if it is not on that path."""
        if name not in self._anchors:
            return name
        node = None
        for entry in self._way_up(place):
            if entry == name:
                return node or name
            node = node if entry in self._anchors else entry
        return name

    def has_note_above(self, name: str | None, place: Place) -> bool:
        """Tell whether `name` is a note on the path to `place`."""
        return name in self._anchors and any(entry == name for entry in self._way_up(place))

    def _way_up(self, place: Place) -> Iterator[str]:
        """Yield the entries above `place`, including notes, the nearest one first."""
        cursor = place.above
        passed = set[str]()  # a damaged file may have cycles
        while cursor is not None and cursor not in passed:
            yield cursor
            passed.add(cursor)
            cursor = self._above.get(cursor)

    def recorded_from(self, name: str | None) -> str | None:
        """Return the first node at or after `name` in the order of the file; `name` itself if it was not read yet."""
        if name not in self._anchors:
            return name
        behind = dropwhile(lambda each: each != name, self._above)
        return next((each for each in behind if each not in self._anchors), None)

    def stand(self, name: str | None) -> None:
        """Move the leaf to an entry, which may be missing, or before the first entry."""
        self._last = name

    def leaf(self) -> str | None:
        """Return the leaf, or its nearest ancestor that is a node if it is a note."""
        node = self.node_at(self._last)
        return node if node in self._above else None
