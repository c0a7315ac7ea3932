"""Stores of up to a million sessions: pages of a list, beside an indexed table of SQLite.

A thousand sessions were active on each day, the newest now. Their cards, markers and logs are copies of those of one
real session, with another name, project and time: a million of them could not be written one by one. Cards and logs of
days that no page reaches are left out, and markers are not.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import treering
from benchmarks.contestants.ours import unsynced_store
from benchmarks.long_sessions import asked
from benchmarks.measure import Cell, Figures
from benchmarks.stage import DISK, S3
from benchmarks.table import OURS, SQLITE
from benchmarks.worker import once
from treering.format.paths import DAY_MS, Marker, SessionKeys, marker_key
from treering.format.register import encode_latest
from treering.ids import now_ms
from treering.journal.register import LatestRegister
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Put
from treering.storage.run import run
from treering.store.place import Place
from treering.store.recent import put_complete

A_DAY = 1_000
ROWS = 20
PROJECTS = 20
WHOLE_DAYS = 3
TEMPLATE = "template"
QUERIES = ("first page", "second page", "of one project", "newest")


class Made(NamedTuple):
    """The objects of one generated session."""

    name: str
    active_ms: int
    project: str
    objects: Mapping[str, bytes]


def generated(template: Path, count: int, *, appends: bool = True) -> Iterator[Made]:
    """Yield sessions, the most recently active one first.

    Args:
        template: A store on disk with one session.
        count: How many.
        appends: Name objects as on a disk; else as in a bucket.
    """
    driver = LocalDriver(template)
    found = run(LatestRegister(SessionKeys("", TEMPLATE, appends=True)).read(), driver).value
    assert found is not None
    log = (template / f"sessions/{TEMPLATE}/tail.jsonl").read_bytes()
    now = now_ms()
    for number in range(count):
        name, project = f"s-{number:07d}", f"project-{number * 7 % PROJECTS}"
        active_ms = now - number * (DAY_MS // A_DAY)
        marker = Marker.of(active_ms, project, "", f"{number:012x}").text
        objects = {marker_key("", name, marker): b""}
        if number < WHOLE_DAYS * A_DAY:
            card = replace(found.card, session=name, title=name, project=project, updated=active_ms)
            keys = SessionKeys("", name, appends)
            objects[keys.latest] = encode_latest(replace(card, marker=marker), found.lines)
            objects[keys.tail] = log
        yield Made(name, active_ms, project, objects)


def on_disk(folder: Path, template: Path, count: int) -> None:
    """Write generated sessions to a store on disk, with the times of files that go with them."""
    run(put_complete(""), LocalDriver(folder))
    known: set[str] = set()
    for made in generated(template, count):
        for key, data in made.objects.items():
            path = str(folder / key)
            if (parent := os.path.dirname(path)) not in known:
                os.makedirs(parent, exist_ok=True)
                known.add(parent)
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, ns=(made.active_ms * 1_000_000,) * 2)


def in_memory(template: Path, count: int) -> CountingDriver:
    """Return a store that behaves as a bucket does, with generated sessions, and counts what is asked of it."""
    driver = CountingDriver(MemoryDriver())
    run(put_complete(""), driver)
    for made in generated(template, count, appends=False):
        driver.execute(tuple(Put(key, data) for key, data in made.objects.items()))
    return driver


def in_tables(file: Path, template: Path, count: int) -> None:
    """Write the same list to SQLite."""
    with sqlite3.connect(file) as database:
        database.executescript(
            "PRAGMA journal_mode=WAL;"
            "CREATE TABLE sessions (name TEXT PRIMARY KEY, project TEXT, title TEXT, updated REAL);"
            "CREATE INDEX by_time ON sessions (updated); CREATE INDEX by_project ON sessions (project, updated);"
        )
        rows = ((made.name, made.project, made.name, made.active_ms) for made in generated(template, count))
        database.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", rows)
    database.close()


def _ours(store: treering.Store, query: str, after: str | None) -> list[str]:
    if query == "newest":
        newest = store.recent()
        return [newest.id] if newest else []
    project = "project-0" if query == "of one project" else None
    return [row.id for row in store.sessions(limit=ROWS, after=after, project=project).rows]


def _tables(file: Path, query: str) -> list[str]:
    wheres = {
        "first page": f"ORDER BY updated DESC LIMIT {ROWS}",
        "second page": f"ORDER BY updated DESC LIMIT {ROWS} OFFSET {ROWS}",
        "of one project": f"WHERE project = 'project-0' ORDER BY updated DESC LIMIT {ROWS}",
        "newest": "ORDER BY updated DESC LIMIT 1",
    }
    database = sqlite3.connect(file)
    rows = database.execute(f"SELECT * FROM sessions {wheres[query]}").fetchall()
    database.close()
    return [row[0] for row in rows]


def _counted(driver: CountingDriver, action: Callable[[], object]) -> Figures:
    """Count what an action asks for."""
    driver.reset()
    action()
    return asked(driver)


def _timed(driver: CountingDriver, action: Callable[[], object]) -> Figures:
    return {**once(action), **_counted(driver, action)}


def cells(task: str, folder: Path, count: int) -> Mapping[Cell, Callable[[], Figures]]:
    """Prepare stores of `count` sessions, and return the pages to read of them."""
    template, disk, file = folder / "template", folder / f"many-{count}", folder / f"many-{count}.sqlite"
    if not template.exists():
        with unsynced_store(template).session(TEMPLATE) as session:
            session.append("please fix the login")
    on_disk(disk, template, count)
    in_tables(file, template, count)
    driver = CountingDriver(LocalDriver(disk))
    store = treering.Store(Place(driver))
    after = store.sessions(limit=ROWS).after
    made: dict[Cell, Callable[[], Figures]] = {}
    for query in QUERIES:
        then = after if query == "second page" else None
        assert _ours(store, query, then) == _tables(file, query), query
        ours = partial(_ours, store, query, then)
        made[Cell(task, f"{query}: {OURS}", DISK, count)] = partial(_timed, driver, ours)
        made[Cell(task, f"{query}: {SQLITE}", DISK, count)] = partial(once, partial(_tables, file, query))
    return made


def in_a_bucket(task: str, template: Path, count: int) -> Iterator[Mapping[Cell, Figures]]:
    """Count what the same pages ask of a bucket."""
    driver = in_memory(template, count)
    store = treering.Store(Place(driver))
    after = store.sessions(limit=ROWS).after
    for query in QUERIES:
        then = after if query == "second page" else None
        yield {Cell(task, f"{query}: {OURS}", S3, count): _counted(driver, partial(_ours, store, query, then))}
