"""A session service of ADK, in sessions of Treering.

Rule 1: awaited calls run in threads, one at a time for each session. So a service serves any number of tasks and event
loops, and an append that has begun is completed even if its caller is cancelled.
Rule 2: an event is recorded first, with all values that it sets. Its changes for the app or the user are applied after
that, once: by the same process, or by a process that finds them missing; see `treering.integrations.adk.scope`.
Rule 3: the state of the app and the user is read after the events that set it.
Rule 4: a caller that has not seen the newest event of a session gets a `StaleSessionError`, and nothing is recorded.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.format.paths import namespaces_in
from treering.ids import new_nonce
from treering.integrations.adk.conversation import Conversation, Newest, Owed, Read
from treering.integrations.adk.events import (
    NewEvent,
    Scoped,
    event_of,
    joined,
    new_event,
    require_storable,
    rest_of,
    scoped,
)
from treering.integrations.adk.places import Shared, Where, is_session, place_of_user
from treering.integrations.adk.scope import Scope
from treering.integrations.closable import Closable
from treering.integrations.opened import OPEN_MAX, OpenSessions
from treering.integrations.shared import shared_writer
from treering.maintenance.retention import KEEP_STATUS
from treering.storage.requests import Steps
from treering.storage.run import run

AT_ONCE_MAX: Final = 16
"""Sessions that are read concurrently for a list."""


class TreeringSessionService(BaseSessionService, Closable):
    """Keeps the sessions of ADK in a store: pass it as `Runner(..., session_service=...)`.

    Each event is a node of the transcript, stored once. The values of the state that it sets are a checkpoint. A rewind
    makes a branch: the undone events are kept. State of the app (`app:`) and of the user (`user:`) is shared between
    sessions.

    Several processes may use one store, and also one session: of two concurrent appends one raises ADK's
    `StaleSessionError`. Close the service when the program ends, or use it as a context manager. A process that is
    killed loses no event that was appended.
    """

    def __init__(self, store: Store | AsyncStore, *, open_max: int = OPEN_MAX) -> None:
        """Make a service, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            open_max: The most sessions kept open, with their events in memory; at least 1.
        """
        self._store = Store(store.place)
        self._sessions: OpenSessions[Where, Conversation] = OpenSessions(
            store.place.driver, self._conversation, open_max=open_max
        )
        self._scopes: OpenSessions[Shared, Scope] = OpenSessions(store.place.driver, self._scope, open_max=open_max)

    # methods that a runner calls

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session; it is durable when this returns.

        Args:
            app_name: The app: a namespace of the store.
            user_id: The user: a namespace in the app's namespace.
            state: The initial state of the session, and values to set for the app and the user.
            session_id: The session's id; by default a random one.

        Raises:
            AlreadyExistsError: A session has this id.
            treering.UsageError: The app or the user is empty, or a value cannot be stored.
            treering.UnavailableError: The store did not answer; the session may exist.
        """
        where = Where(app_name, user_id, _stripped(session_id) or str(uuid.uuid4()))
        return await self._sessions.aside(self._create, where, scoped(state))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session as it is now; None if there is none.

        Args:
            app_name: The app.
            user_id: The user.
            session_id: The session's id.
            config: Which events to return; by default all.
        """
        where = Where(app_name, user_id, _stripped(session_id))
        if not all(where):
            return None
        newest = config.num_recent_events if config is not None and config.after_timestamp is None else None
        read = await self._sessions.aside(self._sessions.use, where, lambda session: session.read(newest))
        if read is None:
            return None
        if read.owed is not None:
            await self._sessions.aside(self._settle, where, read.owed)
        app, user = await asyncio.gather(
            self._sessions.aside(self._shared, where.of_app), self._sessions.aside(self._shared, where.of_user)
        )
        return _session(where, read, joined(app, user, read.state), config)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users of an app, the least recently used first, without events.

        One LIST per thousand objects, and three reads for each session, 16 sessions at a time.
        """
        return ListSessionsResponse(sessions=await self._sessions.aside(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with all its events, if it exists. The state of the app and the user is kept."""
        where = Where(app_name, user_id, _stripped(session_id))
        if all(where):
            place = place_of_user(self._store.place, app_name, user_id)
            await self._sessions.aside(self._sessions.delete, where, place.delete(where.session))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Record an event at the end of a session; it is durable when this returns. Partial events are not recorded.

        If a call raised `UnavailableError`, repeat it with the same event: the event is recorded once.

        Raises:
            google.adk.errors.StaleSessionError: The session was changed since it was read; read it again.
            SessionNotFoundError: The session does not exist, or was deleted.
            treering.UsageError: A value cannot be stored.
            treering.UnavailableError: The store did not answer; the event may be recorded.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        await self._sessions.aside(self._append, session, event, new_event(event))
        return event

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, without prefixes; empty if nothing was set."""
        if not app_name or not user_id:
            return {}
        return dict(await self._sessions.aside(self._shared, Shared(app_name, user_id)))

    async def flush(self) -> None:
        """Do nothing: each event was durable when `append_event` returned."""

    def close(self) -> None:
        """Bring the cards of open sessions up to date, and close them. A later call opens its session again."""
        self._sessions.close()
        self._scopes.close()

    # implementation

    def _conversation(self, where: Where) -> Conversation:
        place = place_of_user(self._store.place, where.app, where.user)
        return Conversation(shared_writer(place, where.session, where.facts))

    def _scope(self, shared: Shared) -> Scope:
        place = self._store.place.namespace(shared.app)
        return Scope(shared_writer(place, shared.session, shared.facts, KEEP_STATUS))

    def _shared(self, shared: Shared) -> Mapping[str, Any]:
        return self._scopes.use(shared, Scope.read)

    def _both(self, where: Where) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Read the states that a session shares with other sessions: those of its app and of its user."""
        return self._shared(where.of_app), self._shared(where.of_user)

    def _create(self, where: Where, state: Scoped) -> Session:
        if self._sessions.use(where, Conversation.exists):
            raise AlreadyExistsError(f"Session with id {where.session} already exists.")
        require_storable(state)
        self._settle(where, Owed(new_nonce(), state))  # before the session: one that exists has all its state
        read = self._sessions.use(where, lambda session: session.create(state.session))
        return _session(where, read, joined(*self._both(where), read.state), None)

    def _append(self, session: Session, event: Event, new: NewEvent) -> None:
        where = Where(session.app_name, session.user_id, session.id)
        owed = self._sessions.use(where, Conversation.owed)
        if owed is not None:
            self._settle(where, owed)

        def append(conversation: Conversation) -> Steps[Newest]:
            newest = yield from conversation.append(new, partial(_is_stale, session))
            _mark(session, newest.mark)
            return newest

        newest = self._sessions.use(where, append)
        if (new.state.app or new.state.user) and newest.node is not None:
            self._settle(where, Owed(newest.node, new.state))
        session.last_update_time = event.timestamp
        if session.events[-1:] != [event]:  # else the caller repeated an append that had succeeded
            self._commit_event_to_session(session, event)

    def _settle(self, where: Where, owed: Owed) -> None:
        """Apply the changes of an event for the app and the user, unless they are applied already."""
        for shared, changes in ((where.of_app, owed.state.app), (where.of_user, owed.state.user)):
            if changes:
                self._scopes.use(shared, partial(Scope.apply, event=owed.node, changes=changes, by=where.session))
        if (conversation := self._sessions.peek(where)) is not None:
            conversation.settled = owed.node

    def _list(self, app: str, user: str | None) -> list[Session]:
        if not app or user == "":
            return []
        place = self._store.place.namespace(app)
        store = Store(place) if user is None else Store(place.namespace(user))
        depth = len(namespaces_in(place.prefix)) + 1
        rows = [
            row for row in store.each_session(below=user is None) if is_session(row) and len(row.namespace) == depth
        ]
        with ThreadPoolExecutor(AT_ONCE_MAX) as workers:
            places = (Where.of(row) if user is None else Where(app, user, row.id) for row in rows)
            reads = list(workers.map(self._read_once, places))
        shared = self._states(where for where, _ in filter(None, reads))
        found = [
            _session(where, read, joined(shared[where.of_app], shared[where.of_user], read.state), None)
            for where, read in filter(None, reads)
        ]
        return sorted(found, key=lambda each: (each.last_update_time, each.user_id, each.id))

    def _states(self, sessions: Iterable[Where]) -> dict[Shared, Mapping[str, Any]]:
        wanted = list(dict.fromkeys(shared for where in sessions for shared in (where.of_app, where.of_user)))
        with ThreadPoolExecutor(AT_ONCE_MAX) as workers:
            return dict(zip(wanted, workers.map(self._shared, wanted), strict=True))

    def _read_once(self, where: Where) -> tuple[Where, Read] | None:
        """Read a session without keeping it open."""
        read = run(self._conversation(where).read(0), self._store.place.driver)
        return None if read is None else (where, read)


def _stripped(session_id: str | None) -> str:
    return session_id.strip() if session_id else ""


def _mark(loaded: Session, mark: str) -> None:
    """Note in a session which event was the newest when it was read, in the attribute that ADK's services use."""
    loaded._storage_update_marker = mark  # noqa: SLF001  # there is no other place


def _is_stale(loaded: Session, newest: Newest) -> bool:
    """Tell whether a session was read before its newest event was recorded.

    A session without a mark was made by hand, or by another service.
    """
    mark = loaded._storage_update_marker  # noqa: SLF001  # see `_mark`
    if mark is not None:
        return mark != newest.mark
    seen = loaded.events[-1].id if loaded.events else None
    return newest.updated > loaded.last_update_time and seen != newest.event


def _session(where: Where, read: Read, state: dict[str, Any], config: GetSessionConfig | None) -> Session:
    payloads = read.payloads
    if config is not None and config.after_timestamp is not None:
        after = config.after_timestamp
        payloads = [payload for payload in payloads if rest_of(payload).get("timestamp", after) >= after]
    if config is not None and config.num_recent_events is not None:
        payloads = payloads[max(0, len(payloads) - config.num_recent_events) :]
    found = Session(
        id=where.session,
        app_name=where.app,
        user_id=where.user,
        state=state,
        events=[event_of(payload) for payload in payloads],
        last_update_time=read.newest.updated,
    )
    _mark(found, read.newest.mark)
    return found
