"""Where Claude Code keeps its sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.source import find_files

ENDINGS: Final = (".jsonl", ".jsonl.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` that may be sessions of Claude Code, by their names; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return where Claude Code keeps its sessions for a user with this home and environment."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return [(Path(named).expanduser() if named else home / ".claude") / "projects"]
