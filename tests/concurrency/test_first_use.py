"""What is made when it is first used is made once, and what threads cannot make together is made before them."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from treering.journal import memory
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

TOGETHER_SECONDS = 0.3
"""How long one thread waits for the other where both should not be."""
SOURCES = Path(__file__).parents[2] / "src/treering"
ONE_THREAD = {"cli"}
"""Folders that only ever run in one."""
LEARNING = re.compile(
    r"\bdecode\([^\n]*\btype=|\bconvert\((?![^\n]*[Dd]ecoder\.type\))|^ +[^#\n]*\bmsgspec\.\w+\.Decoder\(", re.MULTILINE
)
"""A type is named where it is used, or a decoder is made inside a function."""


def test_no_type_is_learned_while_threads_run() -> None:
    """Two threads that decode a type for the first time at once crash msgspec, so decoders are made at import."""
    files = [file for file in SOURCES.rglob("*.py") if file.relative_to(SOURCES).parts[0] not in ONE_THREAD]
    assert files
    assert [match[0] for file in files for match in LEARNING.finditer(file.read_text())] == []


def test_threads_share_what_a_store_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that ask for it first at the same time get the same."""
    both = Barrier(2)

    class Slow(memory.Memory):
        """Is made only when the other thread makes one, too, or does not come."""

        def __init__(self) -> None:
            super().__init__()
            with contextlib.suppress(BrokenBarrierError):
                both.wait(TOGETHER_SECONDS)

    monkeypatch.setattr(memory, "Memory", Slow)
    place = Place(MemoryDriver())
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda each: each.memory(), [place, place.namespace("tenant")])
    assert first is second
