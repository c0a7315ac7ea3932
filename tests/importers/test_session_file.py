"""A file as its program sees it: tree, paths, labels and contexts, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.programs.pi.reading import HEADER, entry, lines, message

from treering.errors import NotFoundError, UsageError
from treering.importers import SessionFile, read

TALK = [message("a", None), message("b", "a"), entry("label", "l", "b", targetId="a", label="x"), message("c", "l")]


def file_of(path: Path, *records: Any, **header: Any) -> SessionFile:
    """Read a file with these records."""
    path /= "s.jsonl"
    path.write_bytes(lines(*records, header=HEADER | header))
    return read(path)


def test_paths_hold_all_entries_and_contexts_only_what_is_sent(tmp_path: Path) -> None:
    """A label is on the path, as in the program; the model sees nothing of it."""
    file = file_of(tmp_path, *TALK)
    assert (file.format, file.leaf, file.entry_ids, file.labels) == ("pi", "c", ["a", "b", "l", "c"], {"a": "x"})
    assert file.path("c") == ["a", "b", "l", "c"]
    assert [shown.source for shown in file.context("c").messages] == ["a", "b", "c"]
    assert file.context("l").messages == file.context("b").messages
    assert file.tree() == [["a", "x", [["b", None, [["l", None, [["c", None, []]]]]]]]]
    assert file.header_record == HEADER


def test_before_the_first_entry_there_is_nothing(tmp_path: Path) -> None:
    """None is a place of its own; an id that is not there is answered as the program does, by the last entry."""
    file = file_of(tmp_path, *TALK)
    assert (file.path(None), file.context(None).messages) == ([], [])
    assert (file.path("gone"), file.context("gone")) == ([], file.context("c"))
    empty = file_of(tmp_path)
    assert (empty.leaf, empty.tree(), empty.context("gone").messages) == (None, [], [])


def test_what_the_program_makes_has_no_source_but_an_entry(tmp_path: Path) -> None:
    """A summary is made by the program; one can still tell which entry it is about."""
    compaction = entry("compaction", "k", "c", summary="S", firstKeptEntryId="c", tokensBefore=1)
    shown = file_of(tmp_path, *TALK, compaction).context("k").messages
    assert [(each.source, each.entry) for each in shown] == [(None, "k"), ("c", "c")]


def test_a_compaction_keeps_from_the_later_of_two_entries_with_one_id(tmp_path: Path) -> None:
    """Merged files have entries twice. Programs look on the path for the id, where the later one stands."""
    compaction = entry("compaction", "k", "c", summary="S", firstKeptEntryId="b", tokensBefore=1)
    file = file_of(tmp_path, *TALK, compaction, message("b", "a"), message("d", "k"))
    for policy in ("pi", "pi-1.5", "omp"):
        assert [each.entry for each in file.context("d", policy).messages] == ["k", "b", "c", "d"]


def test_a_label_counts_until_it_is_taken_off(tmp_path: Path) -> None:
    """The last one counts, an empty one takes it off, and one on nothing is none."""
    more = [entry("label", "m", "c", targetId="a"), entry("label", "n", "m", targetId="gone", label="y")]
    more.append(entry("label", "o", "n", targetId="b", label="z"))
    assert file_of(tmp_path, *TALK, *more).labels == {"b": "z"}


def test_a_circle_ends_where_it_comes_round(tmp_path: Path) -> None:
    """Path and context of an entry in a circle can be asked for; the tree leaves it out, as the program does."""
    file = file_of(tmp_path, message("a", "b"), message("b", "a"), message("c", "b"), message("d", "d"))
    assert file.path("c") == ["a", "b", "c"]
    assert len(file.context("c").messages) == 3
    assert file.tree() == [["d", None, []]]


def test_of_two_entries_with_one_id_the_later_counts(tmp_path: Path) -> None:
    """In the places of both, as in the program; no entry is missing from the list."""
    file = file_of(tmp_path, message("a", None, "one"), message("b", "a"), message("a", None, "two"))
    assert file.entry_ids == ["a", "b", "a"]
    assert file.context("b").messages[0].message["content"] == "two"
    assert file.tree() == [["a", None, [["b", None, []]]]] * 2


def test_children_stand_in_the_order_of_time(tmp_path: Path) -> None:
    """Equal times keep the order of the file, and so does what has no time."""
    times = {"b": "2026-01-05T08:00:03Z", "c": "2026-01-05T08:00:02Z", "d": "2026-01-05T08:00:02.000Z"}
    found = [message("a", None), *(message(name, "a") | {"timestamp": time} for name, time in times.items())]
    (root,) = file_of(tmp_path, *found).tree()
    assert [child[0] for child in root[2]] == ["c", "d", "b"]  # type: ignore[attr-defined]
    found[2]["timestamp"] = "never"
    (root,) = file_of(tmp_path, *found[:3]).tree()
    assert [child[0] for child in root[2]] == ["b", "c"]  # type: ignore[attr-defined]


def test_entries_of_old_files_get_ids(tmp_path: Path) -> None:
    """They are the same each time, and each follows the one before."""
    bare = [{name: part for name, part in message(None, None).items() if name not in ("id", "parentId")}] * 3
    file = file_of(tmp_path, *bare, version=1)
    assert file.path(file.leaf) == file.entry_ids
    assert len({*file.entry_ids}) == 3
    assert file_of(tmp_path, *bare, version=1).entry_ids == file.entry_ids


def test_the_last_title_counts(tmp_path: Path) -> None:
    """Also one that takes the title off; the header of pi has none."""
    titles = [entry("session_info", "t", "c", name=" A ")]
    assert file_of(tmp_path, *TALK, title="never shown").title == ""
    assert file_of(tmp_path, *TALK, *titles).title == "A"
    assert file_of(tmp_path, *TALK, *titles, entry("session_info", "u", "t", name="")).title == ""


def test_the_policy_of_another_program_reads_the_file_as_that_one(tmp_path: Path) -> None:
    """A turn that failed is sent by pi and not by oh-my-pi: a file of either can be seen with the eyes of the other."""
    failed = message("f", "c", "", "assistant")
    failed["message"] |= {"stopReason": "error", "content": []}
    file = file_of(tmp_path, *TALK, failed)
    assert [shown.entry for shown in file.context("f").messages] == ["a", "b", "c", "f"]
    assert [shown.entry for shown in file.context("f", "omp").messages] == ["a", "b", "c"]


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    """The error says what is known; a file that is not there is another error."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"type":"message"}\n')
    with pytest.raises(UsageError, match="no session file that is known"):
        read(path)
    with pytest.raises(UsageError, match="no session file of pi"):
        read(path, format="pi")
    with pytest.raises(UsageError, match="format is unknown"):
        read(path, format="word")
    with pytest.raises(NotFoundError):
        read(tmp_path / "gone.jsonl")
    assert path.read_text() == '{"type":"message"}\n'
