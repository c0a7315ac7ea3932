"""The places of pi's sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.filing import Filed, dashed, stamped
from treering.programs.common.source import find_files

ENDINGS: Final = (".jsonl", ".jsonl.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` whose names may be those of pi sessions; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which pi keeps the sessions of a user with this home and environment."""
    named, sessions = environ.get("PI_CODING_AGENT_DIR"), environ.get("PI_CODING_AGENT_SESSION_DIR")
    agent = Path(named).expanduser() if named else home / ".pi" / "agent"
    return [agent / "sessions", *([Path(sessions).expanduser()] if sessions else [])]


def place(filed: Filed, home: Path, environ: Mapping[str, str]) -> Path:
    """Return the file in which pi would keep a session: in a folder per working directory, unless a folder is named."""
    agent, *named = folders(home, environ)
    if named:
        return named[0] / stamped(filed)
    return agent / f"--{dashed(filed.cwd.lstrip('/'))}--" / stamped(filed)
