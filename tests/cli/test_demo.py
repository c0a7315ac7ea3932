from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Program

import treering
from treering.cli import demo
from treering.cli.sample import load_story


def test_demo(program: Program) -> None:
    """The demo kills an agent, resumes its session and finds every claim to hold."""
    done = program.process("demo")
    assert done.code == 0, done
    assert done.out.count("  ok  ") >= 18
    assert "  NO  " not in done.out
    assert "2 GET" in done.out
    assert "signal 9" in done.out
    assert done.err == ""
    (row,) = program("ls").rows
    assert row[8] == load_story().title
    assert program("verify").code == 0


def test_false_claim(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that does not hold is shown and ends the demo with a failure."""
    story = load_story()
    turns = [
        turn if not turn.label else type(turn)(turn.user, turn.steps, turn.answer, {"step": 0}, turn.label)
        for turn in story.turns
    ]
    changed = type(story)(story.title, story.project, tuple(turns), story.branch)
    monkeypatch.setattr(demo, "load_story", lambda: changed)
    done = program("demo", code=1)
    assert "  NO  the agent knows what it knew then  step 2" in done.out
    assert "1 do not hold" in done.out


def test_fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --store the demo leaves a user's own store alone and plays in a folder of its own."""
    monkeypatch.setenv("TREERING_STORE", str(tmp_path / "mine"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "TURNS_ADDED", 3)
    with pytest.raises(SystemExit) as end:
        treering.cli.main(["demo"])
    assert end.value.code == 0
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("treering-demo-")
    with pytest.raises(SystemExit) as end:
        treering.cli.main(["demo", "--remove"])
    assert end.value.code == 0
    assert list(tmp_path.iterdir()) == [folder]


def test_store_of_another_process(program: Program) -> None:
    """A store that the agent's process could not see is refused."""
    assert "process of its own" in program("demo", "--store", "memory://x", code=2).err


def test_agent_that_fails(program: Program, tmp_path: Path) -> None:
    """If the agent cannot work the demo says so and stops."""
    (tmp_path / "file").write_text("")
    done = program.process("demo", "--store", tmp_path / "file" / "store")
    assert done.code != 0
    assert "Traceback" not in done.err
