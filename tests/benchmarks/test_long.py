"""What is measured in long sessions and long lists is the same in both contestants."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import long_sessions, many_sessions
from benchmarks.stage import DISK, S3
from benchmarks.table import OURS

import treering


@pytest.mark.parametrize("shape", [long_sessions.LINE, long_sessions.HEADS])
def test_both_show_the_same(tmp_path: Path, shape: str) -> None:
    """The last page, a page in the middle and an old turn say the same, but for the compactions that only we have."""
    ours, tables = long_sessions.prepared(tmp_path, 480, shape)
    said = [row["content"] for row in ours.page() if row.get("role")]
    shown = [row["content"] for row in tables.read(long_sessions.PAGE)]
    assert said[::-1] == shown[-len(said) :]
    middle = {row["content"] for row in ours.page(ours.middle) if row.get("role")}
    assert len(middle & {row["content"] for row in tables.read(long_sessions.PAGE, tables.middle)}) > 10
    turn = 3  # no compaction was before it
    assert [row["content"] for row in ours.old_turn(turn)] == [
        row["content"] for row in tables.read(tables.window, tables.ends[turn])
    ]
    there = [row["content"] for row in ours.switch()]
    assert there[-long_sessions.TURN :] == [row["content"] for row in tables.go()][-long_sessions.TURN :]


def test_both_stand_elsewhere_after_going_there(tmp_path: Path) -> None:
    """Who goes to the other head stands there when opened again, and goes back from there."""
    ours, tables = long_sessions.prepared(tmp_path, 200, long_sessions.LINE)
    there = [[item["content"] for item in do()][-1] for do in (ours.switch, tables.go)]
    again, opened = long_sessions.Treering(ours.folder), long_sessions.Tables(tmp_path / "tables")
    back = [[item["content"] for item in do()][-1] for do in (again.switch, opened.go)]
    assert there[0] == there[1] != back[0] == back[1]


def test_everything_that_is_done_with_a_long_session_has_figures(tmp_path: Path) -> None:
    """Reading, going elsewhere, erasing, looking, forking and copying, which leave nothing behind."""
    ours, tables = long_sessions.prepared(tmp_path, 200, long_sessions.LINE)
    cells = {**long_sessions.read_cells("t", ours, tables, 200), **long_sessions.write_cells("t", ours, 200)}
    assert all(do()["seconds"] > 0 for do in cells.values())
    whole = {cell.contestant: figures for made in long_sessions.whole("t", ours, 200) for cell, figures in made.items()}
    assert set(whole) == {*(f"{what}: {OURS}" for what in ("look", "fork", "copy")), f"copy: {long_sessions.FILES}"}
    assert [row.id for row in treering.open(str(ours.folder)).sessions().rows] == [long_sessions.SESSION]


def test_generated_lists_are_lists(tmp_path: Path) -> None:
    """Each page is that of the table, on a disk and as a bucket would answer."""
    cells = many_sessions.cells("t", tmp_path, 60)  # compares each page with the table
    assert all(do()["seconds"] > 0 for do in cells.values())
    counted = [*many_sessions.in_a_bucket("t", tmp_path / "template", 60)]
    assert {cell.place for cell in cells} == {DISK}
    assert {cell.place for made in counted for cell in made} == {S3}
    assert all(figures["requests"] <= many_sessions.ROWS + 2 for made in counted for figures in made.values())
