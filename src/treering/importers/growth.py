"""Go on reading a file where the last look at it ended.

Session files of lines are written by appending, and may be hundreds of megabytes when one more record comes. So a look
at a large file leaves behind how far it came, and what its reader knew there.

Rule 1: this counts only for a file that begins with the very same bytes. They are hashed again, all of them: neither
size nor time tells that nobody changed one.
Rule 2: no answer depends on it. It lies in the user's cache folder, may be removed at any time, and is passed over if
it is damaged or of another version: then the file is read from its beginning, and says the same.
Rule 3: it holds ids, places and digests, and nothing that was said.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, TypeGuard

import msgspec
import zstandard

from treering.importers.entry import Entry
from treering.importers.lines import IsRecord, Report, Value, read_values
from treering.importers.source import GZIP_MAGIC, ImportSource
from treering.transcript.node import Draft

LAYOUT: Final = 2
"""Raised with every change of what readers know, or of what they make of a record."""
FILE_BYTES_MIN: Final = 4 * 1024 * 1024
"""Smaller files are read anew in less time than anyone notices."""
GROWTH_BYTES_MIN: Final = 4 * 1024 * 1024
"""Another look is kept when so much has come since the last one: it takes a few percent of the file."""
LOOKS_MAX: Final = 256
"""Kept in one folder; the ones made longest ago go first."""
_PIECE_BYTES: Final = 1024 * 1024
_CHECK_BYTES: Final = 32


class Look(msgspec.Struct, frozen=True, array_like=True):
    """How far a file was read, and what was known there."""

    layout: int
    format: str
    begin: int
    """Offset of the first byte that counts: what programs write anew in place stands before it."""
    offset: int
    """Of the line that comes next."""
    line: int
    """How many lines come before that."""
    digest: bytes
    """Of the bytes between these offsets."""
    state: bytes
    """What the reader of the format knew; see `GrowingSource`."""
    units: int = 0
    """Records that were counted; see `treering.importers.origin`."""
    records: bytes = b""
    """Digest of these."""
    active_ms: int | None = None


_decoder = msgspec.msgpack.Decoder(Look)
_encoder = msgspec.msgpack.Encoder()


class GrowingSource(ImportSource, Protocol):
    """A session file that is written by appending lines."""

    def records(self, growth: Growth | None = None) -> Iterator[tuple[Entry | None, list[Draft]]]:
        """Yield the header's record, and then those from where `growth` begins; see `ImportSource.records`.

        The reader's state is taken in by the function given to `Growth.begin`, as a whole or not at all, and handed out
        by the one given to `Growth.values`.
        """


def grows(source: ImportSource) -> TypeGuard[GrowingSource]:
    """Tell whether a source can go on where another reading ended."""
    return getattr(source, "GROWS", False)


class Growth:
    """One reading of a file, from where a look at it ended; or from its beginning, if it is not what was looked at."""

    def __init__(
        self, name: str, end: int | None = None, look: Look | None = None, *, bytes_min: int = GROWTH_BYTES_MIN
    ) -> None:
        """Nothing is read yet.

        Args:
            name: Of the format.
            end: Where the last line ends that is complete: there a new look is taken. None: nowhere.
            look: The last one; the file may have changed since.
            bytes_min: Between two looks.
        """
        self.look = look
        """Where the reading begins; settled by `begin`. None: at the beginning."""
        self.taken: Look | None = None
        """The new look, as soon as its place was passed. None if little came since the last one."""
        self._name = name
        self._begin = 0
        self._end = 0 if end is None else end
        self._wanted = end is not None
        self._bytes_min = bytes_min
        self._stream: io.BufferedIOBase = io.BytesIO()
        self._hashed = _Hashed(self._stream, 0, 0)

    def begin(self, stream: io.BufferedIOBase, begin: int, go_on: Callable[[bytes], None]) -> None:
        """Begin to read: where the last look ended, or at the beginning.

        Args:
            stream: Stands at the beginning of the file, and is read by nobody else from now on.
            begin: Offset of the first byte that counts.
            go_on: Gives the reader what one knew where the last look ended.
        """
        self._stream, self._begin, look, self.look = stream, begin, self.look, None
        self._hashed = _Hashed(stream, begin, self._end)
        if look is not None and (look.begin, look.format, look.layout) == (begin, self._name, LAYOUT):
            self._hashed.pass_to(look.offset)
            if self._hashed.digest == look.digest:
                with suppress(msgspec.MsgspecError):  # another version of the reader knew other things
                    go_on(look.state)
                    self.look, self._hashed.lines = look, look.line
                    return
        if self._hashed.at:
            stream.seek(0)
            self._hashed = _Hashed(stream, begin, self._end)

    def values(self, report: Report, is_record: IsRecord, state: Callable[[], bytes]) -> Iterator[Value]:
        """Yield the values of the file; see `read_values`.

        Args:
            report: Is told of every problem.
            is_record: Chooses among the complete objects in a damaged line.
            state: Returns what the reader knows, at any time between two values.
        """
        line, offset = (self.look.line, self.look.offset) if self.look is not None else (0, 0)
        wanted = self._wanted and (self.look is None or self._end - offset >= self._bytes_min)
        # A compressed file that is cut gives what can be read of it to nobody who asks for more at once.
        stream = io.BufferedReader(self._hashed, _PIECE_BYTES) if self._wanted or self.look else self._stream
        for value in read_values(stream, report, is_record, line=line, offset=offset):
            if wanted and value.offset >= self._end:
                wanted = False
                self._take(state)
            yield value
        if wanted and self._hashed.at >= self._end:
            self._take(state)

    def _take(self, state: Callable[[], bytes]) -> None:
        with suppress(UnicodeEncodeError):  # an id that is no text: such a file is read anew each time
            self.taken = Look(
                layout=LAYOUT,
                format=self._name,
                begin=self._begin,
                offset=self._end,
                line=self._hashed.lines,
                digest=self._hashed.digest,
                state=state(),
            )


class _Hashed(io.RawIOBase):
    """Passes on what it reads, and hashes what stands between two offsets."""

    def __init__(self, stream: io.BufferedIOBase, begin: int, end: int) -> None:
        self.at = 0
        """Bytes that were read."""
        self.lines = 0
        """Line breaks that were read before the end."""
        self._stream = stream
        self._begin = begin
        self._end = end
        self._hash = sha256()

    @property
    def digest(self) -> bytes:
        """Of what was read of it so far."""
        return self._hash.digest()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # no other buffer comes from BufferedReader
        """Fill a buffer with what comes at once; who asks for more loses what stands before the end of a cut file."""
        count = self._stream.readinto1(buffer)
        self.lines += self._update(bytes(buffer[:count])).count(b"\n")
        return count

    def pass_to(self, offset: int) -> None:
        """Read up to an offset, or to the end of the file; lines are not counted there."""
        while data := self._stream.read(min(_PIECE_BYTES, offset - self.at)):
            self._update(data)

    def _update(self, data: bytes) -> bytes:
        """Hash what stands before the end, and return it."""
        part = data[: max(self._end - self.at, 0)]
        self._hash.update(part[max(self._begin - self.at, 0) :])
        self.at += len(data)
        return part


class Looks:
    """The looks that are kept, one for each file."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        bytes_min: int = FILE_BYTES_MIN,
        growth_min: int = GROWTH_BYTES_MIN,
    ) -> None:
        """Open nothing yet.

        Args:
            folder: Where they lie; by default in the user's cache folder.
            bytes_min: Of smaller files none is kept.
            growth_min: So many bytes lie between two looks at a file.
        """
        self._folder = None if folder is None else Path(folder)
        self._bytes_min = bytes_min
        self._growth_min = growth_min

    def growth(self, path: Path, name: str, units_max: int) -> Growth | None:
        """Return how to read a file; None if no look is kept of such a one.

        Args:
            path: The file.
            name: Of its format.
            units_max: Records to begin behind, at most.
        """
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._bytes_min or file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                    return None
                end = _last_line_end(file, size)
        except OSError:
            return None
        look = self._find(path) if units_max else None
        look = look if look is not None and look.units <= units_max else None
        return Growth(name, end, look, bytes_min=self._growth_min)

    def keep(self, path: Path, look: Look) -> None:
        """Keep a look at a file in the place of the last one. What cannot be written is not kept."""
        data = zstandard.compress(_encoder.encode(look), level=1)
        place = self._place(path)
        with suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=place.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(sha256(data).digest() + data)
                Path(name).replace(place)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            self._drop_old(place.parent)

    def _find(self, path: Path) -> Look | None:
        try:
            data = self._place(path).read_bytes()
            check, content = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
            return _decoder.decode(zstandard.decompress(content)) if sha256(content).digest() == check else None
        except (OSError, zstandard.ZstdError, msgspec.MsgspecError):
            return None

    def _place(self, path: Path) -> Path:
        name = sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:_CHECK_BYTES]
        return self._in_cache() / name if self._folder is None else self._folder / name

    @staticmethod
    def _in_cache() -> Path:
        import platformdirs

        return Path(platformdirs.user_cache_dir("treering", appauthor=False), "looks")

    @staticmethod
    def _drop_old(folder: Path) -> None:
        found = sorted(os.scandir(folder), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        for each in found[LOOKS_MAX:]:
            os.unlink(each.path)


def _last_line_end(file: io.BufferedReader, size: int) -> int:
    """Return the offset behind the last line break of a file; 0 if there is none."""
    end = size
    while end > 0:
        start = max(end - _PIECE_BYTES, 0)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
