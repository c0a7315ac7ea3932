"""Files that were exported of sessions recorded here: an import goes on with these sessions and makes no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter
from treering.programs.common.target import targets

NAME = "made-here"


@pytest.fixture
def store() -> treering.Store:
    """A store with a session that was recorded here."""
    opened = treering.open(f"memory://exported-{new_nonce()}")
    with opened.session(NAME, cwd="/work", title="made here") as session:
        session.append("go")
        session.label(session.append(treering.assistant("gone")).node, "there")
    return opened


def continued(path: Path, format_: str) -> None:
    """Append a message to a file, as its program would."""
    there = treering.open(f"memory://exported-{new_nonce()}")
    name = FileImporter(there).load(path).session
    with there.session(name) as session:
        session.append("asked in the program")
    export(there.view(name), path, format=format_, overwrite=True)


def said(store: treering.Store) -> list[str]:
    """The user's messages in the context."""
    return [str(item.message) for item in store.view(NAME).context if "user" in str(item.message)]


@pytest.mark.parametrize("format_", targets())
def test_an_export_is_the_session_it_was_made_of(format_: str, store: treering.Store, tmp_path: Path) -> None:
    """Nothing of it is recorded again, at no time."""
    export(store.view(NAME), tmp_path / "file", format=format_)
    before = store.view(NAME)
    done = FileImporter(store).load(tmp_path / "file")
    after = store.view(NAME)
    assert (done.session, [info.id for info in store.each_session()]) == (NAME, [NAME])
    assert (after.node, after.info.nodes, after.info.title) == (before.node, before.info.nodes, "made here")
    assert after.labels() == before.labels()
    assert after.context == before.context
    assert FileImporter(store).load(tmp_path / "file").outcome == "unchanged"


@pytest.mark.parametrize("format_", targets())
def test_what_the_program_added_to_an_export_goes_on_with_the_session(
    format_: str, store: treering.Store, tmp_path: Path
) -> None:
    """The head moves along; if the session went on here as well, the new records are on a head of the program's."""
    export(store.view(NAME), tmp_path / "file", format=format_)
    continued(tmp_path / "file", format_)
    assert FileImporter(store).load(tmp_path / "file").session == NAME
    assert [info.id for info in store.each_session()] == [NAME]
    assert ["asked in the program" in text for text in said(store)] == [False, True]


@pytest.mark.parametrize("format_", targets())
def test_what_both_added_is_on_two_heads(format_: str, store: treering.Store, tmp_path: Path) -> None:
    """The session stays where it stands."""
    export(store.view(NAME), tmp_path / "file", format=format_)
    continued(tmp_path / "file", format_)
    with store.session(NAME) as session:
        session.append("asked here")
    done = FileImporter(store).load(tmp_path / "file")
    assert (done.session, done.branch) == (NAME, format_)
    assert ["asked here" in text for text in said(store)] == [False, True]


@pytest.mark.parametrize("format_", targets())
def test_another_session_of_that_name_stays_as_it_is(format_: str, store: treering.Store, tmp_path: Path) -> None:
    """A name alone does not make a file an export of a session."""
    export(store.view(NAME), tmp_path / "file", format=format_)
    other = treering.open(f"memory://exported-{new_nonce()}")
    with other.session(NAME) as session:
        session.append("another")
    assert FileImporter(other).load(tmp_path / "file").session != NAME
    assert other.view(NAME).info.nodes == 1
