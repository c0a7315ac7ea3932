"""Records of a file are read a second time where a later one asks for them."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs.claude.sessions import Talk

from treering.importers import read
from treering.programs.claude.read import ClaudeSource, is_entry
from treering.programs.common.lines import read_values
from treering.programs.common.recall import Recall
from treering.programs.common.source import open_stream

RECORDS = [{"type": "user", "uuid": f"u{number}", "parentUuid": None, "text": "é" * number} for number in range(9)]
DATA = b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" * (1 + at % 3) for at, each in enumerate(RECORDS))


@pytest.fixture
def rewinds(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often a compressed file is begun anew."""
    counts: Counter[str] = Counter()
    begin_anew: Callable[[gzip.GzipFile], None] = gzip.GzipFile.rewind

    def counted(self: gzip.GzipFile) -> None:
        counts["rewinds"] += 1
        begin_anew(self)

    monkeypatch.setattr(gzip.GzipFile, "rewind", counted)
    return counts


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: gzip.compress(data)[:-6]])
def test_records_are_found_where_they_stood(
    pack: Callable[[bytes], bytes], tmp_path: Path, rewinds: Counter[str]
) -> None:
    """In any order, and without beginning anew in a compressed file for each; there may be none."""
    path = tmp_path / "a"
    path.write_bytes(pack(DATA))
    with open_stream(path) as stream:
        places = [(value.offset, value.value) for value in read_values(stream, lambda *_: None, is_entry)]
    with Recall(lambda: open_stream(path), is_entry) as recall:
        assert [recall(offset) for offset, _ in places[::-1]] == RECORDS[::-1]
        assert recall(len(DATA)) == {}
    assert not rewinds


def test_two_on_one_line_are_told_apart(tmp_path: Path) -> None:
    """Each is found where it begins."""
    path = tmp_path / "a"
    path.write_bytes(DATA.replace(b"\n", b""))
    with open_stream(path) as stream, Recall(lambda: open_stream(path), is_entry) as recall:
        values = [*read_values(stream, lambda *_: None, is_entry)]
        assert [recall(value.offset) for value in values] == [value.value for value in values] == RECORDS


def test_nothing_is_opened_that_nobody_asks_for(tmp_path: Path) -> None:
    """A file in which no `uuid` comes twice is opened once for its beginning, and once to be read."""
    talk, opened = Talk(), list[Path]()
    talk.user("u1")
    talk.answer("a1")

    def opening(path: Path) -> io.BufferedIOBase:
        opened.append(path)
        return open_stream(path)

    def times_opened() -> int:
        path = talk.save(tmp_path)
        opened.clear()
        source = ClaudeSource(lambda: opening(path), path)
        assert len([*source.records()]) == len(talk.entries) + 1
        return len(opened)

    assert times_opened() == 2
    talk.entries.append(talk.entries[0])
    assert times_opened() == 3


def test_words_are_compared_also_in_compressed_files(tmp_path: Path) -> None:
    """A new version of an entry is a sibling node; a repetition is no node."""
    talk = Talk()
    talk.user("u1", "one")
    talk.answer("a1")
    talk.entries.append(talk.entries[1])
    talk.entries.append(talk.entries[0] | {"message": {"role": "user", "content": "two"}})
    path = tmp_path / f"{talk.save(tmp_path).name}.gz"
    path.write_bytes(gzip.compress(talk.data))
    assert [bool(entry.id) for entry in read(path).entries] == [True, True, False, True]
