"""A checkpoint saver of LangGraph that keeps each thread in a session of Treering.

Rule 1: blocking and awaited methods run the same code, awaited ones in threads. So one saver serves both, from any
number of threads and event loops.
Rule 2: values are encoded before a method first awaits, and decoded again for each caller.
Rule 3: LangGraph copies a saver to allow the types of one graph. The copies share its open threads.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.erasure.erasing import Receipt
from treering.errors import NotFoundError, UsageError
from treering.integrations.closable import Closable
from treering.integrations.langgraph.codec import Codec, require_safe, strict_serializer
from treering.integrations.langgraph.erasing import erase_messages
from treering.integrations.langgraph.history import Wanted, delta_history, pages
from treering.integrations.langgraph.kept import Kept, NewCheckpoint, Writes, config_of, put_of, writes_of
from treering.integrations.langgraph.names import ID_BYTES_MAX, MARK
from treering.integrations.langgraph.thread import Thread
from treering.integrations.langgraph.threads import Threads
from treering.integrations.opened import OPEN_MAX
from treering.kinds import Kind
from treering.storage.requests import Steps

P = ParamSpec("P")
T = TypeVar("T")

VERSION_DIGITS: Final = 10
"""The digits of the number in a channel's version. Versions are compared as text; other savers may use more digits."""
_END: Final = object()


class TreeringSaver(Closable, BaseCheckpointSaver[str]):
    """Keeps the checkpoints of LangGraph in a store of Treering, one session for each thread.

    Pass it as `compile(checkpointer=...)`. Close it when the program ends, or use it as a context manager. A process
    that is killed loses no checkpoint that was put; the next process reads a little more.

    Several processes may use one store at the same time, also for the same thread. If two runs continue from the same
    checkpoint, the `put` of the second one raises `treering.HeadMovedError`.
    """

    def __init__(
        self,
        store: Store | AsyncStore,
        *,
        serde: SerializerProtocol | None = None,
        allow: Collection[type | tuple[str, ...]] = (),
        messages: str = "messages",
        on_conflict: str = "raise",
        open_max: int = OPEN_MAX,
    ) -> None:
        """Make a saver, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            serde: A serializer of your own, for example an encrypting one; it gets every value. By default LangGraph's
                own, which makes only objects of known types: plain data, messages, and the types in `allow`.
            allow: Additional types that the default serializer may make: the types in the state of your graphs. An
                object of any other type is returned as plain data, with a warning of LangGraph.
            messages: The channel of the top graph whose messages are kept as nodes of the transcript.
            on_conflict: `raise`, or `branch` to record both of two runs that continue from the same checkpoint; the
                checkpoint with the greater id is then the newest.
            open_max: The most threads kept open; at least 1.

        Raises:
            UsageError: An option is invalid, the serializer falls back to pickle, or the store has a redactor, which
                cannot read encoded values.
        """
        super().__init__(serde=serde if serde is not None else strict_serializer(allow))
        require_safe(self.serde)
        if on_conflict not in ("raise", "branch") or (serde is not None and allow):
            raise UsageError(
                f"an option has no meaning. on_conflict={on_conflict!r}, allow={len(allow)} beside serde={serde!r}",
                kind=Kind.OPTION,
            )
        if store.place.redaction is not None:
            raise UsageError("a store with a redactor cannot keep threads of LangGraph", kind=Kind.OPTION)
        self._place = store.place
        self._listed = messages
        self._fenced = on_conflict == "raise"
        self._threads = Threads(store.place, listed=messages, open_max=open_max)

    # methods that LangGraph calls

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or the newest, with its pending writes; None if none exists."""
        there, wanted, codec = config["configurable"], get_checkpoint_id(config), Codec(self.serde)
        thread, ns = _thread_of(config), there.get("checkpoint_ns", "")
        kept, newest = self._threads.use(thread, partial(_get, ns=ns, checkpoint=wanted))
        if wanted is None or wanted == "":
            self._threads.told.add(thread, ns, newest)
        elif wanted != newest:
            self._threads.told.discard(thread, ns, wanted)
        return kept.as_tuple(there["thread_id"], codec) if kept is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # as LangGraph names it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first; see `BaseCheckpointSaver.list`. They are read page by page."""
        for page in self._pages(config, filter, before, limit):
            yield from page

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002  # unchanged values are found by comparing them
    ) -> RunnableConfig:
        """Store a checkpoint in one append; it is durable when this returns.

        Raises:
            treering.HeadMovedError: Another run continued the thread since this saver returned the config as the
                newest; see `on_conflict`.
            treering.UsageError: The session was not made by LangGraph, or the checkpoint's id is too long.
        """
        return self._put(_thread_of(config), config, self._encoded(config, checkpoint, metadata))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store pending writes in one append; they are durable when this returns.

        A write that is stored already is kept as it is, except LangGraph's special writes, which are replaced.
        """
        encoded = writes_of(config, writes, task_id, task_path, Codec(self.serde))
        self._threads.use(_thread_of(config), partial(_put_writes, writes=encoded))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its namespaces and messages."""
        self._threads.delete(str(thread_id), self._place.delete(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs, with their writes, in all threads; reads every thread.

        Messages stay in the transcript, from which `erase` removes them. Later checkpoints keep their values, in which
        delta channels have what the runs wrote.
        """
        if run_ids:
            for thread in self._names():
                self._threads.use(thread, partial(_delete_runs, runs=frozenset(run_ids), codec=Codec(self.serde)))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to a new thread; do nothing if the source does not exist.

        Raises:
            treering.ConflictError: The target exists.
        """
        try:
            Store(self._place).copy(str(source_thread_id), name=str(target_thread_id))
        except NotFoundError:
            return

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints of some threads (`delete`), or all but the newest of each namespace (`keep_latest`).

        Raises:
            treering.UsageError: There is no such strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"no such strategy. strategy={strategy!r}", kind=Kind.OPTION)
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                self._threads.use(thread, _prune)

    def erase(self, thread_id: str, *messages: str, reason: str = "") -> Receipt:
        """Erase messages of the channel whose messages are nodes, with the copies that LangGraph made of each.

        Copies are the input of a turn and pending writes, in all checkpoints; they are known by the id of the message,
        by its content, or by the arguments of its calls. Going back to such a checkpoint finds neither: the graph then
        waits for an input, or runs the task again. See `Session.erase` for what else is erased, and what stays.

        Args:
            thread_id: The thread.
            messages: Ids of messages, or of their nodes; without any, interrupted erasures are finished. For one that
                `Session.erase` erased, all inputs and all pending writes of the thread are erased, since nobody can
                tell its copies any more.
            reason: Shown in place of them; at most 200 bytes.

        Returns:
            The receipt. Its `warnings` name further values of the state that repeat a message and are not erased, for
            example of a subgraph: `Session.erase(state=[key])` erases them.

        Raises:
            treering.NotFoundError: There is no such thread, or it has no such message; nothing was erased.
            treering.UnavailableError: The store did not answer. Call again to finish.
        """
        work = partial(erase_messages, messages=messages, codec=Codec(self.serde), reason=reason)
        return self._threads.use(str(thread_id), work)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes to delta channels along the ancestors of a checkpoint.

        Each checkpoint that a graph put holds them itself, so no other is read, and pruning loses none.

        Raises:
            treering.NotFoundError: Another program put the checkpoint, and ancestors with such writes were removed.
        """
        if not channels:
            return {}
        ns, wanted, codec = (
            config["configurable"].get("checkpoint_ns", ""),
            get_checkpoint_id(config),
            Codec(self.serde),
        )
        return self._threads.use(_thread_of(config), lambda thread: delta_history(thread, ns, wanted, channels, codec))

    def get_next_version(self, current: str | float | None, channel: None) -> str:  # noqa: ARG002
        """Return a version that follows `current`, and differs from the versions of other branches."""
        digits, number = VERSION_DIGITS, 0
        if isinstance(current, str):
            text = current.partition(".")[0]
            digits, number = max(digits, len(text)), int(text)
        elif current is not None:
            number = int(current)
        return f"{number + 1:0{digits}d}.{secrets.token_hex(4)}"

    # the same, awaited

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do the same as `get_tuple`."""
        return await self._threads.aside(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # as LangGraph names it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do the same as `list`."""
        found = self._pages(config, filter, before, limit)
        while (page := await self._threads.aside(_next, found)) is not None:
            for each in page:
                yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002
    ) -> RunnableConfig:
        """Do the same as `put`."""
        encoded = self._encoded(config, checkpoint, metadata)
        return await self._threads.aside(self._put, _thread_of(config), config, encoded)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do the same as `put_writes`."""
        encoded = writes_of(config, writes, task_id, task_path, Codec(self.serde))
        await self._threads.aside(self._threads.use, _thread_of(config), partial(_put_writes, writes=encoded))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do the same as `delete_thread`."""
        await self._threads.aside(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do the same as `delete_for_runs`."""
        await self._threads.aside(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do the same as `copy_thread`."""
        await self._threads.aside(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do the same as `prune`."""
        await self._threads.aside(partial(self.prune, thread_ids, strategy=strategy))

    async def aerase(self, thread_id: str, *messages: str, reason: str = "") -> Receipt:
        """Do the same as `erase`."""
        return await self._threads.aside(partial(self.erase, thread_id, *messages, reason=reason))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do the same as `get_delta_channel_history`."""
        return await self._threads.aside(partial(self.get_delta_channel_history, config=config, channels=channels))

    # closing

    def close(self) -> None:
        """Update the cards of all open threads, and close them. The saver may be used again."""
        self._threads.close()

    async def aclose(self) -> None:
        """Do the same as `close`."""
        await self._threads.aside(self.close)

    # implementation

    def _encoded(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata) -> NewCheckpoint:
        if len(checkpoint["id"].encode("utf-8", "surrogatepass")) > ID_BYTES_MAX:
            raise UsageError(f"the id of a checkpoint is too long. max={ID_BYTES_MAX}, got={checkpoint['id']!r}")
        thread, there = _thread_of(config), config["configurable"]
        ns, parent = there.get("checkpoint_ns", ""), there.get("checkpoint_id")
        expected = self._fenced and (thread, ns, parent) in self._threads.told
        if parent is None:  # a fork or a replay of the first checkpoint has no parent, either
            expected = expected and not ns and metadata.get("source") in ("input", "loop")
        opened = self._threads.peek(thread)
        return put_of(
            config, checkpoint, metadata, codec=Codec(self.serde), listed=self._listed,
            known=opened.known if opened is not None else (), expected=expected,
        )  # fmt: skip

    def _put(self, thread: str, config: RunnableConfig, put: NewCheckpoint) -> RunnableConfig:
        self._threads.use(thread, partial(_put, put=put))
        self._threads.told.add(thread, put.ns, put.id)
        return config_of(config["configurable"]["thread_id"], put.ns, put.id)

    def _pages(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,  # noqa: A002
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Iterator[CheckpointTuple]]:
        """Yield pages of checkpoints that are decoded one by one, so that a caller needs only one in memory."""
        wanted, codec = Wanted.of(config, filter, before), Codec(self.serde)
        named = config["configurable"].get("thread_id") if config is not None else None
        for thread in self._names() if named is None else [str(named)]:
            shown = thread if named is None else named
            for page in pages(partial(self._threads.use, thread), wanted, limit, codec):
                self._tell(thread, page)
                limit = None if limit is None else limit - len(page)
                yield map(partial(Kept.as_tuple, thread=shown, codec=codec), page)

    def _tell(self, thread: str, page: Sequence[Kept]) -> None:
        opened = self._threads.peek(thread)
        for each in page:
            if opened is None or opened.newest_id(each.ns) != each.id:
                self._threads.told.discard(thread, each.ns, each.id)

    def _names(self) -> Sequence[str]:
        """Return all threads of the store."""
        return [info.id for info in Store(self._place).each_session() if MARK in info.extra]


def _thread_of(config: RunnableConfig) -> str:
    """Return the name of the session that keeps a thread; thread ids may be numbers."""
    return str(config["configurable"]["thread_id"])


def _next(found: Iterator[Iterator[T]]) -> list[T] | None:
    page = next(found, None)
    return None if page is None else list(page)


def _get(thread: Thread, *, ns: str, checkpoint: str | None) -> Steps[tuple[Kept | None, str | None]]:
    """Return a checkpoint, and the id of the newest checkpoint."""
    if not (yield from thread.look()):
        return None, None
    newest = thread.newest_id(ns)
    return (yield from thread.find(ns, checkpoint)) if checkpoint else thread.newest(ns), newest


def _put(thread: Thread, *, put: NewCheckpoint) -> Steps[None]:
    yield from thread.put(put)


def _put_writes(thread: Thread, *, writes: Writes) -> Steps[None]:
    yield from thread.put_writes(writes)


def _prune(thread: Thread) -> Steps[None]:
    if (yield from thread.look()):
        yield from thread.prune()


def _delete_runs(thread: Thread, *, runs: Collection[str], codec: Codec) -> Steps[None]:
    if not (yield from thread.look()):
        return
    entries = yield from thread.entries()
    unsure = [entry for entry in entries.values() if not entry.whole and "run_id" not in entry.meta]
    told = {place: entry.meta.get("run_id") for place, entry in entries.items()}
    for entry, kept in zip(unsure, (yield from thread.load(unsure)), strict=True):
        told[entry.ns, entry.id] = kept.metadata(codec).get("run_id")
    if gone := [place for place, run_id in told.items() if run_id in runs]:
        yield from thread.drop(gone, codec)
