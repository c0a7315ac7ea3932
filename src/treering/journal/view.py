"""What one process knows of a session: both registers, each with the version it had when it was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET

from treering.errors import FormatVersionError, SessionDeletedError
from treering.format.erasure import Burials
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record
from treering.format.register import Card, Latest, Tail, TailHeader
from treering.storage.requests import Version


class View(msgspec.Struct, frozen=True):
    """Both registers of a living session, consistent with each other, as they were at some moment.

    The records below `latest.card.covers` are accounted for by `latest`; those from there to `end` lie in the tail.
    """

    keys: SessionKeys
    latest: Latest
    latest_version: Version
    tail: Tail
    tail_version: Version
    in_place: bool
    """The tail is a log that stands in the store as this view says, so records can be added at its end."""
    durable: bool
    """The tail is known to be durable. One that was read from a log may hold what was written and not yet synced."""

    @property
    def life(self) -> str:
        return self.latest.card.life

    @property
    def end(self) -> int:
        """One past the last position."""
        return self.tail.end

    @property
    def covers(self) -> int:
        return self.latest.card.covers

    @property
    def sealed(self) -> int:
        return self.latest.card.sealed

    @property
    def epoch(self) -> int:
        """How often something was erased."""
        return self.tail.header.epoch

    @property
    def burials(self) -> Burials:
        """Which records were erased."""
        return self.tail.header.burials

    @property
    def torn(self) -> bool:
        """An erasure came as far as the tail; `latest` may still hold what is gone there."""
        return self.epoch != self.latest.card.epoch

    @property
    def fresh_lines(self) -> Sequence[bytes]:
        """Lines that `latest` does not account for yet."""
        start = self.covers - self.tail.header.base
        return self.tail.lines[start:] if start > 0 else self.tail.lines

    @property
    def unsealed_lines(self) -> Sequence[bytes]:
        """Lines that lie in no segment yet; `tail.lines` itself if that is all of them."""
        start = self.latest.card.sealed - self.tail.header.base
        return self.tail.lines[start:] if start > 0 else self.tail.lines

    def with_tail(self, tail: Tail, version: Version) -> View:
        """The same with a tail that we wrote."""
        return msgspec.structs.replace(self, tail=tail, tail_version=version, in_place=self.keys.appends, durable=True)

    def with_latest(self, latest: Latest, version: Version) -> View:
        return msgspec.structs.replace(self, latest=latest, latest_version=version)

    def require_same_life(self, life: str) -> None:
        """Refuse to go on in a session that was deleted and created again under the same name.

        Raises:
            SessionDeletedError: This view is of another life.
        """
        if self.life != life:
            raise deleted(self.keys)

    def require_known_critical(self, knows: Callable[[Record], bool]) -> None:
        """Refuse to seal over a record that its writer marked critical and that we do not understand.

        Args:
            knows: Whether a record is understood, by its type and kind.

        Raises:
            FormatVersionError: There is one among the unsealed records.
        """
        for line in self.unsealed_lines:
            if b'"critical":true' not in line:
                continue
            record = decode_record(line, key=self.keys.tail)
            if record.critical and not knows(record):
                raise FormatVersionError(
                    f"a critical record is not understood. at={record.at}, type={record.type!r}, kind={record.kind!r}",
                    key=self.keys.tail,
                    remedy="upgrade treering to seal this session; reading goes on",
                )


def empty_tail(card: Card, session: str, nonce: str) -> Tail:
    """The tail of a life that was not appended to yet; what it was born with lies in segments.

    A life that was brought from another store may have been erased from there.
    """
    header = TailHeader(
        session=session,
        life=card.life,
        base=card.born,
        epoch=card.epoch,
        erased=card.erased,
        erasures=card.erasures or UNSET,
        nonce=nonce,
    )
    return Tail(header=header, lines=())


def deleted(keys: SessionKeys) -> SessionDeletedError:
    """The error for whoever comes to a session that was deleted."""
    return SessionDeletedError(
        f"session {keys.session!r} was deleted", key=keys.tail, remedy="open it again to start a new one"
    )
