"""Resume reading a file where the last reading ended.

Session files of lines grow by appends, and may be gigabytes long when one more record is added. So a reading of a large
file stores a `Look`: its progress, and the reader's state at that place. Resuming costs the same at any size.

Rule 1: a look applies only to a file that begins with the same bytes, as far as can be checked without reading all of
them. A digest of each piece is kept. The first piece, the last piece and a random sample are hashed again: an insertion
or removal is always noticed, as it moves the last piece. All pieces are hashed if they are few, if the inode differs or
the time is older, or if the program changes records in place. A change in place outside the sample is found by a later
reading, since the first digests are kept.
Rule 2: a look is a cache. It is in the user's cache folder, may be removed at any time, and is ignored if it is damaged
or has another version: then the file is read from its beginning, with the same result.
Rule 3: a look holds ids, places and digests, and no contents of messages.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import SystemRandom
from typing import Final, NamedTuple, Protocol, TypeGuard

import msgspec

from treering.programs.common.entry import Entry
from treering.programs.common.lines import IsRecord, Report, Value, read_values
from treering.programs.common.memo import Contents, Facts, Memo, moved, written
from treering.programs.common.source import GZIP_MAGIC, ImportSource
from treering.storage.atomic import write_atomically
from treering.transcript.node import Draft

LAYOUT: Final = 6
"""The version of looks; raised with every change of the readers' state, or of the drafts they make from a record."""
FILE_BYTES_MIN: Final = 4 * 1024 * 1024
"""Smaller files are read quickly enough from the beginning."""
GROWTH_BYTES_MIN: Final = 4 * 1024 * 1024
"""Bytes of growth after which a new look is stored. A look takes a few percent of the file's size."""
LOOKS_MAX: Final = 256
"""Looks kept in one folder; the oldest are removed first."""
PIECE_BYTES: Final = 4 * 1024 * 1024
"""The size of a piece, whose bytes are hashed together."""
CHECKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most old bytes to hash again: that takes less than a tenth of a second."""
_REWRITTEN: Final = frozenset({"operator"})
"""Formats whose programs rewrite files in place with a changed record, which may have the same length."""
_READ_BYTES: Final = 1024 * 1024
_CHECK_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


class Hash(Protocol):
    """A hash object of `hashlib`."""

    def digest(self) -> bytes:
        """Return the digest."""


class Knowledge(NamedTuple):
    """The state of a reader between two records."""

    state: bytes
    """The state needed at once."""
    facts: Facts
    """Facts about single records, in tables, that are not in the memo."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The facts of the file system about a file."""

    device: int = 0
    inode: int = 0
    mtime_ns: int = 0


class Look(msgspec.Struct, frozen=True, array_like=True):
    """The progress of reading a file, and the reader's state at that place."""

    layout: int
    format: str
    begin: int
    """Offset of the first byte to compare: programs rewrite the bytes before it in place."""
    offset: int
    """Offset of the next line."""
    line: int
    """The number of lines before that line."""
    stamp: Stamp
    """The stamp of the file when the look was made."""
    pieces: bytes
    """Digests of the bytes between these offsets, piece by piece."""
    rest: bytes
    """Digest of the bytes after the last whole piece."""
    state: bytes
    """The state of the format's reader; see `GrowingSource`."""
    contents: Contents = msgspec.field(default_factory=Contents)
    """The pages with its facts about single records."""
    file: str = ""
    """The name of the file with these pages, in the same folder; empty if there is none yet."""
    fresh: bytes = b""
    """Pages that are not in that file yet, to be added at its end."""
    first: int = 0
    """The number of the first of these pages."""
    units: int = 0
    """Records that were counted; see `treering.importers.origin`."""
    records: bytes = b""
    """The digest of the counted records."""
    active_ms: int | None = None


_decoder = msgspec.msgpack.Decoder(Look)
_encoder = msgspec.msgpack.Encoder()


class GrowingSource(ImportSource, Protocol):
    """A session file that is written by appending lines."""

    def records(self, growth: Growth | None = None) -> Iterator[tuple[Entry | None, list[Draft]]]:
        """Yield the header's record, and then the records from where `growth` begins; see `ImportSource.records`.

        The function given to `Growth.begin` restores the reader's state, as a whole or not at all; the function given
        to `Growth.values` returns it.

        Raises:
            CorruptError: The stored state is unreadable (kind `look`): read the file from its beginning.
        """


def grows(source: ImportSource) -> TypeGuard[GrowingSource]:
    """Tell whether a source can resume where another reading ended."""
    return getattr(source, "GROWS", False)


class Growth:
    """One reading of a file, from the end of the last look, or from its beginning if the file differs."""

    def __init__(
        self,
        name: str,
        end: int | None = None,
        look: Look | None = None,
        *,
        stamp: Stamp | None = None,
        memo: Memo | None = None,
        bytes_min: int = GROWTH_BYTES_MIN,
    ) -> None:
        """Make a reading, without reading anything.

        Args:
            name: The name of the format.
            end: The end of the last complete line, where a new look is made. None: make no look.
            look: The last look; the file may have changed since.
            stamp: The stamp of the file.
            memo: The facts of the last look.
            bytes_min: The least bytes between two looks.
        """
        self.look = look
        """The look at which the reading begins, decided by `begin`. None: it begins at the beginning of the file."""
        self.taken: Look | None = None
        """The new look, once its place was read. None if the file grew little since the last look."""
        self._name = name
        self._begin = 0
        self._end = 0 if end is None else end
        self._wanted = end is not None
        self._stamp = stamp or Stamp()
        self._memo = memo or Memo()
        self._bytes_min = bytes_min
        self._stream: io.BufferedIOBase = io.BytesIO()
        self._hashed = _Hashed(self._stream, 0, 0)

    def begin(self, stream: io.BufferedIOBase, begin: int, go_on: Callable[[bytes, Memo], None]) -> None:
        """Begin to read at the end of the last look, or at the beginning of the file.

        Args:
            stream: A stream at the beginning of the file; only this object may read it from now on.
            begin: The offset of the first byte to compare.
            go_on: Restores the reader's state of the last look.
        """
        self._stream, self._begin, look, self.look = stream, begin, self.look, None
        if look is not None and (look.begin, look.format, look.layout) == (begin, self._name, LAYOUT):
            self._hashed = _Hashed(stream, begin, self._end, pieces=look.pieces)
            if self._is_same(look):
                with suppress(msgspec.MsgspecError):  # another version of the reader has another state
                    go_on(look.state, self._memo)
                    self.look, self._hashed.lines = look, look.line
                    return
            stream.seek(0)
        self._memo = Memo()
        self._hashed = _Hashed(stream, begin, self._end)

    def _is_same(self, look: Look) -> bool:
        """Tell by hashing a sample whether the old bytes are the same; then the stream is at their end."""
        count = len(look.pieces) // _DIGEST_BYTES
        for number in self._drawn(count, look):
            self._stream.seek(self._begin + number * PIECE_BYTES)
            digest = _digest(sha256(self._stream.read(PIECE_BYTES)))
            if digest != look.pieces[number * _DIGEST_BYTES :][:_DIGEST_BYTES]:
                return False
        self._stream.seek(self._hashed.at)
        self._hashed.pass_to(look.offset)
        return self._hashed.rest == look.rest

    def _drawn(self, count: int, look: Look) -> list[int]:
        """Return which of `count` pieces are hashed again."""
        few = max(CHECKED_BYTES_MAX // PIECE_BYTES - 1, 2)
        other = (self._stamp.device, self._stamp.inode) != (look.stamp.device, look.stamp.inode)
        if other:
            self._bytes_min = 0  # so that the next look has the new device and inode
        if count <= few or other or self._stamp.mtime_ns < look.stamp.mtime_ns or self._name in _REWRITTEN:
            return [*range(count)]
        return sorted({0, count - 1, *SystemRandom().sample(range(1, count - 1), few - 2)})

    def values(self, report: Report, is_record: IsRecord, known: Callable[[], Knowledge]) -> Iterator[Value]:
        """Yield the values of the file; see `read_values`.

        Args:
            report: Called with every problem.
            is_record: Chooses among the complete objects in a damaged line.
            known: Returns the reader's state, between any two values.
        """
        line, offset = (self.look.line, self.look.offset) if self.look is not None else (0, 0)
        wanted = self._wanted and (self.look is None or self._end - offset >= self._bytes_min)
        # A read of more bytes than are left in a truncated compressed file fails and returns none of them.
        stream = io.BufferedReader(self._hashed, _READ_BYTES) if self._wanted or self.look else self._stream
        for value in read_values(stream, report, is_record, line=line, offset=offset):
            if wanted and value.offset >= self._end:
                wanted = False
                self._take(known())
            yield value
        if wanted and self._hashed.at >= self._end:
            self._take(known())

    def _take(self, known: Knowledge) -> None:
        with suppress(UnicodeEncodeError):  # an id that is no text: such a file is read from its beginning each time
            contents, fresh = written(known.facts, self._memo.contents)
            self.taken = Look(
                layout=LAYOUT,
                format=self._name,
                begin=self._begin,
                offset=self._end,
                line=self._hashed.lines,
                stamp=self._stamp,
                pieces=bytes(self._hashed.pieces),
                rest=self._hashed.rest,
                state=known.state,
                contents=contents,
                file="" if self._memo.path is None else self._memo.path.name,
                fresh=fresh,
                first=len(self._memo.contents.pages),
            )


class _Hashed(io.RawIOBase):
    """A stream that hashes the bytes between two offsets, piece by piece, while they are read."""

    def __init__(self, stream: io.BufferedIOBase, begin: int, end: int, *, pieces: bytes = b"") -> None:
        """Begin after the known pieces.

        Args:
            stream: The stream to read.
            begin: Offset of the first byte to hash.
            end: Offset after the last byte to hash.
            pieces: Digests of the known pieces.
        """
        self.pieces = bytearray(pieces)
        """Digests of whole pieces."""
        before = len(pieces) // _DIGEST_BYTES * PIECE_BYTES
        self.at = begin + before if before else 0
        """Offset of the next byte."""
        self.lines = 0
        """The number of line breaks that were read before `end`."""
        self._stream = stream
        self._begin = begin
        self._end = end
        self._hash = sha256()
        self._room = PIECE_BYTES

    @property
    def rest(self) -> bytes:
        """The digest of the bytes of the current piece that were read."""
        return _digest(self._hash)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # no other buffer comes from BufferedReader
        """Fill a buffer with one read; a second one could lose the last bytes of a truncated compressed file."""
        count = self._stream.readinto1(buffer)
        self.lines += self._update(bytes(buffer[:count])).count(b"\n")
        return count

    def pass_to(self, offset: int) -> None:
        """Read up to an offset, or to the end of the file; lines are not counted there."""
        while data := self._stream.read(min(_READ_BYTES, offset - self.at)):
            self._update(data)

    def _update(self, data: bytes) -> bytes:
        """Hash the bytes before the end, and return the data."""
        part = data[: max(self._end - self.at, 0)]
        left = memoryview(part)[max(self._begin - self.at, 0) :]
        self.at += len(data)
        while left:
            now, left = left[: self._room], left[self._room :]
            self._hash.update(now)
            self._room -= len(now)
            if not self._room:
                self.pieces += self.rest
                self._hash, self._room = sha256(), PIECE_BYTES
        return part


def _digest(of: Hash) -> bytes:
    return of.digest()[:_DIGEST_BYTES]


class Looks:
    """The stored looks, one for each file."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        bytes_min: int = FILE_BYTES_MIN,
        growth_min: int = GROWTH_BYTES_MIN,
    ) -> None:
        """Make the object, without opening anything.

        Args:
            folder: The folder of the looks; by default in the user's cache folder.
            bytes_min: No looks are stored for smaller files.
            growth_min: The least bytes between two looks at a file.
        """
        self._folder = None if folder is None else Path(folder)
        self._bytes_min = bytes_min
        self._growth_min = growth_min

    def growth(self, path: Path, name: str, units_max: int) -> Growth | None:
        """Return the reading of a file; None if it gets no look.

        Args:
            path: The file.
            name: The name of its format.
            units_max: The most records to skip.
        """
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_size < self._bytes_min or file.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
                    return None
                end = _last_line_end(file, facts.st_size)
        except OSError:
            return None
        look = self._find(path) if units_max else None
        look = look if look is not None and look.units <= units_max else None
        memo = None if look is None or not look.file else Memo(self._place(path).with_name(look.file), look.contents)
        stamp = Stamp(facts.st_dev, facts.st_ino, facts.st_mtime_ns)
        return Growth(name, end, look, stamp=stamp, memo=memo, bytes_min=self._growth_min)

    def keep(self, path: Path, look: Look) -> None:
        """Store a look at a file, which replaces the last one. Errors of writing are ignored."""
        place = self._place(path)
        with suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            placed = _placed(place, look)
            data = _encoder.encode(placed)
            write_atomically(place, [sha256(data).digest(), data])
            for other in place.parent.glob(f"{place.name}.*"):
                if other.name != placed.file:
                    other.unlink()
            self._drop_old(place.parent)

    def drop(self, path: Path) -> None:
        """Remove the look at a file."""
        with suppress(OSError):
            self._place(path).unlink()

    def _find(self, path: Path) -> Look | None:
        try:
            data = self._place(path).read_bytes()
            check, content = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
            return _decoder.decode(content) if sha256(content).digest() == check else None
        except (OSError, msgspec.MsgspecError):
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
        """Remove the oldest looks, and pages without a look."""
        found = sorted(os.scandir(folder), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        kept = {each.name for each in [each for each in found if not Path(each.name).suffix][:LOOKS_MAX]}
        for each in found:
            if Path(each.name).stem not in kept:
                os.unlink(each.path)


def _placed(place: Path, look: Look) -> Look:
    """Write the pages of a look, at the end of its file or into a new file."""
    if look.file:
        descriptor, name = os.open(place.with_name(look.file), os.O_WRONLY | os.O_APPEND), look.file
    else:
        descriptor, made = tempfile.mkstemp(prefix=f"{place.name}.", dir=place.parent)
        name = Path(made).name
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        file.write(look.fresh)
        contents = moved(look.contents, look.first, file.tell() - len(look.fresh))
    return msgspec.structs.replace(look, contents=contents, file=name, fresh=b"", first=0)


def _last_line_end(file: io.BufferedReader, size: int) -> int:
    """Return the offset after the last line break of a file; 0 if there is none."""
    end = size
    while end > 0:
        start = max(end - _READ_BYTES, 0)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
