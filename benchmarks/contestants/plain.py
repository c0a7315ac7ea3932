"""What people write themselves: a JSONL file, rewritten and parsed whole, and tables in SQLite."""

from __future__ import annotations

import json
import os

from benchmarks.contestants.contestant import Contestant

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from typing import Any

    from benchmarks.workload import Message

OTHER = "other"


class Jsonl(Contestant):
    """A file of JSON lines with parents, rewritten for every change and parsed whole to read it; nothing is synced."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.root = f"{place}/jsonl"
        os.makedirs(self.root, exist_ok=True)

    def write(self, session: str, messages: Sequence[Message]) -> None:
        with open(self._file(session), "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in _rows(messages))

    def _file(self, session: str) -> str:
        return f"{self.root}/{session}.jsonl"

    def _parse(self, session: str) -> list[dict[str, Any]]:
        with open(self._file(session)) as file:
            return [json.loads(line) for line in file]

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def begin(self, session: str) -> None:
        self.session, self.rows = session, self._parse(session)

    def append(self, text: str) -> None:
        self._add("user", text)
        self._rewrite()

    def turn(self, texts: Sequence[str], step: int) -> None:
        self._add("user", texts[0])
        self._add("assistant", texts[1], step)
        self._rewrite()

    def _add(self, role: str, text: str, step: int | None = None) -> None:
        state = {} if step is None else {"state": {"step": step}}
        message = {"role": role, "content": text}
        self.rows.append({"id": f"new-{len(self.rows)}", "parent": self.rows[-1]["id"], "message": message, **state})

    def _rewrite(self) -> None:
        file = self._file(self.session)
        with open(file + ".new", "w") as new:
            new.writelines(json.dumps(row) + "\n" for row in self.rows)
        os.replace(file + ".new", file)

    def end(self) -> None:
        self.rows.clear()

    def page(self, session: str, count: int) -> Sequence[str]:
        rows = self._parse(session)
        return self._upward({row["id"]: row for row in rows}, rows[-1]["id"], count)

    def _upward(self, rows: dict[str, dict[str, Any]], end: str | None, count: int) -> Sequence[str]:
        found: list[str] = []
        while end is not None and len(found) < count:
            found.append(_text(rows[end]["message"]))
            end = rows[end]["parent"]
        return found[::-1]

    def skeleton(self, session: str) -> int:
        rows = {row["id"]: row for row in self._parse(session)}
        children: dict[str | None, list[str]] = {}
        for row in rows.values():
            children.setdefault(row["parent"], []).append(row["id"])
        return len(rows)

    def switch(self, session: str) -> Sequence[str]:
        rows = {row["id"]: row for row in self._parse(session)}
        return self._upward(rows, "other-1", self.window)

    def travel(self, session: str, step: int) -> Sequence[str]:
        rows = {row["id"]: row for row in self._parse(session)}
        end = next(row["id"] for row in rows.values() if row.get("state") == {"step": step})
        return self._upward(rows, end, self.window)

    def list(self, count: int) -> int:
        """Read the first line of every file, newest file first."""
        files = sorted(os.scandir(self.root), key=lambda entry: -entry.stat().st_mtime_ns)
        first = []
        for entry in files:
            with open(entry) as file:
                first.append(json.loads(file.readline()))
        return len(first[:count])


class Sqlite(Contestant):
    """One row for each message and one for each state, in WAL mode with synchronous=FULL, as one would write it."""

    SCHEMA = """
        CREATE TABLE IF NOT EXISTS messages (
            session TEXT, position INTEGER, id TEXT, parent TEXT, role TEXT, body TEXT, PRIMARY KEY (session, position)
        ) WITHOUT ROWID;
        CREATE UNIQUE INDEX IF NOT EXISTS by_id ON messages (session, id);
        CREATE TABLE IF NOT EXISTS states (
            session TEXT, position INTEGER, step INTEGER, body TEXT, PRIMARY KEY (session, position)
        );
        CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, title TEXT, updated REAL);
    """
    ADD = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)"
    UPWARD = """
        WITH RECURSIVE path(position, parent, body, depth) AS (
            SELECT position, parent, body, 1 FROM messages WHERE session = :session AND id = :end
            UNION ALL
            SELECT m.position, m.parent, m.body, depth + 1 FROM messages m
            JOIN path ON m.session = :session AND m.id = path.parent WHERE depth < :count
        ) SELECT body FROM path ORDER BY depth DESC
    """

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        os.makedirs(place, exist_ok=True)
        self.file = f"{place}/sessions.sqlite"
        if not os.path.exists(self.file):
            with self._connect() as database:
                database.executescript("PRAGMA journal_mode=WAL;" + self.SCHEMA)
            database.close()

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        database = sqlite3.connect(self.file)
        database.execute("PRAGMA synchronous=FULL")
        return database

    def write(self, session: str, messages: Sequence[Message]) -> None:
        database = self._connect()
        with database:
            for position, row in enumerate(_rows(messages)):
                self._insert(database, session, position, row)
            database.execute("INSERT INTO sessions VALUES (?, ?, unixepoch('subsec'))", (session, session))
        database.close()

    def _insert(self, database: sqlite3.Connection, session: str, position: int, row: dict[str, Any]) -> None:
        message = row["message"]
        values = (session, position, row["id"], row["parent"], message["role"], json.dumps(message))
        database.execute(self.ADD, values)
        if "state" in row:
            self._keep(database, session, position, row["state"])

    def _keep(self, database: sqlite3.Connection, session: str, position: int, state: dict[str, int]) -> None:
        values = (session, position, state["step"], json.dumps(state))
        database.execute("INSERT INTO states VALUES (?, ?, ?, ?)", values)

    def resume(self, session: str) -> Sequence[str]:
        database = self._connect()
        newest = "SELECT body FROM states WHERE session = ? ORDER BY position DESC LIMIT 1"
        json.loads(database.execute(newest, (session,)).fetchone()[0])["step"]
        texts = self._newest(database, session, self.window)
        database.close()
        return texts

    def _newest(self, database: sqlite3.Connection, session: str, count: int) -> Sequence[str]:
        newest = "SELECT body FROM messages WHERE session = ? ORDER BY position DESC LIMIT ?"
        rows = database.execute(newest, (session, count)).fetchall()
        return [_text(json.loads(body)) for (body,) in reversed(rows)]

    def begin(self, session: str) -> None:
        self.session, self.open = session, self._connect()
        newest = "SELECT position, id FROM messages WHERE session = ? ORDER BY position DESC LIMIT 1"
        self.position, self.id = self.open.execute(newest, (session,)).fetchone()

    def append(self, text: str) -> None:
        with self.open:
            self._add("user", text)

    def turn(self, texts: Sequence[str], step: int) -> None:
        with self.open:
            self._add("user", texts[0])
            self._add("assistant", texts[1])
            self._keep(self.open, self.session, self.position, {"step": step})

    def _add(self, role: str, text: str) -> None:
        parent, self.position = self.id, self.position + 1
        self.id = f"new-{self.position}"
        row = {"id": self.id, "parent": parent, "message": {"role": role, "content": text}}
        self._insert(self.open, self.session, self.position, row)

    def end(self) -> None:
        self.open.close()

    def page(self, session: str, count: int) -> Sequence[str]:
        database = self._connect()
        texts = self._newest(database, session, count)
        database.close()
        return texts

    def skeleton(self, session: str) -> int:
        database = self._connect()
        rows = database.execute("SELECT id, parent, role FROM messages WHERE session = ?", (session,)).fetchall()
        database.close()
        nodes = {identifier: (parent, role) for identifier, parent, role in rows}
        children: dict[str | None, list[str]] = {}
        for identifier, (parent, _) in nodes.items():
            children.setdefault(parent, []).append(identifier)
        return len(nodes)

    def switch(self, session: str) -> Sequence[str]:
        return self._upward(session, "other-1")

    def travel(self, session: str, step: int) -> Sequence[str]:
        database = self._connect()
        there = "SELECT m.id FROM states JOIN messages m USING (session, position) WHERE session = ? AND step = ?"
        (end,) = database.execute(there, (session, step)).fetchone()
        database.close()
        return self._upward(session, end)

    def _upward(self, session: str, end: str) -> Sequence[str]:
        database = self._connect()
        rows = database.execute(self.UPWARD, {"session": session, "end": end, "count": self.window}).fetchall()
        database.close()
        return [_text(json.loads(body)) for (body,) in rows]

    def list(self, count: int) -> int:
        database = self._connect()
        rows = database.execute("SELECT * FROM sessions ORDER BY updated DESC LIMIT ?", (count,)).fetchall()
        database.close()
        return len(rows)


def _rows(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """Yield every message with id, parent and, if it ends a turn, the state; and a branch of two messages."""
    previous = None
    for number, message in enumerate(messages):
        ends_turn = number % 2 or number == len(messages) - 1
        state = {"state": {"step": number // 2}} if ends_turn else {}
        yield {"id": f"{number:08x}", "parent": previous, "message": message, **state}
        previous = f"{number:08x}"
        if number == 2 * (len(messages) // 4) - 1:
            for at, (role, text) in enumerate((("user", "another way"), ("assistant", "let us see"))):
                parent = f"other-{at - 1}" if at else previous
                yield {"id": f"other-{at}", "parent": parent, "message": {"role": role, "content": text}}


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
