"""The title of a session in files of other programs, whenever it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter
from treering.programs.common.target import targets


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("later", [None, "another"])
def test_a_title_given_at_creation_is_written_or_told(later: str | None, format_: str, tmp_path: Path) -> None:
    """The file says it, unless a later one took its place; a program without titles loses it, which is told."""
    store = treering.open(f"memory://titles-{new_nonce()}")
    with store.session("made", title="at creation", cwd="/work") as session:
        session.append("go", treering.assistant("gone"))
        if later is not None:
            session.set_title(later)
    done = export(store.view("made"), tmp_path / "file", format=format_)
    there = treering.open(f"memory://titles-{new_nonce()}")
    title = there.view(FileImporter(there).load(tmp_path / "file").session).info.title
    told = [left.kind for left in done.left_out]
    assert (title, told) == (("", ["title"]) if format_ == "evva" else (later or "at creation", []))
    assert done.same_context


@pytest.mark.parametrize("format_", targets())
def test_a_session_that_was_not_given_a_title_gets_none(format_: str, tmp_path: Path) -> None:
    """No entry is added for a title that is empty, and none is told to be left out."""
    store = treering.open(f"memory://titles-{new_nonce()}")
    with store.session("made", cwd="/work") as session:
        session.append("go", treering.assistant("gone"))
    done = export(store.view("made"), tmp_path / "file", format=format_)
    assert done.left_out == []
    assert done.entries == 2
