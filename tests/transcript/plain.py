"""The rules of the graph and of its outline, record by record and without any economy: columns must agree with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from treering.format.record import Skeleton
from treering.kinds import Kind
from treering.transcript.annotations import Annotations
from treering.transcript.graph import GraphProblem
from treering.transcript.heads import Heads
from treering.transcript.node import Node, node_of
from treering.transcript.tree import OutlineRow


class PlainGraph:
    """All nodes, each with its parent."""

    def __init__(self, records: Iterable[Skeleton]) -> None:
        self.nodes: dict[str, Skeleton] = {}
        self.parent: dict[str, str | None] = {}
        self.annotations = Annotations()
        self.oddities: list[GraphProblem] = []
        for record in records:
            if record.type == "node":
                self._add(record)
            else:
                self.annotations.add(record)

    def _add(self, node: Skeleton) -> None:
        if node.id in self.nodes:
            self.oddities.append(GraphProblem(kind=Kind.DUPLICATE, node=node.id, at=node.at))
            return
        self.nodes[node.id], self.parent[node.id] = node, None
        waiting = [each for each in self.nodes.values() if each.parent == node.id and each.id != node.id]
        if node.parent == node.id:
            self.oddities.append(GraphProblem(kind=Kind.CYCLE, node=node.id, at=node.at))
        elif node.parent in self.nodes:
            self.parent[node.id] = node.parent
        for child in waiting:
            if child.id in self.path(node.id):
                self.oddities.append(GraphProblem(kind=Kind.CYCLE, node=child.id, at=child.at))
            else:
                self.parent[child.id] = node.id

    def path(self, node: str) -> list[str]:
        """The ids from a root down."""
        found = [node]
        while (above := self.parent[found[-1]]) is not None:
            found.append(above)
        return found[::-1]

    def children(self, node: str | None) -> list[str]:
        """The ids of the children of a node; of None the roots."""
        return [name for name in self.nodes if self.parent[name] == node]

    def problems(self) -> list[GraphProblem]:
        """All of them, by position."""
        orphans = [
            GraphProblem(kind=Kind.ORPHAN, node=node.id, at=node.at)
            for node in self.nodes.values()
            if node.parent is not None and node.parent not in self.nodes
        ]
        return sorted([*self.oddities, *orphans], key=lambda problem: problem.at)

    def view(self, node: str) -> Node:
        """A node as callers see it."""
        notes = self.annotations
        retracted, amended = node in notes.retracted, node in notes.amended
        return node_of(
            self.nodes[node], None, label=notes.labels.get(node), retracted=retracted, amended=amended
        )  # fmt: skip

    def outline(self, all_heads: Heads, checkpoints: Iterable[str | None]) -> Iterator[OutlineRow]:
        """The rows of the outline."""
        heads, tip = all_heads.heads, all_heads.tip
        line = {*self.path(tip)} if tip in self.nodes else set[str]()
        made, problems = Counter(checkpoints), {problem.node: problem.kind for problem in self.problems()}
        waiting = [(root, 0, False) for root in reversed(self.children(None))]
        while waiting:
            first, level, aside = waiting.pop()
            run = [first]
            while not self._alone(run[-1], heads, problems) and len(below := self.children(run[-1])) == 1:
                if self._alone(below[0], heads, problems):
                    break
                run += below
            below = self.children(run[-1])
            seen, node = [self.view(name) for name in run], self.view(first)
            yield OutlineRow(
                level=level,
                first=first,
                last=run[-1],
                count=len(run),
                kinds=dict(Counter(each.role if each.kind == "message" and each.role else each.kind for each in seen)),
                branches=len(below) if len(below) > 1 else 0,
                aside=aside,
                leaf=not below,
                label=node.label,
                heads=tuple(name for name, target in heads.items() if target == first),
                checkpoints=sum(made[name] for name in run),
                links=node.links,
                retracted=node.retracted,
                amended=node.amended,
                problem=problems.get(first),
            )
            if below:
                on = next((child for child in below if child in line), below[-1])
                waiting.append((on, level, False))
                waiting += [(child, level + 1, True) for child in reversed(below) if child != on]

    def _alone(self, name: str, heads: dict[str, str | None], problems: dict[str, Kind]) -> bool:
        node = self.view(name)
        told = node.label is not None or node.retracted or node.amended or bool(node.links)
        return told or node.kind in ("compaction", "branch_summary") or name in heads.values() or name in problems


def checkpoint_nodes(records: Iterable[Skeleton]) -> list[str | None]:
    """The nodes of the checkpoints that were not pruned."""
    found: dict[str, str | None] = {}
    for record in records:
        if record.type == "checkpoint":
            found[record.id] = record.target
        elif (record.type, record.kind) == ("edit", "prune"):
            found.pop(record.target or "", None)
    return list(found.values())
