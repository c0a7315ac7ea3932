"""Where a program would keep a session: its folder and the name of its file, so that its own list shows the session."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from treering.programs.common.times import write_time

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Filed(NamedTuple):
    """What tells the place of a session."""

    session: str
    """Its id in the file."""
    cwd: str
    """An absolute path."""
    created_ms: int


def stamped(filed: Filed, ending: str = ".jsonl") -> str:
    """Return a file name of the time and the id, as pi and its relatives make it."""
    time = re.sub(r"[:.]", "-", write_time(filed.created_ms) or "")
    return f"{time}_{safe(filed.session)}{ending}"


def safe(name: str) -> str:
    """Return a name as a file may have it."""
    return _UNSAFE.sub("-", name)


def dashed(path: str) -> str:
    """Return a path as part of a folder's name, in pi's way."""
    return re.sub(r"[/\\:]", "-", path)
