"""One durable message after the other, as an agent records them, against a bare `os.write` + `os.fdatasync`.

The bare loop writes as many bytes as the journal does for one message. Every 80 messages the session is compacted, so
that its context stays below 100 messages; compactions and seals are part of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import treering
from benchmarks.measure import Spread, Table, ratios, spread, take_turns
from benchmarks.workload import SUMMARY, even_texts, unsynced_store

MESSAGE_BYTES = 1000
CONTEXT_KEPT = 16
COMPACT_EVERY = 80


class Appender:
    """Appends to a session that goes on from call to call."""

    def __init__(self, store: treering.Store) -> None:
        self.session = store.session("append")
        self.times: list[float] = []
        """Seconds, of each append."""
        self._texts = cycle(even_texts(200, MESSAGE_BYTES))
        self._nodes: list[str] = []
        self.append(2 * COMPACT_EVERY)
        self.times.clear()

    def append(self, count: int, clock: Callable[[], float] = time.perf_counter) -> float:
        """Append `count` messages; return the seconds one took, compactions and seals included."""
        begun = before = clock()
        for _ in range(count):
            self._nodes.append(self.session.append(treering.user(next(self._texts))))
            after = clock()
            self.times.append(after - before)
            before = after
            if len(self._nodes) % COMPACT_EVERY == 0:
                self.session.compact(SUMMARY, kept=self._nodes[-CONTEXT_KEPT])
                before = clock()
        return (clock() - begun) / count


class BareLoop:
    """Writes and syncs as little as a durable append can."""

    def __init__(self, path: Path, size: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._data = b"x" * (size - 1) + b"\n"
        self.times: list[float] = []

    def append(self, count: int) -> float:
        """Append `count` lines; return the seconds one took."""
        begun = before = time.perf_counter()
        for _ in range(count):
            os.write(self._fd, self._data)
            os.fdatasync(self._fd)
            after = time.perf_counter()
            self.times.append(after - before)
            before = after
        return (time.perf_counter() - begun) / count

    def close(self) -> None:
        os.close(self._fd)


def run(folder: Path, *, quick: bool) -> list[Table]:
    """Measure appends below `folder`, which must be on the disk that is meant."""
    rounds, count = (7, 40) if quick else (25, 80)
    return [_durable(folder, rounds, count), _without_disk(folder, rounds, 4 * count)]


def _durable(folder: Path, rounds: int, count: int) -> Table:
    ours = Appender(treering.open(folder / "durable"))
    bare = BareLoop(folder / "bare", _bytes_of_a_line(ours.session))
    times = take_turns({"bare": lambda: bare.append(count), "ours": lambda: ours.append(count)}, rounds)
    bare.close()
    ours.session.close()
    rate = spread(ratios(times["bare"], times["ours"]))
    return Table(
        f"Durable appends of {MESSAGE_BYTES:,} bytes, {rounds} rounds of {count}",
        ("", "µs an append, mean of a round", "µs, fastest tenth of the appends", "rate, bare loop = 1"),
        (
            ("write + fdatasync", spread(times["bare"]).text(1e6), _fast(bare.times), 1),
            ("treering", spread(times["ours"]).text(1e6), _fast(ours.times), rate.text(digits=2)),
        ),
        "Goal: at least half the rate. What an append adds to the sync is work of the processor, so the ratio depends "
        "on the disk: near 1 where a sync takes milliseconds, below the goal where it takes less than our own work.",
    )


def _without_disk(folder: Path, rounds: int, count: int) -> Table:
    ours = Appender(unsynced_store(folder / "unsynced"))
    means = [ours.append(count, time.process_time) for _ in range(rounds)]
    single = Spread(*(value * 1e6 for value in spread(ours.times)))
    ours.session.close()
    return Table(
        f"The same without waiting for the disk: processor time, {rounds} rounds of {count}",
        ("µs an append, mean of a round with seals and compactions", "µs of a plain append"),
        ((spread(means).text(1e6, 1), single.text(digits=1)),),
        "Both syncs are replaced by functions that do nothing; all other system calls are made.",
    )


def _fast(times: list[float]) -> str:
    return f"{sorted(times)[len(times) // 10] * 1e6:,.0f}"


def _bytes_of_a_line(session: treering.Session) -> int:
    lines: list[Any] = list(session.lines())
    plain = sorted(map(len, lines))
    return int(plain[len(plain) // 2])
