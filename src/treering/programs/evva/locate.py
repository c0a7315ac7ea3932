"""Where evva keeps its sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.source import find_files

ENDINGS: Final = (".json", ".json.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` that may be sessions of evva, by their names; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return where evva keeps its sessions for a user with this home.

    Its documents let `EVVA_HOME` name another place; its code does not look at that. So both places are looked at.
    """
    named_home = environ.get("EVVA_HOME")
    homes = [Path(named_home).expanduser()] if named_home else []
    return [each / "sessions" for each in dict.fromkeys([*homes, home / ".evva"])]
