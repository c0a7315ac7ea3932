"""Where Strands Agents keeps its sessions."""

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
    """Yield the folders of agents and orchestrators below `folder`, by their names."""
    return gather(find_files(Path(folder), ENDINGS), lambda path: unit_of(path) or "")


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:  # noqa: ARG001
    """Return where Strands keeps logs of messages for a user with this home; snapshots lie where a project is."""
    return [home / ".strands" / "sessions"]
