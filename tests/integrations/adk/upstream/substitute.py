"""A pytest plugin for ADK's own tests: they get our services under the names of those in memory.

Tests that look into the dictionaries of a service in memory are left out, by what their source names, and so are those
of other services.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from google.adk.sessions.session import Session
from stand_ins import GROUND, put_in_place  # type: ignore[import-not-found]  # a plugin of the same run

from treering.integrations.adk import TreeringArtifactService, TreeringMemoryService, TreeringSessionService

T = TypeVar("T")


class InMemorySessionService(TreeringSessionService):
    """Ours in place of the one in memory, with calls that are not awaited: each has a store of its own."""

    def __init__(self) -> None:
        super().__init__(GROUND.store())

    def create_session_sync(self, **named: Any) -> Session:
        """Create a session."""
        return _done(self.create_session(**named))

    def get_session_sync(self, **named: Any) -> Session | None:
        """Return a session."""
        return _done(self.get_session(**named))


class InMemoryArtifactService(TreeringArtifactService):
    """Ours in place of the one in memory, likewise."""

    def __init__(self) -> None:
        super().__init__(GROUND.store())


class InMemoryMemoryService(TreeringMemoryService):
    """Ours in place of the one in memory, likewise."""

    def __init__(self) -> None:
        super().__init__(GROUND.store(), index=f"{GROUND.root}/indexes")


def _done(call: Coroutine[Any, Any, T]) -> T:
    """Run what is awaited elsewhere, in a loop of its own."""
    with ThreadPoolExecutor(1) as worker:
        return worker.submit(asyncio.run, call).result()


OTHERS = re.compile(r"\[.*(DATABASE|SQLITE|GCS|FILE|database|sqlite|redis)|::test_(gcs|file)_")
"""Names of tests that stand on other services."""
INSIDE = re.compile(
    r"service\.(sessions|artifacts|user_state|app_state|_\w+)\b|list_sessions_sync|delete_session_sync"
    r"|DatabaseSessionService|SqliteSessionService|VertexAiSessionService|SessionServiceType\.|prepare_tables"
)
"""Sources of tests that do, or look inside a service."""
OURS = {
    "google.adk.sessions.in_memory_session_service": InMemorySessionService,
    "google.adk.artifacts.in_memory_artifact_service": InMemoryArtifactService,
    "google.adk.memory.in_memory_memory_service": InMemoryMemoryService,
}


def pytest_configure() -> None:
    """Put our classes in place of theirs, wherever ADK has them."""
    put_in_place(OURS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about other services, and what looks inside."""
    gone = [item for item in items if OTHERS.search(item.nodeid) or _looks_inside(item)]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]


def _looks_inside(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and bool(INSIDE.search(inspect.getsource(item.obj)))
