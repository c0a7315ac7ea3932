"""A plugin for the test run of LangGraph's own tests: every saver and every store they ask for is one of ours."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import treering
from treering.integrations.langgraph import TreeringSaver, TreeringStore

import_module("absent")  # a file beside this one, before what needs it
theirs: Any = import_module("tests.conftest_checkpointer")  # LangGraph's tests, not ours
their_stores: Any = import_module("tests.conftest_store")

TAKEN = {"sync_checkpointer", "async_checkpointer", "sync_store", "async_store"}
"""Fixtures of LangGraph's tests."""

made = 0


def _saver(target: str, serde: Any = None) -> TreeringSaver:
    """A saver on a new store; its serializer makes objects of any type, as that of LangGraph's own savers does."""
    global made  # noqa: PLW0603  # of one process
    made += 1
    return TreeringSaver(treering.open(target), serde=serde if serde is not None else JsonPlusSerializer())


@contextmanager
def memory() -> Iterator[TreeringSaver]:
    """In memory."""
    with _saver(f"memory://{os.urandom(8).hex()}") as saver:
        theirs._apply_strict_msgpack(saver)
        yield saver


@contextmanager
def disk() -> Iterator[TreeringSaver]:
    """On disk."""
    with tempfile.TemporaryDirectory() as folder, _saver(folder) as saver:
        theirs._apply_strict_msgpack(saver)
        yield saver


@contextmanager
def encrypted() -> Iterator[TreeringSaver]:
    """On disk, with a serializer that encrypts."""
    strict = {"serde": theirs._strict_msgpack_serde()} if theirs.STRICT_MSGPACK else {}
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456", **strict)
    with tempfile.TemporaryDirectory() as folder, _saver(folder, serde) as saver:
        yield saver


@asynccontextmanager
async def awaited() -> AsyncIterator[TreeringSaver]:
    """On disk, awaited."""
    with disk() as saver:
        yield saver


@contextmanager
def store() -> Iterator[TreeringStore]:
    """A store in memory, whose serializer makes objects of any type, as LangGraph's own store keeps them."""
    global made  # noqa: PLW0603  # of one process
    made += 1
    with TreeringStore(treering.open(f"memory://{os.urandom(8).hex()}"), serde=JsonPlusSerializer()) as opened:
        yield opened


their_stores._store_memory = store
theirs._checkpointer_memory = memory
theirs._checkpointer_sqlite = disk
theirs._checkpointer_sqlite_aes = encrypted
theirs._checkpointer_sqlite_aio = awaited


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write the results."""
    parser.addoption("--treering-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only the tests that take a saver or a store."""
    ours = [item for item in items if TAKEN & set(item.fixturenames)]  # type: ignore[attr-defined]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(ours)])
    items[:] = ours


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
