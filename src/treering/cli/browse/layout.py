"""The nodes of a session as lines of a tree, one line each, in the order of `treering tree`, filtered and folded.

A *place* is the number of a line when all lines are shown. The layout is stored as numbers in arrays, so 100,000 nodes
cost little; a node is decoded when its line is drawn.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from treering.api.view import View
from treering.calls import RESULT_ROLES
from treering.cli.tree import guide
from treering.transcript.node import Node

CONVERSATION: Final = frozenset({"message", "compaction", "branch_summary", "custom_message", "reset_boundary"})
"""Kinds of nodes that are more than a change of settings."""

MODES: Final = ("default", "no-tools", "user-only", "labeled-only", "all")
"""Filters, by their names in pi."""


class Layout:
    """The tree of a session, as of its last read. Reading it may take long; all other methods are fast."""

    def __init__(self, view: View) -> None:
        self.info = view.info
        self.head = view.head
        self.tip = view.node
        self.nodes = view.nodes()
        checkpoints = view.checkpoints()
        self.checkpoints = Counter(entry.node for entry in checkpoints)
        """The number of checkpoints by node."""
        self.labels: dict[str | None, str] = {entry.node: entry.label for entry in checkpoints if entry.label}
        """The label of a node, or else of its newest labelled checkpoint."""
        self.own_labels = view.labels()
        """The labels of nodes and checkpoints themselves."""
        self.labels.update(self.own_labels)
        self.problems = {problem.node: problem.kind for problem in view.problems()}
        self.heads: dict[str, list[str]] = {}
        """The names of the heads on a node."""
        for name, node in view.heads.items():
            if node is not None:
                self.heads.setdefault(node, []).append(name)
        self._ids = self.nodes.ids
        self._rows = array("i")
        """By place: the number of the node in `nodes`."""
        self._levels = array("i")
        self._begins = bytearray()
        """By place: whether the line is the first of its branch."""
        self._roots: list[int] = []
        """The places of the roots."""
        self._places = array("i", bytes(4 * len(self._ids)))
        self._numbers = {name: number for number, name in enumerate(self._ids)}
        self._lay(view)
        self._kept: dict[str, bytes] = {}
        """By filter: 1 for each place that it shows."""

    def _lay(self, view: View) -> None:
        parents = self.nodes.parents
        last_of: dict[int, str | None] = {}  # the last node laid so far, by level
        for row in view.tree():
            begins = parents[self._numbers[row.first]] != last_of.get(row.level, "")
            last_of[row.level] = row.last
            if begins and row.level == 0:
                self._roots.append(len(self._rows))
            self._begins.append(begins)
            self._begins.extend(bytes(row.count - 1))
            self._levels.extend([row.level] * row.count)
            self._rows.extend(self._run(row.last, row.count, parents))
        for place, number in enumerate(self._rows):
            self._places[number] = place

    def _run(self, last: str, count: int, parents: Sequence[str | None]) -> list[int]:
        """The numbers of the nodes of a run, given its last node, in order from the first."""
        run = [self._numbers[last]]
        while len(run) < count:
            run.append(self._numbers[parents[run[-1]] or ""])
        return run[::-1]

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, node: object) -> bool:
        return node in self._numbers

    def node(self, place: int) -> Node:
        """The node at a place, without its payload."""
        return self.nodes[self._rows[place]]

    def id(self, place: int) -> str:
        """The id of the node at a place."""
        return self._ids[self._rows[place]]

    def place(self, node: str) -> int:
        """The place of a node."""
        return self._places[self._numbers[node]]

    def guide(self, place: int) -> str:
        """The guides in front of a line."""
        hanging = place < self._roots[-1] if len(self._roots) > 1 else None
        return guide(self._levels[place], begins=bool(self._begins[place]), hanging=hanging)

    def start(self, place: int) -> int:
        """The place of the first line of the branch that a line is in."""
        level = self._levels[place]
        while not (self._begins[place] and self._levels[place] == level):
            place -= 1
        return place

    def end(self, start: int) -> int:
        """The place behind the branch that begins with a line, and behind the branches that leave it."""
        level, place = self._levels[start], start + 1
        while place < len(self) and (
            self._levels[place] > level or (self._levels[place] == level and not self._begins[place])
        ):
            place += 1
        return place

    def starts_after(self, place: int) -> int | None:
        """The place of the next line that begins a branch."""
        found = self._begins.find(1, place + 1)
        return None if found < 0 else found

    def shown(self, mode: str, folded: Collection[int] = ()) -> array[int]:
        """The places of the lines that a filter shows, without the lines folded below the places in `folded`.

        The session's current node is always shown.
        """
        wanted = bytearray(self._kept.get(mode) or self._keep(mode))
        if self.tip in self:
            wanted[self.place(self.tip or "")] = 1
        for start in folded:
            wanted[start] = 1
        for start in folded:
            end = self.end(start)
            wanted[start + 1 : end] = bytes(end - start - 1)
        return array("i", (place for place, shown in enumerate(wanted) if shown))

    def _keep(self, mode: str) -> bytes:
        kinds, roles = self.nodes.kinds, self.nodes.roles
        if mode == "all":
            kept = bytes(b"\1" * len(kinds))
        elif mode == "labeled-only":
            kept = bytes([name in self.labels for name in self._ids])
        elif mode == "user-only":
            kept = bytes([kind == "message" and role == "user" for kind, role in zip(kinds, roles, strict=True)])
        else:
            hidden = RESULT_ROLES if mode == "no-tools" else ()
            told = zip(kinds, roles, strict=True)
            kept = bytes([kind in CONVERSATION and role not in hidden for kind, role in told])
        self._kept[mode] = bytes(map(kept.__getitem__, self._rows))
        return self._kept[mode]


def nearest(shown: Sequence[int], place: int) -> int:
    """Return the number of the shown line at a place, or of the last one before it."""
    return max(0, bisect_right(shown, place) - 1)
