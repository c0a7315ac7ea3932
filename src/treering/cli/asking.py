"""Ask for confirmation before changes that cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from treering.errors import UsageError
from treering.kinds import Kind


def agreed(question: Callable[[], str], *, verb: str = "do") -> bool:
    """Ask on the terminal.

    Args:
        question: Returns the question; called only on a terminal, since the answer may take long to compute.
        verb: The action that `--yes` would do without asking.

    Raises:
        UsageError: There is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask at", kind=Kind.CONFIRM, remedy=f"pass --yes to {verb} it")
    return click.confirm(question(), err=True)
