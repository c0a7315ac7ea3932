"""A store for the transcripts of the Claude Agent SDK: one session of Treering for each conversation and subagent.

Rule 1: calls for one transcript run one after the other, in their order; calls for other transcripts do not wait.
Rule 2: work is done in threads, so it works with asyncio and trio, and a large transcript does not block the event
loop. If a call is cancelled, its thread continues: what it was writing may be recorded.
Rule 3: an open transcript holds no lock, on disk or in a bucket. The number of open transcripts is bounded.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar
from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.checkpoint.policy import find_policy
from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnavailableError
from treering.format.register import Card
from treering.format.values import Fields, fields_of
from treering.ids import now_ms
from treering.integrations.claude import catalogue
from treering.integrations.claude.loading import load
from treering.integrations.claude.names import Address, address_of, parse_name
from treering.integrations.claude.recorded import Entry
from treering.integrations.claude.transcript import Transcript
from treering.integrations.deleting import names_beginning
from treering.integrations.opened import room
from treering.programs.claude.read import NAME
from treering.session.options import Options
from treering.session.writer import Writer
from treering.storage.effects import Job
from treering.storage.run import run

T = TypeVar("T")

OPEN_MAX: Final = 128
"""Transcripts kept open for appending; each holds a few hundred bytes per entry and its context in memory."""
THREADS_MAX: Final = 32
"""Concurrent calls: S3 clients keep 64 connections, and opening a transcript takes two."""


class TreeringSessionStore(SessionStore):
    """Keeps the transcripts of the Claude Agent SDK in a store of Treering.

    Pass it as `ClaudeAgentOptions(session_store=...)`. Close it when the program ends, or use it as an asynchronous
    context manager. A process that is killed loses no entry that was appended; the next process reads a little more.

    Several processes and hosts may use one store at the same time, also for the same session.
    """

    def __init__(self, store: Store | AsyncStore, *, open_max: int = OPEN_MAX) -> None:
        """Make a session store, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            open_max: The most transcripts kept open for appending; at least 1.
        """
        self._place = store.place
        self._open_max = room(open_max)
        self._open: OrderedDict[Address, _Open] = OrderedDict()
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._locks: RunVar[dict[Address, anyio.Lock]] = RunVar(f"treering {id(self)}")
        self._threads: RunVar[anyio.CapacityLimiter] = RunVar(f"treering threads {id(self)}")

    # methods that the SDK calls

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Record entries, usually in one request; they are durable when this returns.

        An entry whose `uuid` is recorded already is skipped. Repeat the call after an error to add the missing entries.
        """
        if entries:
            address = address_of(key)
            await self._in_turn(address, partial(self._append, key, address, cast("list[Entry]", entries)))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries as they were appended, in that order; None if there are none."""
        address = address_of(key)
        found = await self._in_thread(partial(self._load, address))
        return cast("list[SessionStoreEntry] | None", found)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the conversations of a project, with the time of the last write of each."""
        rows = await self._in_thread(partial(self._listed, project_key, None))
        return [SessionStoreListEntry(session_id=row.address.session, mtime=row.written_ms) for row in rows]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the summaries that lists of the SDK show: from cards, and from tails that are newer than the cards."""
        found = await self._in_thread(partial(self._summaries, project_key))
        return [
            SessionSummaryEntry(session_id=row.address.session, mtime=row.written_ms, data=data) for row, data in found
        ]

    async def delete(self, key: SessionKey) -> None:
        """Delete a conversation with its subagents, or one subagent's transcript, if it exists."""
        address = address_of(key)
        below = [] if address.subpath else await self._in_thread(partial(self._ever_below, address))
        for each in [*below, address]:  # the conversation last, so that an interrupted deletion can be repeated
            await self._in_turn(each, partial(self._delete, each))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a conversation's subagents."""
        address = Address(key["project_key"], key["session_id"])
        below = await self._in_thread(partial(self._below, address))
        return [each.subpath for each in below]

    async def close(self) -> None:
        """Update the cards of all open transcripts, and close them. The store may be used again."""
        with self._mutex:
            addresses = list(self._open)
        for address in addresses:
            await self._in_turn(address, partial(self._close, address))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()

    # internals

    async def _in_turn(self, address: Address, work: Callable[[], T]) -> T:
        """Run work on one transcript after the earlier calls for it."""
        locks = self._locks.get(None)
        if locks is None:
            self._locks.set(locks := {})
        lock = locks.setdefault(address, anyio.Lock())
        try:
            async with lock:
                return await self._in_thread(work)
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                locks.pop(address, None)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        threads = self._threads.get(None)
        if threads is None:
            self._threads.set(threads := anyio.CapacityLimiter(THREADS_MAX))
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=threads)

    def _append(self, key: SessionKey, address: Address, entries: Sequence[Entry]) -> None:
        while True:
            opened = self._opened(key, address, entries)
            with opened.lock:
                try:
                    return self._run(opened.transcript.append(entries))
                except SessionDeletedError:
                    self._forget(address, opened)  # and try again with a new session
                except UnavailableError:
                    raise  # the transcript remembers appends with unknown outcome
                except BaseException:
                    self._forget(address, opened)
                    raise

    def _opened(self, key: SessionKey, address: Address, entries: Sequence[Entry]) -> _Open:
        """Return the transcript, opened if necessary; only one call may use it at a time."""
        with self._mutex:
            if self._pid != os.getpid():  # a forked process opens its own
                self._open.clear()
                self._pid = os.getpid()
            if (found := self._open.get(address)) is not None:
                self._open.move_to_end(address)
                return found
        made = _Open(Transcript(self._writer(address, entries), None if address.subpath else key))
        self._run(made.transcript.writer.open())
        if address.subpath and not made.transcript.writer.replica.exists:
            self._link(key, address, entries)
        with self._mutex:
            self._open[address] = made
            surplus = list(self._open.items())[: max(0, len(self._open) - self._open_max)]
        for name, opened in surplus:
            self._give_up(name, opened)
        return made

    def _writer(self, address: Address, entries: Sequence[Entry]) -> Writer:
        place, now = self._place.namespace(address.project), now_ms()
        cwd = next((cwd for entry in entries if isinstance(cwd := entry.get("cwd"), str)), "")
        parent, node = _forked_from(entries)
        if address.subpath:
            parent, node = address._replace(subpath="").name, None
        card = Card(
            session=address.name, life="", write="", project=address.project, cwd=cwd, created=now, updated=now,
            parent_session=parent, parent_node=node, extra={"imported": NAME},
        )  # fmt: skip
        options = Options(shared=True, redaction=place.redaction)
        return Writer(place.keys(address.name), find_policy(NAME), card, options, place.prepare)

    def _link(self, key: SessionKey, address: Address, entries: Sequence[Entry]) -> None:
        """Record in the conversation that a subagent begins. If it has no entries yet, it runs in the same folder."""
        parent = address._replace(subpath="")
        opened = self._opened(key, parent, [{"cwd": each["cwd"]} for each in entries if "cwd" in each])
        with opened.lock:
            self._run(opened.transcript.link(address.name))

    def _give_up(self, address: Address, opened: _Open) -> None:
        """Close the least recently used transcript, unless it is in use or an append has an unknown outcome."""
        if opened.lock.acquire(blocking=False):
            try:
                if opened.transcript.writer.appender.pending is None:
                    self._forget(address, opened)
                    self._run(opened.transcript.close())
            except TreeringError:
                return  # the appends are durable; only the card is out of date
            finally:
                opened.lock.release()

    def _close(self, address: Address) -> None:
        with self._mutex:
            opened = self._open.pop(address, None)
        if opened is not None:
            with opened.lock, suppress(TreeringError):  # the appends are durable; only the card is out of date
                self._run(opened.transcript.close())

    def _forget(self, address: Address, opened: _Open) -> None:
        with self._mutex:
            if self._open.get(address) is opened:
                del self._open[address]

    def _load(self, address: Address) -> list[Fields] | None:
        return self._run(load(self._place.namespace(address.project).reader(address.name, NAME)))

    def _listed(self, project: str, below: str | None) -> list[catalogue.Listed]:
        prefix, appends = self._place.namespace(project).prefix, self._place.driver.appends
        return self._run(catalogue.listed(prefix, project, appends=appends, below=below))

    def _summaries(self, project: str) -> list[tuple[catalogue.Listed, dict[str, Any]]]:
        prefix, appends = self._place.namespace(project).prefix, self._place.driver.appends
        return self._run(catalogue.summaries(self._listed(project, None), prefix, appends=appends))

    def _below(self, address: Address) -> list[Address]:
        return [row.address for row in self._listed(address.project, address.session)]

    def _ever_below(self, address: Address) -> list[Address]:
        """The transcripts of subagents, deleted ones as well: an earlier deletion may have been interrupted."""
        names = names_beginning(self._place.namespace(address.project), f"{address.name}/")
        return [parse_name(address.project, name) for name in names]

    def _delete(self, address: Address) -> None:
        with self._mutex:
            self._open.pop(address, None)
        with suppress(NotFoundError):
            self._run(self._place.namespace(address.project).delete(address.name))

    def _run(self, job: Job[T]) -> T:
        return run(job, self._place.driver)


def _forked_from(entries: Sequence[Entry]) -> tuple[str | None, str | None]:
    """Return the session from which the SDK copied these entries in a fork, and the last copied node."""
    copied = [fields_of(entry.get("forkedFrom")) for entry in entries]
    session, node = next(
        ((fields.get("sessionId"), fields.get("messageUuid")) for fields in reversed(copied) if fields), (None, None)
    )
    if not isinstance(session, str) or not session:
        return None, None
    return Address("", session).name, node if isinstance(node, str) else None


class _Open:
    """One open transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.lock = threading.Lock()
        """Held during a call: the thread of a cancelled call may still be running."""
