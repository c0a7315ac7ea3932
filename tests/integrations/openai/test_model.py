"""Random calls to a session of ours, by several processes, and to the SDK's own with branches: both answer alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import RunContextWrapper
from agents.extensions.memory import AdvancedSQLiteSession
from agents.usage import Usage
from tests.sampling import few
from tests.session.backends import backend_of

from treering.integrations.openai import TreeringSession

CALLS, SEEDS = 60, few(4, whole=12)
NAMES = ["red", "green", "blue"]


class Pair:
    """The same calls to both; of ours one of several handles is asked, where each is on the same branch."""

    def __init__(self, rng: random.Random, ours: list[TreeringSession], theirs: AdvancedSQLiteSession) -> None:
        self.rng, self.ours, self.theirs = rng, ours, theirs
        self.number = 0

    async def same(self, call: Callable[[Any], Awaitable[Any]]) -> None:
        """Call both, and compare what they return or raise."""
        found = [await told(call, each) for each in (self.rng.choice(self.ours), self.theirs)]
        assert found[0] == found[1]

    def new(self) -> list[dict[str, Any]]:
        """Items of some kinds."""
        self.number += 1
        text = f"text {self.number}"
        kinds: list[dict[str, Any]] = [
            {"role": "user", "content": text},
            {"role": "user", "content": [{"type": "input_text", "text": text}]},
            {"role": "assistant", "content": text},
            {"type": "function_call", "call_id": text, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": text, "output": text},
            {"type": "mcp_call", "name": "find", "server_label": "web", "id": text},
        ]
        return [self.rng.choice(kinds) for _ in range(self.rng.randrange(1, 4))]

    async def act(self) -> None:
        """One random call."""
        rng, new = self.rng, self.new()
        turn, name, limit = rng.randrange(1, 6), rng.choice(NAMES), rng.choice([None, 0, 2, -1])
        other = rng.choice(["main", name])
        match rng.choice("aaaaaaaappppbswgtcu"):
            case "a":
                await self.same(lambda each: each.add_items(new))
            case "p":
                await self.same(lambda each: each.pop_item())
            case "b" if len(self.ours) == 1:
                await self.same(lambda each: each.create_branch_from_turn(turn, name))
            case "s" if len(self.ours) == 1:
                await self.same(lambda each: each.switch_to_branch(other))
            case "w" if len(self.ours) == 1:
                await self.same(lambda each: each.delete_branch(name, force=True))
            case "c" if rng.random() < 0.3 and len(self.ours) > 1:
                await self.same(lambda each: each.clear_session())
            case "u":
                used = used_by(rng.randrange(100))
                await self.same(lambda each: each.store_run_usage(used))
            case _:
                await self.same(lambda each: each.get_items(limit))

    async def compare(self) -> None:
        """Everything that can be asked."""
        await self.same(lambda each: each.get_items())
        await self.same(lambda each: each.get_conversation_by_turns())
        await self.same(lambda each: each.get_tool_usage())
        await self.same(lambda each: each.get_turn_usage())
        await self.same(lambda each: rows(each.get_conversation_turns()))
        await self.same(lambda each: rows(each.find_turns_by_content("TEXT 1")))
        await self.same(lambda each: rows(each.list_branches(), by="branch_id"))


async def told(call: Callable[[Any], Awaitable[Any]], session: Any) -> Any:
    """What a call returns, or that it raised."""
    try:
        return await call(session)
    except ValueError:
        return ValueError


async def rows(call: Awaitable[list[dict[str, Any]]], *, by: str | None = None) -> list[dict[str, Any]]:
    """Rows without their times."""
    found = [
        {name: value for name, value in row.items() if name not in ("timestamp", "created_at")} for row in await call
    ]
    return sorted(found, key=lambda row: row[by]) if by else found


def used_by(tokens: int) -> Any:
    """What a run is asked for what it cost."""

    class Ran:
        context_wrapper = RunContextWrapper(
            context=None, usage=Usage(requests=1, input_tokens=tokens, total_tokens=tokens)
        )

    return Ran()


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_both_answer_alike(tmp_path: Any, seed: int, processes: int) -> None:
    """One process with branches, or several on one branch."""
    backend = backend_of("memory" if seed % 2 else "local", tmp_path / "store")
    ours = [TreeringSession("talk", backend.store()) for _ in range(processes)]
    theirs = AdvancedSQLiteSession(session_id="talk", create_tables=True)
    pair = Pair(random.Random(seed), ours, theirs)
    try:
        for _ in range(CALLS):
            await pair.act()
            await pair.compare()
        assert backend.store().verify("talk") == []
    finally:
        theirs.close()
