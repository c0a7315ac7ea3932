"""Breadcrumbs of oh-my-pi: small files with the session that a terminal had open last, which is continued there.

    <folder of the agent>/terminal-sessions/<terminal>

The first line is the working folder, the second the session file. Later lines are marks: `fresh` for a session whose
file is not written yet, `cwdstat <device> <inode>` for the folder, so that it is recognized after a move.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from treering.programs.common.source import is_special
from treering.terminals.terminal import terminal_name

BREADCRUMB_BYTES_MAX: Final = 64 * 1024
"""The most bytes of a breadcrumb, which has two paths; a larger file is something else."""
FOLDER: Final = "terminal-sessions"
_LINES_MIN: Final = 2
_DEPTH_MAX: Final = 8
"""The most levels of nested subagents that oh-my-pi follows."""


class Breadcrumb(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a terminal had open last."""

    cwd: Path
    session_file: Path
    """The absolute path of the session file."""
    fresh: bool = False
    """Whether the session's file may not exist yet: an older session must not be continued instead."""
    folder: tuple[int, int] | None = None
    """Device and inode of `cwd` when this was written."""

    def is_of(self, folder: Path) -> bool:
        """Tell whether the terminal worked in `folder`, even if the folder was renamed since."""
        if self.cwd == folder:
            return True
        try:
            there = folder.stat()
        except OSError:
            return False
        return self.folder == (there.st_dev, there.st_ino)


def parse_breadcrumb(text: str) -> Breadcrumb | None:
    """Parse the text of a breadcrumb; None if it is no breadcrumb."""
    lines = text.strip().split("\n")
    if len(lines) < _LINES_MIN or not lines[0] or not lines[1]:
        return None
    cwd, *marks = Path(lines[0]), *lines[2:]
    folders = [_numbers(mark) for mark in marks if mark.startswith("cwdstat ")]
    return Breadcrumb(
        cwd=cwd,
        session_file=_above(cwd / lines[1]),
        fresh="fresh" in marks,
        folder=next((folder for folder in folders if folder), None),
    )


def _above(session_file: Path) -> Path:
    """Return the user's session of a subagent's session, which is in a folder named like the user's session file."""
    for _ in range(_DEPTH_MAX):
        above = Path(f"{session_file.parent}.jsonl")
        if not above.is_file():
            break
        session_file = above
    return session_file


def _numbers(mark: str) -> tuple[int, int] | None:
    words = mark.split(" ")[1:]
    if len(words) != _LINES_MIN or not all(word.isascii() and word.isdigit() for word in words):
        return None
    return int(words[0]), int(words[1])


def read_breadcrumb(path: Path) -> Breadcrumb | None:
    """Return the breadcrumb in a file; None if there is no file, it is no breadcrumb, or its session is missing.

    A session file that does not exist counts only if the breadcrumb is fresh.
    """
    if is_special(path):
        return None
    try:
        with path.open("rb") as stream:
            data = stream.read(BREADCRUMB_BYTES_MAX)
    except OSError:
        return None
    crumb = parse_breadcrumb(data.decode("utf-8", "replace"))
    return crumb if crumb and (crumb.fresh or crumb.session_file.is_file()) else None


def find_breadcrumbs(folder: Path) -> list[Breadcrumb]:
    """Return the breadcrumbs of all terminals below the folder of an agent, the newest first."""
    try:
        paths = [path for path in (folder / FOLDER).iterdir() if path.is_file()]
    except OSError:
        return []
    crumbs = [(path.stat().st_mtime_ns, crumb) for path in paths if (crumb := read_breadcrumb(path))]
    return [crumb for _, crumb in sorted(crumbs, key=lambda pair: -pair[0])]


def terminal_breadcrumb(folder: Path, environ: Mapping[str, str], tty: str | None) -> Breadcrumb | None:
    """Return the breadcrumb of this terminal, below the folder of an agent."""
    name = terminal_name(environ, tty)  # oh-my-pi gives the same names
    if name is None or name != os.path.basename(name):  # a variable must not lead out of the folder
        return None
    return read_breadcrumb(folder / FOLDER / name)
