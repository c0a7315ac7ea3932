"""A store of LangGraph, for what an agent remembers across threads, in sessions of Treering.

Rule 1: blocking and awaited methods run the same code, awaited ones in threads. So one store serves both, from any
number of threads and event loops.
Rule 2: all reads of a batch see what was there before its puts; of several puts of one item the last one counts. As in
LangGraph's own stores.
Rule 3: values are encoded before a method gives way, and decoded anew for each caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import BaseStore, GetOp, IndexConfig, ListNamespacesOp, Op, PutOp, Result, SearchOp, TTLConfig

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.erasure.erasing import Receipt
from treering.errors import UsageError
from treering.integrations.closable import Closable
from treering.integrations.langgraph.codec import Codec, require_safe, strict_serializer
from treering.integrations.langgraph.collection import ItemCollection, ItemPut, stored_collections
from treering.integrations.langgraph.filters import require_filter
from treering.integrations.langgraph.items import (
    Namespace,
    Place,
    encoded,
    may_hold,
    require_minutes,
    require_names,
    session_of,
)
from treering.integrations.langgraph.names import MARK
from treering.integrations.langgraph.reads import Look, Read, read_of
from treering.integrations.langgraph.sweeping import Sweeper
from treering.integrations.opened import OPEN_MAX, OpenSessions
from treering.integrations.shared import shared_writer
from treering.kinds import Kind
from treering.maintenance.retention import KEEP_STATUS
from treering.storage.effects import Job
from treering.storage.requests import Steps
from treering.storage.run import run

T = TypeVar("T")

NAMESPACE: Final = "langgraph-store"
"""The namespace of the store that holds the sessions, apart from threads and whatever else is in the store."""
SWEEP_MINUTES: Final = 5
"""Between two sweeps, if nothing else was said; as in LangGraph's own stores."""
AT_ONCE_MAX: Final = 16
"""Sessions read or changed at once for one batch."""


class TreeringStore(Closable, BaseStore):
    """Keeps the items of LangGraph's store in a store of Treering.

    Pass it as `compile(store=...)`. Close it when the program ends, or use it as a context manager. A process that is
    killed loses nothing that was put.

    Items are kept by the first two labels of their namespace, one session for each pair. Several processes may use one
    store at a time, also the same item: the last put counts.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Store | AsyncStore,
        *,
        ttl: TTLConfig | None = None,
        index: IndexConfig | None = None,
        serde: SerializerProtocol | None = None,
        allow: Collection[type | tuple[str, ...]] = (),
        open_max: int = OPEN_MAX,
    ) -> None:
        """Nothing is read or written yet.

        Args:
            store: As `treering.open` returns it. Closing this object does not close it.
            ttl: As LangGraph's own stores take it. Expired items are deleted by `sweep_ttl`, or in a thread
                by `start_ttl_sweeper`.
            index: Refused: there is no search by embeddings. A `query` ranks items by their words.
            serde: A serializer of your own, for example one that encrypts; it gets every value. By default LangGraph's
                own, which makes objects of known types only: data, messages, and those in `allow`.
            allow: Further types that it may make.
            open_max: Sessions kept open, with their items in memory.

        Raises:
            UsageError: An option has no meaning, the serializer falls back to pickle, or the store has a redactor,
                which cannot look into what a serializer encoded.
        """
        if index is not None:
            raise UsageError(
                "this store has no search by embeddings",
                kind=Kind.OPTION,
                remedy="leave `index` out, and `query` ranks items by their words; or keep vectors in a vector store",
            )
        if serde is not None and allow:
            raise UsageError("`allow` is for LangGraph's own serializer, not for one of yours", kind=Kind.OPTION)
        if store.place.redaction is not None:
            raise UsageError("a store with a redactor cannot keep items of LangGraph", kind=Kind.OPTION)
        self.serde = serde if serde is not None else strict_serializer(allow)
        require_safe(self.serde)
        self.ttl_config = ttl
        place = store.place.namespace(NAMESPACE)
        facts = {MARK: {"keeps": "items"}}
        self._place = place
        self._sessions: OpenSessions[str, ItemCollection] = OpenSessions(
            place.driver, lambda name: ItemCollection(shared_writer(place, name, facts, KEEP_STATUS)), open_max=open_max
        )

        self._sweeper = Sweeper(self._sweep)

    # what LangGraph calls

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations: reads of what was there before, then puts; see `BaseStore.batch`.

        What is put into one session is one append, durable when this returns, unless it is more than 2 MiB.

        Raises:
            treering.UsageError: An operation has no meaning, or a value cannot be stored; nothing was written.
            treering.UnavailableError: The store did not answer, or other writers were faster too often. Puts may be
                recorded: repeat the batch.
        """
        return self._run(self._prepared(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`."""
        return await self._sessions.aside(self._run, self._prepared(ops))

    # what it can do besides

    def sweep_ttl(self) -> int:
        """Delete the items that have expired; return how many. Reads all sessions."""
        return self._sweep()

    async def asweep_ttl(self) -> int:
        """As `sweep_ttl`."""
        return await self._sessions.aside(self._sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Call `sweep_ttl` again and again in a thread.

        Args:
            sweep_interval_minutes: By default what `ttl` says, else 5.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        self._sweeper.start(60 * (sweep_interval_minutes or configured or SWEEP_MINUTES))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop that; `close` does it, too. False if the sweep that runs takes longer than `timeout` seconds."""
        return self._sweeper.stop(timeout)

    def prune(self, namespace_prefix: Namespace = ()) -> None:
        """Remove from storage what items were before they were changed or deleted.

        Of all sessions that hold items below the prefix.
        """
        self._each(self._names(namespace_prefix), lambda session: session.prune())

    async def aprune(self, namespace_prefix: Namespace = ()) -> None:
        """As `prune`."""
        await self._sessions.aside(self.prune, namespace_prefix)

    def erase(self, namespace: Namespace, key: str, *, reason: str = "") -> Receipt | None:
        """Delete an item and remove all values that it ever had from storage; see `Session.erase`.

        Returns:
            What was erased; None if there never was such an item. Its namespace and key stay in the journal.
        """
        place = Place(tuple(namespace), key)
        require_names(place)
        return self._sessions.use(session_of(place.namespace), lambda session: session.erase(place, reason))

    async def aerase(self, namespace: Namespace, key: str, *, reason: str = "") -> Receipt | None:
        """As `erase`."""
        return await self._sessions.aside(partial(self.erase, namespace, key, reason=reason))

    # the end

    def close(self) -> None:
        """Update the cards of all open sessions, and close them. The store may be used again."""
        self._sweeper.stop()
        self._sessions.close()

    async def aclose(self) -> None:
        """As `close`."""
        await self._sessions.aside(self.close)

    # how

    def _sweep(self) -> int:
        now = _now_us()
        return sum(self._each(self._names(()), lambda session: session.sweep(now)))

    def _prepared(self, ops: Iterable[Op]) -> _Batch:
        """Check operations, and encode what they put."""
        codec, now = Codec(self.serde), _now_us()
        listed = list(ops)
        puts: dict[Place, ItemPut] = {}
        for number, op in enumerate(listed):
            if isinstance(op, PutOp):
                place = Place(tuple(op.namespace), op.key)
                require_names(place)
                require_minutes(op.ttl)
                raw = None if op.value is None else encoded(dict(op.value), codec)
                puts.pop(place, None)
                puts[place] = ItemPut(place, raw, op.ttl, now + number)
            elif isinstance(op, SearchOp):
                require_filter(op.filter)
            elif not isinstance(op, GetOp | ListNamespacesOp):
                raise UsageError(f"Unknown operation type: {type(op)}", kind=Kind.OPTION)
        return _Batch(listed, list(puts.values()), codec, now)

    def _run(self, batch: _Batch) -> list[Result]:
        hides = bool((self.ttl_config or {}).get("omit_expired", False))
        look = Look(batch.codec, batch.now_us, hides)
        reads = [read_of(op, look) for op in batch.ops]
        results = self._read(reads)
        due = _by_session((place, place) for read in reads if read is not None for place in read.due)
        self._each(due, lambda session: session.refresh(due[session.name], batch.now_us))
        puts = _by_session((put.place, put) for put in batch.puts)
        self._each(puts, lambda session: session.put(puts[session.name]))
        return results

    def _read(self, reads: Sequence[Read[Any] | None]) -> list[Result]:
        """The result of each operation; that of a put is None."""
        wanted = [read for read in reads if read is not None]
        sessions = dict.fromkeys(name for read in wanted if (name := read.session()) is not None)
        if any(read.session() is None for read in wanted):
            sessions |= dict.fromkeys(name for name in self._names(()) if any(read.reads(name) for read in wanted))

        def find(session: ItemCollection) -> Steps[list[tuple[Read[Any], Any]]]:
            yield from session.look()
            return [(read, read.find(session.state)) for read in wanted if read.reads(session.name)]

        found: dict[int, list[Any]] = {}
        for read, part in chain.from_iterable(self._each(sessions, find)):
            found.setdefault(id(read), []).append(part)
        return [None if read is None else read.finish(found.get(id(read), [])) for read in reads]

    def _each(self, names: Iterable[str], work: Callable[[ItemCollection], Job[T]]) -> list[T]:
        """Do something with several sessions."""
        chosen = list(names)
        if len(chosen) < 2:
            return [self._sessions.use(name, work) for name in chosen]
        with ThreadPoolExecutor(min(AT_ONCE_MAX, len(chosen))) as workers:
            return list(workers.map(lambda name: self._sessions.use(name, work), chosen))

    def _names(self, prefix: Namespace) -> Sequence[str]:
        """The sessions that may hold items of namespaces that begin with these labels."""
        names = run(stored_collections(self._place.prefix), self._place.driver)
        return [name for name in sorted(names) if may_hold(name, prefix)]


class _Batch(NamedTuple):
    ops: Sequence[Op]
    puts: Sequence[ItemPut]
    codec: Codec
    now_us: int


def _by_session(each: Iterable[tuple[Place, T]]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for place, value in each:
        found.setdefault(session_of(place.namespace), []).append(value)
    return found


def _now_us() -> int:
    return time.time_ns() // 1000
