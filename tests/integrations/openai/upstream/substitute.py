"""A pytest plugin for the own tests of the OpenAI Agents SDK: they get our class under the names of theirs.

Tests that take hold of connections, tables or private parts of a session in SQLite are left out, by what their source
names: some of them would wait for ever for what nobody calls.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from stand_ins import GROUND, put_in_place  # type: ignore[import-not-found]  # a plugin of the same run

from treering.integrations.openai import TreeringSession


class SQLiteSession(TreeringSession):
    """Ours in place of the one in SQLite: the store is named by the file; in memory nobody else has it."""

    def __init__(
        self, session_id: str, db_path: str | Path = ":memory:", *_: str, session_settings: Any = None, **__: str
    ) -> None:
        name = None if str(db_path) == ":memory:" else str(db_path)
        super().__init__(session_id, GROUND.store(name), session_settings=session_settings)


class AsyncSQLiteSession(SQLiteSession):
    """Ours in place of the one whose `close` is awaited."""

    async def close(self) -> None:  # type: ignore[override]
        """Close it."""
        super().close()


class AdvancedSQLiteSession(SQLiteSession):
    """Ours in place of the one with branches and usage."""

    def __init__(
        self, *, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None, **_: Any
    ) -> None:
        super().__init__(session_id, db_path, session_settings=session_settings)


INSIDE = re.compile(
    r"sqlite3|\bsession\w*\._[a-z]|_process\b|\bprocesses\b|monkeypatch|patch\.object|\.db_path\b|_insert_items|Event\(|_table\b|legacy|concurrently|capture|stale|sqlalchemy_history"
)
OURS = {
    "agents.memory.sqlite_session": SQLiteSession,
    "agents.extensions.memory.async_sqlite_session": AsyncSQLiteSession,
    "agents.extensions.memory.advanced_sqlite_session": AdvancedSQLiteSession,
}


def pytest_configure() -> None:
    """Put our classes in place of theirs, wherever the SDK has them."""
    put_in_place(OURS, spare="agents.extensions.memory.encrypt_session")  # it asks whether a session is in SQLite


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite."""
    inside = [
        item for item in items if isinstance(item, pytest.Function) and INSIDE.search(inspect.getsource(item.obj))
    ]
    config.hook.pytest_deselected(items=inside)
    items[:] = [item for item in items if item not in inside]
