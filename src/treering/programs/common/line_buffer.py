"""A buffer for the lines of a file: in memory while they are small, then in a temporary file."""

from __future__ import annotations

import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator
from typing import Final

MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes in memory. Nearly all sessions are smaller, and so need no temporary file."""


class LineBuffer:
    """Lines in their order. The temporary file is removed with this object."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115  # closed in the next line
        weakref.finalize(self, self._file.close)
        self._ends = array("q", [0])

    def append(self, line: bytes) -> None:
        """Add a line at the end."""
        self._file.seek(self._ends[-1])
        self._file.write(line)
        self._ends.append(self._ends[-1] + len(line))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: int) -> bytes:
        """Return one line."""
        start, end = self._ends[at : at + 2]
        self._file.seek(start)
        return self._file.read(end - start)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the lines, also those that are added during the iteration."""
        at = 0
        while at < len(self):
            yield self[at]
            at += 1


def broken(lines: Iterable[bytes], *, ended: bool) -> Iterator[bytes]:
    """Yield lines, each with a line break at its end, except a last line without one.

    Args:
        lines: The header and the entries.
        ended: Add a line break to the last line as well, since programs append to the file.
    """
    before: bytes | None = None
    for line in lines:
        if before is not None:
            yield before if before.endswith(b"\n") else before + b"\n"
        before = line
    if before is not None:
        yield before if before.endswith(b"\n") or not ended else before + b"\n"
