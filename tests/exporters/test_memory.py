"""An export keeps ids in memory, and not what was said."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest
from benchmarks import foreign, workload
from tests.roundtrip.authors import AUTHORS
from tests.sampling import few

import treering
from treering.exporters import export
from treering.format import segment
from treering.importers import FileImporter
from treering.journal import read as journal_read
from treering.programs.claude import read as claude
from treering.programs.common import line_buffer
from treering.programs.common.line_buffer import LineBuffer

TEXT_BYTES = 100_000
COUNT = few(100, whole=250)


@pytest.mark.parametrize("name", [name for name in AUTHORS if name != "evva"])
def test_memory_does_not_grow_with_what_was_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while a file is made nor while it is read again, whether something was added here or not."""
    monkeypatch.setattr(line_buffer, "MEMORY_BYTES_MAX", 1000)
    monkeypatch.setattr(claude, "HEAD_ENTRIES_MAX", 5)  # so many are held to tell what there is to know of a session
    random = Random(name)
    author = AUTHORS[name](tmp_path / "a.jsonl", random)
    author.begin()
    author.write(*["user" if name == "claude" else "message"] * 5)
    store = treering.open(tmp_path / "store")
    session = FileImporter(store).load(author.path, format=name).session
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


@pytest.mark.parametrize(("name", "bytes_max"), [("claude", 1365), ("pi", 1125)])
def test_few_bytes_are_kept_of_an_entry(
    name: str, bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id, and what tells its place, while a file is made as while it is read again.

    Small segments are read whole, which would take more than all that is kept of these entries.
    """
    monkeypatch.setattr(journal_read, "WHOLE_BYTES_MAX", 16 * 1024)
    monkeypatch.setattr(line_buffer, "MEMORY_BYTES_MAX", 1000)
    monkeypatch.setattr(segment, "FRAME_BYTES", 16 * 1024)
    monkeypatch.setattr(foreign, "_COMPACT_EVERY", 100)
    monkeypatch.setattr(workload, "text", lambda _: "words")

    def weigh(size: int) -> tuple[int, int]:
        path, store = tmp_path / f"{size}.jsonl", treering.open(tmp_path / f"store-{size}")
        count = foreign.write(path, name, size)
        view = store.view(FileImporter(store).load(path, format=name).session)
        tracemalloc.start()
        export(view, path, format=name, overwrite=True)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return count, found

    weigh(1000)  # loads what is loaded once
    (fewer, less), (many, more) = weigh(few(250_000, whole=500_000)), weigh(few(750_000, whole=1_500_000))
    assert (more - less) / (many - fewer) < bytes_max, (more - less) / (many - fewer)


def test_a_line_buffer_is_gone_through_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between lines that are added, and when it has left the memory."""
    monkeypatch.setattr(line_buffer, "MEMORY_BYTES_MAX", 10)
    lines, given = LineBuffer(), [b"a\n", b"", b"long line\n" * 9, b"end"]
    for count, line in enumerate(given, 1):
        lines.append(line)
        assert next(iter(lines)) == b"a\n"
        assert [*lines] == given[:count]
        assert len(lines) == count
