"""Write small local files that are not part of a store: exports, caches, notes of this computer."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically: readers find the old contents or all of the new ones, and a failure changes nothing.

    A new file can be read by its owner only; one that is replaced keeps its permissions. It is not synced: after a
    power cut the file may have the old contents, the new ones, or none. Drivers write the objects of a store.

    Args:
        path: The file, replaced if it exists.
        parts: Its bytes, piece by piece.

    Raises:
        OSError: The file cannot be written, or its folder is missing.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        with suppress(OSError):  # there is none, or its file system has no permissions
            shutil.copymode(path, name)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
