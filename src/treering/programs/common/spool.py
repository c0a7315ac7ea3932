"""Copy a pipe or device to a temporary file, since importers read a file more than once.

`/dev/stdin` and `<(...)` of a shell are such files. The size is limited, since a device may never end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from treering.errors import UsageError
from treering.kinds import Kind
from treering.programs.common.source import is_special, refused

P = TypeVar("P", bound=os.PathLike[str])
STREAM_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The most bytes read from a pipe or device; larger sessions must be imported from files."""
_PIECE_BYTES: Final = 1024 * 1024
_STREAMS: Final = ("/dev/stdin", "/dev/fd/", "/proc/")
"""Prefixes of paths that name another file in each process."""


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path can be read only once, or names another file in another process."""
    return is_special(path) or os.path.realpath(path).startswith(_STREAMS)


@contextmanager
def settled(path: P) -> Iterator[P | Path]:
    """Yield a file with the contents of a path: the file itself, or a copy of a pipe or device.

    Args:
        path: A file, a folder, a pipe or a device. A folder in a bucket is yielded as it is.

    Raises:
        UsageError: It is longer than the limit, and perhaps endless (kind `too_long`).
        AccessError: It may not be read.
        UnavailableError: The system reported another error.
    """
    if is_stream(path):
        with tempfile.TemporaryDirectory(prefix="treering-") as folder:
            copy = Path(folder, Path(path).name)
            _copy(Path(path), copy)
            yield copy
    else:
        yield Path(os.path.realpath(path)) if os.fspath(path).startswith(_STREAMS) else path


def _copy(path: Path, copy: Path) -> None:
    left = STREAM_BYTES_MAX
    with refused(path), path.open("rb") as stream, copy.open("wb") as file:
        while piece := stream.read(_PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                raise UsageError(
                    f"more comes out of this than is read, perhaps without an end. path={str(path)!r}, "
                    f"bytes_max={STREAM_BYTES_MAX}",
                    kind=Kind.TOO_LONG,
                    remedy="write it to a file, and import that",
                )
            file.write(piece)
