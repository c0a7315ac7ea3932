"""Ask before what cannot be got back."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from treering.errors import UsageError


def agreed(question: Callable[[], str], *, verb: str = "do") -> bool:
    """Ask on the terminal.

    Args:
        question: Called only if somebody is there to be asked: what is to be told may take long to find out.
        verb: What `--yes` would do without asking.

    Raises:
        UsageError: Nobody is there.
    """
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to be asked", kind="confirm", remedy=f"pass --yes to {verb} it")
    return click.confirm(question(), err=True)
