"""Sequences of lines that share what they have in common."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, strategies as st

from treering.journal.view import Lines

CHUNKS = st.lists(st.binary(max_size=2), max_size=3)


@given(st.lists(st.tuples(st.integers(0, 99), CHUNKS), max_size=12))
def test_lengthening_changes_no_other_sequence(steps: list[tuple[int, list[bytes]]]) -> None:
    """Whichever sequences are lengthened, in whatever order, each stays what a tuple would be."""
    made: list[tuple[Sequence[bytes], tuple[bytes, ...]]] = [((), ())]
    for chosen, more in steps:
        lines, expected = made[chosen % len(made)]
        made.append((Lines(lines, more), (*expected, *more)))
    for lines, expected in made:
        assert tuple(lines) == expected
        assert len(lines) == len(expected)


@given(CHUNKS, CHUNKS, st.slices(6))
def test_parts_are_those_of_a_tuple(first: list[bytes], more: list[bytes], part: slice) -> None:
    """Slices and single lines are what a tuple would give, also when lines were added behind."""
    lines, expected = Lines(first, more), (*first, *more)
    Lines(lines, [b"behind"])
    assert tuple(lines[part]) == expected[part]
    assert [lines[at] for at in range(-len(expected), len(expected))] == [*expected, *expected]


def test_adding_shares_the_lines() -> None:
    """A sequence that is lengthened again and again is never copied, also when its whole is taken as a slice."""
    lines = Lines((), [b"0"])
    longer = Lines(lines[0:], [b"1"])
    assert longer.shared is lines.shared
    assert Lines(lines, [b"2"]).shared is not lines.shared
