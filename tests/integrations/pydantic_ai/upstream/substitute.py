"""A pytest plugin for the own tests of Pydantic AI's harness: they get our classes under the names of theirs.

Tests that look into files, tables or attributes of its stores are left out, by what their source names.
"""

from __future__ import annotations

import inspect
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from stand_ins import GROUND, put_in_place  # type: ignore[import-not-found]  # a plugin of the same run

from treering.integrations.pydantic_ai import TreeringMediaStore, TreeringStepStore


class InMemoryStepStore(TreeringStepStore):
    """Ours in place of the one in memory: nobody else has its store."""

    def __init__(self, *, max_snapshots_per_run: int | None = None) -> None:
        super().__init__(GROUND.store(), max_snapshots_per_run=max_snapshots_per_run)


class FileStepStore(TreeringStepStore):
    """Ours in place of the one with files: the store is named by the folder."""

    def __init__(self, root: str | Path, *, max_snapshots_per_run: int | None = None, **media: Any) -> None:
        del media  # large parts are blobs of the session
        super().__init__(GROUND.store(str(root)), max_snapshots_per_run=max_snapshots_per_run)


class SqliteStepStore(TreeringStepStore):
    """Ours in place of the one with SQLite: the store is named by the file, or by the connection."""

    def __init__(
        self,
        *,
        database: str | Path | None = None,
        connection: sqlite3.Connection | None = None,
        max_snapshots_per_run: int | None = None,
        **media: Any,
    ) -> None:
        del media
        if (database is None) == (connection is None):
            raise ValueError("provide exactly one of `database=` or `connection=`")
        named = str(database) if connection is None else f"connection {id(connection)}"
        super().__init__(GROUND.store(named), max_snapshots_per_run=max_snapshots_per_run)


class DiskMediaStore(TreeringMediaStore):
    """Ours in place of the one with files."""

    def __init__(self, directory: str | Path, *, public_url: Any = None) -> None:
        super().__init__(GROUND.store(str(directory)), public_url=public_url)


class SqliteMediaStore(TreeringMediaStore):
    """Ours in place of the one with SQLite."""

    def __init__(
        self,
        *,
        database: str | Path | None = None,
        connection: sqlite3.Connection | None = None,
        public_url: Any = None,
    ) -> None:
        if (database is None) == (connection is None):
            raise ValueError("provide exactly one of `database=` or `connection=`")
        named = str(database) if connection is None else f"connection {id(connection)}"
        super().__init__(GROUND.store(named), public_url=public_url)


INSIDE = re.compile(
    r"glob\(|iterdir|(write|read)_(text|bytes)|\.exists\(\)|\bopen\(|sqlite3\.|\.execute\(|_sync_\w+|store\._\w+"
    r"|key_strategy|table=|S3MediaStore"
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about files and tables."""
    inside = [
        item for item in items if isinstance(item, pytest.Function) and INSIDE.search(inspect.getsource(item.obj))
    ]
    config.hook.pytest_deselected(items=inside)
    items[:] = [item for item in items if item not in inside]


def pytest_configure() -> None:
    """Put our classes in place of theirs, wherever the harness has them."""
    for steps in (InMemoryStepStore, FileStepStore, SqliteStepStore):
        put_in_place({"pydantic_ai_harness.step_persistence._store": steps})
    for media in (DiskMediaStore, SqliteMediaStore):
        put_in_place({"pydantic_ai_harness.media._store": media})
