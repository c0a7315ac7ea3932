"""The story that `treering demo` plays: a coding agent that fixes a rounding error in a shop."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec

import treering


class Step(msgspec.Struct, frozen=True):
    """A tool call of the model, and its result."""

    say: str
    tool: str
    arguments: dict[str, Any]
    result: str = ""
    output: str = ""
    """For a tool that never ends: the line that it repeats."""

    def call(self, name: str) -> treering.Draft:
        """The model's message; `name` is the id of the call."""
        use = {"type": "tool_use", "id": name, "name": self.tool, "input": self.arguments}
        return treering.assistant([{"type": "text", "text": self.say}, use])

    def answer(self, name: str, text: str | None = None) -> treering.Draft:
        """The tool's message."""
        return treering.tool(self.result if text is None else text, call=name, name=self.tool)


class Turn(msgspec.Struct, frozen=True):
    """A user's question, and all messages up to the answer."""

    user: str
    steps: tuple[Step, ...]
    answer: str = ""
    """Empty: the turn never ends."""
    state: dict[str, Any] = {}
    """The agent's state at its end."""
    label: str | None = None


class OtherIdea(msgspec.Struct, frozen=True):
    """A second branch."""

    name: str
    summary: str
    user: str
    answer: str


class Story(msgspec.Struct, frozen=True):
    """The whole session."""

    title: str
    project: str
    turns: tuple[Turn, ...]
    branch: OtherIdea


def load_story() -> Story:
    """Return the story that is part of this package."""
    return msgspec.json.decode(files(__package__).joinpath("session.json").read_bytes(), type=Story)
