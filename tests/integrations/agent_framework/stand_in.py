"""A chat client that says what it was told to say, in place of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message


class StandIn(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Gives one answer after the other, and keeps what it was shown."""

    def __init__(self, *answers: Content) -> None:
        super().__init__()
        self.answers = list(answers)
        self.shown: list[list[str]] = []
        """By call: the text of each message."""

    def _inner_get_response(  # this one does not stream
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse]:
        self.shown.append([message.text for message in messages])

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [self.answers.pop(0)])])

        return answer()


def said(text: str) -> Content:
    """What a model says."""
    return Content.from_text(text)


def called(name: str, **arguments: Any) -> Content:
    """A call of a tool."""
    return Content.from_function_call(f"call-{name}", name, arguments=arguments)
