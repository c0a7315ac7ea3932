"""Notice a store that refuses conditions that hold: a writer would try again and again, and blame other writers.

A proxy that makes ETags weak (`W/"..."`), one that answers reads from a cache, and a firewall that refuses requests all
look like this: a write that names the version which was read is refused, and the object still has that version. On a
sound store this cannot be, since a version is never used twice.

`treering.storage.run` asks here for each job, so that no loop which tries a lost write again has to.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treering._late import Kind
from treering.errors import ConflictError, NotFoundError, UnsafeStoreError
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Batch,
    Delete,
    Found,
    Get,
    Put,
    Request,
    Unchanged,
    Version,
)

# A cache may be outdated for a moment, and a refusal may come from a server that is being restarted.
REFUSALS_PROVE = 3


class _Refused(msgspec.Struct):
    """The last condition on an object that was refused."""

    version: Version
    times: int = 0
    """How often in a row the object was read after a refusal, and had that version."""
    is_read: bool = False
    """It was read since the last refusal."""


class Refusals:
    """The refused conditions of one job, whose requests come one after the other."""

    def __init__(self) -> None:
        self._refused: dict[str, _Refused] = {}

    def note(self, batch: Batch, answers: Sequence[Answer]) -> None:
        """Take in the answers to a batch.

        Raises:
            UnsafeStoreError: A condition that holds was refused `REFUSALS_PROVE` times in a row.
        """
        for request, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ConflictError):
                self._note_refusal(request)
            elif isinstance(request, Get) and (refused := self._refused.get(request.key)) is not None:
                self._note_read(request.key, refused, _version_in(request, answer))

    def _note_refusal(self, request: Request) -> None:
        if not isinstance(request, Put | Append | Delete) or request.expect is None:
            return
        key = request.keys[0] if isinstance(request, Delete) else request.key
        known = self._refused.get(key)
        if known is None or known.version != request.expect:
            self._refused[key] = _Refused(request.expect)
        else:
            known.is_read = False

    def _note_read(self, key: str, refused: _Refused, version: Version | None) -> None:
        if version is None or refused.is_read:
            return
        if version != refused.version:
            del self._refused[key]
            return
        refused.is_read = True
        refused.times += 1
        if refused.times == REFUSALS_PROVE:
            raise UnsafeStoreError(
                f"the store refuses a condition that holds, {REFUSALS_PROVE} times in a row."
                f" expected={version or 'absent'!r}",
                kind=Kind.CONDITION_REFUSED,
                key=key,
                remedy="look for a proxy in front of the store that makes ETags weak, answers reads from a cache, or"
                " refuses requests; let it pass both on unchanged",
            )


def _version_in(get: Get, answer: Answer) -> Version | None:
    """The version that an object had when it was read; None if the answer does not tell."""
    if isinstance(answer, Found):
        return answer.version
    if isinstance(answer, Unchanged):
        return get.unless
    return ABSENT if isinstance(answer, NotFoundError) else None
