"""Bound the retries after concurrent writes, with one error for all when they run out."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from treering.errors import UnavailableError
from treering.kinds import Kind

ATTEMPTS_MAX: Final = 100
"""Each failed attempt means that another process completed a write within one round trip."""


class Attempts(msgspec.Struct):
    """Bounds a loop: `while attempts.another():`."""

    key: str
    """The object that concurrent writers keep changing, for the message."""
    _made: int = 0
    _seen: object = None
    _same: int = 0

    def another(self) -> Literal[True]:
        """Count one more attempt.

        Raises:
            UnavailableError: No attempt is left.
        """
        if self._made == ATTEMPTS_MAX:
            raise UnavailableError(
                f"concurrent writers were faster {ATTEMPTS_MAX} times in a row",
                kind=Kind.BUSY,
                key=self.key,
                remedy="try again when fewer processes write here",
            )
        self._made += 1
        return True

    def in_a_row(self, seen: object) -> int:
        """The number of attempts in a row, this one included, that saw the same."""
        self._same = self._same + 1 if seen == self._seen else 1
        self._seen = seen
        return self._same
