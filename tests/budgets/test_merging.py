"""Merging keeps the number of segments small, and the bytes it rewrites near what was written."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from treering.format.paths import SegmentName
from treering.journal.limits import MERGED_BYTES_MAX
from treering.journal.merge import plan
from treering.journal.read import Segment

SIZES: dict[str, Callable[[random.Random], int]] = {
    "equal": lambda _: 6_000,
    "around a bound": lambda rng: rng.choice([15_500, 17_500]),
    "mixed": lambda rng: int(rng.lognormvariate(9, 1.5)) + 200,
    "rarely large": lambda rng: 400_000 if rng.random() < 0.03 else 2_000,
    "tiny": lambda _: 300,
}


@pytest.mark.parametrize("sizes", SIZES)
def test_segments_stay_few_and_bytes_are_rewritten_seldom(sizes: str) -> None:
    """After 3,000 seals, tidied every 16, few segments are left and each byte was rewritten a few times."""
    rng = random.Random(5)
    segments: list[Segment] = []
    written = merged = 0
    for number in range(3000):
        size = SIZES[sizes](rng)
        written += size
        segments.append(Segment(f"{number}", size, SegmentName(number, number + 1, 0, "a")))
        if number % 16 == 15:
            for run in plan(segments):
                place = segments.index(run[0])
                assert segments[place : place + len(run)] == list(run)
                output = sum(part.size for part in run)
                assert output <= MERGED_BYTES_MAX
                name = SegmentName(run[0].name.first, run[-1].name.end, 0, "b")
                segments[place : place + len(run)] = [Segment(f"m{number}-{place}", output, name)]
                merged += output
    levels = math.log(MERGED_BYTES_MAX / 300, 8)
    assert len(segments) <= 2 * written / MERGED_BYTES_MAX + 12 * levels
    assert merged <= levels * written
