"""The skeletons of a session, held by column: the `Skeleton` of a row is made when the row is read.

A row is the index of a record in the sequence. Sealed records come first, as the chunks of segments, and their rows are
their positions; later records are added one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress, repeat
from operator import eq, sub
from typing import Final, overload

from treering.errors import UsageError
from treering.format.chunk import Chunk
from treering.format.columns import Name, name_of
from treering.format.erasure import NONE, Burials
from treering.format.record import Skeleton

SINGLES_MAX: Final = 32
"""How many rows of a chunk are made one by one; after that, all rows of the chunk are made and kept."""


_FIRST: Final = array("b", [0])


class _Piece:
    """The rows of a chunk that belong to the sequence."""

    __slots__ = ("chunk", "end", "first", "made", "singles")

    def __init__(self, chunk: Chunk, first: int, end: int) -> None:
        self.chunk = chunk
        self.first = first
        self.end = end
        self.made: list[Skeleton] | None = None
        self.singles = 0


class Skeletons(Sequence[Skeleton]):
    """Skeletons in the order of their positions.

    Args:
        skeletons: The first ones.
        burials: The erasures to apply to the records in chunks.

    Raises:
        CorruptError: Columns of a chunk contradict each other. Reading an item may raise it, too.
    """

    def __init__(self, skeletons: Iterable[Skeleton] = (), *, burials: Burials = NONE) -> None:
        self.ids: list[str] = []
        """By row."""
        self.names: list[Name] = []
        """The different (type, kind, role, head, critical)."""
        self.codes: bytearray | array[int] = bytearray()
        """By row: its index in `names`. Bytes while these suffice, since they can be mapped all at once."""
        self.parents = array("i")
        """By row: a row whose id is this row's parent; the row itself if it has no parent, or a parent in `outside`."""
        self.outside: list[tuple[int, str]] = []
        """Rows whose parents still have to be looked up, and the ids of these parents."""
        self.ahead = False
        """Some of `parents` are behind their children."""
        self._code_of: dict[Name, int] = {}
        self._burials = burials
        self._pieces: list[_Piece] = []
        self._firsts: list[int] = []
        self._sealed = 0
        self._later: list[Skeleton] = []
        self.extend(skeletons)

    # adding

    def add_chunk(self, chunk: Chunk, end: int) -> None:
        """Add the next records, up to position `end`, from a chunk; no single record may have been added before."""
        end = min(chunk.first + len(chunk), end)
        if len(self) >= end:
            return
        if chunk.first > len(self):
            raise UsageError(f"records must come without a gap. first={chunk.first}, before={len(self) - 1}")
        skipped = len(self) - chunk.first  # rule: read-once
        first, taken = chunk.first + skipped, end - chunk.first
        ids, (places, outside, ahead) = chunk.ids, chunk.parents()
        if end - first < len(chunk):
            for place in range(skipped, taken):
                if not first <= places[place] < end:
                    outside[chunk.first + place] = ids[places[place] - chunk.first]
                    places[place] = chunk.first + place
            ids, places = ids[skipped:taken], places[skipped:taken]
        self.ids += ids
        self.parents.fromlist(places)
        self.ahead = self.ahead or ahead
        self.outside += [(row, parent) for row, parent in sorted(outside.items()) if first <= row < end]
        self._add_codes([self._code(name) for name in chunk.names], chunk.codes[skipped:taken])
        self._pieces.append(_Piece(chunk, first, end))
        self._firsts.append(first)
        self._sealed = end

    def _add_codes(self, known: Sequence[int], codes: array[int]) -> None:
        """Add the codes of rows; `known` maps each to its code in this sequence."""
        if len(self.names) > 256 and isinstance(self.codes, bytearray):
            self.codes = array("I", list(self.codes))
        if isinstance(self.codes, bytearray) and codes.itemsize == 1:
            self.codes += codes.tobytes().translate(bytes(known).ljust(256))
        else:
            self.codes.extend(map(known.__getitem__, codes))

    def extend(self, skeletons: Iterable[Skeleton]) -> None:
        """Add the records that follow."""
        for skeleton in skeletons:
            self.append(skeleton)

    def append(self, skeleton: Skeleton) -> None:
        """Add the next record.

        Raises:
            UsageError: Its position is not above the previous one.
        """
        before = self.end - 1
        if skeleton.at <= before:
            raise UsageError(f"records must come in order. at={skeleton.at}, before={before}")
        row = len(self)
        self._later.append(skeleton)
        self.ids.append(skeleton.id)
        self._add_codes([self._code(name_of(skeleton))], _FIRST)
        self.parents.append(row)
        if skeleton.parent is not None:
            self.outside.append((row, skeleton.parent))

    def _code(self, name: Name) -> int:
        code = self._code_of.get(name)
        if code is None:
            code = self._code_of[name] = len(self.names)
            self.names.append(name)
        return code

    # looking

    def __len__(self) -> int:
        return self._sealed + len(self._later)

    @property
    def end(self) -> int:
        """One past the position of the last record."""
        return self._later[-1].at + 1 if self._later else self._sealed

    @overload
    def __getitem__(self, row: int) -> Skeleton: ...
    @overload
    def __getitem__(self, row: slice) -> list[Skeleton]: ...
    def __getitem__(self, row: int | slice) -> Skeleton | list[Skeleton]:
        if isinstance(row, slice):
            return self.take(range(len(self))[row])
        row = range(len(self))[row]
        if row >= self._sealed:
            return self._later[row - self._sealed]
        piece = self._piece(row)
        piece.singles += 1
        if piece.made is None and piece.singles <= SINGLES_MAX:
            return self._burials.bury_row(piece.chunk.skeleton(row - piece.chunk.first + piece.chunk.first_row))
        return self._made(piece)[row - piece.first]

    def __iter__(self) -> Iterator[Skeleton]:
        return iter(self.take(range(len(self))))

    def take(self, rows: Iterable[int]) -> list[Skeleton]:
        """Return the skeletons of many rows."""
        found: list[Skeleton] = []
        first, end, made = 0, 0, self._later
        for row in rows:
            if not first <= row < end:
                if row >= self._sealed:
                    first, end, made = self._sealed, len(self), self._later
                else:
                    piece = self._piece(row)
                    first, end, made = piece.first, piece.end, self._made(piece)
            found.append(made[row - first])
        return found

    def _piece(self, row: int) -> _Piece:
        return self._pieces[bisect_right(self._firsts, row) - 1]

    def _made(self, piece: _Piece) -> list[Skeleton]:
        if piece.made is None:
            skipped = piece.first - piece.chunk.first
            rows = piece.chunk.skeletons()[skipped : piece.end - piece.chunk.first]
            piece.made = [self._burials.bury_row(row) for row in rows] if self._burials else rows
        return piece.made

    def at(self, row: int) -> int:
        """Return the position of a row."""
        return row if row < self._sealed else self._later[row - self._sealed].at

    def rows(self, matches: Callable[[Name], bool], first: int = 0) -> list[int]:
        """Return the rows from `first` on whose type, kind, role, head and criticality match."""
        chosen = self.chosen(matches, first) if first < len(self) else b""  # mostly nothing is new
        return list(compress(range(first, len(self)), chosen)) if chosen else []

    def chosen(self, matches: Callable[[Name], bool], first: int = 0) -> bytes:
        """Return for each row from `first` on whether its name matches, as 1 or 0; empty if no name matches."""
        wanted = bytes(map(matches, self.names))
        if not any(wanted):
            return b""
        codes = self.codes[first:] if first else self.codes
        if isinstance(codes, bytearray):
            return bytes(codes.translate(wanted.ljust(256)))
        return bytes(map(wanted.__getitem__, codes))

    # columns that are rarely needed

    def times(self) -> list[int]:
        """Return the times of all rows."""
        times: list[int] = []
        for piece in self._pieces:
            times += piece.chunk.times()[piece.first - piece.chunk.first : piece.end - piece.chunk.first]
        return times + [row.time for row in self._later]

    def linked(self) -> list[int]:
        """Return the rows with links."""
        found = [at for piece in self._pieces for at in piece.chunk.linked() if piece.first <= at < piece.end]
        return found + [row for row, each in enumerate(self._later, self._sealed) if each.links]

    def targets(self, rows: Sequence[int]) -> list[str | None]:
        """Return the targets of some rows, which are in order."""
        found: list[str | None] = []
        first = 0
        for piece in self._pieces:
            last = bisect_right(rows, piece.end - 1, first)
            if first < last:
                found += _targets(piece, rows[first:last], self.ids)
            first = last
        return found + [self._later[row - self._sealed].target for row in rows[first:]]

    def parent_ids(self, rows: Sequence[int]) -> list[str | None]:
        """Return the ids of the parents of some rows, which are in order, as stored in their records."""
        above = [*map(self.parents.__getitem__, rows)]
        found: list[str | None] = [*map(self.ids.__getitem__, above)]
        for place in compress(range(len(rows)), map(eq, above, rows)):
            found[place] = None
        for row, parent in self.outside:
            place = bisect_left(rows, row)
            if place < len(rows) and rows[place] == row:
                found[place] = parent
        return found

    def places(self, rows: Sequence[int]) -> list[int]:
        """Return the positions of some rows, which are in order."""
        sealed = bisect_left(rows, self._sealed)
        return [*rows[:sealed], *map(self.at, rows[sealed:])]


def _targets(piece: _Piece, rows: Sequence[int], ids: Sequence[str]) -> list[str | None]:
    """Return the targets of some rows of a piece, where `ids` are the ids of all rows."""
    start = piece.chunk.first
    places, outside, _ = piece.chunk.targets()
    meant = list(map(places.__getitem__, map(sub, rows, repeat(start))))
    if piece.end - piece.first == len(piece.chunk):
        found: list[str | None] = [*map(ids.__getitem__, meant)]
    else:
        found = [*map(piece.chunk.ids.__getitem__, map(sub, meant, repeat(start)))]
    for number, row in enumerate(rows) if any(map(eq, meant, rows)) else ():
        if meant[number] == row:
            found[number] = outside.get(row)
    return found
