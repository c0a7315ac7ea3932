"""`export` and `copy`: write sessions to files or other stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

from treering.api.store import Store
from treering.api.view import View
from treering.cli.completion import session_argument
from treering.cli.markdown import markdown
from treering.cli.names import find_node, find_session, open_view
from treering.cli.output import Output, progress
from treering.cli.settings import Settings, environment, store_options
from treering.cli.text import counted
from treering.exporters import export as export_file, installed_path
from treering.exporters.page import page_parts
from treering.programs.common.source import file_to_write
from treering.programs.common.target import targets
from treering.storage.atomic import write_atomically

_FORCE: Final = "pass --force to replace it"
FORMS: Final = ("jsonl", "markdown", "html", *targets())


@click.command()
@session_argument()
@click.option("--format", "form", type=click.Choice(FORMS), default="jsonl", show_default=True)
@click.option("--node", metavar="ID", help="The conversation down to this node.  [markdown; default: the head's]")
@click.option("--branch", metavar="HEAD", help="Only the branch of this head.  [html; default: all branches]")
@click.option("--no-images", is_flag=True, help="Leave images out of the file.  [html]")
@click.option("-o", "--out", "target", metavar="FILE", help="Write to this file.  [default: standard output]")
@click.option("--install", is_flag=True, help="Write it where the program keeps its own sessions, so that it lists it.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@store_options()
@click.pass_obj
def export(  # options of a command
    settings: Settings,
    *,
    session: str,
    form: str,
    node: str | None,
    branch: str | None,
    no_images: bool,
    target: str | None,
    install: bool,
    force: bool,
) -> None:
    """Write a session as JSON lines, as Markdown, as a page for browsers, or as a file of another program.

    JSON lines are the records as they are stored; Markdown is the conversation, for people. HTML is one file with the
    viewer and all branches in it, which opens without a server. A file of another program is read back before it is
    accepted, and that program continues at the session's current node. Data that its format cannot express is reported.
    """
    if form != "markdown" and node is not None:
        raise click.UsageError("--node goes with --format markdown")
    if form != "html" and (branch is not None or no_images):
        raise click.UsageError("--branch and --no-images go with --format html")
    view = open_view(settings.open(), session)
    if install and (target is not None or form not in targets()):
        raise click.UsageError("--install goes with --format and the name of a program, and without --out")
    if install:
        place = installed_path(view, format=form, home=Path.home(), environ=environment())
        place.parent.mkdir(parents=True, exist_ok=True)
        target = str(place)
    if form in targets():
        _export_file(view, target, form, force=force)
        return
    if form == "html":
        parts = page_parts(view, branch=branch, images=not no_images)
    else:
        parts = view.lines() if form == "jsonl" else _markdown(view, node)
    if target is None:
        for part in parts:
            click.echo(part, nl=False)
    else:
        _write(Path(target), parts, force=force)


def _export_file(view: View, target: str | None, form: str, *, force: bool) -> None:
    """Write a file of another program, and print what the file leaves out."""
    if target is None:
        raise click.UsageError(f"--format {form} goes with --out or --install")
    file_to_write(Path(target), overwrite=force, remedy=_FORCE)
    done = export_file(view, target, format=form, overwrite=force)
    out = Output()
    for left in done.left_out:
        out.say(f"left out: {counted(left.count, f'{left.kind} record')}: {left.reason}")
    out.say(f"exported {view.id}: {counted(done.entries, 'record')} to {target}")


def _markdown(view: View, node: str | None) -> Iterator[bytes]:
    end = find_node(view, node) if node is not None else view.node
    for part in markdown(view, end):
        yield part.encode(errors="replace")


def _write(target: Path, parts: Iterable[bytes], *, force: bool) -> None:
    write_atomically(file_to_write(target, overwrite=force, remedy=_FORCE), parts)


@click.command()
@session_argument()
@click.argument("target", metavar="[PLACE]", required=False)
@click.option("--name", metavar="NAME", help="Name of the copy.  [default: the same]")
@click.option(
    "--target-namespace", metavar="NAME", multiple=True, help="Namespace in the target; one more lies inside it."
)
@store_options()
@click.pass_obj
def copy(
    settings: Settings, *, session: str, target: str | None, name: str | None, target_namespace: tuple[str, ...]
) -> None:
    """Copy a session to another store or name.

    The session may be in use: the copy has its state when the command began.
    """
    store, exact = find_session(settings.open(), session)
    if target is None and not target_namespace:
        there = store
    else:
        there = Store(settings.elsewhere(target or settings.target, target_namespace))
    records = store.view(exact).stored().records
    with progress(f"copying {exact}", records) as step:
        store.copy(exact, there, name=name, progress=step)
    Output().say(f"copied {exact}: {records} records")
