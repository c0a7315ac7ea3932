"""The state that sessions of ADK share: of an app, or of a user. Protocols without I/O.

Rule: the changes of an event to this state are recorded once, under the id of the event's node. If a process is killed
after it recorded an event and before it applied the changes, the next process that reads the event applies them. If two
processes do so, the changes are still applied only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from treering.integrations.shared import SharedSession
from treering.session.payload import decoded_state
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps
from treering.transcript.node import Draft

APPLIED: Final = "adk_applied"
"""The kind of notes about events whose changes are in the state."""
BY_MAX: Final = 64
"""The most characters of a session's id in such a note: a brief has 512 bytes, and a character up to 6 as JSON."""


class Scope(SharedSession):
    """Reads and changes the state of an app or a user."""

    def read(self) -> Steps[Mapping[str, Any]]:
        """Read the state as it is now; empty if nothing was ever set."""
        yield from self.look()
        return decoded_state(self._keys)

    def apply(self, event: str, changes: Mapping[str, object], *, by: str) -> Steps[None]:
        """Apply the changes of an event, unless they are applied already; durable when this returns.

        Args:
            event: The node of the event.
            changes: Values by key.
            by: The session of the event; only for people who read the journal.
        """
        yield from self._be_ready()
        yield from self.writer.appender.write(lambda: self._plan(event, changes, by))
        yield from self._tidy()

    def _plan(self, event: str, changes: Mapping[str, object], by: str) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        known: Mapping[str, object] = {}
        if self.writer.replica.exists:
            known = yield from self.writer.replica.ask(lambda lookup: lookup.records([event]))
        if event not in known:
            recording.draft(Draft(type="note", kind=APPLIED, id=event, brief={"session": by[:BY_MAX]}))
            recording.keep(Change(state=changes))
        return recording
