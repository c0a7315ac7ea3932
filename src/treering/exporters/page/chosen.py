"""The part of a session that goes into a page: all of it, or one branch. It has no payloads."""

from __future__ import annotations

from array import array

import msgspec

from treering.checkpoint.policy import Policy
from treering.errors import NotFoundError
from treering.format.record import Skeleton
from treering.format.skeletons import Skeletons
from treering.kinds import Kind
from treering.session.index import Index
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.heads import Heads


class Chosen:
    """The nodes that go into a page, each with a number: its place in the order in which they were recorded.

    Args:
        whole: The index of the session.
        index: The index of the chosen records.
        heads: The heads that the page shows; it opens at the current one.
        policy: The policy that chooses the nodes for the model.
    """

    def __init__(self, whole: Index, index: Index, heads: Heads, policy: Policy) -> None:
        self.whole = whole
        self.index = index
        self.heads = heads
        self.policy = policy
        self.first_seen: int | None = getattr(policy, "first_seen", None)
        """How many first items of a context the policy reads when a node is added; None if it does not say."""
        self.rows = [*index.graph.rows]
        """By node number: its row in the graph."""
        self.ids = [*index.graph.ids]
        self._numbers = {node: number for number, node in enumerate(self.ids)}
        numbers = dict(zip(self.rows, range(len(self.rows)), strict=True))
        above = zip(self.rows, index.graph.parent_rows(self.rows), strict=True)
        self.parents = array("i", [-1 if parent == row else numbers[parent] for row, parent in above])
        """By node number: the number of its parent, or -1."""

    @property
    def graph(self) -> Graph:
        """The nodes, and the marks on them."""
        return self.index.graph

    @property
    def is_part(self) -> bool:
        """Whether it is only a part of the session."""
        return self.index is not self.whole

    def number(self, node: str | None) -> int:
        """Return the number of a node, or -1 if it is not in the page."""
        return -1 if node is None else self._numbers.get(node, -1)

    def skeletons(self, first: int, end: int) -> list[Skeleton]:
        """Return the nodes from one number up to another."""
        return self.graph.skeletons.take(self.rows[first:end])


def choose(reader: Readable, branch: str | None) -> Steps[Chosen]:
    """Choose the part of a session that goes into a page.

    Args:
        reader: The session.
        branch: The name of a head: choose only the nodes on its path, with their checkpoints, notes and edits. None:
            the whole session.

    Raises:
        NotFoundError: There is no such head.
    """
    index, policy = (yield from reader.replica.index()), reader.replica.policy
    heads = reader.replica.state.heads
    heads = index.heads if heads.placed is None else heads
    if branch is None:
        return Chosen(index, index, heads, policy)
    if branch not in heads.heads:
        raise NotFoundError(f"no such head. head={branch!r}, known={sorted(heads.heads)!r}", kind=Kind.HEAD)
    tip = heads.heads[branch]
    placed = {name: place for name, place in (heads.placed or {}).items() if name == branch}
    kept = Index(Skeletons(_on_path(index, tip)))
    heads = msgspec.structs.replace(heads, heads={branch: tip}, current=branch, placed=placed)
    return Chosen(index, kept, heads, policy)


def _on_path(index: Index, tip: str | None) -> list[Skeleton]:
    """Return the records of a path: its nodes, the checkpoints made there, and the notes and edits about these."""
    skeletons = index.graph.skeletons
    there: set[str | None] = {skeletons.ids[row] for row in index.graph.path_rows(tip)}
    kept: list[Skeleton] = []
    for row in skeletons:
        if row.type == "node":
            chosen = row.id in there
        elif row.type == "checkpoint":
            chosen = row.target is None or row.target in there
        else:
            chosen = row.type in ("note", "edit") and row.target in there
        if chosen:
            kept.append(row)
            there.add(row.id)
    return kept
