"""The places of evva's sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treering.programs.common.source import find_files

ENDINGS: Final = (".json", ".json.gz")


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` whose names may be those of evva sessions; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders in which evva may keep the sessions of a user with this home.

    evva's documentation lets `EVVA_HOME` name another folder, and its code ignores that. So both folders are returned.
    """
    named_home = environ.get("EVVA_HOME")
    homes = [Path(named_home).expanduser()] if named_home else []
    return [each / "sessions" for each in dict.fromkeys([*homes, home / ".evva"])]
