"""The reads of one batch: the data that each takes from the state of a session, and the result of the operation."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from treering.integrations.langgraph.codec import Codec
from treering.integrations.langgraph.filters import is_below, matches, prefix_of
from treering.integrations.langgraph.items import (
    SESSION_LABELS,
    Namespace,
    Place,
    as_item,
    as_search_item,
    expiry_in,
    holds,
    may_hold,
    places_in,
    session_of,
    stored_in,
)
from treering.integrations.langgraph.words import scores, texts_in

F = TypeVar("F")
State = Mapping[str, bytes]


class Look(NamedTuple):
    """The options with which items are read."""

    codec: Codec
    now_us: int
    hides: bool
    """Whether expired items are hidden before they are swept."""

    def shows(self, state: State, place: Place) -> bool:
        """Tell whether an item exists and is not hidden."""
        if not holds(state, place):
            return False
        expiry = expiry_in(state, place) if self.hides else None
        return expiry is None or not expiry.is_over(self.now_us)

    def hit(self, state: State, place: Place) -> Hit | None:
        """Read an item; None if it does not exist or is hidden."""
        if not self.shows(state, place) or (stored := stored_in(state, place)) is None:
            return None
        expiry = expiry_in(state, place)
        due = expiry is not None and expiry.is_worth_a_write(self.now_us)
        return Hit(as_item(place, stored, self.codec), due)


class Hit(NamedTuple):
    """An item that was read."""

    item: Item
    due: bool
    """Whether its expiry is to be postponed."""

    @property
    def place(self) -> Place:
        """The namespace and key that identify it."""
        return Place(self.item.namespace, self.item.key)

    @property
    def order(self) -> tuple[float, Namespace, str]:
        """The sort key of items: the one that was put last comes first."""
        return -self.item.updated_at.timestamp(), self.item.namespace, self.item.key


class Read(ABC, Generic[F]):
    """One operation that reads. `find` is called for each session, perhaps in threads; then `finish` once."""

    prefix: Namespace
    """All items that it reads are in namespaces that begin with these labels."""
    due: Sequence[Place] = ()
    """The items of the result whose expiry is to be postponed."""

    def session(self) -> str | None:
        """Return the one session that it reads; None if it reads every session that may hold items below the prefix."""
        return session_of(self.prefix) if len(self.prefix) >= SESSION_LABELS else None

    def reads(self, session: str) -> bool:
        """Tell whether it reads a session."""
        one = self.session()
        return session == one if one is not None else may_hold(session, self.prefix)

    @abstractmethod
    def find(self, state: State) -> F:
        """Return the data that it needs from the state of one session."""

    @abstractmethod
    def finish(self, found: Sequence[F]) -> Result:
        """Return the result of the operation."""


class Get(Read[Hit | None]):
    """One item."""

    def __init__(self, op: GetOp, look: Look) -> None:
        self.prefix = tuple(op.namespace)
        self._op, self._look = op, look

    def session(self) -> str:
        """Return the session that holds the item."""
        return session_of(self.prefix)

    def find(self, state: State) -> Hit | None:
        """Return the item, or None."""
        return self._look.hit(state, Place(self.prefix, self._op.key))

    def finish(self, found: Sequence[Hit | None]) -> Item | None:
        """Return the item, or None."""
        hit = next((hit for hit in found if hit is not None), None)
        if hit is not None and hit.due and self._op.refresh_ttl:
            self.due = [hit.place]
        return hit.item if hit is not None else None


class Search(Read[Sequence[Hit]]):
    """Items below a prefix: the last put first, or with a query the items with most of its words first."""

    def __init__(self, op: SearchOp, look: Look) -> None:
        self.prefix = tuple(op.namespace_prefix)
        self._op, self._look = op, look
        self._end = max(0, op.offset) + max(0, op.limit)

    def find(self, state: State) -> Sequence[Hit]:
        """Return the items of one session that may be in the result."""
        hits = (self._look.hit(state, place) for place in places_in(state, self.prefix))
        fitting = (hit for hit in hits if hit is not None and matches(hit.item.value, self._op.filter))
        return list(fitting) if self._op.query else heapq.nsmallest(self._end, fitting, key=lambda hit: hit.order)

    def finish(self, found: Sequence[Sequence[Hit]]) -> list[SearchItem]:
        """Return a page of the items."""
        hits = sorted((hit for part in found for hit in part), key=lambda hit: hit.order)
        rated: list[float | None] = [None] * len(hits)
        if self._op.query:
            texts = [" ".join(texts_in(hit.item.value)) for hit in hits]
            rated = [score or None for score in scores(self._op.query, texts)]
        best = sorted(zip(hits, rated, strict=True), key=lambda each: -(each[1] or 0.0))
        page = best[max(0, self._op.offset) : self._end]
        if self._op.refresh_ttl:
            self.due = [hit.place for hit, _ in page if hit.due]
        return [as_search_item(hit.item, score) for hit, score in page]


class ListNamespaces(Read[set[Namespace]]):
    """The namespaces that have an item."""

    def __init__(self, op: ListNamespacesOp, look: Look) -> None:
        self._conditions = op.match_conditions or ()
        self.prefix = prefix_of(self._conditions)
        self._op, self._look = op, look

    def find(self, state: State) -> set[Namespace]:
        """Return the namespaces of one session."""
        shown = {place.namespace for place in places_in(state, self.prefix) if self._look.shows(state, place)}
        return {namespace for namespace in shown if is_below(namespace, self._conditions)}

    def finish(self, found: Sequence[set[Namespace]]) -> list[Namespace]:
        """Return a page of the namespaces, sorted."""
        cut = {namespace[: self._op.max_depth] for part in found for namespace in part}
        return sorted(cut)[self._op.offset : self._op.offset + self._op.limit]


def read_of(op: Op, look: Look) -> Read[Any] | None:
    """Return the read of an operation; None if it is a put."""
    if isinstance(op, GetOp):
        return Get(op, look)
    if isinstance(op, SearchOp):
        return Search(op, look)
    return ListNamespaces(op, look) if isinstance(op, ListNamespacesOp) else None
