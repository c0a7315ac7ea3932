"""`search`: find texts in all sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec

from treering.cli import exits
from treering.cli.conversation import role_style
from treering.cli.names import find_session, namespace_cell, namespace_of, parts_of
from treering.cli.output import Cell, Output, Span, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, iso_time, local_time, one_line, short_id
from treering.ids import now_ms

if TYPE_CHECKING:
    from treering.search import Hit, Index

Row = tuple[tuple[str, ...], "Hit"]
"""A hit, with its namespaces."""

KINDS = ("prompt", "text", "thinking", "call", "result")
TITLE_CHARACTERS_MAX = 60

_ago = re.compile(r"(\d{1,6})(min|h|d|w)")
_UNIT_MS = {"min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return a date, a time, or an age as milliseconds since 1970."""
    if value is None:
        return None
    if match := _ago.fullmatch(value):
        return now_ms() - int(match[1]) * _UNIT_MS[match[2]]
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (ValueError, OverflowError):
        text = f"{value!r} is no time; write 2026-01-31, 2026-01-31T12:00, or how long ago: 30min, 12h, 3d, 2w"
        raise click.BadParameter(text, context, parameter) from None


@click.command()
@json_option
@click.argument("words", nargs=-1)
@click.option("--prompts", is_flag=True, help="Only what users said.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="What to look at; may be repeated.")
@click.option("--role", metavar="ROLE", help="Only messages of this role, of every kind.")
@click.option("--project", metavar="NAME", help="Only sessions of this project.")
@click.option("--cwd", metavar="FOLDER", help="Only sessions about this folder.")
@click.option("--session", metavar="SESSION", help="Only this session; with --no-update its whole name.")
@click.option("--since", metavar="TIME", callback=_moment, help="Nothing older: a date, a time, or 30min, 12h, 3d, 2w.")
@click.option("--until", metavar="TIME", callback=_moment, help="Only what is older.")
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many rows.")
@click.option("--index", "index_file", metavar="FILE", help="Where the index is.  [default: in your cache folder]")
@click.option(
    "--no-update", is_flag=True, help="Search what was indexed of this namespace before; do not look at the store."
)
@click.option("--rebuild", is_flag=True, help="Rebuild the index first.")
@store_options()
@click.pass_context
def search(
    context: click.Context, *, as_json: bool, words: tuple[str, ...], prompts: bool, kinds: tuple[str, ...],
    role: str | None, project: str | None, cwd: str | None, session: str | None, since: int | None, until: int | None,
    newest: bool, limit: int, index_file: str | None, no_update: bool, rebuild: bool,
) -> None:  # fmt: skip
    """Search the texts of all sessions, also those in namespaces.

    All WORDS must occur; "two words" in quotes are a phrase, begin* is the beginning of a word. Without WORDS the
    newest texts are listed, with --prompts as a history of prompts. `treering show SESSION NODE` jumps to a row.

    The index is a file on this computer, one for each namespace, and is updated first. It can be removed: the next
    search makes it again.
    """
    from treering.search import open_index

    if prompts and kinds:
        raise click.UsageError("--prompts and --kind exclude each other")
    if no_update and rebuild:
        raise click.UsageError("--no-update and --rebuild exclude each other")
    store, out = context.ensure_object(Settings).open(), Output()
    only = index_file is not None or no_update
    parts = [store] if only else parts_of(store)
    if session is not None and not no_update:
        there, session = find_session(store, session)
        parts = [there]
    found: list[tuple[tuple[str, ...], list[Hit]]] = []
    unread = 0
    for part in parts:
        with open_index(part, index_file) as index:
            if not no_update:
                unread += _update(index, out, rebuild=rebuild)
            hits = index.search(
                " ".join(words),
                order="newest" if newest else "best",
                limit=limit,
                kinds=("prompt",) if prompts else kinds or None,
                role=role,
                project=project,
                cwd=cwd,
                session=session,
                since_ms=since,
                until_ms=until,
            )
        found.append((namespace_of(part), hits))
    rows = together(found, limit, newest=newest or not " ".join(words).strip())
    if as_json:
        out.document({"hits": [msgspec.structs.asdict(hit) | {"namespace": namespace} for namespace, hit in rows]})
    elif out.terminal:
        _print(out, rows)
    else:
        out.table((), map(_row, rows))
    if index_file is not None and session is None and (left := len(parts_of(store)) - 1):
        out.say(f"{counted(left, 'namespace')} in this store not searched: the file of --index is of one alone")
    if unread:
        context.exit(exits.PARTLY)


def together(found: Iterable[tuple[tuple[str, ...], list[Hit]]], limit: int, *, newest: bool) -> list[Row]:
    """Merge the hits of namespaces: the newest; or the best of each, then the second best, and so on."""
    rows = [(place, namespace, hit) for namespace, hits in found for place, hit in enumerate(hits)]
    rows.sort(key=lambda row: (0 if newest else row[0], -row[2].time_ms))
    return [(namespace, hit) for _, namespace, hit in rows[:limit]]


def _update(index: Index, out: Output, *, rebuild: bool) -> int:
    """Update an index, and say what it lacks; return how many sessions could not be read."""
    if rebuild:
        index.rebuild()
    with progress("indexing") as step:
        done = index.update(lambda done, total: step(done, f"indexing {done} of {total}"))
    for notice in done.notices:
        out.say(notice)
    for session, error in done.problems:
        out.say(f"not searched: {one_line(session, TITLE_CHARACTERS_MAX)}: {exits.line_of(error)}")
    return len(done.problems)


def _row(row: Row) -> tuple[Cell, ...]:
    namespace, hit = row
    fields = (hit.session, hit.node, iso_time(hit.time_ms), hit.role, hit.kind, hit.project, hit.title)
    return (*map(Cell, fields), Cell(str(hit.folded)), Cell(hit.snippet), namespace_cell(namespace))


def _print(out: Output, rows: list[Row]) -> None:
    if not rows:
        out.say("nothing found")
    for namespace, hit in rows:
        title = one_line(hit.title, TITLE_CHARACTERS_MAX)
        out.line(
            (short_id(hit.session), "bold cyan"),
            (f"  {short_id(hit.node)}", "cyan"),
            (f"  {hit.role}", role_style(hit.role)),
            (f"  {hit.kind}" if hit.kind not in ("prompt", "text") else "", "dim"),
            (f"  {local_time(hit.time_ms)}", "dim"),
            (f"  {title}" if title else "", ""),
            (f"  {namespace_cell(namespace).full}" if namespace else "", "dim"),
            (f"  +{hit.folded}" if hit.folded else "", "yellow"),
        )
        out.line("    ", *snippet_spans(hit))


def snippet_spans(hit: Hit) -> Iterator[Span]:
    """Yield the snippet, its matches in bold."""
    place = 0
    for start, end in hit.marks:
        yield hit.snippet[place:start], ""
        yield hit.snippet[start:end], "bold yellow"
        place = end
    yield hit.snippet[place:], ""
