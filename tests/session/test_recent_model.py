"""Pages of lists by markers, beside a sorted list of what was stored: random sessions, logs, filters and limits."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.sampling import few

from treering.format.paths import DAY_MS, Marker, SessionKeys, namespace_prefix
from treering.format.register import Card, encode_latest
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver, Put
from treering.storage.run import run
from treering.store import recent
from treering.store.info import Wanted

NAMES = ("s", "12345678.x", "a.b", "-", "_x", "A b", "x" * 130, "0", "é", "com1", ".h", "q", "r", "w1", "w2", "w3")
PROJECTS = ("", "p", "q")
FOLDERS = ("", "/c")
STATUSES = ("", "done")
TENANTS = ("", namespace_prefix("", "a"), namespace_prefix("", "b.c"), namespace_prefix(namespace_prefix("", "a"), "z"))
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


class Row(NamedTuple):
    """A session that was stored."""

    order: tuple[int, str]
    prefix: str
    name: str
    wanted: Wanted
    """What it is, as a list asks for it."""
    active_ms_max: int


class Scene:
    """A store with random sessions, all of them about the same time.

    Args:
        seed: What they are.
        folder: Where, if on a disk, on which the time of the log counts; None: as in a bucket.
    """

    def __init__(self, seed: int, folder: Path | None) -> None:
        self.rng = random.Random(seed)
        self.appends = folder is not None
        self.driver: Driver = LocalDriver(folder) if folder is not None else MemoryDriver()
        self._folder = folder
        self._span_ms = self.rng.choice((1, 100_000, 600_000, DAY_MS // 3))
        self._put("recent.json", b"{}\n", 1)
        self.rows = [
            self._row(prefix, name)
            for prefix in self.rng.sample(TENANTS, self.rng.randrange(1, len(TENANTS) + 1))
            for name in self.rng.sample(NAMES, self.rng.randrange(len(NAMES)))
        ]

    def _put(self, key: str, data: bytes, ms: int) -> None:
        self.driver.execute((Put(key, data),))
        if self._folder is not None:
            os.utime(self._folder / key, ns=(ms * 1_000_000, ms * 1_000_000))

    def _mark(self, project: str, folder: str) -> Marker:
        """A marker of a random time, now and then of an early version."""
        ms = NOON_MS + self._span_ms * self.rng.randrange(-10, 11)
        marker = Marker.of(ms, project, folder, f"{self.rng.randrange(16**12):012x}")
        if self.rng.random() < 0.7:
            return marker
        return msgspec.structs.replace(marker, ms=ms // DAY_MS * DAY_MS + DAY_MS - 1, timed=False)

    def _row(self, prefix: str, name: str) -> Row:
        rng, keys = self.rng, SessionKeys(prefix, name, self.appends)
        project, folder, status = rng.choice(PROJECTS), rng.choice(FOLDERS), rng.choice(STATUSES)
        named = self._mark(project, folder)
        for marker in [named, *(self._mark(rng.choice(PROJECTS), folder) for _ in range(rng.choice((0, 0, 1, 2))))]:
            self._put(keys.marker(marker.text), b"", 1)
        updated = named.ms + (0 if self.appends else rng.randrange(recent.LAG_MS_MAX))
        card = Card(session=name, life="l", write="w", project=project, cwd=folder, status=status, updated=updated)
        self._put(keys.latest, encode_latest(msgspec.structs.replace(card, marker=named.text), ()), 1)
        log_ms = self._log(keys, named) if self.appends and rng.random() < 0.8 else 0
        active_ms = max(named.ms, log_ms)
        order = -min(active_ms, named.ms + recent.LAG_MS_MAX), keys.latest
        return Row(order, prefix, name, Wanted(project=project, cwd=folder, status=status), max(updated, log_ms))

    def _log(self, keys: SessionKeys, named: Marker) -> int:
        """Write a log; return when, if it holds a record."""
        lag_ms = self.rng.choice((-10, 0, 5000, 600_000, recent.LAG_MS_MAX, 5 * recent.LAG_MS_MAX))
        records = self.rng.choice((b"", b"", b"x\n", b"x" * 5000 + b"\n"))
        self._put(keys.tail, b"{}\n" + records, named.ms + lag_ms)
        return named.ms + lag_ms if records else 0

    def pages(self, prefix: str, wanted: Wanted, *, below: bool) -> list[tuple[str, str]]:
        """All rows of a list, page by page, as prefix and name."""
        shown: list[tuple[str, str]] = []
        after = None
        while True:
            limit = self.rng.choice((1, 2, 7, 50))
            asked = recent.list_page(prefix, appends=self.appends, limit=limit, after=after, wanted=wanted, below=below)
            page = run(asked, self.driver)
            assert len(page.rows) <= limit
            shown += [("".join(namespace_prefix("", name) for name in row.namespace), row.id) for row in page.rows]
            if (after := page.after) is None:
                return shown


@pytest.mark.parametrize("appends", [False, True], ids=["bucket", "disk"])
@pytest.mark.parametrize("seed", range(few(30, whole=60)))
def test_pages_are_a_sorted_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, *, appends: bool) -> None:
    """Whatever the limits are; and the newest session is that which was active last."""
    scene = Scene(seed, tmp_path if appends else None)
    for limit, choices in (
        ("LIST_KEYS_MAX", (2, 5, 1000)),
        ("CARDS_AT_ONCE_MAX", (2, 64)),
        ("_LISTS_AT_ONCE", (1, 64)),
    ):
        monkeypatch.setattr(recent, limit, scene.rng.choice(choices))
    monkeypatch.setattr(recent, "_DISK_KEYS", scene.rng.choice((1, 3, 64)))
    for _ in range(4):
        prefix, below = scene.rng.choice(TENANTS), scene.rng.random() < 0.5
        asked = Wanted(
            project=scene.rng.choice((None, "p")),
            cwd=scene.rng.choice((None, "/c")),
            status=scene.rng.choice((None, None, "done")),
        )
        there = sorted(row for row in scene.rows if _fits(row, prefix, asked, below=below))
        assert scene.pages(prefix, asked, below=below) == [(row.prefix, row.name) for row in there]
        found = run(recent.newest(prefix, appends=appends, wanted=asked, below=below), scene.driver)
        if all(row.active_ms_max <= recent.LAG_MS_MAX - row.order[0] for row in there):  # else a kill left a log
            assert (found.updated_ms if found else None) == max((row.active_ms_max for row in there), default=None)


def _fits(row: Row, prefix: str, asked: Wanted, *, below: bool) -> bool:
    if row.prefix != prefix and not (below and row.prefix.startswith(prefix)):
        return False
    facts = msgspec.structs.asdict(row.wanted)
    return all(value in (None, facts[name]) for name, value in msgspec.structs.asdict(asked).items())
