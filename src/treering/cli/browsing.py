"""`browse`: look at sessions in full-screen mode."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial

import click

from treering.cli.completion import session_argument
from treering.cli.continuing import opened
from treering.cli.history import log
from treering.cli.listing import ls
from treering.cli.names import argument_of, find_session
from treering.cli.output import Output
from treering.cli.settings import Settings, environment, store_options
from treering.cli.text import one_line
from treering.errors import UsageError
from treering.kinds import Kind


@click.command()
@session_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Begin with the sessions of all folders, not of this one.")
@store_options()
@click.pass_context
def browse(context: click.Context, *, session: str | None, everything: bool) -> None:
    """Look at sessions in full-screen mode: list, tree, conversation, search; go back, branch and fork.

    With SESSION its tree is shown first. Without a terminal the list, or the conversation, is printed.
    """
    settings, out = context.ensure_object(Settings), Output()
    if not _on_terminal():
        command = ls if session is None else log
        out.say(f"no terminal to browse on, so this is what `treering {command.name}` prints")
        context.invoke(command, **({} if session is None else {"session": session}))
        return
    try:
        from treering.cli.browse.app import Browser
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        remedy = "pip install 'treering[browse]'; `treering ls`, `tree` and `log` need nothing more"
        raise UsageError("browsing needs Textual", kind=Kind.MISSING, remedy=remedy) from error
    store = settings.open()
    copied = Browser(
        store,
        place=settings.target,
        ways=partial(_ways, settings),
        cwd=None if everything else os.getcwd(),
        session=find_session(store, session) if session is not None else None,
    ).run()
    if copied is not None:
        click.echo(one_line(copied).encode())


def _on_terminal() -> bool:
    """Whether input and output are a terminal."""
    streams = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return streams and environment().get("TERM", "dumb") != "dumb"


def _ways(settings: Settings, namespace: Sequence[str], session: str) -> Sequence[tuple[str, str]]:
    """The name of a session, and the commands and code that continue it."""
    return (
        ("session", session),
        ("continue", shlex.join(["treering", *settings.options_for(namespace), "continue", *argument_of(session)])),
        ("Python", f"{opened(settings, namespace)}.session({session!r})"),
    )
