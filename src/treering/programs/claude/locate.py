"""The places of Claude Code's sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.errors import UsageError
from treering.kinds import Kind
from treering.programs.claude.session_id import uuid_of
from treering.programs.common.filing import Filed
from treering.programs.common.source import find_files

ENDINGS: Final = (".jsonl", ".jsonl.gz")
FOLDER_CHARACTERS_MAX: Final = 200
"""Claude Code cuts longer names of folders and adds a digest, whose algorithm is not known here."""


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` whose names may be those of Claude Code sessions; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folder in which Claude Code keeps the sessions of a user with this home and environment."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return [(Path(named).expanduser() if named else home / ".claude") / "projects"]


def place(filed: Filed, home: Path, environ: Mapping[str, str]) -> Path:
    """Return the file in which Claude Code would keep a session: in a folder for each working directory.

    Raises:
        UsageError: The name of that folder would be too long.
    """
    folder = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(filed.cwd))
    if len(folder) > FOLDER_CHARACTERS_MAX:
        raise UsageError(
            f"it is not known how Claude Code names the folder of so long a path. cwd={filed.cwd!r}",
            kind=Kind.FILE,
            remedy="start Claude Code there once, and export to a file in the folder that it makes",
        )
    return folders(home, environ)[0] / folder / f"{uuid_of(filed.session)}.jsonl"
