"""One session that an integration keeps open while other writers may use it, as protocols without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from treering.checkpoint.context import Context, Item
from treering.checkpoint.policies import DEFAULT_POLICY
from treering.errors import TreeringError
from treering.format.register import Card
from treering.ids import now_ms
from treering.session.options import Options
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.store.place import Place


class SharedSession:
    """Follows the records that other writers append to a session.

    Args:
        writer: The session's writer, which allows other writers.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._opened = False

    @property
    def _keys(self) -> Mapping[str, bytes]:
        """The encoded values of the session's state, by key."""
        newest = self.writer.replica.state.checkpoint
        return newest.state if newest is not None else {}

    def _payloads(self, newest: int | None) -> list[Any]:
        """The messages of the context as they are shown, the oldest first: so many of the newest, or all."""
        state = self.writer.replica.state
        items = state.context.items
        shown = items if newest is None else items[max(0, len(items) - newest) :]
        found = self.writer.content.messages(state.context.with_items(shown), state.lines)
        return [each.message for each in found]

    def _as_edited(self, contexts: Sequence[Context]) -> Steps[list[Context]]:
        """Apply edits to the contexts of old checkpoints, which have only those recorded before them.

        The session's context has all edits, so nothing is read about messages that it shows in the same way.
        """
        now = frozenset(self.writer.replica.state.context.items)
        unsure = dict.fromkeys(item.node for context in contexts for item in context.items if item not in now)
        if not unsure:
            return [*contexts]
        marks = yield from self.writer.replica.ask(lambda look: look.edits(list(unsure)))
        changed = [node for node, mark in marks.items() if mark.retracted or mark.amended is not None]
        edited = yield from self.writer.content.edited(Context(tuple(map(Item, changed))))
        shown = {item.node: item for item in edited.items}
        hidden = frozenset(changed) - shown.keys()
        return [
            context.with_items([shown.get(item.node, item) for item in context.items if item.node not in hidden])
            for context in contexts
        ]

    def look(self) -> Steps[bool]:
        """Read what other writers recorded; False if the session does not exist."""
        if not self._opened:
            yield from self._open()
        else:
            yield from self.writer.appender.settle()
            self.writer.replica.state.turn_to(None)
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
        """Open the session if necessary, and find out the outcome of an append that got no answer."""
        if not self._opened:
            yield from self._open()
        yield from self.writer.appender.settle()

    def _tidy(self) -> Steps[None]:
        """Merge segments between appends: a session may stay open for long, and its history is read from segments."""
        if self.writer.upkeep.should_optimize(quiet=True):
            with suppress(TreeringError):  # every append is durable without it
                yield from self.writer.upkeep.optimize()

    def _stand(self) -> Steps[None]:
        """Move this writer's position to that of the session, which another writer may have moved."""
        self.writer.position.follow_session()
        if not self.writer.position.is_known:
            yield from self.writer.position.ensure_context()


def shared_writer(place: Place, name: str, extra: Mapping[str, object], status: str = "") -> Writer:
    """Return a writer of a session that allows other writers, without reading anything.

    Args:
        place: The store.
        name: The session's name.
        extra: Facts on the card of a new session.
        status: The status of a new session.
    """
    now = now_ms()
    card = Card(session=name, life="", write="", created=now, updated=now, status=status, extra=dict(extra))
    options = Options(shared=True, redaction=place.redaction)
    return Writer(place.keys(name), DEFAULT_POLICY, card, options, place.prepare, memory=place.memory)


def is_recorded(writer: Writer, name: str) -> Steps[bool]:
    """Whether a node, note or edit of the session has this id."""
    return bool((yield from writer.replica.ask(lambda look: look.records([name]))))
