"""Resume in a new process, however long the session is.

The sessions differ in their length and in nothing else: each has a checkpoint at every message and ends with the same
context of ten messages. The last one has, besides, a tail that is about to be sealed, which is the most a resume may
have to read. Time is from `store.session(...)` to context and state in hand; importing treering comes before.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measure import Cell, Table, ratios, spread, take_turns
from benchmarks.process import fresh
from benchmarks.workload import SUMMARY, turns, unsynced_store
from treering.format.paths import SessionKeys
from treering.journal.limits import LOG_BYTES_SEAL
from treering.session.place import Place
from treering.session.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver

MESSAGE_BYTES = 1_000
CONTEXT = 10  # messages, the first one a summary
COMPACT_EVERY = 50


class Case(NamedTuple):
    """A session to resume."""

    name: str
    nodes: int
    full_tail: bool = False
    """Its tail is about to be sealed; else it holds the last messages only."""


CASES = (
    Case("10", 10),
    Case("1,000", 1_000),
    Case("10,000", 10_000),
    Case("10,000, full tail", 10_000, full_tail=True),
)


def run(folder: Path, *, quick: bool) -> list[Table]:
    """Prepare sessions below `folder` and resume each in new processes."""
    for case in CASES:
        _prepare(folder, case)
    results: dict[str, dict[str, Any]] = {}

    def resumed(name: str) -> float:
        results[name] = fresh("benchmarks.resume", "resume_once", str(folder), name)
        return float(results[name]["seconds"])

    times = take_turns({case.name: partial(resumed, case.name) for case in CASES}, 5 if quick else 25)
    rows = [_row(name, results[name], times[name], times[CASES[0].name]) for name in times]
    columns = ("nodes", "requests", "bytes read", "context, messages", "ms", "time, 10 nodes = 1")
    note = "Goal: two requests at any length."
    return [Table("Resume in a new process, local disk", columns, tuple(rows), note)]


def _row(name: str, result: dict[str, Any], times: list[float], smallest: list[float]) -> tuple[Cell, ...]:
    ratio = spread(ratios(times, smallest)).text(digits=2)
    size = f"{result['bytes']:,}"
    return (name, result["requests"], size, result["context"], spread(times).text(1e3, 2), ratio)


def _prepare(folder: Path, case: Case) -> None:
    tail = folder / SessionKeys("", case.name, appends=True).tail
    messages = turns(2 * case.nodes, MESSAGE_BYTES)
    with unsynced_store(folder).session(case.name) as session:
        for number in range(case.nodes - CONTEXT):
            if number % COMPACT_EVERY == COMPACT_EVERY - 1:
                session.compact(SUMMARY)
            else:
                session.commit([next(messages)], state={"step": 0})
        if session.node:
            session.seal()
        while case.full_tail and tail.stat().st_size < 0.97 * LOG_BYTES_SEAL:
            session.commit([next(messages)], state={"step": 0})
        session.compact(SUMMARY)
        for _ in range(CONTEXT - 1):
            session.commit([next(messages)], state={"step": 0})


def resume_once(folder: str, session: str) -> dict[str, float]:
    """Resume a session and look at its context, in a process that has done nothing else."""
    driver = CountingDriver(LocalDriver(folder))
    begun = time.perf_counter()
    opened = Store(Place(driver)).session(session, create=False)
    context, state = opened.context, opened.state
    seconds = time.perf_counter() - begun
    if state != {"step": 0} or len(context) != CONTEXT or not all(item.message for item in context):
        raise RuntimeError(f"session {session!r} was not resumed as it was written")
    return {"seconds": seconds, "requests": driver.total, "bytes": driver.bytes_down, "context": len(context)}
