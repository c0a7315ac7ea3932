"""The program `treering`: its commands, error output and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import Any, Final

import click

import treering
from treering.cli import (
    backing_up,
    browsing,
    changes,
    checking,
    checkpoints,
    continuing,
    demo,
    discovering,
    doctoring,
    erasing,
    exits,
    exporting,
    following,
    history,
    importing,
    listing,
    reindexing,
    repairing,
    retaining,
    searching,
    serving,
    tree,
)
from treering.cli.settings import STORE_VARIABLE, Settings, store_options


class App(click.Group):
    """The group of all commands; turns every error into one line and an exit code."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or by an alias."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands, grouped by purpose."""
        names = {command: name for name, command in self.commands.items()}
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(names[each], each.get_short_help_str(limit=200)) for each in commands])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples, one per line."""
        with formatter.section("Examples"):
            formatter.write_dl(EXAMPLES, col_max=40)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command, and exit with its exit code."""
        _open_closed_streams()
        _write_whatever_is_said()
        settings = Settings()
        sys.exit(self._run(settings, *args, **{"prog_name": "treering", **extra, "standalone_mode": False}))

    def _run(self, settings: Settings, *args: Any, **extra: Any) -> int:
        try:
            result = super().main(*args, **extra, obj=settings)
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            return exits.INTERRUPTED
        except _ReaderGoneError:
            return exits.READER_GONE
        except Exception as error:  # noqa: BLE001  # the end of the program, where a traceback does not help
            if settings.debug:
                traceback.print_exc()
            report(error)
            result = exits.code_of(error)
        settings.tell_what_is_missing()
        return result if isinstance(result, int) else 0

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click itself would treat a closed pipe as a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Otherwise the interpreter would try to write the buffer at exit, and print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise _ReaderGoneError from error


def _open_closed_streams() -> None:
    """Open standard streams that the caller closed: a file of the store would get their number otherwise."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # in the order of their numbers
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for the whole process


def _write_whatever_is_said() -> None:
    """Print `?` for characters that the terminal cannot show, where an error would end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.isatty():
            stream.reconfigure(errors="replace")


class _ReaderGoneError(Exception):
    """The reader of the output pipe has closed it."""


def report(error: Exception) -> None:
    """Print an error as one line."""
    prefix = click.style("treering:", fg="red", bold=True)
    click.echo(f"{prefix} {exits.line_of(error)}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"try `{error.ctx.command_path} --help`", err=True)


SECTIONS: Final[Mapping[str, Sequence[click.Command]]] = {
    "Inspect": (
        listing.ls, browsing.browse, searching.search, history.show, history.log, following.follow, tree.tree,
        history.context, checkpoints.checkpoints, checkpoints.diff, checking.stats, serving.view,
    ),
    "Continue and branch": (continuing.continue_, changes.branch, changes.rewind, changes.fork),
    "Import, export, copy": (
        discovering.discover, importing.import_, doctoring.doctor, exporting.export, exporting.copy, backing_up.backup,
    ),
    "Check and maintain": (
        checking.verify, repairing.repair, reindexing.reindex, changes.seal, retaining.retain,
    ),
    "Delete": (changes.rm, erasing.erase, erasing.purge),
    "Serve": (serving.serve,),
    "Try": (demo.demo,),
}  # fmt: skip
"""All commands, under the headings of the help page."""

ALIASES: Final = {"list": "ls", "resume": "continue", "history": "log", "delete": "rm", "remove": "rm"}
"""Aliases of commands."""

EXAMPLES: Final = (
    ("treering import ~/old-sessions", "Make sessions of another program's files."),
    ("treering ls --project shop", "List the sessions of a project, the last active first."),
    ("treering log SESSION -n 5", "Show the end of a conversation."),
    ("treering continue", "Show the last session about this folder."),
    ("treering rewind SESSION NODE", "Go back to a message; nothing is lost."),
    ("treering --store s3://bucket/agents ls", "Do it in a bucket."),
)


@click.group(
    cls=App,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(treering.__version__, "-V", "--version", prog_name="treering")
@store_options(variable=STORE_VARIABLE)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Durable sessions for AI agents: look at them, branch them, move them, check them.

    Nodes and checkpoints are named by id, by the beginning or end of it (four characters or more), or by label; a node
    also by a head that points to it. Output is for people on a terminal, and one record per line in a pipe.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
