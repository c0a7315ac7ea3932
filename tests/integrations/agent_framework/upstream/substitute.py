"""A pytest plugin for the own tests of Microsoft Agent Framework: they get our classes under the names of theirs.

Tests that look into files, that are about how their content is encoded, or about what the framework marks its classes
with, are left out, by what their source names: one of them would wait for ever for a file.

A storage of ours takes objects of registered classes only. Here it is given all classes of the modules of tests that
could be registered, as their authors would.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stand_ins import GROUND, put_in_place  # type: ignore[import-not-found]  # a plugin of the same run

from treering.errors import UsageError
from treering.integrations.agent_framework import (
    TreeringCheckpointStorage,
    TreeringHistoryProvider,
    TreeringSessionStore,
)
from treering.integrations.agent_framework.registry import Registry


def of_tests() -> Iterator[type[Any]]:
    """Classes in modules of tests whose objects can be stored."""
    for name, module in [*sys.modules.items()]:
        for each in vars(module).values() if name.startswith("tests.") else ():
            if isinstance(each, type) and each.__module__ == name:
                try:
                    Registry([each])
                except UsageError:
                    continue
                yield each


class InMemoryCheckpointStorage(TreeringCheckpointStorage):
    """Ours in place of the one in memory: nobody else has its store."""

    def __init__(self) -> None:
        super().__init__(GROUND.store(), types=[*of_tests()])


class FileCheckpointStorage(TreeringCheckpointStorage):
    """Ours in place of the one with pickles: the store is named by the folder."""

    def __init__(self, storage_path: str | Path, *, allowed_checkpoint_types: Any = None) -> None:
        del allowed_checkpoint_types  # the names of classes that `of_tests` has found
        super().__init__(GROUND.store(str(storage_path)), types=[*of_tests()])


class SessionStore(TreeringSessionStore):
    """Ours in place of the one in memory."""

    def __init__(self) -> None:
        super().__init__(GROUND.store(), on_conflict="replace")


class FileSessionStore(TreeringSessionStore):
    """Ours in place of the one with files."""

    MAX_SESSION_ID_LENGTH = 128  # named where tests are collected; ours takes longer ones

    def __init__(self, storage_path: str | Path, *, serialization_format: str = "json") -> None:
        del serialization_format
        super().__init__(GROUND.store(str(storage_path)), on_conflict="replace")


class FileHistoryProvider(TreeringHistoryProvider):
    """Ours in place of the one with JSON lines."""

    def __init__(self, storage_path: str | Path, *, skip_excluded: bool = False, **options: Any) -> None:
        for name in ("serialization_format", "dumps", "loads"):
            options.pop(name, None)
        super().__init__(GROUND.store(str(storage_path)), skip_excluded=skip_excluded, **options)


FILES = (
    r"quarantine|glob\(|iterdir|_session_file|(write|read)_(text|bytes)|os\.listdir|\.exists\(|\.storage_path|\bopen\("
)
CODECS = r"MAX_SESSION_ID_LENGTH|serialization_format|provider\.dumps|dumps=|loads="
MARKS = r"mark_feature_used|feature_stage|Experimental"
SKIPPED = "test_pickleable_not_deepcopyable_roundtrips[memory]"
"""Skips itself, whatever is in memory: what is stored there need not be pickled."""
INSIDE = re.compile(f"{FILES}|{CODECS}|{MARKS}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about files, about how text is made of messages, and about marks of the framework's classes."""
    inside = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and (INSIDE.search(inspect.getsource(item.obj)) or item.nodeid.endswith(SKIPPED))
    ]
    config.hook.pytest_deselected(items=inside)
    items[:] = [item for item in items if item not in inside]


def pytest_configure() -> None:
    """Put our classes in place of theirs, wherever the framework has them."""
    for checkpoints in (InMemoryCheckpointStorage, FileCheckpointStorage):
        put_in_place({"agent_framework._workflows._checkpoint": checkpoints})
    for sessions in (SessionStore, FileSessionStore, FileHistoryProvider):
        put_in_place({"agent_framework._sessions": sessions})
