"""Names of sessions that the shell completes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

import click

from treering.cli.settings import Settings
from treering.errors import TreeringError

F = TypeVar("F", bound=Callable[..., Any])

NAMES_MAX = 200
"""Most sessions that are checked, the last active first, since each takes a read of its card."""


def session_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument that names a session."""
    return click.argument("session", required=required, shell_complete=_names)


def _names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    del parameter
    settings = context.find_object(Settings) or Settings()
    try:
        with context.scope(cleanup=False):
            rows = islice(settings.open().each_session(below=True), NAMES_MAX)
            return [row.id for row in rows if row.id.startswith(incomplete)]
    except (TreeringError, OSError):  # a completion must not print errors into the line
        return []
