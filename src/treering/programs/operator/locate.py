"""The places of Operator-Use's sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.filing import Filed, stamped
from treering.programs.common.source import find_files

ENDINGS: Final = (".jsonl", ".jsonl.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` whose names may be those of Operator sessions; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:  # noqa: ARG001
    """Return the folders in which Operator keeps the sessions of a user with this home: one, and one for each profile.

    Before May 2026 Operator's home had another name, and before that a profile was called workspace.
    """
    root, before = home / ".operator", home / ".operator-use"
    old = sorted([*before.glob("profiles/*/sessions"), *before.glob("workspaces/*/sessions")])
    return [root / "sessions", *sorted(root.glob("profiles/*/sessions")), *old]


def place(filed: Filed, home: Path, environ: Mapping[str, str]) -> Path:
    """Return a file in the one folder that Operator lists; the header has the session's working folder."""
    return folders(home, environ)[0] / stamped(filed)
