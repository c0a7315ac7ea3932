"""`treering reindex`: what it tells, and that it makes no store."""

from __future__ import annotations

import shutil

from tests.cli.conftest import Program, Recorded


def test_lost_markers_are_written_again(recorded: Recorded) -> None:
    """The list is as before; what nobody names is removed, and a second run finds nothing to do."""
    run = recorded.program
    recorded.store.session("coffee").append("hello")
    listed = run.json("ls")
    markers = run.store / "recent"
    named = sorted(path.relative_to(markers) for path in markers.glob("*/*"))
    shutil.rmtree(markers)
    assert run("reindex").err == "2 sessions: 2 markers written, 0 removed\n"
    assert sorted(path.relative_to(markers) for path in markers.glob("*/*")) == named
    assert run.json("ls") == listed
    stray = markers / named[0]
    stray.with_name(stray.name[:-1] + ("b" if stray.name[-1] == "a" else "a")).touch()
    assert run.json("reindex") == {"sessions": 2, "marked": 0, "removed": 1}
    assert run.json("reindex") == {"sessions": 2, "marked": 0, "removed": 0}


def test_a_folder_without_a_store_stays_one(program: Program) -> None:
    """It may be a path with a slip of the pen."""
    done = program.process("reindex")
    assert done.code == 0
    assert "0 sessions: 0 markers written, 0 removed\n" in done.err
    assert f"there is no store at {program.store} yet" in done.err
    assert not program.store.exists()
    program.store.mkdir()
    program("reindex")
    assert [path.name for path in program.store.iterdir()] == ["recent.json"]
