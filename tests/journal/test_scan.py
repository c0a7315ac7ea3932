"""Scans of a whole session read large segments part by part, so that memory does not follow their size."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from tests.session.at_rest import Paused

from treering.api.store import Store
from treering.errors import CorruptError
from treering.format.paths import SessionKeys
from treering.journal import read
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Get, Put
from treering.storage.run import run
from treering.store.place import Place

KEYS = SessionKeys("", "s", appends=False)
TEXT_BYTES = 20_000  # a longer text would be a blob


def recorded(messages: int) -> MemoryDriver:
    """A session in one segment of several frames, and a tail."""
    driver, rng = MemoryDriver(), random.Random(1)
    store = Store(Place(driver))
    with store.session("s") as session:
        for _ in range(0, messages, 10):
            session.commit([f"{rng.getrandbits(4 * TEXT_BYTES):x}" for _ in range(10)], context=[])
        session.compact("gist")
        session.optimize(everything=True)
        session.append("in the tail")
    return driver


def scanned(driver: MemoryDriver, first: int) -> list[bytes]:
    """All lines from a position on."""
    found, known = list[bytes](), None
    while True:
        known, lines = run(read.read_lines(KEYS, first + len(found), known), driver)
        if not lines:
            return found
        found += lines


def test_a_large_segment_is_read_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """From any position on, with the same lines; its index is read once, and each frame once."""
    driver = recorded(200)
    whole = scanned(driver, 0)
    assert len(whole) > 200
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr(read, "PART_CONTENT_BYTES", 1)
    for first in (0, 1, 57, 58, 120, 200, len(whole) - 1):
        assert scanned(driver, first) == whole[first:]
    counts = CountingDriver(driver, keep=True)
    known, at = None, 0
    while True:
        known, lines = run(read.read_lines(KEYS, at, known), counts)
        if not lines:
            break
        at += len(lines)
    parts = [each for each in counts.requests if isinstance(each, Get) and "/segments/" in each.key]
    assert len(parts) == len({(each.start, each.end) for each in parts}) > 4


def test_a_part_of_a_segment_that_was_merged_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it was read; nothing is left out or read twice."""
    driver = recorded(150)
    whole = scanned(driver, 0)
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr(read, "PART_CONTENT_BYTES", 1)
    known, found = run(read.read_lines(KEYS, 0), driver)
    reading = Paused(
        read.read_lines(KEYS, len(found), known),
        driver,
        lambda request: isinstance(request, Get) and bool(request.start),
    )
    with Store(Place(driver)).session("s") as session:
        session.seal()
        session.optimize(everything=True)
    _, lines = reading.go_on()
    assert lines == whole[len(found) : len(found) + len(lines)]
    assert scanned(driver, 0) == whole


def test_a_damaged_part_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the segment it is in."""
    driver = recorded(150)
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 0)
    (key,) = (each for each in driver.snapshot() if "/segments/" in each)
    data = bytearray(driver.snapshot()[key])
    data[len(data) // 3] ^= 1
    driver.execute((Put(key, bytes(data)),))
    with pytest.raises(CorruptError) as caught:
        scanned(driver, 0)
    assert caught.value.key == key


def test_copying_a_large_segment_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it holds."""
    driver = recorded(1000)
    monkeypatch.setattr(read, "PART_CONTENT_BYTES", 2_000_000)
    target = MemoryDriver()
    store, there = Store(Place(driver)), Store(Place(target))
    tracemalloc.start()
    store.copy("s", there)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copied = sum(len(data) for key, data in target.snapshot().items() if "/segments/" in key)
    assert copied > 1000 * TEXT_BYTES / 3
    assert peak - copied < 1000 * TEXT_BYTES  # what was copied is in memory, too
    assert list(there.view("s").lines())[:1000] == list(store.view("s").lines())[:1000]
