"""The index on disk: SQLite with its full-text search, FTS5. All of its data can be read again from the store.

Rule 1: a write to a session's row requires that the row did not change since it was read (`turn`); otherwise another
process was first, and the session is read again. So two processes never index one record twice, nor restore erased
texts.
Rule 2: a file of another schema, or one that SQLite reports as damaged, is replaced by a new one. A file that the user
named is refused instead if it is not an index.
Rule 3: erased and deleted texts are removed from the file: FTS5 keeps deleted words until it merges, so a merge is
forced, SQLite overwrites freed pages, and the write-ahead log is truncated.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from treering.errors import UnavailableError, UsageError
from treering.format.register import Card
from treering.kinds import Kind
from treering.search.query import printable, spaced
from treering.search.walk import Row
from treering.storage.requests import Version

P = ParamSpec("P")
T = TypeVar("T")

SCHEMA_VERSION: Final = 2
APPLICATION_ID: Final = 0x54724978  # "TrIx" in the header of the file marks an index, which may be removed
BUSY_SECONDS_MAX: Final = 60.0  # another process writes the texts of a whole segment at a time, and FTS5 may merge
_DIGEST_BYTES: Final = 8

_SCHEMA: Final = f"""
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,   -- as in keys of the store
    turn INTEGER NOT NULL,       -- another number with every change of this row
    session BLOB NOT NULL,       -- ids are UTF-8 and may hold halves of surrogate pairs, which TEXT must not
    life TEXT NOT NULL,          -- empty: deleted
    epoch INTEGER NOT NULL,
    "end" INTEGER DEFAULT 0,     -- one past the last position that was read
    last TEXT DEFAULT '',        -- the append that wrote that record
    edited INTEGER DEFAULT 0,    -- something in it is amended or retracted
    tail TEXT,                   -- the version that was read to its end; NULL: not finished
    card TEXT DEFAULT '',        -- how its card looked in the list
    title TEXT,
    project TEXT,
    cwd TEXT
);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,      -- the rowid of its text
    session INTEGER NOT NULL,
    at INTEGER NOT NULL,
    node BLOB NOT NULL,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    time INTEGER NOT NULL,
    digest BLOB NOT NULL         -- of kind and text: equal ones are folded
);
CREATE INDEX entries_of_session ON entries (session, at);
CREATE INDEX entries_by_time ON entries (kind, time);
CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


class Known(NamedTuple):
    """The row of a session in the index."""

    id: int
    name: str
    turn: int
    session: str
    life: str
    epoch: int
    end: int
    last: str
    edited: bool
    tail: Version | None
    card: str


class _ForeignError(sqlite3.DatabaseError):
    """A database that is not a search index."""


class OvertakenError(Exception):
    """Another process changed the row of a session since it was read."""


def _in_turn(method: Callable[Concatenate[Database, P], T]) -> Callable[Concatenate[Database, P], T]:
    """Make a method of `Database` hold its lock."""

    @wraps(method)
    def locked(self: Database, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


class Database:
    """A connection to an index. Safe to use from several threads, which wait for one method of each other at most.

    Args:
        path: The file; None for one in memory.
        chosen: The user named the file, so it is removed only if it is an index.
    """

    def __init__(self, path: str | None, *, chosen: bool) -> None:
        self._path = path
        self._chosen = chosen
        self._notices: list[str] = []
        self.lock = threading.RLock()
        """Held by each method; to be held while `rows` are read."""
        self._connection = self._open()

    @_in_turn
    def close(self) -> None:
        self._connection.close()

    @_in_turn
    def take_notices(self) -> tuple[str, ...]:
        """Return the reasons for rebuilds of the index since the last call."""
        notices, self._notices = tuple(self._notices), []
        return notices

    # the file

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            connection = _connect(":memory:")
            _begin(connection)
            return connection
        with _alone(self._path):
            try:
                return self._connect_checked(self._path)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                if self._chosen:
                    raise UsageError(
                        f"the file is not a search index. path={self._path!r}", kind=Kind.INDEX,
                        remedy="name another file, or remove it",
                    ) from error  # fmt: skip
                self._remove(f"the search index was damaged ({error}) and is made anew")
            return self._connect_checked(self._path)

    def _connect_checked(self, path: str) -> sqlite3.Connection:
        connection = _connect(path)
        try:
            owner, version = (_ask(connection, f"PRAGMA {name}") for name in ("application_id", "user_version"))
            if owner == APPLICATION_ID and version != SCHEMA_VERSION:
                connection.close()
                self._remove(f"the search index was of version {version} and is made anew")
                connection = _connect(path)
            if not (owner == APPLICATION_ID and version == SCHEMA_VERSION):
                _begin(connection)
            connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self, why: str) -> None:
        for ending in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._path}{ending}")
        self._notices.append(why)

    @_in_turn
    def renew(self, why: str) -> None:
        """Replace the index by an empty one."""
        self._connection.close()
        if self._path is not None:
            with _alone(self._path):
                self._remove(why)
        self._connection = self._open()

    # sessions

    @_in_turn
    def sessions(self) -> dict[str, Known]:
        """All sessions, by their names in keys."""
        rows = self._connection.execute(f"SELECT {_KNOWN} FROM sessions")  # noqa: S608
        return {row[1]: _known(row) for row in rows}

    @_in_turn
    def session(self, name: str) -> Known | None:
        """One session."""
        statement = f"SELECT {_KNOWN} FROM sessions WHERE name = ?"  # noqa: S608
        row = self._connection.execute(statement, (name,)).fetchone()
        return None if row is None else _known(row)

    @_in_turn
    def begin(self, known: Known | None, name: str, card: Card, *, life: str, epoch: int) -> Known:
        """Start to index a session from its beginning: its old texts are removed."""
        with self._turn(known, name) as turn:
            if known is not None:
                self._drop(known, for_good=(known.life, known.epoch) != (life, epoch))
            self._connection.execute(
                "INSERT INTO sessions (name, turn, session, life, epoch) VALUES (?, ?, ?, ?, ?)",
                (name, turn, encode(card.session), life, epoch),
            )
            self._set_facts(name, card)
        found = self.session(name)
        if found is None or found.turn != turn:
            raise OvertakenError
        return found

    @_in_turn
    def add(self, known: Known, rows: Sequence[Row], *, end: int, last: str, edited: bool) -> Known:
        """Add texts of a session, which was read up to `end`."""
        with self._turn(known, known.name) as turn:
            for row in rows:
                self._add(known.id, row)
            self._connection.execute(
                'UPDATE sessions SET turn = ?, "end" = ?, last = ?, edited = ? WHERE id = ?',
                (turn, end, last, edited, known.id),
            )
        return known._replace(turn=turn, end=end, last=last, edited=edited)

    def _add(self, session: int, row: Row) -> None:
        digest = hashlib.blake2b(f"{row.kind}\n{row.text}".encode(), digest_size=_DIGEST_BYTES).digest()
        values = (session, row.at, encode(row.node), row.kind, printable(row.role), row.time_ms, digest)
        cursor = self._connection.execute(
            "INSERT INTO entries (session, at, node, kind, role, time, digest) VALUES (?, ?, ?, ?, ?, ?, ?)", values
        )
        self._connection.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (cursor.lastrowid, spaced(row.text)))

    @_in_turn
    def settle(self, known: Known, card: Card, *, tail: Version, seen: str) -> None:
        """Record that a session was read to its end.

        Args:
            known: The session.
            card: Its card as of now.
            tail: The version of the tail it was read from.
            seen: The stamp of its card in the list.
        """
        with self._turn(known, known.name) as turn:
            self._connection.execute(
                "UPDATE sessions SET turn = ?, tail = ?, card = ? WHERE id = ?", (turn, tail, seen, known.id)
            )
            self._set_facts(known.name, card)

    def _set_facts(self, name: str, card: Card) -> None:
        facts = map(printable, (card.title, card.project, card.cwd))
        self._connection.execute("UPDATE sessions SET title = ?, project = ?, cwd = ? WHERE name = ?", (*facts, name))

    @_in_turn
    def remove(self, known: Known) -> None:
        """Drop a session that was removed from the store."""
        with self._turn(known, known.name):
            self._drop(known, for_good=True)

    @_in_turn
    def forget(self, name: str, node: str | None) -> None:
        """Drop the texts of a node, or of a whole session; the next update reads the session again."""
        with self.transaction():
            known = self.session(name)
            if known is None:
                return
            if node is None:
                self._drop(known, for_good=True)
                return
            self._drop_texts("session = ? AND node = ?", (known.id, encode(node)), for_good=True)
            self._connection.execute("UPDATE sessions SET turn = ?, tail = NULL WHERE id = ?", (_new_turn(), known.id))

    def _drop(self, known: Known, *, for_good: bool) -> None:
        self._drop_texts("session = ?", (known.id,), for_good=for_good)
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (known.id,))

    def _drop_texts(self, which: str, values: tuple[object, ...], *, for_good: bool) -> None:
        self._connection.execute(f"DELETE FROM texts WHERE rowid IN (SELECT id FROM entries WHERE {which})", values)  # noqa: S608
        dropped = self._connection.execute(f"DELETE FROM entries WHERE {which}", values).rowcount  # noqa: S608
        if dropped and for_good:
            self._connection.execute("INSERT INTO texts (texts) VALUES ('optimize')")

    @_in_turn
    def empty_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, which may hold dropped texts."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # how

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction; no other process writes during it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _turn(self, known: Known | None, name: str) -> Iterator[int]:
        """A transaction that requires an unchanged row of a session; yields the row's next number."""
        with self.transaction():
            now = self.session(name)
            if (now and now.turn) != (known and known.turn):
                raise OvertakenError
            yield _new_turn()

    def rows(self, statement: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows; the caller holds the lock."""
        yield from self._connection.execute(statement, values)


_KNOWN: Final = 'id, name, turn, session, life, epoch, "end", last, edited, tail, card'


def _known(row: tuple[Any, ...]) -> Known:
    known = Known(*row)
    tail = None if known.tail is None else Version(known.tail)
    return known._replace(session=decode(row[3]), edited=bool(known.edited), tail=tail)


def _new_turn() -> int:
    return secrets.randbits(62)


def encode(identifier: str) -> bytes:
    """Encode an id for the index."""
    return identifier.encode("utf-8", "surrogatepass")


def decode(stored: bytes) -> str:
    """Decode an id from the index."""
    return stored.decode("utf-8", "surrogatepass")


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS_MAX, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last sessions, never the file
    except BaseException:
        connection.close()
        raise
    return connection


def _ask(connection: sqlite3.Connection, statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


def _begin(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database."""
    if _ask(connection, "SELECT count(*) FROM sqlite_master"):
        raise _ForeignError("it holds something else")
    connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT;")


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Lock the folder against processes that open or remove an index; makes folder and file if necessary.

    The folder is locked and not the file: a lock on a removed file is useless, and closing any descriptor of a database
    releases the locks that SQLite has on it.
    """
    try:
        import fcntl

        from treering.storage import local_lock
    except ModuleNotFoundError as error:
        text = f"searching needs file locks that this system lacks. missing={error.name!r}"
        raise UsageError(text, kind=Kind.LOCKS, remedy="use Linux or macOS (on Windows: WSL)") from error
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            local_lock.wait_for_lock(lock, path)
        with contextlib.suppress(FileExistsError):  # SQLite would make it readable for other users
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield
    finally:
        os.close(lock)


_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file is not an index, or is damaged."""
    code = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, _ForeignError) or code & 0xFF in _DAMAGE


def explain(error: sqlite3.Error | OSError, path: str | None) -> UnavailableError:
    """Return the error for callers: a problem of the index file, not of the store."""
    return UnavailableError(
        f"the search index cannot be used: {error}. path={path!r}", kind=Kind.INDEX,
        remedy="name another place for it; nothing was lost",
    )  # fmt: skip
