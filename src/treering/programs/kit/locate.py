"""The places of kit's sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.source import find_files

ENDINGS: Final = (".jsonl", ".jsonl.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` whose names may be those of kit sessions; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:  # noqa: ARG001
    """Return the folder in which kit keeps the sessions of a user with this home."""
    return [home / ".kit" / "sessions"]
