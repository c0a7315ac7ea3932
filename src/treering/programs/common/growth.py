"""Go on reading a file where the last look at it ended.

Session files of lines are written by appending, and may be gigabytes long when one more record comes. So a look at a
large file leaves behind how far it came, and what its reader knew there. To go on costs the same at any size.

Rule 1: this counts only for a file that begins with the same bytes, as far as can be told without reading all of them.
A digest of each piece is kept. The first piece, the last ones and some drawn by lot are hashed again: what makes a
file longer or shorter before its end is always seen, as it moves the last piece. All pieces are hashed if they are few,
if it is another file by its inode or an older one by its time, or if its program changes records where they stand.
A change in place that is not drawn is found by a later look, for digests stay those of the first.
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
from random import SystemRandom
from typing import Final, NamedTuple, Protocol, TypeGuard

import msgspec

from treering.programs.common.entry import Entry
from treering.programs.common.lines import IsRecord, Report, Value, read_values
from treering.programs.common.memo import Contents, Facts, Memo, moved, written
from treering.programs.common.source import GZIP_MAGIC, ImportSource
from treering.transcript.node import Draft

LAYOUT: Final = 3
"""Raised with every change of what readers know, or of what they make of a record."""
FILE_BYTES_MIN: Final = 4 * 1024 * 1024
"""Smaller files are read anew in less time than anyone notices."""
GROWTH_BYTES_MIN: Final = 4 * 1024 * 1024
"""Another look is kept when so much has come since the last one: it takes a few percent of the file."""
LOOKS_MAX: Final = 256
"""Kept in one folder; the ones made longest ago go first."""
PIECE_BYTES: Final = 4 * 1024 * 1024
"""Hashed together."""
CHECKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of the old bytes so many are hashed again at most: in less than a tenth of a second."""
_REWRITTEN: Final = frozenset({"operator"})
"""Formats whose programs write files anew in their place with a record changed, which may be as long as before."""
_READ_BYTES: Final = 1024 * 1024
_CHECK_BYTES: Final = 32
_DIGEST_BYTES: Final = 16


class Hash(Protocol):
    """What `hashlib` makes."""

    def digest(self) -> bytes:
        """Return it."""


class Knowledge(NamedTuple):
    """What a reader knows between two records."""

    state: bytes
    """What it needs at once."""
    facts: Facts
    """What it knows of single records, in tables, as far as it was not recalled."""


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What a system says of a file."""

    device: int = 0
    inode: int = 0
    mtime_ns: int = 0


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
    stamp: Stamp
    """Of the file then."""
    pieces: bytes
    """Digests of the bytes between these offsets, piece by piece."""
    rest: bytes
    """Digest of what is behind the last whole piece."""
    state: bytes
    """What the reader of the format knew; see `GrowingSource`."""
    contents: Contents = msgspec.field(default_factory=Contents)
    """The pages with what it knew of single records."""
    file: str = ""
    """The name of the file with these pages, beside this one; empty if there is none yet."""
    fresh: bytes = b""
    """Pages that are not in it yet; they come behind the others."""
    first: int = 0
    """The number of the first of these."""
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

        What the reader knew is taken in by the function given to `Growth.begin`, as a whole or not at all, and handed
        out by the one given to `Growth.values`.

        Raises:
            CorruptError: What was known cannot be read (kind `look`): it must be read from its beginning.
        """


def grows(source: ImportSource) -> TypeGuard[GrowingSource]:
    """Tell whether a source can go on where another reading ended."""
    return getattr(source, "GROWS", False)


class Growth:
    """One reading of a file, from where a look at it ended; or from its beginning, if it is not what was looked at."""

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
        """Nothing is read yet.

        Args:
            name: Of the format.
            end: Where the last line ends that is complete: there a new look is taken. None: nowhere.
            look: The last one; the file may have changed since.
            stamp: Of the file.
            memo: What was known at the last look.
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
        self._stamp = stamp or Stamp()
        self._memo = memo or Memo()
        self._bytes_min = bytes_min
        self._stream: io.BufferedIOBase = io.BytesIO()
        self._hashed = _Hashed(self._stream, 0, 0)

    def begin(self, stream: io.BufferedIOBase, begin: int, go_on: Callable[[bytes, Memo], None]) -> None:
        """Begin to read: where the last look ended, or at the beginning.

        Args:
            stream: Stands at the beginning of the file, and is read by nobody else from now on.
            begin: Offset of the first byte that counts.
            go_on: Gives the reader what one knew where the last look ended.
        """
        self._stream, self._begin, look, self.look = stream, begin, self.look, None
        if look is not None and (look.begin, look.format, look.layout) == (begin, self._name, LAYOUT):
            self._hashed = _Hashed(stream, begin, self._end, pieces=look.pieces)
            if self._is_same(look):
                with suppress(msgspec.MsgspecError):  # another version of the reader knew other things
                    go_on(look.state, self._memo)
                    self.look, self._hashed.lines = look, look.line
                    return
            stream.seek(0)
        self._memo = Memo()
        self._hashed = _Hashed(stream, begin, self._end)

    def _is_same(self, look: Look) -> bool:
        """Tell whether the bytes before are the same, as far as they are hashed again; read up to their end."""
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
        """Return which of so many pieces are hashed again."""
        few = max(CHECKED_BYTES_MAX // PIECE_BYTES - 1, 2)
        other = (self._stamp.device, self._stamp.inode) != (look.stamp.device, look.stamp.inode)
        if other:
            self._bytes_min = 0  # from the next look on it is known
        if count <= few or other or self._stamp.mtime_ns < look.stamp.mtime_ns or self._name in _REWRITTEN:
            return [*range(count)]
        return sorted({0, count - 1, *SystemRandom().sample(range(1, count - 1), few - 2)})

    def values(self, report: Report, is_record: IsRecord, known: Callable[[], Knowledge]) -> Iterator[Value]:
        """Yield the values of the file; see `read_values`.

        Args:
            report: Is told of every problem.
            is_record: Chooses among the complete objects in a damaged line.
            known: Returns what the reader knows, at any time between two values.
        """
        line, offset = (self.look.line, self.look.offset) if self.look is not None else (0, 0)
        wanted = self._wanted and (self.look is None or self._end - offset >= self._bytes_min)
        # A compressed file that is cut gives what can be read of it to nobody who asks for more at once.
        stream = io.BufferedReader(self._hashed, _READ_BYTES) if self._wanted or self.look else self._stream
        for value in read_values(stream, report, is_record, line=line, offset=offset):
            if wanted and value.offset >= self._end:
                wanted = False
                self._take(known())
            yield value
        if wanted and self._hashed.at >= self._end:
            self._take(known())

    def _take(self, known: Knowledge) -> None:
        with suppress(UnicodeEncodeError):  # an id that is no text: such a file is read anew each time
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
    """Passes on what it reads, and hashes what stands between two offsets, piece by piece."""

    def __init__(self, stream: io.BufferedIOBase, begin: int, end: int, *, pieces: bytes = b"") -> None:
        """Stand behind the pieces that are known.

        Args:
            stream: What is read.
            begin: The first byte that is hashed.
            end: What stands from here on is not.
            pieces: Digests of those before.
        """
        self.pieces = bytearray(pieces)
        """Digests of whole ones."""
        before = len(pieces) // _DIGEST_BYTES * PIECE_BYTES
        self.at = begin + before if before else 0
        """Bytes that were read or stand before."""
        self.lines = 0
        """Line breaks that were read before the end."""
        self._stream = stream
        self._begin = begin
        self._end = end
        self._hash = sha256()
        self._room = PIECE_BYTES

    @property
    def rest(self) -> bytes:
        """Digest of what was read of the piece in hand."""
        return _digest(self._hash)

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
        while data := self._stream.read(min(_READ_BYTES, offset - self.at)):
            self._update(data)

    def _update(self, data: bytes) -> bytes:
        """Hash what stands before the end, and return it."""
        part = data[: max(self._end - self.at, 0)]
        left = part[max(self._begin - self.at, 0) :]
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
        """Keep a look at a file in the place of the last one. What cannot be written is not kept."""
        place = self._place(path)
        with suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            placed = _placed(place, look)
            data = _encoder.encode(placed)
            descriptor, name = tempfile.mkstemp(dir=place.parent)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(sha256(data).digest() + data)
                Path(name).replace(place)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            for other in place.parent.glob(f"{place.name}.*"):
                if other.name != placed.file:
                    other.unlink()
            self._drop_old(place.parent)

    def drop(self, path: Path) -> None:
        """Forget what was kept of a file."""
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
        """Remove the oldest looks, and pages that belong to none."""
        found = sorted(os.scandir(folder), key=lambda each: each.stat().st_mtime_ns, reverse=True)
        kept = {each.name for each in [each for each in found if not Path(each.name).suffix][:LOOKS_MAX]}
        for each in found:
            if Path(each.name).stem not in kept:
                os.unlink(each.path)


def _placed(place: Path, look: Look) -> Look:
    """Write the pages of a look: behind those in its file, or into a new one."""
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
    """Return the offset behind the last line break of a file; 0 if there is none."""
    end = size
    while end > 0:
        start = max(end - _READ_BYTES, 0)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0
