"""The chain of entries in a file whose labels and names are links of it, too.

pi and its relatives keep labels, names and usage as entries of the tree: other entries name them as their parent. Here
they are notes beside the tree. So an entry below a note is joined to the nearest node above it, and no entry is lost.

Rule: an entry depends only on what stands above it in the file. So what is made of a file that has grown begins with
what was made of it before.

Ids are unique here. Where the file has an id twice, the later entry gets a new one. What names the id from there on
means the later entry; what came before keeps meaning the earlier one, which is all that its writer can have known.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from hashlib import blake2b
from itertools import dropwhile
from typing import NamedTuple

import msgspec

from treering.programs.common.memo import Facts, Memo, Recalled, new_in


class Place(NamedTuple):
    """Where an entry stands."""

    id: str
    parent: str | None
    """The nearest node above."""
    above: str | None
    """The entry above, which may be a note."""
    stand_in: str | None
    """A node needed in the place of this note, because an entry further up in the file names the note as its parent."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What a chain knows behind an entry, so that another one can go on there."""

    made: int
    renamed: dict[str, str]
    awaited: set[str]
    last: str | None


_PLACE = msgspec.json.Decoder(str | None)


class Chain:
    """Decides which ids the entries get and what stands above what.

    Memory: one dictionary entry of two ids for each entry of the file, and nothing of its content.
    """

    def __init__(self, session: str, *, linear: bool = False) -> None:
        self.linear = linear
        """Each entry follows the one before, whatever the file says: old formats had neither ids nor parents."""
        self._session = session
        self._made = 0
        self._above: MutableMapping[str, str | None] = {}
        self._anchors: MutableMapping[str, str | None] = {}  # of each note: the nearest node above it
        self._renamed: dict[str, str] = {}  # ids of the file, where ours differ
        self._awaited: set[str] = set()  # parents that were named and did not come yet
        self._last: str | None = None

    @property
    def known(self) -> Known:
        """What it knows; valid until the next entry is added."""
        return Known(self._made, self._renamed, self._awaited, self._last)

    @property
    def facts(self) -> Facts:
        """What it knows of single entries, as far as it was not recalled; valid until the next entry is added."""
        return {"above": new_in(self._above), "anchors": new_in(self._anchors)}

    def go_on(self, known: Known, memo: Memo) -> None:
        """Go on where another chain of the same file stood."""
        self._made, self._last = known.made, known.last
        self._above, self._anchors = (Recalled(memo, name, _PLACE) for name in ("above", "anchors"))
        self._renamed, self._awaited = known.renamed, known.awaited

    def add(self, source: str, parent: object, *, note: bool, moves: bool) -> Place:
        """Give the next entry its place.

        Args:
            source: Its id in the file, empty if it has none.
            parent: What the file names as its parent; what is no text, or empty, is none.
            note: It is no node here.
            moves: The leaf goes with it.
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
        """Return 8 hex digits like those of pi: the same on every import, and not used above in the file."""
        while True:
            self._made += 1
            seed = f"{self._session}/{self._made}".encode("utf-8", "surrogatepass")
            name = blake2b(seed, digest_size=4).hexdigest()
            if name not in self._above:
                return name

    def find(self, source: object) -> str | None:
        """Return our id for an id in the file: that of the last entry so far that has it."""
        return self._renamed.get(source, source) if isinstance(source, str) and source else None

    def node_at(self, name: str | None) -> str | None:
        """Return `name`, or the nearest node above it if it is a note."""
        return name if name is None else self._anchors.get(name, name)

    def kept_from(self, name: str | None, place: Place) -> str | None:
        """Return the first node at or below `name` on the way to `place`; `name` itself if it is not on it."""
        if name not in self._anchors:
            return name
        node, cursor = None, place.above
        passed = set[str]()  # a damaged file may lead round in circles
        while cursor is not None and cursor != name and cursor not in passed:
            passed.add(cursor)
            node = node if cursor in self._anchors else cursor
            cursor = self._above.get(cursor)
        return node if node is not None and cursor == name else name

    def recorded_from(self, name: str | None) -> str | None:
        """Return the first node at or behind `name` in the order of the file; `name` itself if it is not there yet."""
        if name not in self._anchors:
            return name
        behind = dropwhile(lambda each: each != name, self._above)
        return next((each for each in behind if each not in self._anchors), None)

    def stand(self, name: str | None) -> None:
        """Move the leaf to an entry, which may be missing, or to the place before the first one."""
        self._last = name

    def leaf(self) -> str | None:
        """Return the last entry that moved the leaf, or the nearest node above it if that is a note."""
        node = self.node_at(self._last)
        return node if node in self._above else None
