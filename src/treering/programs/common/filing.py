"""The folder and file name that a program would use for a session, so that the program's own list shows it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.programs.common.times import write_time

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Filed(NamedTuple):
    """The facts that determine the place of a session."""

    session: str
    """Its id in the file."""
    cwd: str
    """Its working folder, an absolute path."""
    created_ms: int


def stamped(filed: Filed, ending: str = ".jsonl") -> str:
    """Return a file name made of the time and the id, like those of pi and similar programs."""
    time = re.sub(r"[:.]", "-", write_time(filed.created_ms) or "")
    return f"{time}_{safe(filed.session)}{ending}"


def safe(name: str) -> str:
    """Return a name with only the characters that are safe in file names."""
    return _UNSAFE.sub("-", name)


def dashed(path: str) -> str:
    """Return a path as a part of a folder's name, like pi."""
    return re.sub(r"[/\\:]", "-", path)
