"""Find records in segments that refer to given rows, from the row's own segment or from another one.

A page asks for all its rows at once. Each chunk that describes some of these rows is read once. From a segment without
any of the rows, only its few references to ids outside it are compared with the ids of the rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from treering.format.chunk import Outside
from treering.format.index import ChunkSpan, OutsideSpan
from treering.format.parts import read_chunk, read_outside
from treering.format.record import Skeleton
from treering.journal.sealed import Part, SealedParts
from treering.journal.tail_rows import Referrer
from treering.storage.requests import Steps


def sealed_referrers(
    sealed: SealedParts, base: int, rows: Sequence[Skeleton], parts: Sequence[Part]
) -> Steps[list[list[Referrer]]]:
    """For each of some rows, the records in segments that refer to it; a record may be listed twice.

    Args:
        sealed: Reads parts of indexes.
        base: The first position that the tail holds.
        rows: The rows; they may be in the tail, too.
        parts: All segments.
    """
    spans: list[tuple[Part, ChunkSpan]] = []
    inside: list[tuple[int, int]] = []
    """Pairs of the number of a row and the number of the span that describes it."""
    outside: list[tuple[Part, OutsideSpan]] = []
    lowest, highest = min((row.at for row in rows), default=0), max((row.at for row in rows), default=0)
    names = [row.id for row in rows]
    for part in parts:
        here = range(part.index.first, min(part.index.end, base))
        if highest < here.start or here.stop <= lowest:
            outside += [(part, block) for block in _blocks(part, names)]
            continue
        for number, span in _chunks(part, here, rows):  # of an overlapping part, too: it may have further referrers
            if not spans or spans[-1] != (part, span):
                spans.append((part, span))
            inside.append((number, len(spans) - 1))
        outside += [(part, block) for block in _blocks(part, [row.id for row in rows if row.at not in here])]
    chunks = yield from sealed.load(spans, read_chunk)
    blocks = yield from sealed.load(outside, read_outside)
    found: list[list[Referrer]] = [[] for _ in rows]
    for number, place in inside:
        part = spans[place][0]
        found[number] += _taken(part, base, chunks[place].referrers(rows[number].at - part.index.first))
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(names if blocks else ()):
        numbers.setdefault(name, []).append(number)
    for (part, _), block in zip(outside, blocks, strict=True):
        for entry in _between(block, min(numbers), max(numbers)):
            for number in numbers.get(entry.id, ()):
                found[number] += _taken(part, base, [(entry.row, entry.code)])
    return found


def _chunks(part: Part, here: range, rows: Sequence[Skeleton]) -> Iterator[tuple[int, ChunkSpan]]:
    """The numbers of the rows that a part has, each with the chunk that describes it."""
    span, there = part.index.chunks[0], range(0)
    for number, row in enumerate(rows):
        if row.at in here:
            if row.at not in there:
                span = part.index.chunk_of(row.at)
                there = range(here.start + span.first_row, here.start + span.first_row + span.rows)
            yield number, span


def _blocks(part: Part, names: Sequence[str]) -> Iterable[OutsideSpan]:
    """The blocks of a part that may hold references to any of some ids."""
    if not part.index.outside or not names:
        return ()
    found = part.index.outside_between(min(names), max(names))
    if len(found) <= 1:  # usually so: the ids of one page were made one after the other
        return found
    return dict.fromkeys(block for name in names for block in part.index.outside_with(name))


def _between(block: Sequence[Outside], least: str, greatest: str) -> Sequence[Outside]:
    """The entries of a sorted block about ids between these two."""
    first = bisect_left(block, least, key=lambda entry: entry.id)
    return block[first : bisect_right(block, greatest, key=lambda entry: entry.id)]


def _taken(part: Part, base: int, referrers: Iterable[tuple[int, int]]) -> list[Referrer]:
    """Referrers by position, without those that the previous segment or the tail holds as well."""
    first, begin = part.index.first, part.first
    return [Referrer(first + row, code) for row, code in referrers if begin <= first + row < base]
