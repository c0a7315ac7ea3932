"""Find texts in an index by words, kinds and sessions; equal neighbours are folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final, Literal, NamedTuple, TypedDict

import msgspec

from treering.errors import UsageError
from treering.format.paths import encode_id
from treering.format.values import INTEGER_MAX
from treering.kinds import Kind
from treering.search.database import Database, decode
from treering.search.query import MARKS, expression, joined, printable
from treering.search.texts import KINDS, SAID
from treering.session.creation import full_path

Order = Literal["best", "newest"]

SNIPPET_WORDS: Final = 32  # about two lines; a character of Chinese, Japanese or Korean counts as a word
SNIPPET_CHARACTERS: Final = 300  # of the beginning, which is shown if the query is empty


class Filters(TypedDict, total=False):
    """Which texts to search; None means no filter."""

    kinds: Sequence[str] | None
    """Some of `prompt`, `text`, `thinking`, `call`, `result`. By default prompts and texts, or all kinds of a role."""
    role: str | None
    """Only messages of this role, or other nodes of this kind."""
    project: str | None
    """Only sessions of this project."""
    cwd: str | None
    """Only sessions about this folder."""
    session: str | None
    """Only this session, by its full name."""
    since_ms: int | None
    """Only texts of this time or later: milliseconds since 1970, by the writers' clocks."""
    until_ms: int | None
    """Only texts before this time: milliseconds since 1970."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A text that was found, and its place."""

    session: str
    title: str
    project: str
    cwd: str
    node: str
    """The node to jump to, also if its amended payload was found."""
    role: str
    """The role of a message, or the kind of another node, for example `compaction`."""
    kind: str
    """`prompt`, `text`, `thinking`, `call` or `result`."""
    time_ms: int
    snippet: str
    marks: tuple[tuple[int, int], ...]
    """The matches in the snippet: first character, and one past the last."""
    folded: int
    """How many equal texts follow, older or in other sessions."""


class _Where(NamedTuple):
    """Conditions of a query, and the values of their placeholders."""

    conditions: list[str]
    values: list[object]


def find(database: Database, query: str, filters: Filters, *, order: Order, limit: int) -> list[Hit]:
    """Find texts; see `Index.search`."""
    words = expression(query)
    where = _where(filters)
    if words is not None:
        where.conditions.append("texts MATCH ?")
        where.values.append(words)
    by = "entries.time DESC, sessions.name, entries.at DESC, entries.kind"
    if order == "best" and words is not None:
        by = f"texts.rank, entries.digest, {by}"
    source = _ENTRIES if words is None else _TEXTS
    rows = database.rows(
        f"SELECT entries.id, entries.digest FROM {source} WHERE {' AND '.join(where.conditions)} ORDER BY {by}",  # noqa: S608
        where.values,
    )
    groups = groupby(rows, key=lambda row: row[1])
    firsts = [(next(group)[0], sum(1 for _ in group)) for _, group in islice(groups, limit)]
    return [hit for entry, folded in firsts for hit in _hit(database, entry, folded, words)]


def check(filters: Filters, order: str, limit: int) -> None:
    """Refuse invalid filters, orders and limits.

    Raises:
        UsageError: There is no such filter, kind or order, or a number is out of range.
    """
    if not 1 <= limit <= INTEGER_MAX:
        raise UsageError(f"a search needs a limit from 1 to {INTEGER_MAX}. limit={limit}", kind=Kind.LIMIT)
    for name, time in (("since_ms", filters.get("since_ms")), ("until_ms", filters.get("until_ms"))):
        if time is not None and not -INTEGER_MAX <= time <= INTEGER_MAX:
            raise UsageError(f"this is no time in milliseconds since 1970. {name}={time}", kind=Kind.OPTION)
    if unknown := sorted(filters.keys() - Filters.__annotations__.keys()):
        raise UsageError(f"no such filter. got={unknown!r}", kind=Kind.OPTION)
    if unknown := sorted(set(filters.get("kinds") or ()) - set(KINDS)):
        raise UsageError(f"no such kind of text. got={unknown!r}, known={list(KINDS)!r}", kind=Kind.OPTION)
    if order not in ("best", "newest"):
        raise UsageError(f"order must be 'best' or 'newest'. got={order!r}", kind=Kind.OPTION)


def _where(filters: Filters) -> _Where:
    kinds = filters.get("kinds")
    if kinds is None:
        kinds = SAID if filters.get("role") is None else KINDS
    where = _Where([f"entries.kind IN ({', '.join('?' * len(kinds))})"], list(kinds))
    for name, (condition, stored) in _CONDITIONS.items():
        value = filters.get(name)
        if value is not None:
            where.conditions.append(condition)
            where.values.append(stored(value))
    return where


_CONDITIONS: Final[dict[str, tuple[str, Callable[[Any], object]]]] = {
    "role": ("entries.role = ?", printable),
    "project": ("sessions.project = ?", printable),
    "cwd": ("sessions.cwd = ?", lambda cwd: printable(full_path(cwd))),
    "session": ("sessions.name = ?", encode_id),
    "since_ms": ("entries.time >= ?", int),
    "until_ms": ("entries.time < ?", int),
}
"""By filter: its condition on a row, and the function that encodes its value."""

_ENTRIES: Final = "entries JOIN sessions ON sessions.id = entries.session"
_TEXTS: Final = f"texts JOIN {_ENTRIES.replace(' JOIN', ' ON entries.id = texts.rowid JOIN')}"
_FACTS: Final = "sessions.session, title, project, cwd, node, role, kind, time"
_BEGINNING: Final = f"SELECT {_FACTS}, substr(text, 1, {2 * SNIPPET_CHARACTERS}) FROM {_TEXTS} WHERE texts.rowid = ?"  # noqa: S608
_SNIPPET: Final = (
    f"SELECT {_FACTS}, snippet(texts, 0, '{MARKS[0]}', '{MARKS[1]}', '…', {SNIPPET_WORDS}) "  # noqa: S608
    f"FROM {_TEXTS} WHERE texts.rowid = ? AND texts MATCH ?"
)


def _hit(database: Database, entry: object, folded: int, words: str | None) -> Iterator[Hit]:
    """The hit for an entry; none if another process has dropped the entry since."""
    rows = database.rows(_BEGINNING, (entry,)) if words is None else database.rows(_SNIPPET, (entry, words))
    for session, title, project, cwd, node, role, kind, time, text in rows:
        snippet, marks = _unmarked(joined(text))
        if words is None and len(snippet) > SNIPPET_CHARACTERS:
            snippet = snippet[: SNIPPET_CHARACTERS - 1] + "…"
        yield Hit(
            session=decode(session),
            title=title,
            project=project,
            cwd=cwd,
            node=decode(node),
            role=role,
            kind=kind,
            time_ms=time,
            snippet=snippet,
            marks=marks,
            folded=folded,
        )


def _unmarked(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Remove the marks from a snippet; return it with the places of the matches."""
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    place = 0
    for piece in text.split(MARKS[0]):
        match, mark, rest = piece.partition(MARKS[1])
        if mark:
            marks.append((place, place + len(match)))
        parts += [match, rest]
        place += len(match) + len(rest)
    return "".join(parts), tuple(marks)
