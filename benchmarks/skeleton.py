"""The whole tree of a session of 100,000 nodes without its payloads, against parsing a JSONL file of the same messages.

Every measurement is a process of its own, from the file on disk to all nodes in memory: ids, parents, roles, times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import Table, ratios, spread, take_turns
from benchmarks.process import fresh, peak_memory
from benchmarks.workload import SUMMARY, turns, unsynced_store
from treering.session.place import Place
from treering.session.reader import Reader
from treering.session.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.transcript.node import Draft, compaction

NODES = 100_000
MESSAGE_BYTES = 2_200
COMPACT_EVERY = 100
CONTESTANTS = {
    "treering: skeleton": "skeleton",
    "JSONL: json": "parse_with_json",
    "JSONL: msgspec": "parse_with_msgspec",
}


def run(folder: Path, *, quick: bool) -> list[Table]:
    """Prepare both below `folder`, then read each in new processes."""
    nodes = NODES // 10 if quick else NODES
    _prepare(folder, nodes)
    results: dict[str, dict[str, Any]] = {}

    def measured(name: str) -> float:
        results[name] = fresh("benchmarks.skeleton", CONTESTANTS[name], str(folder))
        if results[name]["nodes"] != nodes:
            raise RuntimeError(f"{name} found {results[name]['nodes']} nodes of {nodes}")
        return float(results[name]["seconds"])

    times = take_turns({name: partial(measured, name) for name in CONTESTANTS}, 3 if quick else 5)
    ours = times["treering: skeleton"]
    rows = tuple(
        (
            name,
            spread(times[name]).text(digits=2),
            f"{results[name]['bytes'] / 1e6:.2f}",
            f"{results[name]['memory'] / 1e6:,.0f}",
            spread(ratios(times[name], ours)).text(digits=1),
        )
        for name in CONTESTANTS
    )
    columns = ("", "seconds", "MB read", "MB of memory, peak", "time, skeleton = 1")
    note = f"Goals for 100,000 nodes: under 2.5 MB read, under 200 MB of memory. Payloads of {MESSAGE_BYTES:,} bytes."
    return [Table(f"All {nodes:,} nodes in memory, in a new process", columns, rows, note)]


def _prepare(folder: Path, nodes: int) -> None:
    unsynced_store(folder).load("long", _drafts(nodes), leaf=lambda: _identifier(nodes - 1))
    entries = ({"id": draft.id, "parentId": draft.parent, "message": draft.payload} for draft in _drafts(nodes))
    with open(folder / "long.jsonl", "wb") as file:
        file.writelines(msgspec.json.encode(entry) + b"\n" for entry in entries)


def _drafts(nodes: int) -> Iterator[Draft]:
    for number, draft in enumerate(turns(nodes, MESSAGE_BYTES)):
        yield _placed(number, draft)


def _placed(number: int, draft: Draft) -> Draft:
    """The draft, or every so often a compaction, below the one before."""
    parent = _identifier(number - 1) if number else None
    shown = draft if number % COMPACT_EVERY else compaction(SUMMARY)
    return msgspec.structs.replace(shown, id=_identifier(number), parent=parent)


def _identifier(number: int) -> str:
    """An id as ours are, so that files are of the same size on every run."""
    return f"{1_700_000_000_000 + 3_000 * number:012x}7{number % 4096:03x}8{hash((number,)) % 16**15:015x}"


def skeleton(folder: str) -> dict[str, float]:
    """Read all nodes of the session, linked with their parents and children."""
    driver = CountingDriver(LocalDriver(folder))
    begun = time.perf_counter()
    index = Store(Place(driver)).view("long").perform(Reader.index)
    return _measured(begun, len(index.graph), driver.bytes_down)


def parse_with_json(folder: str) -> dict[str, float]:
    """Parse the file with the standard library."""
    begun = time.perf_counter()
    with open(f"{folder}/long.jsonl", "rb") as file:
        nodes = {entry["id"]: entry for entry in map(json.loads, file)}
    return _measured(begun, len(nodes), Path(folder, "long.jsonl").stat().st_size)


def parse_with_msgspec(folder: str) -> dict[str, float]:
    """Parse the file with the fastest parser we know of."""
    begun = time.perf_counter()
    with open(f"{folder}/long.jsonl", "rb") as file:
        nodes = {entry["id"]: entry for entry in map(msgspec.json.decode, file)}
    return _measured(begun, len(nodes), Path(folder, "long.jsonl").stat().st_size)


def _measured(begun: float, nodes: int, size: int) -> dict[str, float]:
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "nodes": nodes, "bytes": size, "memory": peak_memory()}
