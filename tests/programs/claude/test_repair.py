"""What is wrong with a session file of Claude Code is said, and a copy has the whole conversation again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from tests.programs.claude.sessions import SESSION, Chance, Talk, uuid
from tests.sampling import few

from treering.importers import Diagnosis, diagnose, read, repair

WHOLE = ["u1", "a1", "u2", "a2", "u3"]


def talk() -> Talk:
    """Three prompts, with all that stands between them."""
    found = Talk()
    found.mark("mode", mode="normal")
    found.user("u1")
    found.add("attachment", "n1", attachment={"type": "date"})
    found.answer("a1")
    found.mark("file-history-snapshot", messageId=uuid("u1"), snapshot={})
    found.user("u2")
    found.answer("a2")
    found.user("s1", after=None, moves=False, isSidechain=True)
    found.user("u3")
    return found


def found(diagnosis: Diagnosis) -> list[tuple[int, str]]:
    """Lines and kinds of what is damaged."""
    return [(each.line, each.kind) for each in diagnosis.findings if each.severity == "damage"]


def _lose(name: str, line: int) -> Callable[[list[bytes]], None]:
    """Let the entry on a line name a parent that was never written."""
    above = uuid(name).encode()
    return lambda rows: rows.__setitem__(line - 1, rows[line - 1].replace(above, uuid("lost").encode(), 1))


def _tear(rows: list[bytes]) -> None:
    rows[5] = rows[5][:40] + rows[5]


def _glue(rows: list[bytes]) -> None:
    rows[5] = rows[5].rstrip(b"\n")


def _repeat(rows: list[bytes]) -> None:
    rows[8] = rows[8].replace(uuid("u3").encode(), uuid("u2").encode())


DAMAGE: dict[str, tuple[Callable[[list[bytes]], None], list[tuple[int, str]]]] = {
    "a parent that was never written": (_lose("a2", 9), [(9, "orphan")]),
    "in the middle": (_lose("a1", 6), [(6, "orphan")]),
    "a record torn before another": (_tear, [(6, "torn")]),
    "two records on a line": (_glue, [(6, "glued")]),
    "an id used twice": (_repeat, [(9, "duplicate_id")]),
}


@pytest.mark.parametrize(("harm", "expected"), DAMAGE.values(), ids=DAMAGE.keys())
def test_each_defect_is_found_and_mended(
    harm: Callable[[list[bytes]], None], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    """It is reported with its line, and in the copy Claude Code finds the whole conversation by its parents."""
    rows = talk().data.splitlines(keepends=True)
    harm(rows)
    path, copy = tmp_path / f"{SESSION}.jsonl", tmp_path / "copy.jsonl"
    path.write_bytes(b"".join(rows))
    assert found(diagnose(path)) == expected
    assert repair(path, copy).entries == len(rows)
    assert found(diagnose(copy)) == []
    file = read(copy)
    assert file.problems == []
    shown = [message.message["content"] for message in file.context(file.leaf).messages]
    assert [text if isinstance(text, str) else text[0]["text"] for text in shown] == WHOLE


@settings(max_examples=few(3, whole=10))
@given(random=st.randoms(use_true_random=False))
def test_nothing_is_wrong_with_sound_files(random: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Entries without ids, ends that nothing follows, compactions and sidechains are no defects; a copy is the file."""
    folder = tmp_path_factory.mktemp("doctor")
    path = Chance(random, 4).save(folder)
    assert diagnose(path).findings == []
    repair(path, folder / "copy.jsonl")
    assert (folder / "copy.jsonl").read_bytes() == path.read_bytes()
