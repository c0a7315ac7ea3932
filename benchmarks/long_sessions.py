"""Sessions of up to a million messages: what a person does with one after it was resumed, beside tables in SQLite.

Two shapes: one line, with a branch of a turn in its middle; and 20 heads, whose turns come in any order, one in a
hundred of them anywhere. A turn has four messages and a checkpoint; the model sees ten messages. Texts are short, so
that a million fit.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import treering
from benchmarks import workload
from benchmarks.cold import peak_memory
from benchmarks.contestants.ours import COMPACT_EVERY_TURNS, SUMMARY, unsynced_store
from benchmarks.contestants.plain import Sqlite
from benchmarks.measure import Cell, Figures
from benchmarks.stage import DISK, weigh
from benchmarks.table import OURS, SQLITE
from benchmarks.worker import once
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.store.place import Place

SESSION = "long"
LINE, HEADS = "one line", "20 heads"
TURN = 4
PAGE = 50
TEXT_BYTES = 200
JUMPS = 0.01
MAIN, OTHER = 0, 1
FILES = "copy its files"


class Turn(NamedTuple):
    """One turn of a session to write."""

    head: int
    start: int | None
    """The turn that it follows, by its number; None: the newest one of its head."""
    texts: tuple[str, ...]


def turns(count: int, shape: str) -> Iterator[Turn]:
    """Yield the turns of a session of `count` messages: the same each time."""
    rng, known = random.Random(7), {MAIN}
    texts = workload.even_texts(1_000, TEXT_BYTES)
    for number in range(count // TURN):
        said = tuple(rng.sample(texts, TURN))
        head, start = MAIN, None
        if shape == HEADS and number:
            head = rng.randrange(20)
            start = rng.randrange(number) if head not in known or rng.random() < JUMPS else None
        elif number == count // TURN // 2:
            head, start = OTHER, number - 1
        known.add(head)
        yield Turn(head, start, said)


class Treering:
    """The session in a store of Treering's.

    Attributes:
        ends: The last node of each turn.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.driver = CountingDriver(LocalDriver(folder))
        self.store = treering.Store(Place(self.driver))
        self.ends: list[str] = []

    def asked_first(self, action: Callable[[], object]) -> Figures:
        """Return what an action asks for behind its resume, if the store was just opened and remembers nothing."""
        kept, self.store = self.store, treering.Store(Place(self.driver))
        action()
        self.store = kept
        return asked(self.driver)

    def write(self, made: Iterator[Turn]) -> None:
        """Write the session without waiting for the disk, merge its segments, and leave it at its first head."""
        heads = {MAIN}
        with unsynced_store(self.folder).session(SESSION) as session:
            for number, turn in enumerate(made):
                self._go(session, turn, new=turn.head not in heads)
                heads.add(turn.head)
                if number % COMPACT_EVERY_TURNS == COMPACT_EVERY_TURNS - 1:
                    session.compact(SUMMARY, kept=session.recorded_context[-1].node)
                shown = session.recorded_context[TURN - workload.WINDOW :]
                drafts = [(treering.user, treering.assistant)[at % 2](text) for at, text in enumerate(turn.texts)]
                self.ends.append(session.commit(drafts, context=shown, state={"turn": number}, step=number).nodes[-1])
            if session.head != _head(MAIN):
                session.switch(_head(MAIN))
            session.seal()
            session.optimize(everything=True)
            session.set_status("done")
        path = self.store.view(SESSION).path()
        self.middle, self.end = path[len(path) // 2], path[-1]

    def _go(self, session: treering.Session, turn: Turn, *, new: bool) -> None:
        name = _head(turn.head)
        if new and turn.start is not None:
            session.branch(name, node=self.ends[turn.start], keep_state=True)
            return
        if session.head != name:
            session.switch(name, keep_state=True)
        if turn.start is not None:
            session.checkout(self.ends[turn.start], keep_state=True)

    def page(self, before: str | None = None) -> Sequence[Any]:
        """Read 50 messages of the main head, the newest or those before a node."""
        view = self.store.view(SESSION)
        self.driver.reset()
        return [row.node.payload for row in view.history(before=before, limit=PAGE).rows]

    def old_turn(self, turn: int) -> Sequence[Any]:
        """Read what the model saw at the end of a turn."""
        view = self.store.view(SESSION)
        self.driver.reset()
        return [item.message for item in view.context_at(self.ends[turn])]

    def switch(self) -> Sequence[Any]:
        """Go to the other head and have its context."""
        with self.store.session(SESSION) as session:
            self.driver.reset()
            session.switch(_head(OTHER if session.head == _head(MAIN) else MAIN))
            return [item.message for item in session.context]

    def checkout(self, turn: int) -> None:
        """Go to the end of a turn, and back."""
        with self.store.session(SESSION) as session:
            session.checkout(self.ends[turn])
            session.checkout(self.end)

    def erase(self, turn: int) -> None:
        """Erase the last message of a turn."""
        with self.store.session(SESSION) as session:
            session.erase(self.ends[turn])


class Tables(Sqlite):
    """The session in tables of SQLite, with the ends of heads, and which of them is the current one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.ends: list[str] = []

    def write_turns(self, made: Iterator[Turn]) -> None:
        """Write all turns in one transaction."""
        database = self._connect()
        database.execute("CREATE TABLE heads (name INTEGER PRIMARY KEY, id TEXT)")
        database.execute("CREATE TABLE current (session TEXT PRIMARY KEY, head INTEGER)")
        heads: dict[int, str | None] = {}
        position, path = 0, 0
        with database:
            for number, turn in enumerate(made):
                parent: str | None = self.ends[turn.start] if turn.start is not None else heads.get(turn.head)
                for at, text in enumerate(turn.texts):
                    message = {"role": ("user", "assistant")[at % 2], "content": text}
                    name, state = f"{position:08x}", {"state": {"step": number}} if at == TURN - 1 else {}
                    self._insert(
                        database, SESSION, position, {"id": name, "parent": parent, "message": message, **state}
                    )
                    parent, position = name, position + 1
                heads[turn.head] = parent
                self.ends.append(str(parent))
                if turn.head == MAIN:
                    path += 1
            database.executemany("INSERT INTO heads VALUES (?, ?)", heads.items())
            database.execute("INSERT INTO current VALUES (?, ?)", (SESSION, MAIN))
        self.middle = self._above(database, heads[MAIN], path * TURN // 2)
        database.close()

    def _above(self, database: sqlite3.Connection, end: str | None, count: int) -> str:
        """Return the id so many messages above one, or the first one of the path."""
        for _ in range(count):
            upward = "SELECT parent FROM messages WHERE session = ? AND id = ?"
            (parent,) = database.execute(upward, (SESSION, end)).fetchone()
            if parent is None:
                break
            end = parent
        return str(end)

    def read(self, count: int, end: str | None = None) -> Sequence[Any]:
        """Read messages upward from a message, by default from the main head."""
        database = self._connect()
        rows = self._messages(database, count, self._end(database, MAIN) if end is None else end)
        database.close()
        return rows

    def go(self) -> Sequence[Any]:
        """Go to the other head, durably, and read what the model sees there."""
        database = self._connect()
        (at,) = database.execute("SELECT head FROM current WHERE session = ?", (SESSION,)).fetchone()
        there = OTHER if at == MAIN else MAIN
        with database:
            database.execute("UPDATE current SET head = ? WHERE session = ?", (there, SESSION))
        rows = self._messages(database, self.window, self._end(database, there))
        database.close()
        return rows

    def _end(self, database: sqlite3.Connection, head: int) -> str:
        (end,) = database.execute("SELECT id FROM heads WHERE name = ?", (head,)).fetchone()
        return str(end)

    def _messages(self, database: sqlite3.Connection, count: int, end: str) -> Sequence[Any]:
        given = {"session": SESSION, "end": end, "count": count}
        return [json.loads(body) for (body,) in database.execute(self.UPWARD, given)]


def prepared(folder: Path, count: int, shape: str) -> tuple[Treering, Tables]:
    """Write one session twice."""
    ours, tables = Treering(folder / "treering"), Tables(folder / "tables")
    ours.write(turns(count, shape))
    tables.write_turns(turns(count, shape))
    return ours, tables


def read_cells(task: str, ours: Treering, tables: Tables, count: int) -> Mapping[Cell, Callable[[], Figures]]:
    """Return what is read of a session, by both."""
    steps = random.Random(count)

    def turn() -> int:
        return steps.randrange(len(ours.ends))

    actions: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "last page": (ours.page, partial(tables.read, PAGE)),
        "page in the middle": (partial(ours.page, ours.middle), partial(tables.read, PAGE, tables.middle)),
        "old turn": (lambda: ours.old_turn(turn()), lambda: tables.read(tables.window, tables.ends[turn()])),
        "switch": (ours.switch, tables.go),
    }
    cells: dict[Cell, Callable[[], Figures]] = {}
    for what, (one, other) in actions.items():
        cells[Cell(task, f"{what}: {OURS}", DISK, count)] = partial(_counted, ours, one)
        cells[Cell(task, f"{what}: {SQLITE}", DISK, count)] = partial(once, other)
    return cells


def write_cells(task: str, ours: Treering, count: int) -> Mapping[Cell, Callable[[], Figures]]:
    """Return what is written into a session, by us alone: going to an old turn, and erasing one message of it."""
    steps = iter(random.Random(count).sample(range(len(ours.ends)), len(ours.ends)))
    return {
        Cell(task, f"checkout: {OURS}", DISK, count): lambda: once(lambda: ours.checkout(next(steps))),
        Cell(task, f"erase: {OURS}", DISK, count): lambda: once(lambda: ours.erase(next(steps))),
    }


def whole(task: str, ours: Treering, count: int) -> Iterator[Mapping[Cell, Figures]]:
    """Fork and copy the session, each in a process of its own, and copy its files."""
    yield {Cell(task, f"look: {OURS}", DISK, count): _child("look", ours.folder, ours.middle)}
    yield {Cell(task, f"copy: {OURS}", DISK, count): _child("copy", ours.folder)}
    yield {Cell(task, f"fork: {OURS}", DISK, count): _child("fork", ours.folder)}
    ours.store.delete("forked")
    shutil.rmtree(f"{ours.folder}-copy")
    begun, cpu = time.perf_counter(), time.process_time()
    shutil.copytree(ours.folder, ours.folder.with_name("files"))
    figures = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    shutil.rmtree(ours.folder.with_name("files"))
    yield {Cell(task, f"copy: {FILES}", DISK, count): {**figures, "bytes": weigh(ours.folder)}}


def _counted(ours: Treering, action: Callable[[], object]) -> Figures:
    """Time an action, of a store that remembers what it read; add what one that was just opened asks for."""
    return {**once(action), **ours.asked_first(action)}


def asked(driver: CountingDriver) -> Figures:
    """Return what was asked of a driver since it began to count."""
    return {"requests": driver.total, "waits": driver.batches, "down": driver.bytes_down}


def _head(number: int) -> str:
    return "main" if number == MAIN else f"head-{number}"


def _child(action: str, folder: Path, *arguments: str) -> Figures:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.long_sessions", action, str(folder), *arguments]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: Figures = json.loads(answer.stdout)
    return figures


def main() -> None:
    """Do one thing with a session and print what it took: memory is that of the process, or of looking around in it."""
    action, folder, *arguments = sys.argv[1:]
    store = treering.open(folder)
    before, begun, cpu = 0, time.perf_counter(), time.process_time()
    if action == "fork":
        with store.session(SESSION) as session:
            session.fork("forked")
    elif action == "copy":
        store.copy(SESSION, treering.open(f"{folder}-copy"))
    else:
        view = store.view(SESSION)
        before = peak_memory()
        view.history(limit=PAGE)
        view.history(before=arguments[0], limit=PAGE)
        view.context_at(arguments[0])
    figures = {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "memory": peak_memory() - before,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
