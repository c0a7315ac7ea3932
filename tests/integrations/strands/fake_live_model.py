"""A live model that answers each message by a script: real bidirectional agents, without a network or chance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from strands.bidi.models.model import BidiModel
from strands.bidi.types.events import (
    BidiResponseStartEvent,
    BidiResponseStopEvent,
    BidiTextDeltaEvent,
    BidiTextStartEvent,
    BidiTextStopEvent,
    BidiToolUseBlocksEvent,
)
from strands.types.content import Messages
from tests.integrations.strands.fake_model import AFTERWARDS, Call


class Unfinished(str):
    """A reply that stops in the middle: its end never comes."""

    __slots__ = ()


class FakeLiveModel(BidiModel):
    """A live model whose replies are a script: one for each message it is sent.

    Attributes:
        shown: The messages that each connection began with.
    """

    def __init__(self, replies: Iterable[str | Call] = ()) -> None:
        self._replies = iter(replies)
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._number = 0
        self.shown: list[Messages] = []

    def update_config(self, **model_config: Any) -> None:
        """Nothing can be configured."""

    def get_config(self) -> dict[str, Any]:
        """Name the model."""
        return {"model_id": "fake-live"}

    async def start(
        self, system_prompt: str | None = None, tools: Any = None, messages: Messages | None = None, **kwargs: Any
    ) -> None:
        """Begin a connection."""
        self._events = asyncio.Queue()
        self.shown.append([{**message} for message in messages or []])

    async def stop(self) -> None:
        """End the connection, and whoever receives from it."""
        self._events.put_nowait(None)

    async def receive(self) -> AsyncIterator[Any]:
        """Yield what the script says."""
        events = self._events
        while (event := await events.get()) is not None:
            yield event

    async def send(self, content: Any) -> None:
        """Answer with the next reply."""
        self._number += 1
        for event in _events(next(self._replies, AFTERWARDS), str(self._number)):
            self._events.put_nowait(event)


def _events(reply: str | Call, name: str) -> Iterable[Any]:
    yield BidiResponseStartEvent(name)
    if isinstance(reply, Call):
        yield BidiToolUseBlocksEvent([{"toolUseId": reply.id or name, "name": reply.tool, "input": reply.input}])
    else:
        yield BidiTextStartEvent(name)
        yield BidiTextDeltaEvent(str(reply), name)
        if isinstance(reply, Unfinished):
            return
        yield BidiTextStopEvent(name)
    yield BidiResponseStopEvent(name)
