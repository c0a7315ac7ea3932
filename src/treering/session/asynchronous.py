"""`AsyncSession` and `AsyncView`: the same protocols as in `blocking`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from treering.errors import TreeringError
from treering.session import edits, erasing, lineage, navigation, notes, open_calls, pruning, reading, verbs
from treering.session.erasing import Receipt
from treering.session.handle import Standing, close
from treering.session.place import release
from treering.session.reader import Reader
from treering.session.verb import awaited
from treering.session.writer import Writer
from treering.storage.requests import Driver, Hold, Steps, Version
from treering.storage.run import arun
from treering.transcript.node import Node

R = TypeVar("R", bound=Reader)
P = ParamSpec("P")
T = TypeVar("T")


class _AsyncReads(Standing[R]):
    """Reading verbs, asynchronous."""

    def __init__(self, reader: R, driver: Driver, location: str) -> None:
        super().__init__(reader, driver, location)
        self._lock = asyncio.Lock()

    async def perform(self, verb: Callable[Concatenate[Any, P], Steps[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a protocol on this session; what all methods here do, and how integrations add their own."""
        if self._interrupted:
            self._recover()
        steps: Steps[T] | None = None
        try:
            async with self._lock:
                steps = self._begin(verb, *args, **kwargs)
                self._call = steps
                result = await arun(steps, self._driver)
        except TreeringError:
            self._end(steps)
            raise
        self._end(steps)
        return result

    def _recover(self) -> None:
        if self._lock.locked():  # by the interrupted call: it takes note of its end behind giving back the lock
            self._lock.release()
        self._roll_back()

    history = awaited(reading.history)
    get = awaited(reading.node)
    original = awaited(reading.original)
    path = awaited(reading.path)
    children = awaited(reading.children)
    siblings = awaited(reading.siblings)
    leaves = awaited(reading.leaves)
    tree = awaited(reading.tree)
    nodes = awaited(reading.nodes)
    problems = awaited(reading.problems)
    labels = awaited(reading.labels)
    checkpoints = awaited(reading.checkpoints)
    checkpoint = awaited(reading.checkpoint)
    context_at = awaited(reading.context_at)
    notes = awaited(reading.notes)
    extensions = awaited(reading.extensions)
    open_calls = awaited(open_calls.open_calls)
    last_compaction = awaited(verbs.last_compaction)
    stored = awaited(reading.stored)
    refresh = awaited(Reader.refresh)

    async def lines(self, first: int = 0) -> AsyncIterator[bytes]:
        """Yield every record line from position `first` on, a segment in memory at a time."""
        for steps in reading.read_all(self._reader, first):
            for line in await self.perform(lambda _, part: part, steps):
                yield line

    async def follow(self, *, poll_seconds: float = 1.0, first: int | None = None) -> AsyncIterator[Node]:
        """Yield nodes as they are added; see `View.follow`."""
        place = self._reader.state.end if first is None else first
        version: Version | None = None
        while True:
            found = await self.perform(reading.changes, place, version)
            idle, place, version = found.end == place, found.end, found.version
            for node in found.nodes:
                yield node
            if idle:
                await asyncio.sleep(poll_seconds)


class AsyncView(_AsyncReads[Reader]):
    """Like `View`, asynchronous."""


class AsyncSession(_AsyncReads[Writer]):
    """Like `Session`, asynchronous: the same protocols, awaited."""

    def __init__(self, writer: Writer, driver: Driver, location: str, holds: list[Hold]) -> None:
        super().__init__(writer, driver, location)
        self._holds = holds

    append = awaited(verbs.append)
    commit = awaited(verbs.commit)
    flush = awaited(verbs.flush)
    compact = awaited(verbs.compact)
    close_open_calls = awaited(open_calls.close_open_calls)
    set_model = awaited(verbs.set_model)
    set_thinking = awaited(verbs.set_thinking)
    set_mode = awaited(verbs.set_mode)
    set_title = awaited(notes.set_title)
    set_status = awaited(notes.set_status)
    move = awaited(notes.move)
    label = awaited(notes.label)
    note = awaited(notes.note)
    record_usage = awaited(notes.record_usage)
    record_system = awaited(notes.record_system)
    record_extension = awaited(notes.record_extension)
    amend = awaited(edits.amend)
    retract = awaited(edits.retract)
    unretract = awaited(edits.unretract)
    checkout = awaited(navigation.checkout)
    switch = awaited(navigation.switch)
    branch = awaited(navigation.branch)
    drop_head = awaited(navigation.drop_head)
    rewind = awaited(navigation.rewind)
    prune = awaited(pruning.prune)
    refresh = awaited(Writer.refresh)
    seal = awaited(Writer.seal)
    tidy = awaited(Writer.tidy)

    async def fork(
        self,
        session: str,
        *,
        at: str | None = None,
        title: str | None = None,
        project: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Make a new session from the path to a node; see `treering.session.lineage.fork`."""
        await self.perform(lineage.fork, session, at=at, title=title, project=project, extra=extra)

    async def erase(self, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = "") -> Receipt:
        """Erase payloads of nodes and notes, or state, for good; see `treering.session.erasing.erase`."""
        receipt = await self.perform(erasing.erase, *ids, state=state, manager=manager, reason=reason)
        return await asyncio.to_thread(erasing.finished, receipt, self._reader.keys, self._driver)

    async def claim(self) -> None:
        """Hold the session until `release`; see `Session.claim`."""
        async with self._lock:
            self._reader.claim()

    async def release(self) -> None:
        """Let others open the session; see `Session.release`."""
        async with self._lock:
            release(self._holds)

    @property
    def is_new(self) -> bool:
        """There was no session of this name: this handle begins it, or will with its first record."""
        return self._reader.is_new

    async def close(self) -> None:
        """Record what was put off, let `latest` account for everything, and let others have the session.

        The handle cannot be used any more.
        """
        try:
            if not self._closed:
                await self.perform(close)
        finally:
            self._closed = True
            release(self._holds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
