"""The children of nodes, by row."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

NO_ROW: Final = -1
"""Stands where there is no node."""
_NO_CHILD = array("i", [NO_ROW])


class Branches:
    """The children of nodes, by row."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.first = array("i")
        """By row: its first child, or -1."""
        self.more: dict[int, list[int]] = {}
        """The further children of rows that have several."""
        self._taken = 0

    def extend(self, nodes: Sequence[int], parents: Sequence[int]) -> None:
        """Add new nodes. `nodes` has the rows of all nodes, also known ones; `parents` has the parent of each row."""
        first = self.first
        first.extend(_NO_CHILD * (len(parents) - len(first)))
        for row in nodes[self._taken :] if self._taken else nodes:
            parent = parents[row]
            if parent == row:
                self.roots.append(row)
            elif first[parent] == NO_ROW:
                first[parent] = row
            else:
                self.more.setdefault(parent, []).append(row)
        self._taken = len(nodes)

    def children(self, row: int) -> list[int]:
        """Return the children of a row, in order."""
        first = self.first[row]
        return [] if first == NO_ROW else [first, *self.more.get(row, ())]
