"""A plugin for the test run of LangGraph's own tests: every saver and every store they ask for is one of ours.

With a bucket, what they would have in memory is there, and tests of other savers are left out.
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

import pytest
import s3fs
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import treering
from treering.integrations.langgraph import TreeringSaver, TreeringStore

import_module("absent")  # a file beside this one, before what needs it
theirs: Any = import_module("tests.conftest_checkpointer")  # LangGraph's tests, not ours
their_stores: Any = import_module("tests.conftest_store")

TAKEN = {"sync_checkpointer", "async_checkpointer", "sync_store", "async_store"}
"""Fixtures of LangGraph's tests."""

COUNTS_IDS = "test_root_graph"
"""Expects the numbers that it lets `uuid4` count; each request to a bucket takes one of them."""

made = 0
filesystem: Any = None
bucket = ""


def _in_memory() -> treering.Store:
    """A new store in memory, or in the bucket."""
    name = os.urandom(8).hex()
    return treering.open(filesystem, path=f"{bucket}/{name}") if filesystem else treering.open(f"memory://{name}")


def _saver(opened: treering.Store, serde: Any = None) -> TreeringSaver:
    """A saver on a new store; its serializer makes objects of any type, as that of LangGraph's own savers does."""
    global made  # noqa: PLW0603  # of one process
    made += 1
    return TreeringSaver(opened, serde=serde if serde is not None else JsonPlusSerializer())


@contextmanager
def memory() -> Iterator[TreeringSaver]:
    """In memory, or in the bucket."""
    with _saver(_in_memory()) as saver:
        theirs._apply_strict_msgpack(saver)
        yield saver


@contextmanager
def disk() -> Iterator[TreeringSaver]:
    """On disk."""
    with tempfile.TemporaryDirectory() as folder, _saver(treering.open(folder)) as saver:
        theirs._apply_strict_msgpack(saver)
        yield saver


@contextmanager
def encrypted() -> Iterator[TreeringSaver]:
    """On disk, with a serializer that encrypts."""
    strict = {"serde": theirs._strict_msgpack_serde()} if theirs.STRICT_MSGPACK else {}
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"1234567890123456", **strict)
    with tempfile.TemporaryDirectory() as folder, _saver(treering.open(folder), serde) as saver:
        yield saver


@asynccontextmanager
async def awaited() -> AsyncIterator[TreeringSaver]:
    """On disk, awaited."""
    with disk() as saver:
        yield saver


@contextmanager
def store() -> Iterator[TreeringStore]:
    """A store in memory or in the bucket, whose serializer makes objects of any type, as LangGraph's own has them."""
    global made  # noqa: PLW0603  # of one process
    made += 1
    with TreeringStore(_in_memory(), serde=JsonPlusSerializer()) as opened:
        yield opened


their_stores._store_memory = store
theirs._checkpointer_memory = memory
theirs._checkpointer_sqlite = disk
theirs._checkpointer_sqlite_aes = encrypted
theirs._checkpointer_sqlite_aio = awaited


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write the results, and where stores are."""
    parser.addoption("--treering-report")
    parser.addoption("--treering-s3", help="JSON: what s3fs needs, and a bucket")


def pytest_configure(config: pytest.Config) -> None:
    """Connect to the bucket."""
    global bucket, filesystem  # noqa: PLW0603  # of one process
    if given := config.getoption("--treering-s3"):
        options = json.loads(given)
        bucket = options.pop("bucket")
        filesystem = s3fs.S3FileSystem(**options, use_listings_cache=False, skip_instance_cache=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only the tests that take a saver or a store."""
    ours = [item for item in items if TAKEN & set(item.fixturenames) and _is_reached(item)]  # type: ignore[attr-defined]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(ours)])
    items[:] = ours


def _is_reached(item: Any) -> bool:
    """Whether the stores of a test are where they should be: those on disk are in no bucket."""
    savers = {item.callspec.params.get(f"{how}sync_checkpointer", "memory") for how in ("", "a")}
    return filesystem is None or (savers == {"memory"} and item.originalname != COUNTS_IDS)


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
