"""The views that a server keeps, one for each recently requested session.

Rule 1: every request checks once whether its session changed: one conditional GET, usually answered without a body.
Rule 2: views are bounded in number and in nodes. The least recently used view is dropped first; it takes two reads to
open it again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from treering.api.async_store import AsyncStore
from treering.api.async_view import AsyncView
from treering.errors import NotFoundError, SessionDeletedError
from treering.journal.watch import Place
from treering.server.limits import VIEW_NODES_MAX, VIEWS_MAX
from treering.session.reader import Readable, Reader
from treering.session.verbs.open_calls import OpenCall
from treering.storage.requests import Steps
from treering.transcript.tree import Outline, OutlineRow


class Name(NamedTuple):
    """The identity of a session in this process."""

    driver: int
    """Identity of the store's driver: a host application may have several stores."""
    prefix: str
    session: str


class Kept:
    """A view, with data that was computed from it for its current place."""

    def __init__(self, store: AsyncStore) -> None:
        self.store = store
        """Kept so that no other driver can get the same `id`."""
        self.lock = asyncio.Lock()
        self.opened: AsyncView | None = None
        self.place = ""
        """The end of the journal when it was last checked, as a cursor of events."""
        self._outline: tuple[str, Sequence[OutlineRow]] = ("", ())
        self._open_calls: tuple[str, tuple[OpenCall, ...]] = ("", ())

    @property
    def view(self) -> AsyncView:
        """The view, which is open."""
        assert self.opened is not None  # noqa: S101  # `Views.get` returns only open ones
        return self.opened

    @property
    def end(self) -> int:
        """How many records the session had at that place."""
        return Place.of(self.place).at

    @property
    def nodes(self) -> int:
        """How many nodes the session has."""
        return self.opened.info.nodes if self.opened is not None else 0

    async def outline(self) -> Outline:
        """The tree, computed once for each place."""
        if self._outline[0] != self.place:
            self._outline = (self.place, await self.view.tree())
        outline = self._outline[1]
        assert isinstance(outline, Outline)  # noqa: S101  # as `AsyncView.tree` makes it
        return outline

    async def open_calls(self) -> tuple[OpenCall, ...]:
        """The open calls, computed once for each place, since that reads the whole context."""
        if self._open_calls[0] != self.place:
            self._open_calls = (self.place, await self.view.open_calls())
        return self._open_calls[1]


class Views:
    """Opens views, keeps them, and updates each when it is requested.

    Args:
        views_max: How many views to keep.
        nodes_max: Limit of the nodes of all sessions whose views are kept; one view is kept in any case.
    """

    def __init__(self, *, views_max: int = VIEWS_MAX, nodes_max: int = VIEW_NODES_MAX) -> None:
        self._views_max = views_max
        self._nodes_max = nodes_max
        self._kept: OrderedDict[Name, Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nodes(self) -> int:
        """Nodes in all kept views together."""
        return sum(kept.nodes for kept in self._kept.values())

    async def get(self, store: AsyncStore, session: str) -> Kept:
        """Return the view of a session, up to date.

        Raises:
            NotFoundError: There is no such session, or not any more.
        """
        name = Name(id(store.place.driver), store.place.prefix, session)
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = Kept(store)
        self._kept.move_to_end(name)
        try:
            async with kept.lock:
                await _bring_up_to_date(kept, session)
        except BaseException as error:
            if kept.opened is None or isinstance(error, NotFoundError):
                self._drop(name, kept)
            raise
        self._bound()
        return kept

    def forget(self, store: AsyncStore, session: str) -> None:
        """Drop the view of a session that was deleted."""
        self._kept.pop(Name(id(store.place.driver), store.place.prefix, session), None)

    def _drop(self, name: Name, kept: Kept) -> None:
        if self._kept.get(name) is kept:
            del self._kept[name]

    def _bound(self) -> None:
        while len(self._kept) > 1 and (len(self._kept) > self._views_max or self.nodes > self._nodes_max):
            self._kept.popitem(last=False)


async def _bring_up_to_date(kept: Kept, session: str) -> None:
    if kept.opened is not None:
        try:
            await kept.opened.perform(Reader.look)
        except SessionDeletedError:
            kept.opened = None  # it may have been created anew
    if kept.opened is None:
        kept.opened = await kept.store.view(session)
    kept.place = await kept.opened.perform(place_of)


def place_of(reader: Readable) -> Steps[str]:
    """The end of the journal; each new record or erasure changes it."""
    yield from ()
    return Place.end_of(reader.replica.view).text
