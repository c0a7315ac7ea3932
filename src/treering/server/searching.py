"""Search texts of all sessions over HTTP, with the index on the server's computer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from treering.api.async_store import AsyncStore
from treering.errors import NotFoundError
from treering.kinds import Kind
from treering.search import Hit, Index, Updated, open_index
from treering.server.answers import Found, SearchHit
from treering.server.call import Call
from treering.server.keys import key_of
from treering.server.limits import ROWS_MAX
from treering.server.route import Query

INDEXES_MAX: Final = 16
"""Most open indexes: one for each recently searched namespace."""
FRESH_SECONDS: Final = 5.0
"""An index that was updated within this time is searched without an update, unless a session that it found changed."""
WAIT_SECONDS: Final = 1.0
"""A search waits this long for an update, and then answers from the index as it is."""


class Searched:
    """The index of one store, updated in a thread."""

    def __init__(self, store: AsyncStore) -> None:
        self.index: Index = open_index(store)
        self._update: asyncio.Task[Updated] | None = None
        self._updated: float | None = None

    async def find(self, search: Callable[[], Sequence[Hit]]) -> tuple[Sequence[Hit], bool]:
        """Search the index; whatever was erased before this call is not in the answer once the second value is True.

        Args:
            search: Returns what the index has.

        Returns:
            The hits, and False if an update is not done within `WAIT_SECONDS`.
        """
        complete = await self._bring_up_to_date()
        hits = await asyncio.to_thread(search)
        if complete and not await asyncio.to_thread(self.index.is_current, hits):  # an erasure or deletion is seen so
            complete = await self._bring_up_to_date(anew=True)
            hits = await asyncio.to_thread(search)
        return hits, complete

    async def _bring_up_to_date(self, *, anew: bool = False) -> bool:
        """Update the index if that is due; False if the update is not done within `WAIT_SECONDS`.

        Args:
            anew: Only an update counts that begins after this call.
        """
        if anew and self._update is not None and not await self._is_done(self._update):
            return False
        if self._update is None:
            if not anew and self._updated is not None and monotonic() - self._updated < FRESH_SECONDS:
                return True
            self._update = asyncio.create_task(asyncio.to_thread(self.index.update))
        return await self._is_done(self._update)

    async def _is_done(self, update: asyncio.Task[Updated]) -> bool:
        """Wait up to `WAIT_SECONDS` for an update."""
        done, _ = await asyncio.wait([update], timeout=WAIT_SECONDS)
        if not done:
            return False
        if self._update is update:
            self._update, self._updated = None, monotonic()
        update.result()
        return True


class Searches:
    """The indexes that a server has open."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[int, str], Searched] = OrderedDict()

    def of(self, store: AsyncStore) -> Searched:
        """Return the index of a store."""
        name = (id(store.place.driver), store.place.prefix)
        if name not in self._open:
            self._open[name] = Searched(store)
        self._open.move_to_end(name)
        while len(self._open) > INDEXES_MAX:
            self._open.popitem(last=False)
        return self._open[name]


class SearchQuery(Query, frozen=True, kw_only=True):
    """A search query."""

    q: Annotated[str, Meta(max_length=1000)] = ""
    """Words that must all occur; `"a phrase"`; `begin*`. Empty: all texts, the newest first."""
    order: Literal["best", "newest"] = "best"
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = 20
    kinds: tuple[Literal["prompt", "text", "thinking", "call", "result"], ...] = ()
    """By default prompts and texts."""
    role: str | None = None
    project: str | None = None
    session: str | None = None
    """The key of the only session to search."""


async def search(call: Call, asked: SearchQuery) -> Found:
    """Search the texts of the sessions of the store, without those of namespaces in it, or of one session anywhere."""
    if call.service.searches is None:
        raise NotFoundError("this server has no search", kind=Kind.ROUTE)
    key, store, name = asked.session, call.store, None
    if key is not None:
        store, name = call.place_of(key)
    searched = call.service.searches.of(store)
    hits, complete = await searched.find(partial(_found, searched.index, asked, name))
    shown = [SearchHit(key=key or key_of((), hit.session), **msgspec.structs.asdict(hit)) for hit in hits]
    return Found(hits=tuple(shown), updating=not complete)


def _found(index: Index, asked: SearchQuery, session: str | None) -> Sequence[Hit]:
    return index.search(
        asked.q,
        order=asked.order,
        limit=asked.limit,
        kinds=asked.kinds or None,
        role=asked.role,
        project=asked.project,
        session=session,
    )
