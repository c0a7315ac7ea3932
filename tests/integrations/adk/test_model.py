"""Random calls to a service of ours, by several processes, and to ADK's own in memory: both answer alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions._rewind_utils import rewind_session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types
from tests.sampling import few
from tests.session.backends import backend_of

from treering.integrations.adk import TreeringSessionService

Where = dict[str, Any]
CALLS, SEEDS = 50, few(4, whole=12)
APPS, USERS, NAMES = ["shop", "desk"], ["ann", "bob"], ["one", "two", "three"]
KEYS = ["app:a", "app:b", "user:a", "user:b", "a", "b", "temp:a"]


class Pair:
    """The same calls to both; of ours one of several processes is asked."""

    def __init__(self, rng: random.Random, ours: list[TreeringSessionService]) -> None:
        self.rng, self.ours, self.theirs = rng, ours, InMemorySessionService()
        self.time = 2e9
        """Of the next event: later than any real one, so that lists have one order."""

    async def same(self, call: Callable[[BaseSessionService], Awaitable[Any]]) -> None:
        """Call both, and compare what they return or raise."""
        found = [await told(call, each) for each in (self.rng.choice(self.ours), self.theirs)]
        assert found[0] == found[1]

    def state(self) -> dict[str, Any]:
        """Some keys and values."""
        chosen = self.rng.sample(KEYS, self.rng.randrange(4))
        return {key: self.rng.choice([None, True, 1, "text", [1, {"x": None}]]) for key in chosen}

    async def act(self) -> None:
        """One random call."""
        rng, state = self.rng, self.state()
        where: Where = {"app_name": rng.choice(APPS), "user_id": rng.choice(USERS)}
        here: Where = {**where, "session_id": rng.choice(NAMES)}
        recent, after = rng.choice([None, 0, 2]), rng.choice([None, None, self.time - 3])
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        match rng.choice("ccaaaaaaargdlu"):
            case "c":
                await self.same(lambda each: each.create_session(**here, state=dict(state)))
            case "a":
                await self.same(self.append(here, state))
            case "r":
                back = f"i{rng.randrange(int(self.time - 2e9) + 1)}"
                await self.same(lambda each: rewind(each, here, back))
            case "g":
                await self.same(lambda each: each.get_session(**here, config=config))
            case "d" if rng.random() < 0.4:
                await self.same(lambda each: each.delete_session(**here))
            case "u":
                await self.same(lambda each: each.get_user_state(**where))
            case _:
                user = rng.choice([None, where["user_id"]])
                await self.same(lambda each: each.list_sessions(app_name=where["app_name"], user_id=user))

    def append(self, here: Where, state: dict[str, Any]) -> Callable[[BaseSessionService], Awaitable[Any]]:
        """Append an event to a session, if it is there."""
        self.time += 1
        number = int(self.time - 2e9)
        content = types.Content(role="user", parts=[types.Part(text=f"text {number}")])

        async def append(each: BaseSessionService) -> Any:
            session = await each.get_session(**here)
            if session is None:
                return None
            event = Event(
                id=f"e{number}", author="user", invocation_id=f"i{number}", timestamp=self.time, content=content,
                actions=EventActions(state_delta=dict(state)), partial=number % 9 == 0,
            )  # fmt: skip
            await each.append_event(session, event)
            return session

        return append

    async def compare(self) -> None:
        """Everything that can be asked."""
        for app in APPS:
            await self.same(lambda each, app=app: each.list_sessions(app_name=app))  # type: ignore[misc]
            for user in USERS:
                for name in NAMES:
                    here: Where = {"app_name": app, "user_id": user, "session_id": name}
                    await self.same(lambda each, here=here: each.get_session(**here))  # type: ignore[misc]


async def rewind(service: BaseSessionService, here: Where, invocation: str) -> Any:
    """Take a session back to before an invocation; the new event is told without what is random of it."""
    session = await service.get_session(**here)
    if session is None:
        return None
    await rewind_session(session_service=service, session=session, rewind_before_invocation_id=invocation)
    return len(session.events)


async def told(call: Callable[[BaseSessionService], Awaitable[Any]], service: BaseSessionService) -> Any:
    """What a call returns without times and ids that nobody chose, or that it raised."""
    try:
        found = await call(service)
    except (AlreadyExistsError, ValueError) as error:
        return type(error)
    return plain(found.model_dump()) if hasattr(found, "model_dump") else found


def plain(value: Any) -> Any:
    """A dump without what differs between two runs, in an order of its own where that is by real times."""
    if isinstance(value, dict):
        if "sessions" in value:
            return sorted((plain(each) for each in value["sessions"]), key=repr)
        left = {name: plain(each) for name, each in value.items()}
        if str(left.get("invocation_id")).startswith("e-"):  # a rewind
            left |= {"id": "", "invocation_id": "", "timestamp": 0}
        if left.get("last_update_time", 2e9) < 2e9:  # it was made, or taken back, just now
            left["last_update_time"] = 0
        return left
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_both_answer_alike(tmp_path: Any, seed: int, processes: int) -> None:
    """One process, or several that take turns; and what is stored is sound."""
    backend = backend_of("memory" if seed % 2 else "local", tmp_path / "store")
    ours = [TreeringSessionService(backend.store()) for _ in range(processes)]
    pair = Pair(random.Random(seed), ours)
    for _ in range(CALLS):
        await pair.act()
    await pair.compare()
    for info in backend.store().each_session(below=True):
        store = backend.store()
        for name in info.namespace:
            store = store.namespace(name)
        assert store.verify(info.id) == []
