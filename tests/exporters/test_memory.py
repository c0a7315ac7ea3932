"""An export keeps ids in memory, and not what was said."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest
from tests.roundtrip.authors import AUTHORS

import treering
from treering.exporters import export, sheaf
from treering.exporters.sheaf import Sheaf
from treering.importers import Intake, claude

TEXT_BYTES = 100_000
COUNT = 250


@pytest.mark.parametrize("name", [name for name in AUTHORS if name != "evva"])
def test_memory_does_not_grow_with_what_was_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while a file is made nor while it is read again, whether something was added here or not."""
    monkeypatch.setattr(sheaf, "MEMORY_BYTES_MAX", 1000)
    monkeypatch.setattr(claude, "HEAD_ENTRIES_MAX", 5)  # so many are held to tell what there is to know of a session
    random = Random(name)
    author = AUTHORS[name](tmp_path / "a.jsonl", random)
    author.begin()
    author.write(*["user" if name == "claude" else "message"] * 5)
    store = treering.open(tmp_path / "store")
    session = Intake(store).take(author.path, format=name).session
    export(store.view(session), tmp_path / "first.jsonl", format=name)  # loads what is loaded once
    with store.session(session) as handle:
        for _ in range(COUNT // 10):
            handle.append(*[treering.user(random.randbytes(TEXT_BYTES // 2).hex()) for _ in range(10)])
        handle.compact("all of it")
    tracemalloc.start()
    done = export(store.view(session), tmp_path / "out.jsonl", format=name)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = Path(done.path).stat().st_size
    assert size > COUNT * TEXT_BYTES
    assert found < size / 4, (found, size)


def test_a_sheaf_is_gone_through_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between lines that are added, and when it has left the memory."""
    monkeypatch.setattr(sheaf, "MEMORY_BYTES_MAX", 10)
    lines, given = Sheaf(), [b"a\n", b"", b"long line\n" * 9, b"end"]
    for count, line in enumerate(given, 1):
        lines.append(line)
        assert next(iter(lines)) == b"a\n"
        assert [*lines] == given[:count]
        assert len(lines) == count
