"""One session that an integration keeps open beside other writers, as protocols without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from treering.checkpoint.policies import DEFAULT_POLICY
from treering.errors import TreeringError
from treering.format.register import Card
from treering.ids import now_ms
from treering.session.options import Options
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.store.place import Place


class SharedSession:
    """Follows what other writers record in a session.

    Args:
        writer: Of the session, shared with other writers.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._opened = False

    @property
    def _keys(self) -> Mapping[str, bytes]:
        """The state of the session, encoded, by key."""
        newest = self.writer.replica.state.checkpoint
        return newest.state if newest is not None else {}

    def look(self) -> Steps[bool]:
        """Read what other writers recorded; False if there is no session."""
        if not self._opened:
            yield from self._open()
        else:
            yield from self.writer.appender.settle()
            self.writer.replica.state.follow = None
            yield from self.writer.look()
        return self.writer.replica.exists

    def close(self) -> Steps[None]:
        """Write a card that covers everything, and merge segments if there are many."""
        writer = self.writer
        yield from writer.appender.settle()
        if writer.replica.exists and writer.replica.view.end > writer.replica.view.covers:
            yield from self._stand()
            yield from writer.upkeep.cover(seal=False)
        yield from writer.close()

    def _open(self) -> Steps[None]:
        yield from self.writer.open()
        self._opened = True

    def _be_ready(self) -> Steps[None]:
        """Open the session if necessary, and find out what became of an append without an answer."""
        if not self._opened:
            yield from self._open()
        yield from self.writer.appender.settle()

    def _tidy(self) -> Steps[None]:
        """Merge segments while at work: a session may be open for long, and its history is read from them."""
        if self.writer.upkeep.should_optimize(quiet=True):
            with suppress(TreeringError):  # what was put is durable
                yield from self.writer.upkeep.optimize()

    def _stand(self) -> Steps[None]:
        """Stand where the session does, whoever moved it there."""
        self.writer.position.follow_session()
        if not self.writer.position.is_known:
            yield from self.writer.position.ensure_context()


def shared_writer(place: Place, name: str, extra: Mapping[str, object], status: str = "") -> Writer:
    """Return a writer of a session that nothing is read of yet, shared with other writers.

    Args:
        place: The store.
        name: Of the session.
        extra: Facts on the card of a new session.
        status: Of a new session.
    """
    now = now_ms()
    card = Card(session=name, life="", write="", created=now, updated=now, status=status, extra=dict(extra))
    options = Options(shared=True, redaction=place.redaction)
    return Writer(place.keys(name), DEFAULT_POLICY, card, options, place.prepare, memory=place.memory)
