"""The nodes of the entries of a session file, for policies.

Each node takes an id and a few machine words of memory. `Skeleton`s are made on access.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import overload

import msgspec

from treering.format import values
from treering.format.record import Skeleton, read_brief
from treering.transcript.node import Draft

_NO_BRIEF = b"{}"


class Nodes:
    """All nodes of a file, in its order; it implements `Recorded`."""

    def __init__(self) -> None:
        self.index: dict[str | None, int] = {}
        """By id: the position of the last entry that has it. An empty id is no id."""
        self.entry_ids: list[str | None] = []
        self._starts = array("q", [0])
        self._entries = array("q")
        self._ids: list[str] = []
        self._parents: list[str | None] = []
        self._kinds: list[str] = []
        self._roles: list[str] = []
        self._times = array("q")
        self._links: list[dict[str, str] | None] = []
        self._briefs: list[bytes] = []
        self._named: dict[str, int] = {}
        """Rows of nodes by id, except nodes with the id of their entry."""

    def add(self, name: str | None, drafts: Iterable[Draft]) -> None:
        """Add the drafts of the next entry.

        Args:
            name: The id of the entry.
            drafts: The drafts of the entry; only nodes are added.
        """
        at = len(self.entry_ids)
        if name and (before := self._of_entry(self.index.get(name), name)) is not None:
            self._named[name] = before
        if name != "":
            self.index[name] = at
        self.entry_ids.append(name)
        for draft in drafts:
            if draft.type == "node":
                self._add(at, name, draft)
        self._starts.append(len(self._ids))

    def _add(self, at: int, name: str | None, draft: Draft) -> None:
        row, own = len(self._ids), draft.id or ""
        parent = draft.parent if isinstance(draft.parent, str) else None
        brief = values.encode(draft.brief) if draft.brief else _NO_BRIEF
        if row:  # texts equal to those of the node before are in memory once
            parent = self._ids[-1] if parent == self._ids[-1] else parent
            brief = next((each for each in self._briefs[:-5:-1] if each == brief), brief)
        if own != name or own in self._named or not own:
            self._named[own] = row
        self._ids.append(name if name is not None and own == name else own)
        self._parents.append(parent)
        self._kinds.append(intern(draft.kind))
        self._roles.append(intern(draft.role))
        self._times.append(draft.time_ms or 0)
        self._links.append(draft.links or None)
        self._briefs.append(brief)
        self._entries.append(at)

    def of_entry(self, at: int) -> range:
        """Return the rows of the entry at a position: none or one, or two if there is a stand-in."""
        return range(self._starts[at], self._starts[at + 1])

    def _of_entry(self, at: int | None, name: str) -> int | None:
        rows = reversed(self.of_entry(at)) if at is not None else ()
        return next((row for row in rows if self._ids[row] == name), None)

    def row(self, node: str) -> int | None:
        """Return the row of a node; None if there is no such node."""
        row = self._named.get(node)
        return row if row is not None else self._of_entry(self.index.get(node), node)

    def place(self, node: str) -> int | None:
        """Return the position of the entry of a node; None if there is no such node."""
        row = self.row(node)
        return None if row is None else self._entries[row]

    def place_of(self, node: str) -> int:
        """Return the position of the entry of an existing node."""
        place = self.place(node)
        if place is None:
            raise KeyError(node)
        return place

    def between(self, first: str, last: str) -> Sequence[Skeleton]:
        """See `Recorded`."""
        start, end = self.row(first), self.row(last)
        return Rows(self, range(len(self._ids) if start is None else start, end or 0), {})

    def skeleton(self, row: int) -> Skeleton:
        """Return a node's skeleton as it would be in a store."""
        return Skeleton(
            row, "node", self._kinds[row], self._ids[row], self._parents[row], "", self._roles[row], None,
            self._times[row], self._links[row], self._briefs[row], 0, False,
        )  # fmt: skip

    def path(self, places: Iterable[int]) -> Rows:
        """Return the nodes of a path of entries, from a root on.

        If two entries have the id of a compaction's first kept entry, the program takes the later one. Here they are
        two nodes, and compactions before the later one in the file name the earlier. So their briefs are changed.
        """
        rows = array("q", (row for place in places for row in self.of_entry(place)))
        compactions = [row for row in rows if self._kinds[row] == "compaction"]
        names = {self._ids[row] for row in rows} if compactions else set[str]()
        return Rows(self, rows, {row: self._keeping(self.skeleton(row), names) for row in compactions})

    def _keeping(self, row: Skeleton, names: set[str]) -> Skeleton:
        brief = read_brief(row)
        kept = brief.get("kept")
        place = self.place(kept) if isinstance(kept, str) and kept not in names else None
        later = self.index.get(self.entry_ids[place]) if place is not None else None
        rows = self.of_entry(later) if later is not None else ()
        found = [name for each in rows if (name := self._ids[each]) in names]
        return msgspec.structs.replace(row, brief=values.encode(brief | {"kept": found[-1]})) if found else row


class Rows(Sequence[Skeleton]):
    """Some of the nodes of a file."""

    def __init__(self, nodes: Nodes, rows: Sequence[int], changed: Mapping[int, Skeleton]) -> None:
        """Make the sequence from rows of nodes, in order, and the skeletons that differ on this path."""
        self._nodes = nodes
        self._rows = rows
        self._changed = changed

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Skeleton: ...

    @overload
    def __getitem__(self, at: slice) -> Rows: ...

    def __getitem__(self, at: int | slice) -> Skeleton | Rows:
        if isinstance(at, slice):
            return Rows(self._nodes, self._rows[at], self._changed)
        row = self._rows[at]
        return self._changed.get(row) or self._nodes.skeleton(row)
