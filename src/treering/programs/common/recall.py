"""Read a record of a file a second time, so that it need not stay in memory until a later record needs it."""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Final, Self

from treering.format.values import Fields, fields_of
from treering.programs.common.lines import IsRecord, read_values

_READ_BYTES: Final = 1024 * 1024


class Recall:
    """The records of one file by their offsets. The file is opened when the first record is needed."""

    def __init__(self, open_file: Callable[[], io.BufferedIOBase], is_record: IsRecord) -> None:
        """Make the object, without opening anything.

        Args:
            open_file: Opens the file; a compressed file is decompressed.
            is_record: Chooses among the complete objects in a damaged line.
        """
        self._open_file = open_file
        self._is_record = is_record
        self._opened = ExitStack()
        self._stream: io.BufferedIOBase | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def __call__(self, offset: int) -> Fields:
        """Return the record that begins at an offset of the uncompressed file; empty if there is none."""
        self._stream = self._stream or self._open()
        self._stream.seek(offset)
        found = read_values(self._stream, lambda *_: None, self._is_record)
        return fields_of(next((value.value for value in found), None))

    def _open(self) -> io.BufferedIOBase:
        stream = self._opened.enter_context(self._open_file())
        if not isinstance(stream, gzip.GzipFile):
            return stream
        # seeking backwards in a compressed file would decompress it again from the beginning
        copy = self._opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # closed with the others
        with suppress(EOFError, gzip.BadGzipFile, zlib.error):  # copy the readable part of a damaged file
            while piece := stream.read1(_READ_BYTES):
                copy.write(piece)
        return copy
