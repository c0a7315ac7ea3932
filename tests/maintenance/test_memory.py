"""Looking after a session takes memory by the segment, not by the session."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from tests.session.backends import local_backend

from treering.api.store import Store

SEGMENTS = 12
MESSAGE_BYTES = 100_000
MESSAGES_PER_SEGMENT = 10


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 12 segments with about a megabyte each."""
    folder = tmp_path_factory.mktemp("large")
    rng = random.Random(1)
    with local_backend(folder).store().session("s") as session:
        for _ in range(SEGMENTS):
            for _ in range(MESSAGES_PER_SEGMENT):
                session.append(rng.randbytes(MESSAGE_BYTES // 2).hex())
            session.compact("so far")
            session.seal()
    return folder


def verify(store: Store) -> None:
    """Read everything."""
    assert [each for each in store.verify("s") if each.severity == "damage"] == []


def repair(store: Store) -> None:
    """Read everything twice, and write it once."""
    assert not store.repair("s", into="t").lost
    store.delete("t")


def copy(store: Store) -> None:
    """Read everything as bytes, and write them."""
    store.copy("s", name="t")
    store.delete("t")


@pytest.mark.parametrize("task", [verify, repair, copy])
def test_memory_follows_a_segment(task: object, large: Path) -> None:
    """The peak stays below a few segments, where all of them would be several times as much."""
    store = local_backend(large).store()
    tracemalloc.start()
    task(store)  # type: ignore[operator]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * SEGMENTS * MESSAGES_PER_SEGMENT * MESSAGE_BYTES
