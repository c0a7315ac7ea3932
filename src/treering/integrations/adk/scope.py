"""The state that sessions of ADK share: of an app, or of a user. Protocols without I/O.

Rule: what an event sets here is recorded under the id of its node, once. So whoever finds an event that was not yet
applied, because its process was killed in between, applies it; and two who do change nothing twice.
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


class Scope(SharedSession):
    """Reads and changes the state of an app or a user."""

    def read(self) -> Steps[Mapping[str, Any]]:
        """The state as it is now; empty if nothing was ever set."""
        yield from self.look()
        return decoded_state(self._keys)

    def apply(self, event: str, changes: Mapping[str, object], *, by: str) -> Steps[None]:
        """Set what an event sets, unless it was done; durable when it returns.

        Args:
            event: The node of the event.
            changes: Values by key.
            by: The session of the event, for people.
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
            recording.draft(Draft(type="note", kind=APPLIED, id=event, brief={"session": by}))
            recording.keep(Change(state=changes))
        return recording
