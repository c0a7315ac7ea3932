"""Find the changes of a list: which items were replaced, added and removed, in O(n log n)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

P = TypeVar("P")


def splice_diff(old: Sequence[P], new: Sequence[P]) -> list[tuple[int, int, tuple[P, ...]]]:
    """Return the splices that turn `old` into `new`, at ascending, not overlapping indices of `old`.

    Equal ends are cut off; between them, items of both lists are aligned by their longest increasing subsequence (as
    patience diff does). A moved or repeated item may be written again; the result is exact in any case.
    """
    start, short = 0, min(len(old), len(new))
    if old[:short] == new[:short]:  # most changes append; items that are the same object are not compared
        start = short
    while start < short and old[start] == new[start]:
        start += 1
    end = 0
    while end < short - start and old[-1 - end] == new[-1 - end]:
        end += 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    gone = old.index(new[0]) if new and new[0] in old else 0
    if gone and old[gone:] == new[: len(old) - gone]:  # a sliding window loses its first items, and gets new ones
        return [(start, gone, ()), (start + len(old), 0, tuple(new[len(old) - gone :]))]
    splices: list[tuple[int, int, tuple[P, ...]]] = []
    there = here = 0
    for match_there, match_here in [*_aligned(old, new), (len(old), len(new))]:
        if there < match_there or here < match_here:
            splices.append((start + there, match_there - there, tuple(new[here:match_here])))
        there, here = match_there + 1, match_here + 1
    return splices


def _aligned(old: Sequence[P], new: Sequence[P]) -> list[tuple[int, int]]:
    """Return index pairs of equal items, ascending on both sides, the most that are possible among unique items."""
    places = {item: index for index, item in enumerate(old)}
    pairs = [(places[item], index) for index, item in enumerate(new) if item in places]
    return _increasing(pairs)


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest subsequence of `pairs` that increases in the first number (patience sorting)."""
    lowest: list[int] = []  # by length: the smallest number that a subsequence of that length ends with
    ends: list[int] = []  # and the pair that holds it
    before: list[int] = []  # by pair: the pair before it in its subsequence, or -1
    for index, (place, _) in enumerate(pairs):
        length = bisect_left(lowest, place)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    chosen: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]
