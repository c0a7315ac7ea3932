"""A store of LangGraph, for an agent's memories across threads, in sessions of Treering.

Rule 1: blocking and awaited methods run the same code, awaited ones in threads. So one store serves both, from any
number of threads and event loops.
Rule 2: all reads of a batch see the items before its puts; of several puts of one item the last one counts. LangGraph's
own stores do the same.
Rule 3: values are encoded before a method first awaits, and decoded again for each caller.
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
"""The namespace of the store that holds the sessions, apart from threads and all other sessions of the store."""
SWEEP_MINUTES: Final = 5
"""The default time between two sweeps; as in LangGraph's own stores."""
AT_ONCE_MAX: Final = 16
"""Sessions that are read or changed concurrently for one batch."""


class TreeringStore(Closable, BaseStore):
    """Keeps the items of LangGraph's store in a store of Treering.

    Pass it as `compile(store=...)`. Close it when the program ends, or use it as a context manager. A process that is
    killed loses no item that was put.

    Each pair of the first two labels of a namespace has a session of its own. Several processes may use one store at
    the same time, also the same item: the last put counts.
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
        """Make a store, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            ttl: The same options as for LangGraph's own stores. Expired items are deleted by `sweep_ttl`, or in a
                thread by `start_ttl_sweeper`.
            index: Refused: there is no search by embeddings. A `query` ranks items by their words.
            serde: A serializer of your own, for example an encrypting one; it gets every value. By default LangGraph's
                own, which makes only objects of known types: plain data, messages, and the types in `allow`.
            allow: Additional types that the default serializer may make.
            open_max: The most sessions kept open, with their items in memory; at least 1.

        Raises:
            UsageError: An option is invalid, the serializer falls back to pickle, or the store has a redactor, which
                cannot read encoded values.
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

    # methods that LangGraph calls

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run several operations: first all reads, then all puts; see `BaseStore.batch`.

        Puts are durable when this returns. The puts into one session are one append, unless they have more than 2 MiB.

        Raises:
            treering.UsageError: An operation is invalid, or a value cannot be stored; nothing was written.
            treering.UnavailableError: The store did not answer, or other writers were faster too often. Some puts may
                be recorded: repeat the batch.
        """
        return self._run(self._prepared(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch`."""
        return await self._sessions.aside(self._run, self._prepared(ops))

    # additional methods

    def sweep_ttl(self) -> int:
        """Delete the items that have expired, and return their number. This reads all sessions."""
        return self._sweep()

    async def asweep_ttl(self) -> int:
        """Do the same as `sweep_ttl`."""
        return await self._sessions.aside(self._sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Call `sweep_ttl` repeatedly in a thread.

        Args:
            sweep_interval_minutes: The time between two calls; by default the interval in `ttl`, else 5.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        self._sweeper.start(60 * (sweep_interval_minutes or configured or SWEEP_MINUTES))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper, as `close` does; False if the running sweep takes longer than `timeout` seconds."""
        return self._sweeper.stop(timeout)

    def prune(self, namespace_prefix: Namespace = ()) -> None:
        """Remove the values that items had before they were changed or deleted from storage.

        This affects all items of the sessions that hold items below the prefix.
        """
        self._each(self._names(namespace_prefix), lambda session: session.prune())

    async def aprune(self, namespace_prefix: Namespace = ()) -> None:
        """Do the same as `prune`."""
        await self._sessions.aside(self.prune, namespace_prefix)

    def erase(self, namespace: Namespace, key: str, *, reason: str = "") -> Receipt | None:
        """Delete an item and remove all values that it ever had from storage; see `Session.erase`.

        Returns:
            The receipt of the erasure; None if the item never existed. Its namespace and key stay in the journal.
        """
        place = Place(tuple(namespace), key)
        require_names(place)
        return self._sessions.use(session_of(place.namespace), lambda session: session.erase(place, reason))

    async def aerase(self, namespace: Namespace, key: str, *, reason: str = "") -> Receipt | None:
        """Do the same as `erase`."""
        return await self._sessions.aside(partial(self.erase, namespace, key, reason=reason))

    # closing

    def close(self) -> None:
        """Update the cards of all open sessions, and close them. The store may be used again."""
        self._sweeper.stop()
        self._sessions.close()

    async def aclose(self) -> None:
        """Do the same as `close`."""
        await self._sessions.aside(self.close)

    # implementation

    def _sweep(self) -> int:
        now = _now_us()
        return sum(self._each(self._names(()), lambda session: session.sweep(now)))

    def _prepared(self, ops: Iterable[Op]) -> _Batch:
        """Check operations, and encode the values of puts."""
        codec, now = Codec(self.serde), _now_us()
        listed = list(ops)
        puts: dict[Place, ItemPut] = {}
        for number, op in enumerate(listed):
            if isinstance(op, PutOp):
                place = Place(tuple(op.namespace), op.key)
                require_names(place)
                require_minutes(op.ttl)
                raw = None if op.value is None else encoded(op.value, codec)
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
        """Return the result of each operation; that of a put is None."""
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
        """Run an operation on several sessions, concurrently."""
        chosen = list(names)
        if len(chosen) < 2:
            return [self._sessions.use(name, work) for name in chosen]
        with ThreadPoolExecutor(min(AT_ONCE_MAX, len(chosen))) as workers:
            return list(workers.map(lambda name: self._sessions.use(name, work), chosen))

    def _names(self, prefix: Namespace) -> Sequence[str]:
        """Return the sessions that may hold items of namespaces that begin with these labels."""
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
