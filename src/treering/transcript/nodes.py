"""All nodes of a session, as callers see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice

from treering.format.record import Skeleton
from treering.transcript.graph import Graph
from treering.transcript.lazy import LazySequence
from treering.transcript.node import Node, node_of

_AT_ONCE = 1024
"""The most nodes that are made together while a caller iterates over them."""


class _OfGraph(LazySequence[Node]):
    """All nodes of a graph as it is now."""

    __slots__ = ("_amended", "_chosen", "_ids", "_labels", "_retracted", "_rows", "_skeletons")

    def __init__(self, graph: Graph) -> None:
        self._skeletons = graph.skeletons
        self._rows = graph.rows[:]
        self._chosen = graph.chosen
        self._ids = tuple(graph.ids)
        self._labels = dict(graph.marks.labels)
        self._retracted = frozenset(graph.marks.retracted)
        self._amended = frozenset(graph.marks.amended)

    def __len__(self) -> int:
        return len(self._rows)

    def _make(self, index: int) -> Node:
        return self._node(self._skeletons[self._rows[index]])

    def _make_all(self, indices: Iterable[int]) -> Iterator[Node]:
        rest = iter(indices)
        while batch := list(islice(rest, _AT_ONCE)):
            yield from map(self._node, self._skeletons.take([self._rows[index] for index in batch]))

    def _node(self, skeleton: Skeleton) -> Node:
        return node_of(
            skeleton,
            None,
            label=self._labels.get(skeleton.id),
            retracted=skeleton.id in self._retracted,
            amended=skeleton.id in self._amended,
        )


class Nodes(_OfGraph):
    """All nodes without payloads, in the order they were recorded, as of the moment when they were asked for.

    A `Node` is made when it is accessed. To get only some fields of all nodes, use the columns, which are much faster:
    for example `ids` and `parents` to draw a tree.
    """

    __slots__ = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """`Node.id` of each node."""
        return self._ids

    @property
    def parents(self) -> tuple[str | None, ...]:
        """`Node.parent` of each node."""
        return tuple(self._skeletons.parent_ids(self._rows))

    @property
    def kinds(self) -> tuple[str, ...]:
        """`Node.kind` of each node."""
        return self._named([kind for _, kind, *_ in self._skeletons.names])

    @property
    def roles(self) -> tuple[str, ...]:
        """`Node.role` of each node."""
        return self._named([role for _, _, role, *_ in self._skeletons.names])

    def _named(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(words.__getitem__, compress(self._skeletons.codes, self._chosen)))

    @property
    def times_ms(self) -> tuple[int, ...]:
        """`Node.time_ms` of each node."""
        return tuple(compress(self._skeletons.times(), self._chosen))

    @property
    def positions(self) -> tuple[int, ...]:
        """`Node.at` of each node."""
        return tuple(self._skeletons.places(self._rows))
