"""Detect concurrent writers of a session. A handle that opened it exclusively stops when it meets another writer.

Rule 1: the handle accepts all records written before the caller opened or refreshed the session.
Rule 2: a later record of another writer stops the handle, whichever call sees it first: an append, or a read.
Rule 3: a stopped handle stays stopped; the caller has to open the session again.
"""

from __future__ import annotations

from collections.abc import Iterable

from treering.errors import ConflictError
from treering.format.record import Record
from treering.journal.view import View
from treering.kinds import Kind
from treering.session.replica import Replica
from treering.storage.requests import Steps


class Fence:
    """What one handle knows of other writers.

    Args:
        nonce: The handle's own; `Record.by` of each of its records begins with it.
        shared: Other writers are allowed.
        replica: What the handle has in memory of the session.
    """

    def __init__(self, nonce: str, replica: Replica, *, shared: bool) -> None:
        self.met = False
        """Another writer added records since the caller last looked."""
        self.stopped: ConflictError | None = None
        self.nonce = nonce
        self._prefix = f"{nonce}."
        self._shared = shared
        self._replica = replica

    @property
    def is_closed(self) -> bool:
        """Whether this handle was stopped and may record nothing more."""
        return self.met or self.stopped is not None

    def accept(self) -> None:
        """Accept all records in the journal now: the caller sees them."""
        self.met = False

    def look(self, new: Iterable[Record]) -> None:
        """Take in the new records that a read of the registers showed."""
        self.met = self.met or (self.is_foreign(new) and not self._shared)  # rule: exclusive-stops

    def is_foreign(self, records: Iterable[Record]) -> bool:
        """Whether another writer recorded some of these.

        The records in the tail suffice: only an append removes records from it, so it always holds the last append.
        """
        return any(not record.by.startswith(self._prefix) for record in records)  # rule: own-is-no-conflict

    def check(self) -> None:
        """Stop if another writer was met.

        Raises:
            ConflictError: There was one, now or earlier; the caller has to open the session again.
        """
        if self.met:
            self.stop()
        if self.stopped is not None:
            raise self.stopped

    def stop(self, error: ConflictError | None = None) -> None:
        """Stop this handle: it may record nothing more, because of `error` or because of another writer."""
        keys = self._replica.keys
        self.stopped = error or ConflictError(
            f"another writer is writing session {keys.session!r}",
            kind=Kind.OVERTAKEN,
            key=keys.tail,
            remedy="open it again to continue from the other writer's records, or open it with shared=True",
        )

    def absorb(self, view: View) -> None:
        """Fold the records in `view` that are new, then stop if another writer wrote one.

        Raises:
            ConflictError: It does.
        """
        self._replica.absorb(view)
        self.check()

    def catch_up(self) -> Steps[None]:
        """Read the registers again, then stop if they show another writer.

        Raises:
            ConflictError: They do.
        """
        yield from self._replica.catch_up()
        self.check()
