"""Lines found in the content of a frame, without splitting it."""

from __future__ import annotations

import random

import pytest

from treering.format.line_search import lines_at
from treering.format.record import Record, encode_record


def lines(first: int, count: int, rng: random.Random) -> list[bytes]:
    """Record lines at consecutive positions, of very different lengths."""
    return [
        encode_record(Record(at=at, by="w.1.0", type="node", id="x" * rng.choice([1, 20, 5_000])))
        for at in range(first, first + count)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_any_lines_are_found(seed: int) -> None:
    """Whatever lines are asked for, in order: they are those that splitting gives."""
    rng = random.Random(seed)
    first = rng.choice([0, 8, 97, 99_990])
    all_lines = lines(first, rng.choice([1, 2, 3, 40, 150]), rng)
    wanted = sorted(rng.sample(range(len(all_lines)), rng.randint(1, len(all_lines))))
    found = lines_at(b"".join(all_lines), [first + place for place in wanted])
    assert found == {first + place: all_lines[place] for place in wanted}


@pytest.mark.parametrize("at", [6, 13, 10**15])
def test_a_line_that_is_not_there_is_not_found(at: int) -> None:
    """Positions before and behind the lines give none of them."""
    assert lines_at(b"".join(lines(7, 6, random.Random(1))), [at]) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\n\n\n", b'{"at":3', b'{"at":3\n', b'{"at": 3,"by":""}\n', b'{"at":,}\n' * 9, b'{"x":{"at":3,}}\n'],
)
def test_other_content_is_told_from_lines(content: bytes) -> None:
    """What no writer of ours made is left to whoever splits it: no error, and no wrong line."""
    assert lines_at(content, [3]) is None
