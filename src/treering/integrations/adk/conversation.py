"""A session of ADK in one session of Treering: protocols without I/O.

Rule 1: each event is a node, and the context is the list of all events. The parent of a rewind's event is the node
before the invocation that it undoes. The undone events become a branch, and stay in the list, as ADK expects.
Rule 2: the values of the session's own state that an event sets are a checkpoint in the same append.
Rule 3: an event is refused unless its caller has seen the newest event of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from treering.errors import SessionDeletedError
from treering.integrations.adk.events import NewEvent, Scoped, rest_of, shared_by
from treering.integrations.shared import SharedSession
from treering.session.payload import decoded_state
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps


class Read(NamedTuple):
    """A session as it was read."""

    payloads: list[Any]
    """The payloads of its events: of all, or of the newest ones."""
    newest: Newest
    state: Mapping[str, Any]
    """The session's own state, without that of the app and the user."""
    owed: Owed | None


BESIDE_MAX: Final = 8
"""An event that comes again counts as recorded if so many events of others followed it, and itself."""


class Newest(NamedTuple):
    """The end of a session: its newest event."""

    mark: str
    """A text that differs after each event."""
    node: str | None
    """The node of the newest event; None if there is none."""
    payload: Any
    updated: float
    """The time of the newest event, or else that of the session's creation, in seconds since 1970."""

    @property
    def event(self) -> str | None:
        """The id of the newest event."""
        return rest_of(self.payload).get("id")


class Owed(NamedTuple):
    """An event whose changes to the state of the app and the user may not be applied yet."""

    node: str
    state: Scoped


class _Planned(Recording):
    node_made: str | None = None


class Conversation(SharedSession):
    """Reads and records the events of one session."""

    settled: str | None = None
    """The newest event whose changes to the state of the app and the user are known to be applied."""

    def create(self, state: Mapping[str, object]) -> Steps[Read]:
        """Create the session.

        Raises:
            AlreadyExistsError: It exists.
        """
        yield from self._be_ready()
        yield from self.writer.appender.write(lambda: self._plan_new(state))
        return self._read(None)

    def exists(self) -> Steps[bool]:
        """Tell whether the session exists. A session without records does not count: its creator was killed."""
        yield from self.look()
        return self._has_records

    def read(self, newest: int | None = None) -> Steps[Read | None]:
        """Read the session as it is now; None if it does not exist.

        Args:
            newest: How many of the newest events to return; by default all.
        """
        if not (yield from self.exists()):
            return None
        yield from self._stand()
        return self._read(newest)

    def append(self, event: NewEvent, is_stale: Callable[[Newest], bool]) -> Steps[Newest]:
        """Record an event, which is durable when this returns. If it is the newest event, it is not recorded again.

        Args:
            event: The event.
            is_stale: Returns, for the end of the session, whether the caller has not seen it.

        Raises:
            StaleSessionError: The caller has not seen all events.
            SessionNotFoundError: The session does not exist.
        """
        yield from self._be_ready()
        if not self._has_records and not (yield from self.exists()):
            raise self._missing()
        try:
            planned = yield from self._write(event, is_stale)
        except StaleSessionError:  # or this object has not seen what its caller has
            yield from self.look()
            planned = yield from self._write(event, is_stale)
        yield from self._tidy()
        newest = self._newest()
        if planned.node_made is not None and newest.node != planned.node_made:
            return newest._replace(mark=planned.node_made, node=planned.node_made)  # another event follows it already
        return newest

    def _write(self, event: NewEvent, is_stale: Callable[[Newest], bool]) -> Steps[_Planned]:
        try:
            return (yield from self.writer.appender.write(lambda: self._plan_event(event, is_stale)))
        except SessionDeletedError as error:
            raise self._missing() from error

    def owed(self) -> Steps[Owed | None]:
        """Return the newest event if its changes for the app and the user may not be applied yet; else None."""
        yield from self._be_ready()
        return self._owed() if self._has_records else None

    def _owed(self) -> Owed | None:
        newest = self._newest()
        if newest.node is None or newest.node == self.settled:
            return None
        state = shared_by(newest.payload)
        return Owed(newest.node, state) if state.app or state.user else None

    @property
    def _has_records(self) -> bool:
        return self.writer.replica.exists and self.writer.replica.state.end > 0

    def _plan_new(self, state: Mapping[str, object]) -> Steps[Recording]:
        if self._has_records:
            name = self.writer.keys.session
            raise AlreadyExistsError(f"Session with id {name} already exists.")
        yield from self._stand()
        recording = Recording(self.writer)
        recording.keep(Change(state=state))
        return recording

    def _plan_event(self, event: NewEvent, is_stale: Callable[[Newest], bool]) -> Steps[_Planned]:
        yield from self._stand()
        newest = self._newest()
        recording = _Planned(self.writer)
        if newest.event == event.id and newest.payload == event.payload:  # two different events may have the same id
            return recording
        if is_stale(newest):
            raise StaleSessionError(
                "The session has been modified in storage since it was loaded. Please reload the session before"
                " appending more events."
            )
        if event.payload in self._payloads(BESIDE_MAX):  # recorded without an answer, before the caller read it
            return recording
        place = self._place_of(event.rewinds_before)
        if place is not None:
            first = self.writer.replica.state.context.items[place].node
            said = yield from self.writer.replica.ask(lambda lookup: lookup.node(first))
            recording.move("rewind", recording.head, said.parent)  # and the context stays as it is
        made = recording.node_made = recording.draft(event.draft())
        if event.usage:
            recording.draft(event.note(made))
        if event.state.session or place is not None:
            recording.keep(Change(state=event.state.session, navigated=place is not None))
        return recording

    def _place_of(self, invocation: str | None) -> int | None:
        """Return the place of the first event of an invocation; None if there is none."""
        if invocation is None:
            return None
        told = (rest_of(payload).get("invocation_id") for payload in self._payloads(None))
        return next((place for place, each in enumerate(told) if each == invocation), None)

    def _read(self, newest: int | None) -> Read:
        return Read(self._payloads(newest), self._newest(), decoded_state(self._keys), self._owed())

    def _newest(self) -> Newest:
        writer = self.writer
        items, created = writer.replica.state.context.items, writer.replica.state.card.created / 1000
        if not items:
            return Newest(writer.replica.view.life, None, None, created)
        (payload,) = self._payloads(1)
        updated = rest_of(payload).get("timestamp")
        node = items[-1].node
        return Newest(node, node, payload, float(updated) if isinstance(updated, int | float) else created)

    def _missing(self) -> SessionNotFoundError:
        return SessionNotFoundError(f"Session {self.writer.keys.session} not found.")
