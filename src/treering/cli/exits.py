"""Exit codes, and the one line that reports an error.

The codes follow the tree of errors: errors that a script would handle differently have different codes. They are part
of the interface; codes are only ever added.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import click

from treering.cli.text import one_line
from treering.errors import (
    AccessError,
    ConflictError,
    CorruptError,
    FormatVersionError,
    NotFoundError,
    TreeringError,
    UnavailableError,
    UnsafeStoreError,
    UsageError,
)


class Exit(NamedTuple):
    """One exit code."""

    code: int
    meaning: str
    errors: tuple[type[Exception], ...] = ()


UNEXPECTED: Final = 1
USAGE: Final = 2
CORRUPT: Final = 6
PARTLY: Final = 10
INTERRUPTED: Final = 130  # 128 + SIGINT, as in shells
READER_GONE: Final = 141  # 128 + SIGPIPE

EXITS: Final = (
    Exit(0, "done"),
    Exit(UNEXPECTED, "something else failed, for example a file could not be written"),
    Exit(USAGE, "the command was wrong; nothing was written", (click.UsageError, UsageError)),
    Exit(3, "the session, node, checkpoint or file is not there", (NotFoundError,)),
    Exit(4, "another writer wrote first, holds the session, or has the name", (ConflictError,)),
    Exit(5, "the store did not answer; a write may have landed", (UnavailableError,)),
    Exit(CORRUPT, "stored bytes are damaged or missing, or `verify` or `repair` found some", (CorruptError,)),
    Exit(7, "the store refused the credentials or the path", (AccessError,)),
    Exit(8, "the store cannot do this safely", (UnsafeStoreError,)),
    Exit(9, "written by a newer version", (FormatVersionError,)),
    Exit(PARTLY, "done in part: some of several files were not imported, or some sessions not read"),
    Exit(INTERRUPTED, "interrupted"),
    Exit(READER_GONE, "the program that read the output ended"),
)

_REMEDIES: Final = {
    "conditions": "pass --single-writer if no second process will ever write, or use a local path or s3://",
    "sessionheld": "wait until it is closed there; reading commands work meanwhile",
    "overtaken": "run the command again",
}
"""By kind of error: the remedy on the command line, if the library's remedy names Python arguments."""


def code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    return next((row.code for row in EXITS if isinstance(error, row.errors)), UNEXPECTED)


def line_of(error: Exception) -> str:
    """Return the line to print for an error: the problem, its place, and the remedy."""
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as `os.getcwd` raises it
        return "the working folder does not exist any more; change to another one"
    if not isinstance(error, TreeringError):
        line = one_line(f"{type(error).__name__}: {error}")
        return line if isinstance(error, OSError) else f"unexpected: {line}; --debug shows where it came from"
    text = str(error)
    if remedy := _REMEDIES.get(error.kind):
        text = text.removesuffix(f"; {error.remedy}") + f"; {remedy}"
    return one_line(text)
