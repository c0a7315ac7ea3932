"""Models that say what a script tells them: real Strands agents, without a network or chance.

FakeModel(["hello", Calls(Call("add", {"a": 1})), "3"])      # one reply for each request, then "done"
FakeModel(lambda messages: f"you said {len(messages)} things")  # or a function of what the model is shown
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from strands.models.model import Model
from strands.types.content import Message, Messages
from strands.types.streaming import StreamEvent


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    tool: str
    input: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    """Made up from the number of the request if it is left out."""


class Calls:
    """A reply that calls tools; `text` comes before them."""

    def __init__(self, *calls: Call, text: str = "") -> None:
        self.calls = calls
        self.text = text


class Redacted(NamedTuple):
    """A reply of a guardrail: what the user said is to be replaced by `user`, and `text` is the answer."""

    user: str
    text: str = "blocked"


Reply = str | Calls | Redacted | BaseException
Script = Iterable[Reply] | Callable[[Messages], Reply]

AFTERWARDS = "done"  # what is said when the script has come to its end


class FakeModel(Model):
    """A model whose replies are a script.

    Attributes:
        shown: The messages that each request showed to the model; their blocks are not copied.
        prompts: The system prompt of each request.
    """

    def __init__(self, script: Script = (), *, stateful: bool = False) -> None:
        self._script = script if callable(script) else _lines(script)
        self._stateful = stateful
        self.shown: list[Messages] = []
        self.prompts: list[str | None] = []

    @property
    def stateful(self) -> bool:
        """As told."""
        return self._stateful

    def update_config(self, **model_config: Any) -> None:
        """Nothing can be configured."""

    def get_config(self) -> dict[str, Any]:
        """Name the model."""
        return {"model_id": "fake", "context_window_limit": 200_000}

    def structured_output(self, *args: Any, **kwargs: Any) -> NoReturn:
        """A script says text and calls only."""
        raise AssertionError("no script asks for structured output")

    async def stream(
        self, messages: Messages, tool_specs: Any = None, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncIterator[StreamEvent]:
        """Say the next reply."""
        self.shown.append([{**message} for message in messages])
        self.prompts.append(system_prompt)
        reply = self._script(messages)
        if isinstance(reply, BaseException):
            raise reply
        for event in _events(reply, len(self.shown)):
            yield event


def _lines(replies: Iterable[Reply]) -> Callable[[Messages], Reply]:
    left = iter(replies)
    return lambda _: next(left, AFTERWARDS)


def _events(reply: str | Calls | Redacted, number: int) -> Iterable[StreamEvent]:
    if isinstance(reply, Redacted):
        yield {"redactContent": {"redactUserContentMessage": reply.user}}
    yield {"messageStart": {"role": "assistant"}}
    text = reply if isinstance(reply, str) else reply.text
    if text:
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
    calls = reply.calls if isinstance(reply, Calls) else ()
    for place, call in enumerate(calls):
        yield {
            "contentBlockStart": {
                "start": {"toolUse": {"name": call.tool, "toolUseId": call.id or f"call-{number}-{place}"}}
            }
        }
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call.input)}}}}
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}  # type: ignore[typeddict-item]


def text_of(message: Message) -> str:
    """All the text of a message."""
    return "".join(block.get("text", "") for block in message["content"])
