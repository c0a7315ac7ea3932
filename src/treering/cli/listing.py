"""`ls`: list the sessions of a store."""

from __future__ import annotations

import os

import click

from treering.cli import documents
from treering.cli.names import all_sessions, namespace_cell
from treering.cli.output import Cell, Field, Output, id_cell
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import ago, iso_time, one_line
from treering.store.info import SessionInfo

COLUMNS = (
    "session", "active", "messages", "project", "folder", "status", "program", "first prompt", "title", "namespace",
)  # fmt: skip
SPARE = ("program", "first prompt", "folder", "status", "project", "messages")
"""Columns that a narrow terminal leaves out, in this order."""
PROMPT_CHARACTERS = 30  # beside a title; pipes get all of it


@click.command()
@json_option
@click.option("--project", metavar="NAME", help="Only sessions of this project.")
@click.option("--cwd", metavar="FOLDER", help="Only sessions about this folder.")
@click.option("--status", metavar="WORD", help="Only sessions with this status, for example `done`.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most this many rows.")
@click.option("--after", metavar="CURSOR", help="Continue after the page that ended with this cursor.")
@click.option("--all", "everything", is_flag=True, help="All sessions, not one page.")
@store_options()
@click.pass_obj
def ls(
    settings: Settings, *, as_json: bool, project: str | None, cwd: str | None, status: str | None, limit: int,
    after: str | None, everything: bool,
) -> None:  # fmt: skip
    """List sessions, also those in namespaces.

    The most recently active come first; imported sessions are listed by their activity in their program.
    """
    if everything and after is not None:
        raise click.UsageError("--all and --after exclude each other")
    store, out = settings.open(), Output()
    if everything:
        rows, cursor = list(all_sessions(store, project=project, cwd=cwd, status=status)), None
    else:
        page = store.sessions(project=project, cwd=cwd, status=status, limit=limit, after=after, below=True)
        rows, cursor = list(page.rows), page.after
    if as_json:
        out.document({"sessions": [documents.of_session(row) for row in rows], "after": cursor})
        return
    if not rows and out.terminal:
        out.say("no sessions")
        return
    with out.paged():
        out.table(COLUMNS, map(_row, rows), right=("messages",), stretch="title", spare=SPARE)
    if cursor is not None and out.terminal:
        out.say(f"more: --after {cursor}")


def _row(info: SessionInfo) -> tuple[Field, ...]:
    named = info.title or info.task
    warning = Cell(f"warning: {info.warning}", style="red") if info.warning else None
    return (
        id_cell(info.id),
        Cell(iso_time(info.updated_ms), ago(info.updated_ms), "dim"),
        str(info.messages),
        info.project,
        Cell(info.cwd, short_folder(info.cwd), "dim"),
        info.status,
        Cell(str(info.extra.get("imported") or ""), style="dim"),
        Cell(info.first_prompt, one_line(info.first_prompt, PROMPT_CHARACTERS) if named else "", "dim"),
        warning or named or info.first_prompt,
        namespace_cell(info.namespace),
    )


def short_folder(folder: str) -> str:
    """Return a folder for people: shortened at the front, with `~` for the home folder."""
    home = os.path.expanduser("~")
    shown = "~" + folder[len(home) :] if folder == home or folder.startswith(home + os.sep) else folder
    return shown if len(shown) <= 24 else "…" + shown[-23:]
