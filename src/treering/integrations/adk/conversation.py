"""A session of ADK in one session of Treering: protocols without I/O.

Rule 1: each event is a node, and the context is the list of all events. A rewind is an event that continues the node
before the invocation it takes back: what it takes back is a branch, and stays in the list, as ADK wants it.
Rule 2: what an event sets of the session's own state is a checkpoint in the same append.
Rule 3: an event is recorded behind the event that its caller saw last, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from treering.checkpoint.context import Context
from treering.errors import SessionDeletedError
from treering.integrations.adk.events import NewEvent, Scoped, rest_of, shared_by
from treering.integrations.shared import SharedSession
from treering.session.payload import decoded_state
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps


class Read(NamedTuple):
    """A session as it was read."""

    payloads: list[Any]
    """Of its events, or of the newest ones."""
    newest: Newest
    state: Mapping[str, Any]
    """Its own."""
    owed: Owed | None


class Newest(NamedTuple):
    """Where a session ends."""

    mark: str
    """Different after each event."""
    node: str | None
    """Of the newest event; None if there is none."""
    payload: Any
    updated: float
    """Seconds since 1970: when the newest event was made, or the session."""

    @property
    def event(self) -> str | None:
        """The id of the newest event."""
        return rest_of(self.payload).get("id")


class Owed(NamedTuple):
    """An event that may not have set yet what it sets."""

    node: str
    state: Scoped


class _Planned(Recording):
    node_made: str | None = None


class Conversation(SharedSession):
    """Reads and records the events of one session."""

    settled: str | None = None
    """The newest event that is known to have set what it sets for the app and the user."""

    def create(self, state: Mapping[str, object]) -> Steps[Read]:
        """Create the session.

        Raises:
            AlreadyExistsError: There is one.
        """
        yield from self._be_ready()
        yield from self.writer.appender.write(lambda: self._plan_new(state))
        return self._read(None)

    def exists(self) -> Steps[bool]:
        """Look whether there is such a session; one whose creator was killed before it wrote anything is none."""
        yield from self.look()
        return self._has_records

    def read(self, newest: int | None = None) -> Steps[Read | None]:
        """Read the session as it is now; None if there is none.

        Args:
            newest: Only so many of the newest events.
        """
        if not (yield from self.exists()):
            return None
        yield from self._stand()
        return self._read(newest)

    def append(self, event: NewEvent, is_stale: Callable[[Newest], bool]) -> Steps[Newest]:
        """Record an event; durable when it returns. One that is the newest event already is not recorded again.

        Args:
            event: The event.
            is_stale: Told where the session ends, says whether the caller has not seen all of that.

        Raises:
            StaleSessionError: The caller has not seen all events.
            SessionNotFoundError: There is no such session.
        """
        yield from self._be_ready()
        if not self._has_records and not (yield from self.exists()):
            raise self._missing()
        try:
            planned = yield from self.writer.appender.write(lambda: self._plan_event(event, is_stale))
        except SessionDeletedError as error:
            raise self._missing() from error
        yield from self._tidy()
        newest = self._newest()
        if planned.node_made is not None and newest.node != planned.node_made:
            return newest._replace(mark=planned.node_made, node=planned.node_made)  # another one follows it already
        return newest

    def owed(self) -> Steps[Owed | None]:
        """What the newest event sets for the app and the user, if that may not be done; None if it is."""
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
        if newest.event == event.id and newest.payload == event.payload:  # an id alone may be that of another event
            return recording
        if is_stale(newest):
            raise StaleSessionError(
                "The session has been modified in storage since it was loaded. Please reload the session before"
                " appending more events."
            )
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
        """The place of the first event of an invocation."""
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

    def _payloads(self, newest: int | None) -> list[Any]:
        state = self.writer.replica.state
        items = state.context.items
        shown = items if newest is None else items[max(0, len(items) - newest) :]
        found = self.writer.content.messages(Context(shown, state.context.settings), state.lines)
        return [each.message for each in found]

    def _missing(self) -> SessionNotFoundError:
        return SessionNotFoundError(f"Session {self.writer.keys.session} not found.")
