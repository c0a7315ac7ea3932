"""Search the prompts and texts of all sessions of a store.

The index is derived data: all of it can be read again from the store. It is a file in the user's cache folder, never in
the store.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

import msgspec

from treering.api.store import Store
from treering.format.paths import encode_id
from treering.search import walk
from treering.search.database import Database, explain, is_damage
from treering.search.find import Filters, Hit, Order, check, find
from treering.search.place import default_path
from treering.search.update import Update, Updated, UpdateProgress
from treering.storage.run import run

if TYPE_CHECKING:
    from treering.api.async_store import AsyncStore

T = TypeVar("T")


def open_index(store: Store | AsyncStore, path: str | os.PathLike[str] | None = None) -> Index:
    """Open the search index of a store; creates it if it does not exist. The store is not read before `update`.

    Args:
        store: The store; a namespace has an index of its own.
        path: The file of the index. By default it is in the user's cache folder, named after the store's address. For a
            store without an address (`memory://`, or made from a filesystem object) the index is in memory.

    Raises:
        UsageError: The file at `path` exists and is not an index.
        UnavailableError: The file cannot be opened.
    """
    return Index(store, path)


def forget(
    store: Store | AsyncStore, session: str, node: str | None = None, *, path: str | os.PathLike[str] | None = None
) -> bool:
    """Drop the texts of a node, or of a whole session, from the index of a store, if there is one.

    The bytes are removed from the file before this returns. An update also does this for erased and deleted texts; this
    function does it at once. Texts that are still in the store return with the next update.

    Returns:
        Whether there is an index.
    """
    place = store.place
    where = default_path(place) if path is None else os.fspath(path)
    if where is None or not os.path.exists(where):
        return False
    with Index(store, path) as index:
        index.forget(session, node)
    return True


class Index:
    """The search index of one store. A context manager; safe to use from several threads.

    One thread updates it at a time. Others search meanwhile, and find what was stored so far.
    """

    def __init__(self, store: Store | AsyncStore, path: str | os.PathLike[str] | None = None) -> None:
        self._place = store.place
        self.path = default_path(self._place) if path is None else os.path.abspath(os.fspath(path))
        """The file of the index; None if it is in memory."""
        self._updating = threading.RLock()
        """Taken before the lock of the database, and kept while the store is read."""
        try:
            self._database = Database(self.path, chosen=path is not None)
        except (sqlite3.Error, OSError) as error:
            raise explain(error, self.path) from error

    def update(self, progress: UpdateProgress | None = None) -> Updated:
        """Read the changes in the store since the last update.

        Takes one LIST per 1,000 sessions and a conditional GET for each, whose answer has no body if nothing changed;
        for a changed session, both registers and the new records are read. Amended, retracted, erased and deleted texts
        are removed from the index; a session with such a change is read completely.

        Args:
            progress: Called with the number of changed sessions that were read.

        Raises:
            UnavailableError: The store does not answer, or the index cannot be written.
        """
        with self._updating:
            done = self._safely(lambda: Update(self._database, self._place, progress).run())
        return msgspec.structs.replace(done, notices=self._database.take_notices())

    def search(
        self, query: str = "", *, order: Order = "best", limit: int = 20, **filters: Unpack[Filters]
    ) -> list[Hit]:
        """Find texts as of the last `update`; during one, also what it has read already.

        Equal neighbours in the order are folded into one hit.

        Args:
            query: Words that must all occur; `"a phrase"`; `begin*`. Any text is valid. If empty: all texts, the newest
                first.
            order: `best`: by BM25, and the newer first among equals. `newest`: by time.
            limit: Most hits; at least 1.
            filters: Which texts to search; see `Filters`.

        Raises:
            UsageError: There is no such filter, kind or order, a limit or time is out of range, or there are more than
                1,000 words.
        """
        check(filters, order, limit)

        def work() -> list[Hit]:
            with self._database.lock:
                return find(self._database, query, filters, order=order, limit=limit)

        return self._safely(work)

    def is_current(self, hits: Iterable[Hit]) -> bool:
        """Tell whether nothing happened since the last `update` to the sessions of hits: a conditional GET for each.

        Raises:
            UnavailableError: The store does not answer.
        """
        names = {encode_id(hit.session) for hit in hits}
        known = self._safely(lambda: [self._database.session(name) for name in names])
        seen = [(self._place.keys(each.session), each.tail) for each in known if each and each.tail is not None]
        return len(seen) == len(names) and all(run(walk.unchanged(seen), self._place.driver))

    def forget(self, session: str, node: str | None = None) -> None:
        """Drop the texts of a node, or of a whole session. The bytes are removed from the file before this returns.

        Texts that are still in the store return with the next update.
        """

        def work() -> None:
            self._database.forget(encode_id(session), node)
            self._database.empty_log()

        self._safely(work)

    def rebuild(self) -> None:
        """Drop everything; the next update reads the whole store."""
        self._safely(lambda: self._database.renew("the search index is made anew, as was asked"))

    def close(self) -> None:
        """Close the file; the index cannot be used any more."""
        with self._updating:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _safely(self, work: Callable[[], T]) -> T:
        """Run work on the database; if it is damaged, rebuild it from the store and try again."""
        try:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                with self._updating:
                    self._database.renew(f"the search index was damaged ({error}) and is made anew")
                    Update(self._database, self._place).run()
            return work()
        except (sqlite3.Error, OSError) as error:
            raise explain(error, self.path) from error
