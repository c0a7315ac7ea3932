"""A history provider for agents of Microsoft Agent Framework: each conversation is a session of Treering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from agent_framework import HistoryProvider, Message

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.integrations.agent_framework.history import History, message_in, payload_of
from treering.integrations.agent_framework.names import MARK
from treering.integrations.agent_framework.registry import fields_of_message
from treering.integrations.closable import Closable
from treering.integrations.opened import OPEN_MAX, OpenSessions
from treering.integrations.shared import shared_writer
from treering.storage.effects import Job

T = TypeVar("T")

SOURCE: Final = "treering"
UNNAMED: Final = "default"
"""The name of the session for runs that have no session."""


class TreeringHistoryProvider(Closable, HistoryProvider):
    """Keeps the messages of an agent's conversations, one session of the store for each.

    Pass it as `Agent(context_providers=[...])`. Several processes may continue one conversation at the same time: the
    messages of all of them are kept, each once, in the order in which they were recorded.
    """

    def __init__(  # noqa: PLR0913  # the framework's own options; all by keyword
        self,
        store: Store | AsyncStore,
        source_id: str = SOURCE,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        open_max: int = OPEN_MAX,
    ) -> None:
        """Make a provider, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            source_id: The id by which the agent knows this provider.
            load_messages: Load the history before a run. This option and the next four are those of every history
                provider of the framework.
            store_inputs: Store the input messages of a run.
            store_context_messages: Store messages that other providers add.
            store_context_from: The providers whose messages are stored; by default all.
            store_outputs: Store the output messages of a run.
            skip_excluded: Leave out messages that a compaction of the framework marked as excluded.
            open_max: The most sessions kept open, with their messages in memory; at least 1.
        """
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        place = store.place
        self._sessions: OpenSessions[str, History] = OpenSessions(
            place.driver,
            lambda name: History(shared_writer(place, name, {MARK: {"keeps": "history"}})),
            open_max=open_max,
        )

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002  # as the framework calls it; so below
        **kwargs: Any,  # noqa: ARG002
    ) -> list[Message]:
        """Return the messages of a session, the oldest first."""
        found = [
            Message.from_dict(message_in(payload))
            for payload in await self._perform(session_id, lambda session: session.messages())
        ]
        return [each for each in found if not (self.skip_excluded and each.additional_properties.get("_excluded"))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Record messages at the end of a session in one append; they are durable when this returns.

        If they begin with the whole history again, only the messages after it are recorded.

        Raises:
            treering.UsageError: A message holds a value that cannot be stored; nothing was recorded.
            treering.UnavailableError: The store did not answer; the messages may be recorded.
        """
        new = [payload_of(fields_of_message(message)) for message in messages]
        if new:
            await self._perform(session_id, lambda session: session.add(new))

    def close(self) -> None:
        """Bring the cards of open sessions up to date. The provider may be used again."""
        self._sessions.close()

    async def _perform(self, session_id: str | None, work: Callable[[History], Job[T]]) -> T:
        return await self._sessions.aside(self._sessions.use, session_id or UNNAMED, work)
