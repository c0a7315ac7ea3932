"""`continue`: show a session, or the last one about a folder, from this store or from another program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import click

from treering import terminals
from treering.api.store import Store
from treering.api.view import View
from treering.cli import documents, exits
from treering.cli.completion import session_argument
from treering.cli.conversation import print_items, unfinished
from treering.cli.names import find_session, namespace_cell, part_of
from treering.cli.output import Cell, Output, id_cell
from treering.cli.settings import Settings, environment, json_option, store_options
from treering.cli.text import ago, counted, iso_time
from treering.errors import NotFoundError, TreeringError
from treering.format.paths import namespace_prefix, prefix_of
from treering.importers.discovery import Recent, recent
from treering.importers.file_importer import FileImporter
from treering.importers.origin import origin_of
from treering.kinds import Kind
from treering.session.content import ContextItem
from treering.store.info import SessionInfo
from treering.terminals import Terminal, leave_breadcrumb, this_terminal
from treering.terminals.breadcrumb import breadcrumbs

CONTINUE_ITEMS = 4  # of the context, shown by `continue`


@click.command("continue")
@json_option
@session_argument(required=False)
@click.option("--cwd", metavar="FOLDER", help="The folder the session is about.  [default: this one]")
@click.option("--project", metavar="NAME", help="Only sessions of this project, about any folder.")
@click.option("-m", "--message", metavar="TEXT", help="Record this message from the user first.")
@click.option("--here", is_flag=True, help="Only sessions of this store, not those of other programs.")
@click.option("--any-terminal", is_flag=True, help="The last one of all, not the last one of this terminal.")
@click.option("--dry-run", is_flag=True, help="Only say which session it would be; import and record nothing.")
@store_options()
@click.pass_obj
def continue_(
    settings: Settings,
    *,
    as_json: bool,
    session: str | None,
    cwd: str | None,
    project: str | None,
    message: str | None,
    here: bool,
    any_terminal: bool,
    dry_run: bool,
) -> None:
    """Show SESSION, or the last session about this folder: that of this terminal, else the last of all.

    Shows its name, its current node, and the end of the model's context.

    If another program was active in the folder since, its session is imported first, or brought up to date; if this
    terminal has a session, this is done only for the same session, or for one that the program noted for this terminal.

    With --message the message is recorded first; the next program that resumes the session finds it at the end of the
    context.
    """
    if message is not None and not message.strip():
        raise click.UsageError("--message is empty")
    store, out, terminal = settings.open(), Output(), this_terminal(environment())
    others = _Others(store)
    if session is None:
        at = None if any_terminal else terminal
        found, other = _last_about(out, store, others, cwd or os.curdir, project, here=here, terminal=at)
    elif cwd is not None or project is not None or here or any_terminal:
        raise click.UsageError("SESSION names one; --cwd, --project, --here and --any-terminal choose the last of many")
    else:
        place, exact = find_session(store, session)
        found, other = place.view(exact).info, None
    if dry_run:
        _announce(out, found, other, as_json=as_json)
        return
    name = _take(others.importer, out, other, found) if other is not None else None
    if name is None and found is not None:
        store, name = part_of(store, found.namespace), found.id
    if message is not None:
        with store.session(name, create=False) as writer:
            writer.append(message)
    view = store.view(name or "")
    if session is not None or message is not None:  # only showing the last session is not choosing it
        leave_breadcrumb(store, view, terminal)
    if as_json:
        out.document(documents.of_standing(view) | {"context": documents.of_items(view.context)})
        return
    _print_standing(out, view, settings)


def _last_about(
    out: Output, store: Store, others: _Others, cwd: str, project: str | None, *, here: bool, terminal: Terminal | None
) -> tuple[SessionInfo | None, Recent | None]:
    """Return the session last active about a folder, and the file of another program that was written after that."""
    folder = cwd if project is None else None
    ours = terminals.recent(store, terminal, project=project, cwd=folder)
    found = ours or store.recent(project=project, cwd=folder, below=True)
    other = None if here or project is not None else others.last_about(cwd, found)
    if found is None and other is None:
        where = f"of project {project!r}" if project is not None else f"about {os.path.abspath(cwd)!r}"
        raise NotFoundError(f"no session {where}", kind=Kind.SESSION, remedy="`treering ls` lists all sessions")
    if ours is None:
        return found, other
    out.say("last used in this terminal; --any-terminal shows the last one of all")
    if other is None or _is_of_terminal(other, ours, _used_ms(store, ours, terminal)):
        return ours, other
    out.say(f"since then {other.program} wrote here: {other.path}")
    return ours, None


def _is_of_terminal(other: Recent, ours: SessionInfo, used_ms: int) -> bool:
    """Whether another program's file should be continued in a terminal that used a session of this store.

    That is so if the store's session was imported from it, or if the program noted it for the terminal, and wrote it
    after the store's session was used.
    """
    origin = origin_of(ours)
    if origin is not None and origin.path == other.path:
        return True
    return other.breadcrumb and other.modified_ms > used_ms


def _used_ms(store: Store, info: SessionInfo, terminal: Terminal | None) -> int:
    """When the terminal last used a session."""
    used = breadcrumbs(store.place.address, terminal)
    return max(
        (each.time_ms for each in used if (each.namespace, each.session) == (info.namespace, info.id)), default=0
    )


class _Others:
    """Finds sessions of other programs; reads the cards of the store only if there may be some."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def importer(self) -> FileImporter:
        """The importer, which has read the cards of the store."""
        return FileImporter(self._store)

    def last_about(self, cwd: str, found: SessionInfo | None) -> Recent | None:
        """Return the last session about a folder, if it was written after `found` was active and has new records."""
        return recent(
            Path(cwd).absolute(),
            Path.home(),
            environment(),
            tty=os.ttyname(sys.stdin.fileno()) if sys.platform != "win32" and sys.stdin.isatty() else None,
            after_ms=found.updated_ms if found is not None else None,
            known=lambda path: self.importer.is_unchanged(path) and found is not None,
        )


def _announce(out: Output, found: SessionInfo | None, other: Recent | None, *, as_json: bool) -> None:
    session = None if other is not None or found is None else found.id
    if as_json:
        namespace = None if session is None or found is None else found.namespace
        out.document({"session": session, "namespace": namespace, "file": other})
    elif other is not None:
        out.facts((("program", other.program), ("file", other.path), ("written", _time_cell(other.modified_ms))))
        out.say("it would be imported, or brought up to date, and continued")
    elif found is not None:
        title = found.title or found.first_prompt
        out.facts((("session", found.id), ("namespace", namespace_cell(found.namespace)), ("title", title)))


def _take(importer: FileImporter, out: Output, other: Recent, found: SessionInfo | None) -> str | None:
    """Import another program's session; return its name in this store, or None if that failed."""
    try:
        result = importer.load(other.path, format=other.program)
    except TreeringError as error:
        if found is None:
            raise
        out.say(f"{other.path}: not imported: {exits.line_of(error)}")
        return None
    how = {"new": "imported", "updated": "brought up to date"}.get(result.outcome, "imported before")
    out.say(f"{how} from {other.program}: {other.path}, {counted(result.records, 'new record')}")
    if result.branch:
        out.say(f"session went on here, so the new records are on the head {result.branch!r}")
    return result.session


def _time_cell(ms: int) -> Cell:
    return Cell(iso_time(ms), ago(ms))


def _print_standing(out: Output, view: View, settings: Settings) -> None:
    info = view.info
    out.facts(
        (
            ("session", Cell(info.id, style="bold cyan")),
            ("namespace", namespace_cell(info.namespace)),
            ("title", info.title or info.first_prompt),
            ("written", _time_cell(info.updated_ms)),
            ("head", view.head),
            ("node", id_cell(view.node)),
            *unfinished(view),
            ("open", f"{opened(settings, info.namespace)}.session({info.id!r})"),
        )
    )
    out.line("")
    _print_end(out, view.context)


def opened(settings: Settings, namespace: Sequence[str]) -> str:
    """Return the Python expression that opens the store at these namespaces."""
    arguments = ", ".join([repr(settings.target)] + ["single_writer=True"] * settings.single_writer)
    return f"treering.open({arguments})" + "".join(
        f".namespace({name!r})" if prefix_of([name]) == namespace_prefix("", name) else f".namespaces()[{name!r}]"
        for name in namespace
    )


def _print_end(out: Output, context: tuple[ContextItem, ...]) -> None:
    left_out = len(context) - CONTINUE_ITEMS
    if left_out > 0:
        out.line((f"... {left_out} earlier items of the context", "dim"))
    print_items(out, list(islice(context, max(0, left_out), None)), lines_max=12)
