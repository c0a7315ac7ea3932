"""OpenAI Agents: its sessions in SQLite, and ours. They keep items and no state, so a checkpoint costs them nothing."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession

import treering
from benchmarks.contestants.contestant import Contestant
from treering.integrations.openai import TreeringSession

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from benchmarks.workload import Message

ITEMS_AT_ONCE = 1_000


class Items(Contestant):
    """`SQLiteSession`."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)

    def _session(self, session: str) -> SQLiteSession:
        return SQLiteSession(session, f"{self.place}/openai.sqlite")

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(call)

    def write(self, session: str, messages: Sequence[Message]) -> None:
        opened, items = self._session(session), [_item(message) for message in messages]
        for start in range(0, len(items), ITEMS_AT_ONCE):
            self._run(opened.add_items(items[start : start + ITEMS_AT_ONCE]))
        opened.close()

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def page(self, session: str, count: int) -> Sequence[str]:
        opened = self._session(session)
        items = self._run(opened.get_items(limit=count))
        opened.close()
        return list(map(_text, items))

    def begin(self, session: str) -> None:
        self.open = self._session(session)

    def append(self, text: str) -> None:
        self._run(self.open.add_items([{"role": "user", "content": text}]))

    def turn(self, texts: Sequence[str], step: int) -> None:  # noqa: ARG002  # as the docstring says
        """Add two items; there is no state to keep."""
        pair = zip(("user", "assistant"), texts, strict=True)
        self._run(self.open.add_items([{"role": role, "content": text} for role, text in pair]))

    def end(self) -> None:
        self.open.close()


class Branching(Items):
    """`AdvancedSQLiteSession`, which copies what a branch shares with the one it leaves."""

    def _session(self, session: str) -> AdvancedSQLiteSession:
        return AdvancedSQLiteSession(
            session_id=session, db_path=f"{self.place}/openai-advanced.sqlite", create_tables=True
        )

    def write(self, session: str, messages: Sequence[Message]) -> None:
        super().write(session, messages)
        opened = self._session(session)
        turns = sum(number % 20 == 0 for number in range(len(messages) // 2))
        if turns > 1:
            self._run(opened.create_branch_from_turn(turns // 2, "other"))
            self._run(opened.add_items([{"role": "user", "content": "another way"}]))
            self._run(opened.switch_to_branch("main"))
        opened.close()

    def switch(self, session: str) -> Sequence[str]:
        opened = self._session(session)
        self._run(opened.switch_to_branch("other"))
        items = self._run(opened.get_items(limit=self.window))
        opened.close()
        return list(map(_text, items))


class Treering(Items):
    """`TreeringSession`."""

    def _session(self, session: str) -> Any:
        return TreeringSession(session, treering.open(f"{self.place}/treering-openai"))


def _item(message: Message) -> Any:
    role = "assistant" if message["role"] == "assistant" else "user"
    return {"role": role, "content": message["content"]}


def _text(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
