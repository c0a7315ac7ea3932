"""The views that a server keeps, one for each session asked for lately.

Rule 1: every request looks once whether its session changed: one conditional GET, as a rule without a body.
Rule 2: views are bounded in number and in nodes. The one used least recently goes first, and takes two reads to be
opened again.
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
    """Where a session is."""

    driver: int
    """Identity of the store's driver: a host application may have several stores."""
    prefix: str
    session: str


class Kept:
    """A view, and what was made of it for the place where it stands."""

    def __init__(self, store: AsyncStore) -> None:
        self.store = store
        """Kept as well, so that no other driver gets its identity."""
        self.lock = asyncio.Lock()
        self.opened: AsyncView | None = None
        self.place = ""
        """Where the journal ended when it was looked at: a cursor of events."""
        self._outline: tuple[str, Sequence[OutlineRow]] = ("", ())
        self._open_calls: tuple[str, tuple[OpenCall, ...]] = ("", ())

    @property
    def view(self) -> AsyncView:
        """The view, which is open."""
        assert self.opened is not None  # noqa: S101  # `Views.get` returns no other
        return self.opened

    @property
    def end(self) -> int:
        """How many records the session had then."""
        return Place.of(self.place).at

    @property
    def nodes(self) -> int:
        """How many nodes the session has."""
        return self.opened.info.nodes if self.opened is not None else 0

    async def outline(self) -> Outline:
        """The tree, made once for each place."""
        if self._outline[0] != self.place:
            self._outline = (self.place, await self.view.tree())
        outline = self._outline[1]
        assert isinstance(outline, Outline)  # noqa: S101  # as `AsyncView.tree` makes it
        return outline

    async def open_calls(self) -> tuple[OpenCall, ...]:
        """The calls without a result, looked for once for each place: that takes the whole context."""
        if self._open_calls[0] != self.place:
            self._open_calls = (self.place, await self.view.open_calls())
        return self._open_calls[1]


class Views:
    """Opens views, keeps them, and brings each up to date when it is asked for.

    Args:
        views_max: How many to keep.
        nodes_max: How many nodes the sessions may have together whose views are kept; one view is kept in any case.
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
        """Return the view of a session as it is now.

        Raises:
            NotFoundError: There is none, or no more.
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
        """Let go of the view of a session that was deleted."""
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
    """Where the journal ends: a record or an erasure more makes it another place."""
    yield from ()
    return Place.end_of(reader.replica.view).text
