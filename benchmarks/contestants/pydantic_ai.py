"""Pydantic AI: the step stores of its harness in files and in SQLite, and ours.

A snapshot holds the whole conversation each time. The harness's own files are not synced.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, FileStepStore, SqliteStepStore

import treering
from benchmarks import workload
from benchmarks.contestants.contestant import Contestant
from treering.integrations.pydantic_ai import TreeringStepStore

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

RUN = "run"


class Files(Contestant):
    """`FileStepStore`."""

    each_turn_up_to = 200
    """Longer sessions are prepared with one snapshot; all of them would take gigabytes."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)

    def _store(self, session: str) -> Any:
        return FileStepStore(f"{self.place}/pydantic-ai/{session}")

    def write(self, session: str, messages: Sequence[workload.Message]) -> None:
        self.begin(session)
        self.said = []
        shown = [_message(message["role"], workload.text(message)) for message in messages]
        each = 2 if len(shown) <= self.each_turn_up_to else len(shown)
        for start in range(0, len(shown), each):
            self.said += shown[start : start + each]
            self._save(start // 2)
        self.end()

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def page(self, session: str, count: int) -> Sequence[str]:
        return [_text(message) for message in self._read(session)[-count:]]

    def travel(self, session: str, step: int) -> Sequence[str]:
        every = self._run(self._store(session).list_snapshots(run_id=RUN))
        found = next(each for each in every if each.step_index == step)
        return [_text(message) for message in found.messages[-self.window :]]

    def begin(self, session: str) -> None:
        self.open = self._store(session)
        self.said = self._read(session)

    def append(self, text: str) -> None:
        self.said.append(_message("user", text))
        self._save(0)

    def turn(self, texts: Sequence[str], step: int) -> None:
        self.said += [_message(role, text) for role, text in zip(("user", "assistant"), texts, strict=True)]
        self._save(step)

    def end(self) -> None:
        """Nothing is kept open."""

    def _save(self, step: int) -> None:
        self._run(self.open.save_snapshot(ContinuableSnapshot(run_id=RUN, step_index=step, messages=list(self.said))))

    def _read(self, session: str) -> list[ModelMessage]:
        found = self._run(self._store(session).latest_snapshot(run_id=RUN))
        return [] if found is None else list(found.messages)

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(call)


class Sqlite(Files):
    """`SqliteStepStore`, which stores each message once."""

    each_turn_up_to = 1_000

    def _store(self, session: str) -> Any:
        return SqliteStepStore(database=f"{self.place}/pydantic-ai-{session}.db")


class Treering(Files):
    """`TreeringStepStore`."""

    each_turn_up_to = 1_000

    def _store(self, session: str) -> Any:
        return TreeringStepStore(treering.open(f"{self.place}/treering-pydantic-ai"), session)

    def end(self) -> None:
        self.open.close()


def _message(role: str, text: str) -> ModelMessage:
    if role == "assistant":
        return ModelResponse(parts=[TextPart(text)])
    return ModelRequest(parts=[UserPromptPart(text)])


def _text(message: ModelMessage) -> str:
    (part,) = message.parts
    return str(part.content)  # type: ignore[union-attr]  # of the two kinds above
