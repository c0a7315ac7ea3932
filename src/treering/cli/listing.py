"""`ls` and `continue`: which sessions there are, and where I was."""

from __future__ import annotations

import os
from itertools import islice

import click

from treering.cli import documents
from treering.cli.conversation import print_items
from treering.cli.names import all_sessions, open_session
from treering.cli.output import Cell, Field, Output, id_cell
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import ago, iso_time
from treering.errors import NotFoundError
from treering.session.info import SessionInfo
from treering.session.reader import ContextItem

CONTINUE_ITEMS = 4  # of the context, shown by `continue`


@click.command()
@json_option
@click.option("--project", metavar="NAME", help="Only sessions of this project.")
@click.option("--cwd", metavar="FOLDER", help="Only sessions about this folder.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="Most rows.")
@click.option("--after", metavar="CURSOR", help="Go on behind the page that ended with this cursor.")
@click.option("--all", "everything", is_flag=True, help="All sessions, not one page.")
@store_options()
@click.pass_obj
def ls(
    settings: Settings, *, as_json: bool, project: str | None, cwd: str | None, limit: int, after: str | None,
    everything: bool,
) -> None:  # fmt: skip
    """List sessions, the most recently written first."""
    store, out = settings.open(), Output()
    if everything:
        rows, cursor = list(all_sessions(store, project=project, cwd=cwd, after=after)), None
    else:
        page = store.sessions(project=project, cwd=cwd, limit=limit, after=after)
        rows, cursor = list(page.rows), page.after
    if as_json:
        out.document({"sessions": [documents.of_session(row) for row in rows], "after": cursor})
        return
    if not rows and out.terminal:
        out.say("no sessions")
        return
    out.table(
        ("session", "written", "messages", "project", "folder", "status", "title"), map(_row, rows), right=("messages",)
    )
    if cursor is not None and out.terminal:
        out.say(f"more: --after {cursor}")


def _row(info: SessionInfo) -> tuple[Field, ...]:
    said = info.title or info.first_prompt or info.task
    return (
        id_cell(info.id),
        Cell(iso_time(info.updated_ms), ago(info.updated_ms), "dim"),
        str(info.messages),
        info.project,
        Cell(info.cwd, _short_folder(info.cwd), "dim"),
        info.status,
        Cell(f"warning: {info.warning}", style="red") if info.warning else said,
    )


def _short_folder(folder: str) -> str:
    home = os.path.expanduser("~")
    shown = "~" + folder[len(home) :] if folder == home or folder.startswith(home + os.sep) else folder
    return shown if len(shown) <= 24 else "…" + shown[-23:]


@click.command("continue")
@json_option
@click.option("--cwd", metavar="FOLDER", default=".", help="The folder the session is about.  [default: this one]")
@click.option("--project", metavar="NAME", help="Only sessions of this project, about any folder.")
@click.option("-m", "--message", metavar="TEXT", help="Record this message from the user first.")
@store_options()
@click.pass_obj
def continue_(settings: Settings, *, as_json: bool, cwd: str, project: str | None, message: str | None) -> None:
    """Show the last session about this folder.

    Its name, where it stands, and the end of what the model would see.

    With --message the message is recorded first; whoever resumes the session finds it at the end of the context.
    """
    store, out = settings.open(), Output()
    found = store.recent(project=project) if project is not None else store.recent(cwd=cwd)
    if found is None:
        where = f"of project {project!r}" if project is not None else f"about {os.path.abspath(cwd)!r}"
        raise NotFoundError(f"no session {where}", kind="session", remedy="`treering ls` lists all sessions")
    if message is not None:
        with open_session(store, found.id) as session:
            session.append(message)
    view = store.view(found.id)
    if as_json:
        out.document(documents.of_standing(view) | {"context": documents.of_items(view.context)})
        return
    info = view.info
    out.facts(
        (
            ("session", Cell(info.id, style="bold cyan")),
            ("title", info.title or info.first_prompt),
            ("written", Cell(iso_time(info.updated_ms), ago(info.updated_ms))),
            ("head", view.head),
            ("node", id_cell(view.node)),
            ("open", f"treering.open({_opened(settings)}).session({info.id!r})"),
        )
    )
    out.line("")
    _print_end(out, view.context)


def _opened(settings: Settings) -> str:
    """The arguments that open this store from a program."""
    arguments = [repr(settings.target)]
    arguments += [f"namespace={settings.namespace!r}"] if settings.namespace else []
    return ", ".join(arguments + ["single_writer=True"] * settings.single_writer)


def _print_end(out: Output, context: tuple[ContextItem, ...]) -> None:
    left_out = len(context) - CONTINUE_ITEMS
    if left_out > 0:
        out.line((f"... {left_out} earlier items of the context", "dim"))
    print_items(out, list(islice(context, max(0, left_out), None)), lines_max=12)
