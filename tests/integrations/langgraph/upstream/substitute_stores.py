"""A plugin for the test run of the tests of LangGraph's own stores: every store that they make is one of ours.

Tests with embeddings, which our store refuses, and tests that look inside one of LangGraph's stores are left out.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

import treering
from treering.integrations.langgraph import TreeringStore

INSIDE = {
    "test_abatch_uses_single_pool_checkout", "test_escape_glob_literal", "test_escape_like_literal",
    "test_list_namespaces_prefix_uses_indexable_condition", "test_namespace_match_pattern", "test_no_running_loop",
    "test_nonnull_migrations", "test_omit_expired_disabled_preserves_expired_rows",
    "test_omit_expired_filters_read_paths", "test_omit_expired_refresh_ttl_only_refreshes_live_rows",
    "test_omit_expired_search_pagination",
}  # fmt: skip
"""Tests of a pool of connections, of SQL or with it, of migrations, and of a store that only one event loop may use."""
OTHERWISE = {
    "test_filter_keys_with_hyphens_and_digits",  # SQLite's store alone takes a dot in a filter for a path
    "test_sql_injection_vulnerability",  # and refuses fields that SQL might misunderstand
    "test_ttl_override_default",  # and puts expiry off only if that was configured
}
"""Tests of what LangGraph's own stores do in different ways."""

made = 0
folders = tempfile.TemporaryDirectory()


def _target(name: str = "") -> str:
    """A new place in memory, or a folder for the database of a file."""
    global made  # noqa: PLW0603  # of one process
    made += 1
    return os.path.join(folders.name, os.path.basename(name)) if "/" in name else f"memory://{os.urandom(8).hex()}"


class Ours(TreeringStore):
    """Made as LangGraph's stores are."""

    MIGRATIONS = ()

    def __init__(self, target: str = "", **options: Any) -> None:
        super().__init__(treering.open(target or _target()), **_known(options))

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, **options: Any) -> Iterator[Ours]:
        """On disk for a file, else in memory."""
        with cls(_target(conn_string), **options) as store:
            yield store

    def setup(self) -> None:
        """Nothing to set up."""


class OursAwaited(TreeringStore):
    """The same for awaited stores."""

    MIGRATIONS = ()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, conn_string: str, **options: Any) -> AsyncIterator[OursAwaited]:
        """On disk for a file, else in memory."""
        async with cls(treering.open(_target(conn_string)), **_known(options)) as store:
            yield store

    async def setup(self) -> None:
        """Nothing to set up."""

    _cursor = MagicMock(return_value=AsyncMock())

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """As LangGraph's awaited stores name it."""
        return await self.asweep_ttl()

    async def start_ttl_sweeper(self) -> None:  # type: ignore[override]
        """Likewise."""
        super().start_ttl_sweeper()

    async def stop_ttl_sweeper(self) -> None:  # type: ignore[override]
        """Likewise."""
        super().stop_ttl_sweeper()


def _known(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("ttl", "index")}


import_module("absent")  # a file beside this one, before what needs it
THEIRS = [
    ("langgraph.store.memory", "InMemoryStore", Ours),
    ("langgraph.store.postgres", "PostgresStore", Ours),
    ("langgraph.store.postgres", "AsyncPostgresStore", OursAwaited),
    ("langgraph.store.sqlite", "SqliteStore", Ours),
    ("langgraph.store.sqlite", "AsyncSqliteStore", OursAwaited),
    ("langgraph.store.sqlite.aio", "AsyncSqliteStore", OursAwaited),
]
"""Where LangGraph's tests find the stores, and what they find there."""
for where, name, ours in THEIRS:
    setattr(import_module(where), name, ours)
psycopg: Any = import_module("psycopg")
psycopg.Connection.connect = MagicMock()
psycopg.AsyncConnection.connect = AsyncMock(return_value=AsyncMock())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write the results."""
    parser.addoption("--treering-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Leave out what is not about our store."""
    left = [item for item in items if not _is_out_of_reach(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
    items[:] = left
    for item in left:
        for database in {"clear_test_db", "conn"} & set(item.fixturenames):
            item.fixturenames.remove(database)


def _is_out_of_reach(item: Any) -> bool:
    return item.originalname in INSIDE | OTHERWISE or bool({"fake_embeddings", "vector_store"} & set(item.fixturenames))


results: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the outcome of each test."""
    if report.when == "call" or report.outcome != "passed":
        results[report.nodeid] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was found."""
    path = session.config.getoption("--treering-report")
    if path:
        Path(path).write_text(json.dumps({"made": made, "results": results}))


@pytest.fixture
def anyio_backend() -> str:
    """Awaited tests run on asyncio, which LangGraph needs."""
    return "asyncio"
