"""The `message_history` of a conversation with Pydantic AI, in a session of Treering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import HeadMovedError
from treering.integrations.closable import Closable
from treering.integrations.opened import OpenSessions
from treering.integrations.pydantic_ai.conversation import MARK, Conversation
from treering.integrations.pydantic_ai.messages import Message, message_in, named
from treering.integrations.shared import shared_writer
from treering.session.recording import Change, Recording
from treering.storage.effects import Job
from treering.storage.requests import Steps

T = TypeVar("T")


class HistorySession(Conversation):
    """One history, and the version of it that the caller has seen."""

    seen: str | None = None
    """The checkpoint that the caller loaded or saved last; None if there was none."""

    def load(self) -> Steps[list[Any]]:
        """Read the history as it is now; empty if there is none."""
        self.seen = None
        if not (yield from self.look()):
            return []
        yield from self._stand()
        state = self.writer.replica.state
        self.seen = state.checkpoint.id if state.checkpoint is not None else None
        yield from self.writer.blobs.fetch_shown()
        return [*map(message_in, self.writer.content.messages(state.context, state.lines))]

    def save(self, history: Sequence[Message]) -> Steps[None]:
        """Replace the history, in one append."""
        yield from self._be_ready()
        recording = yield from self.writer.appender.write(partial(self._plan, history))
        self.seen = recording.made.id if recording.made is not None else None
        yield from self._tidy()

    def _plan(self, history: Sequence[Message]) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        newest = recording.checkpoint.id if recording.checkpoint is not None else None
        if newest != self.seen and newest not in self.writer.appender.found:  # those are saves that got no answer
            raise HeadMovedError(
                f"the history is not the one that was loaded. expected={self.seen!r}, got={newest!r}",
                key=self.writer.keys.tail,
                remedy="load it again, and run the agent on that",
            )
        yield from self.keep(recording, history, Change())
        return recording


class TreeringMessageHistory(Closable):
    """Keeps the messages of one conversation, which `Agent.run` takes as `message_history`.

    Each message is stored once. If a saved history leaves messages out, as after a compaction, `load` returns it
    without them; the messages stay in the session.
    """

    def __init__(self, store: Store | AsyncStore, session: str) -> None:
        """Make a message history, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            session: The name of the session in the store.
        """
        self.session = session
        place = store.place
        self._sessions: OpenSessions[str, HistorySession] = OpenSessions(
            place.driver, lambda name: HistorySession(shared_writer(place, name, {MARK: {"keeps": "history"}}))
        )

    async def load(self) -> list[ModelMessage]:
        """Return the newest history, even if another process saved it; empty if there is none."""
        return _messages(await self._sessions.aside(self._use, lambda session: session.load()))

    async def save(self, messages: Sequence[ModelMessage]) -> None:
        """Replace the history, in one append; it is durable when this returns.

        Args:
            messages: The whole history, from `result.all_messages()`.

        Raises:
            treering.HeadMovedError: Another process saved the history since this object loaded or saved it.
            treering.UnavailableError: The store did not answer; the history may be saved.
        """
        history = named(messages)
        await self._sessions.aside(self._use, lambda session: session.save(history))

    def load_sync(self) -> list[ModelMessage]:
        """Do the same as `load`, for blocking code."""
        return _messages(self._use(lambda session: session.load()))

    def save_sync(self, messages: Sequence[ModelMessage]) -> None:
        """Do the same as `save`, for blocking code."""
        history = named(messages)
        self._use(lambda session: session.save(history))

    def close(self) -> None:
        """Bring the card of the session up to date. Load the history again before the next `save`."""
        self._sessions.close()

    def _use(self, work: Callable[[HistorySession], Job[T]]) -> T:
        return self._sessions.use(self.session, work)


def _messages(history: Sequence[Any]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_python(history)
