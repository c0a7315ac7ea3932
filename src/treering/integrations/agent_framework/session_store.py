"""A session store for agents of Microsoft Agent Framework: snapshots of `AgentSession` in sessions of Treering."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeVar
from weakref import WeakKeyDictionary

from agent_framework import AgentSession, SessionStore

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import UsageError
from treering.ids import new_nonce
from treering.integrations.agent_framework.codec import Codec
from treering.integrations.agent_framework.names import MARK
from treering.integrations.agent_framework.registry import Registry
from treering.integrations.agent_framework.snapshots import Snapshots
from treering.integrations.closable import Closable
from treering.integrations.opened import OPEN_MAX, OpenSessions
from treering.integrations.shared import shared_writer
from treering.kinds import Kind
from treering.storage.effects import Job

T = TypeVar("T")

ON_CONFLICT: Final = ("raise", "replace")


class TreeringSessionStore(Closable, SessionStore):
    """Keeps snapshots of agent sessions by id, one session of the store for each.

    A snapshot stores the values of the session's state that changed. Objects in it are stored in the framework's own
    way: call `agent_framework.register_state_type` for classes of your own.

    If you pass the ids of the agent sessions, and a `TreeringHistoryProvider` uses the same store, the messages and the
    snapshot of a conversation are in one session of the store.
    """

    def __init__(
        self, store: Store | AsyncStore, *, on_conflict: Literal["raise", "replace"] = "raise", open_max: int = OPEN_MAX
    ) -> None:
        """Make a session store, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            on_conflict: What `set` does if another process stored the same id since this object got or set the session:
                `raise` refuses the session, with `replace` the last one wins. A newly made session always replaces the
                stored one.
            open_max: The most sessions kept open, with their state in memory; at least 1.

        Raises:
            treering.UsageError: `on_conflict` has another value.
        """
        super().__init__()
        if on_conflict not in ON_CONFLICT:
            raise UsageError(f"no such way. on_conflict={on_conflict!r}, known={ON_CONFLICT!r}", kind=Kind.OPTION)
        self._fenced = on_conflict == "raise"
        self._codec = Codec(Registry())
        self._told: WeakKeyDictionary[AgentSession, tuple[str, frozenset[str]]] = WeakKeyDictionary()
        """By session object: its session id, and `Snapshot.write` of the snapshots that it may replace: the one that it
        was read from or written to, and what it tried to write since and got no answer."""
        self._mutex = threading.Lock()
        self._place = store.place
        self._snapshots: OpenSessions[str, Snapshots] = OpenSessions(
            self._place.driver,
            lambda name: Snapshots(shared_writer(self._place, name, {MARK: {"keeps": "session"}})),
            open_max=open_max,
        )

    async def get(self, session_id: str) -> AgentSession | None:
        """Return the stored session, a new object each time; None if there is none.

        Raises:
            ValueError: The id is empty, or an object in the session cannot be made of what was stored.
        """
        self.validate_session_id(session_id)
        found = await self._perform(session_id, lambda session: session.get())
        if found is None:
            return None
        session = AgentSession.from_dict(self._codec.decode(found.session))
        self._tell(session, session_id, {found.write})
        return session

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Store a session as it is now in one append; it is durable when this returns.

        Raises:
            ValueError: The id is empty.
            treering.UsageError: A value in its state cannot be stored, or the session is of a subclass.
            treering.HeadMovedError: Another process stored this id since; see `on_conflict`.
            treering.UnavailableError: The store did not answer; the session may be stored.
        """
        self.validate_session_id(session_id)
        if type(session) is not AgentSession:
            raise UsageError(
                f"only an AgentSession comes back as it was. type={type(session).__qualname__!r}",
                kind=Kind.VALUE,
                remedy="keep what a class of yours adds in the session's state",
            )
        plain = self._codec.encode(session.to_dict())
        told, write, expect = self._told.get(session), new_nonce(), None
        if self._fenced and told is not None and told[0] == session_id:
            expect = told[1]
            self._tell(session, session_id, {*expect, write})  # it may be stored even if there is no answer
        await self._perform(session_id, lambda each: each.set(plain, write=write, expect=expect))
        self._tell(session, session_id, {write})

    async def delete(self, session_id: str) -> None:
        """Delete a session of the store with all its records, if it exists: also the messages of a history provider.

        Raises:
            ValueError: The id is empty.
        """
        self.validate_session_id(session_id)
        await self._snapshots.aside(self._snapshots.delete, session_id, self._place.delete(session_id))
        with self._mutex:  # what this object deleted, it may store again
            for session in [each for each, told in self._told.items() if told[0] == session_id]:
                del self._told[session]

    def close(self) -> None:
        """Bring the cards of open sessions up to date. The store may be used again."""
        self._snapshots.close()

    def _tell(self, session: AgentSession, session_id: str, writes: Iterable[str]) -> None:
        with self._mutex:
            self._told[session] = session_id, frozenset(writes)

    async def _perform(self, session_id: str, work: Callable[[Snapshots], Job[T]]) -> T:
        return await self._snapshots.aside(self._snapshots.use, session_id, work)
