"""The program `treering`: its commands, and how every one of them ends."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import click

import treering
from treering.cli import (
    backing_up,
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
    history,
    importing,
    listing,
    reindexing,
    repairing,
    retaining,
    searching,
    tree,
)
from treering.cli.settings import STORE_VARIABLE, Settings, store_options


class App(click.Group):
    """The group of all commands; turns every error into one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and leave the process with its exit code."""
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
        except Exception as error:  # noqa: BLE001  # the end of the program: a traceback helps nobody here
            if settings.debug:
                traceback.print_exc()
            report(error)
            return exits.code_of(error)
        return result if isinstance(result, int) else 0

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; click itself would treat a closed pipe as a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # Otherwise the interpreter would try to write the buffer at exit, and print an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise _ReaderGoneError from error


class _ReaderGoneError(Exception):
    """The pipe we print to was closed."""


def report(error: Exception) -> None:
    """Print an error as one line."""
    line = exits.line_of(error)
    if exits.code_of(error) == exits.UNEXPECTED and not isinstance(error, OSError | click.ClickException):
        line = f"unexpected: {line}; --debug shows where it came from"
    prefix = click.style("treering:", fg="red", bold=True)
    click.echo(f"{prefix} {line}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"try `{error.ctx.command_path} --help`", err=True)


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(treering.__version__, "-V", "--version", prog_name="treering")
@store_options(variable=STORE_VARIABLE)
def main() -> None:
    """Durable sessions for AI agents: look at them, branch them, move them, check them.

    Nodes and checkpoints are named by id, by the beginning or end of it (four characters or more), or by label; a node
    also by a head that stands on it. Output is for people on a terminal, and one record a line in a pipe.
    """


for _command in (
    listing.ls, history.show, tree.tree, history.log, history.context, checkpoints.checkpoints, checkpoints.diff,
    changes.branch, changes.fork, changes.rewind, continuing.continue_, searching.search, importing.import_,
    doctoring.doctor, discovering.discover,
    exporting.export, exporting.copy, backing_up.backup, checking.verify, repairing.repair, reindexing.reindex,
    changes.seal,
    checking.stats, changes.rm, erasing.erase, erasing.purge, retaining.retain, demo.demo,
):  # fmt: skip
    main.add_command(_command)
