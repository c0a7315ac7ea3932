"""The places of Strands Agents' sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.folder import gather
from treering.programs.common.source import find_files
from treering.programs.strands.unit import unit_of

__all__ = ["unit_of"]

ENDINGS: Final = (".json",)


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the folders of agents and orchestrators below `folder`; they are found by the names of their files."""
    return gather(find_files(Path(folder), ENDINGS), lambda path: unit_of(path) or "")


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:  # noqa: ARG001
    """Return the folder in which Strands keeps logs of messages of a user with this home; snapshots are in projects."""
    return [home / ".strands" / "sessions"]
