"""`Session` and `View`: each verb is a protocol, run to its end before the call returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from treering.errors import TreeringError
from treering.session import edits, erasing, lineage, navigation, notes, open_calls, pruning, reading, verbs
from treering.session.erasing import Receipt
from treering.session.handle import Standing, close
from treering.session.place import release
from treering.session.reader import Reader
from treering.session.verb import blocking
from treering.session.writer import Writer
from treering.storage.requests import Driver, Hold, Steps, Version
from treering.storage.run import run
from treering.transcript.node import Node

R = TypeVar("R", bound=Reader)
P = ParamSpec("P")
T = TypeVar("T")


class _Reads(Standing[R]):
    """Reading verbs, blocking."""

    def __init__(self, reader: R, driver: Driver, location: str) -> None:
        super().__init__(reader, driver, location)
        self._lock = threading.RLock()

    def perform(self, verb: Callable[Concatenate[Any, P], Steps[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a protocol on this session; what all methods here do, and how integrations add their own."""
        with self._lock:
            steps = self._begin(verb, *args, **kwargs)
            before, self._call = self._call, steps  # a hook may call while a call is under way
            try:
                result = run(steps, self._driver)
            except TreeringError:
                self._end(steps, before)
                raise
            self._end(steps, before)
            return result

    def _recover(self) -> None:
        with self._lock:  # perhaps a call of another thread was about to end, and has by now
            self._roll_back()

    history = blocking(reading.history)
    get = blocking(reading.node)
    original = blocking(reading.original)
    path = blocking(reading.path)
    children = blocking(reading.children)
    siblings = blocking(reading.siblings)
    leaves = blocking(reading.leaves)
    tree = blocking(reading.tree)
    nodes = blocking(reading.nodes)
    problems = blocking(reading.problems)
    labels = blocking(reading.labels)
    checkpoints = blocking(reading.checkpoints)
    checkpoint = blocking(reading.checkpoint)
    context_at = blocking(reading.context_at)
    notes = blocking(reading.notes)
    extensions = blocking(reading.extensions)
    open_calls = blocking(open_calls.open_calls)
    last_compaction = blocking(verbs.last_compaction)
    stored = blocking(reading.stored)
    refresh = blocking(Reader.refresh)

    def lines(self, first: int = 0) -> Iterator[bytes]:
        """Yield every record line from position `first` on, a segment in memory at a time."""
        for steps in reading.read_all(self._reader, first):
            yield from self.perform(lambda _, part: part, steps)

    def follow(self, *, poll_seconds: float = 1.0, first: int | None = None) -> Iterator[Node]:
        """Yield nodes as they are added, by whomever; waits in between. One conditional GET per look.

        Args:
            poll_seconds: How long to wait between looks.
            first: The position to start from; by default what is added from now on.
        """
        place = self._reader.state.end if first is None else first
        version: Version | None = None
        waiting = threading.Event()
        while True:
            found = self.perform(reading.changes, place, version)
            idle, place, version = found.end == place, found.end, found.version
            yield from found.nodes
            if idle:
                waiting.wait(poll_seconds)


class View(_Reads[Reader]):
    """A session as it was at the last look, for reading only: nothing it does writes."""


class Session(_Reads[Writer]):
    """A session to record in. Use it as a context manager, or call `close`.

    A session is used by one conversation; its methods may be called from several threads, one after the other.
    """

    def __init__(self, writer: Writer, driver: Driver, location: str, holds: list[Hold]) -> None:
        super().__init__(writer, driver, location)
        self._holds = holds

    append = blocking(verbs.append)
    commit = blocking(verbs.commit)
    flush = blocking(verbs.flush)
    compact = blocking(verbs.compact)
    close_open_calls = blocking(open_calls.close_open_calls)
    set_model = blocking(verbs.set_model)
    set_thinking = blocking(verbs.set_thinking)
    set_mode = blocking(verbs.set_mode)
    set_title = blocking(notes.set_title)
    set_status = blocking(notes.set_status)
    move = blocking(notes.move)
    label = blocking(notes.label)
    note = blocking(notes.note)
    record_usage = blocking(notes.record_usage)
    record_system = blocking(notes.record_system)
    record_extension = blocking(notes.record_extension)
    amend = blocking(edits.amend)
    retract = blocking(edits.retract)
    unretract = blocking(edits.unretract)
    checkout = blocking(navigation.checkout)
    switch = blocking(navigation.switch)
    branch = blocking(navigation.branch)
    drop_head = blocking(navigation.drop_head)
    rewind = blocking(navigation.rewind)
    prune = blocking(pruning.prune)
    refresh = blocking(Writer.refresh)
    seal = blocking(Writer.seal)
    tidy = blocking(Writer.tidy)

    def fork(
        self,
        session: str,
        *,
        at: str | None = None,
        title: str | None = None,
        project: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Make a new session from the path to a node; see `treering.session.lineage.fork`."""
        self.perform(lineage.fork, session, at=at, title=title, project=project, extra=extra)

    def erase(self, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = "") -> Receipt:
        """Erase payloads of nodes and notes, or state, for good; see `treering.session.erasing.erase`."""
        receipt = self.perform(erasing.erase, *ids, state=state, manager=manager, reason=reason)
        return erasing.finished(receipt, self._reader.keys, self._driver)

    def claim(self) -> None:
        """Keep others from opening the session until `release` or `close`, where the store knows such a thing.

        Raises:
            SessionHeldError: Somebody else has it.
        """
        with self._lock:
            self._reader.claim()

    def release(self) -> None:
        """Let others open the session, though this handle goes on; whoever writes second is told so."""
        with self._lock:
            release(self._holds)

    @property
    def is_new(self) -> bool:
        """There was no session of this name: this handle begins it, or will with its first record."""
        return self._reader.is_new

    def close(self) -> None:
        """Record what was put off, let `latest` account for everything, and let others have the session.

        The handle cannot be used any more.
        """
        try:
            if not self._closed:
                self.perform(close)
        finally:
            self._closed = True
            release(self._holds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
