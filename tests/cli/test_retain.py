"""`treering retain`: asks, tells, and writes a log of what it did."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.conftest import Program, Recorded
from tests.session.backends import files_below

import treering

DAY = 24 * 3600


@pytest.fixture
def aged(program: Program) -> Program:
    """A store with `new`, and the imported `old` and `older`, last active in 2020 and before."""
    store = treering.open(program.store)
    for name, year in (("older", 2019), ("old", 2020)):
        active_ms = int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000)
        store.load(
            name,
            [treering.user(name, time_ms=active_ms)],
            leaf=lambda: None,
            facts={"project": "shop"},
            origin=lambda name=name, active_ms=active_ms: {"session": name, "active_ms": active_ms},  # type: ignore[misc]
        )
    with store.session("new", project="shop") as session:
        for step in range(3):
            session.commit([f"step {step}"], state={"step": step})
    return program


def names(program: Program) -> list[str]:
    """The sessions that live."""
    return sorted(row.id for row in treering.open(program.store).each_session())


def test_a_dry_run_tells_and_changes_nothing(aged: Program, tmp_path: Path) -> None:
    """Nobody is asked, and no log is begun."""
    before, log = files_below(aged.store), tmp_path / "log"
    done = aged("retain", "--older-than", "30d", "--dry-run", "--log", log)
    assert [(row[0], row[2], row[5]) for row in done.rows] == [
        ("new", "keep", "active in the last 1 h"),
        ("old", "delete", "older than 30 days"),
        ("older", "delete", "older than 30 days"),
    ]
    assert "would delete 2 sessions" in done.err
    assert files_below(aged.store) == before
    assert not log.exists()


def test_it_deletes_and_appends_to_the_log(aged: Program, tmp_path: Path) -> None:
    """A line of JSON for each thing that was done, behind what was there."""
    log = tmp_path / "log"
    done = aged.json("retain", "--keep-newest", 2, "--checkpoints", 1, "--min-idle", "0h", "--yes", "--log", log)
    assert [(row["session"], row["action"], row["checkpoints"]) for row in done["rows"]] == [
        ("new", "prune", 2),
        ("old", "keep", 0),
        ("older", "delete", 0),
    ]
    aged("retain", "--older-than", "52w", "--purge", "--per-project", "--keep-newest", 9, "--yes", "--log", log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["session"], line["action"]) for line in lines] == [
        ("older", "delete"),
        ("new", "prune"),
        ("old", "delete"),
    ]
    assert all(datetime.fromisoformat(line["time"]) for line in lines)
    assert names(aged) == ["new"]


def test_old_tombstones_are_purged_and_logged(aged: Program, tmp_path: Path) -> None:
    """The age of a tombstone counts, not that of its session."""
    treering.open(aged.store).delete("old")
    (stone,) = aged.store.rglob("latest/old.jsonl.zst")
    before = stone.stat().st_mtime - 40 * DAY
    os.utime(stone, (before, before))
    log = tmp_path / "log"
    assert aged.json("retain", "--older-than", "30d", "--purge", "--yes", "--log", log)["purged"] == ["old"]
    assert [json.loads(line)["action"] for line in log.read_text().splitlines()] == ["delete", "purge"]
    assert not stone.exists()


def test_nothing_happens_unless_somebody_agrees(aged: Program) -> None:
    """On a terminal it says what would go; elsewhere `--yes` is needed."""
    before = files_below(aged.store)
    assert "--yes" in aged("retain", "--older-than", "30d", code=2).err
    done = aged.on_terminal("retain", "--older-than", "30d", answer="n\n")
    assert done.code == 130
    assert "delete 2 sessions" in done.out
    assert files_below(aged.store) == before
    assert aged.on_terminal("retain", "--older-than", "30d", answer="y\n").code == 0
    assert names(aged) == ["new"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--older-than, --keep-newest or --checkpoints"),
        (["--older-than", "soon"], "12h, 30d or 8w"),
        (["--older-than", "0d"], "--older-than must be more than 0"),
        (["--per-project", "--older-than", "3d"], "--per-project goes with --keep-newest"),
        (["--purge", "--keep-newest", "3"], "--purge goes with --older-than"),
    ],
)
def test_a_policy_without_a_meaning_is_refused(aged: Program, arguments: list[str], said: str) -> None:
    """Nothing is deleted by a slip of the pen, and what is missing is named as it is typed."""
    told = aged("retain", *arguments, "--yes", code=2).err
    assert said in told
    assert "sessions_" not in told
    assert names(aged) == ["new", "old", "older"]


def test_what_fails_is_told_and_logged(recorded: Recorded, tmp_path: Path) -> None:
    """The others are done; the exit code is 10."""
    program, log = recorded.program, tmp_path / "log"
    (card,) = program.store.rglob("latest/tea.jsonl.zst")
    card.write_bytes(b"rubbish")
    done = program("retain", "--keep-newest", 1, "--min-idle", 0, "--yes", "--log", log, code=10)
    (row,) = (row for row in done.rows if row[0] == "tea")
    assert row[2] == "keep"
    assert "it cannot be read" in row[5]
    assert [json.loads(line)["session"] for line in log.read_text().splitlines()] == ["tea"]
