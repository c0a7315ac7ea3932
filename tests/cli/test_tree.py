from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from treering.cli.tree import LEVELS_DRAWN_MAX, Line, draw
from treering.format.record import Record, skeleton_of_record
from treering.transcript.graph import Graph
from treering.transcript.tree import Outline


def lines_of(parents: dict[str, str | None]) -> list[Line]:
    """Draw a graph given by the parent of each node."""
    records = [
        Record(at=at, by="w.1", type="node", kind="message", id=name, parent=parent, time=0)
        for at, (name, parent) in enumerate(parents.items())
    ]
    graph = Graph(skeleton_of_record(record, 0) for record in records)
    return list(draw(list(Outline(graph)), parents))


def drawn(parents: dict[str, str | None]) -> list[str]:
    """Draw a graph, as lines of text."""
    return [line.guide + line.row.first for line in lines_of(parents)]


def test_branches() -> None:
    """A branch stands in a column of its own beside the line that it leaves, which goes on below it."""
    parents = {"a": None, "b": "a", "c": "b", "d": "b", "e": "c", "f": "c", "g": "a"}
    assert drawn(parents) == ["a", "├─b", "│ ├─c", "│ │ ├─e", "│ │ f", "│ d", "g"]


def test_several_roots() -> None:
    """Several roots hang side by side; an orphan is one of them."""
    assert drawn({"a": None, "b": None, "c": "gone"}) == ["├─a", "├─b", "└─c"]


def test_deep_nesting() -> None:
    """Beyond some depth a number stands for the columns, so that the text stays in sight."""
    parents: dict[str, str | None] = {"n0": None}
    for level in range(60):
        parents |= {f"n{level + 1}": f"n{level}", f"x{level}": f"n{level}"}
    lines = drawn(parents)
    assert max(map(len, lines)) < 2 * LEVELS_DRAWN_MAX + 10
    assert any(line.startswith(f"⋯{60 - LEVELS_DRAWN_MAX} ") for line in lines)


@given(st.lists(st.integers(-1, 20), max_size=LEVELS_DRAWN_MAX - 1))
def test_drawing_can_be_read(choices: list[int]) -> None:
    """From the drawing of any forest the parent of every row can be told."""
    parents: dict[str, str | None] = {"0": None}
    for number, choice in enumerate(choices, 1):
        parents[str(number)] = None if choice < 0 else str(choice % number)
    above: dict[int, str] = {}  # the row last seen in each column
    for guide, row in lines_of(parents):
        begins = guide.endswith(("├─", "└─"))
        column = len(guide)
        assert above.get(column - 2 if begins else column) == parents[row.first]
        above[column] = row.last


@given(st.lists(st.integers(-1, 20), max_size=LEVELS_DRAWN_MAX - 1))
def test_lines_join(choices: list[int]) -> None:
    """A line that comes down meets a branch or the row with which it goes on, and the last root ends it."""
    parents: dict[str, str | None] = {"0": None}
    for number, choice in enumerate(choices, 1):
        parents[str(number)] = None if choice < 0 else str(choice % number)
    guides = [guide for guide, _ in lines_of(parents)]
    for guide, below in pairwise([*guides, ""]):
        for column, mark in enumerate(guide):
            goes_on = below[column : column + 1] in ("│", "├", "└") or len(below) == column
            assert mark not in "│├" or goes_on
            assert mark != "└" or below[column : column + 1] not in ("│", "├", "└")
