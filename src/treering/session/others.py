"""Who else writes in a session. A handle that should be alone there stops when it learns of others.

Rule 1: what others wrote before the caller opened or refreshed the session is where it goes on from.
Rule 2: what else they wrote stops it, whoever sees it first: an append, or somebody who only reads.
Rule 3: who was stopped stays so; it has to open the session again.
"""

from __future__ import annotations

from collections.abc import Iterable

from treering.errors import ConflictError
from treering.format.record import Record


class Others:
    """What one handle knows of them.

    Args:
        nonce: The handle's; every `Record.by` of its own begins with it.
        shared: Others are welcome.
        session: For messages: the session's id.
        key: For messages: the session's tail.
    """

    def __init__(self, nonce: str, *, shared: bool, session: str, key: str) -> None:
        self.met = False
        """They wrote, and the caller was not told yet."""
        self.stopped: ConflictError | None = None
        self._prefix = f"{nonce}."
        self._shared = shared
        self._session, self._key = session, key

    @property
    def in_the_way(self) -> bool:
        """Whether nothing may be recorded any more."""
        return self.met or self.stopped is not None

    def accept(self) -> None:
        """Whatever stands in the journal now is where the caller goes on from."""
        self.met = False

    def look(self, new: Iterable[Record]) -> None:
        """Take in what a look showed to be new."""
        self.met = self.met or (self.wrote(new) and not self._shared)

    def wrote(self, new: Iterable[Record]) -> bool:
        """Whether some of the records are theirs.

        Those that are in the tail tell, for only an append drops any from it: of those that others dropped, the last
        append is there.
        """
        return any(not record.by.startswith(self._prefix) for record in new)

    def check(self) -> None:
        """Stop if they are in the way.

        Raises:
            ConflictError: They wrote, now or earlier, and the caller has to open the session again.
        """
        if self.met:
            self.stop()
        if self.stopped is not None:
            raise self.stopped

    def stop(self, error: ConflictError | None = None) -> None:
        """Let nothing more be recorded, because of `error` or because they wrote."""
        self.stopped = error or ConflictError(
            f"somebody else writes session {self._session!r}",
            kind="overtaken",
            key=self._key,
            remedy="open it again to go on from what they wrote, or open it with shared=True",
        )
