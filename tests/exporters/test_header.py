"""The header of a file that had none that its program takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.roundtrip.authors import AUTHORS, Author

import treering
from treering import Store
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter

ABSENT: Any = object()


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    with closing(treering.open(f"memory://headers-{new_nonce()}")) as opened:
        yield opened


def written(name: str, folder: Path, identifier: Any) -> Author:
    """A program whose file has a header with this as its id."""
    author = AUTHORS[name](folder / "named.jsonl", Random(name))
    author.header = {field: value for field, value in author.header.items() if field != "id"} | {"extra": {"x": 1}}
    author.header |= {} if identifier is ABSENT else {"id": identifier}
    author.astray = 0
    author.begin()
    author.write("message", "message")
    return author


def header(path: Path) -> dict[str, Any]:
    """The header of a file; a title slot may stand in front of it."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return next(row for row in rows if row["type"] == "session")


@pytest.mark.parametrize("identifier", [ABSENT, "", 5, None])
@pytest.mark.parametrize("name", ["kit", "omp", "operator", "pi"])
def test_a_header_without_an_id_gets_one_when_the_session_goes_on(
    name: str, identifier: Any, store: Store, tmp_path: Path
) -> None:
    """Else it stays as it was; what more it says stays in any case, and the file is of the same session as before."""
    author = written(name, tmp_path, identifier)
    importer = FileImporter(store)
    taken = importer.load(author.path)
    assert taken.session == "named"
    untouched = export(store.view("named"), tmp_path / "untouched.jsonl", format=name)
    assert (tmp_path / "untouched.jsonl").read_bytes() == author.path.read_bytes()
    refused = [("session", True)] if name in ("omp", "pi") else []
    assert [(left.kind, left.seen) for left in untouched.left_out] == refused
    assert untouched.same_context is not bool(refused)
    with store.session("named") as session:
        session.append("more")
    done = export(store.view("named"), author.path, format=name, overwrite=True)
    assert (done.left_out, done.same_context) == ([], True)
    assert header(author.path) == author.header | {"id": "named"}
    author.write("message")
    assert (importer.load(author.path).session, len(store.view("named").nodes())) == ("named", 4)
    export(store.view("named"), tmp_path / "again.jsonl", format=name)
    assert (tmp_path / "again.jsonl").read_bytes() == author.path.read_bytes()


@pytest.mark.parametrize("version", [0, -1, "", [], 1.5])
@pytest.mark.parametrize("name", ["omp", "pi"])
def test_a_header_of_no_known_version_is_renewed_when_the_session_goes_on(
    name: str, version: Any, store: Store, tmp_path: Path
) -> None:
    """The program would give the entries other ids and parents otherwise, as those of a file without ids."""
    author = AUTHORS[name](tmp_path / "odd.jsonl", Random(name))
    author.header = author.header | {"version": version}  # not in place: all authors share it
    author.astray = 0
    author.begin()
    author.write("message", "message", "message")
    taken = FileImporter(store).load(author.path)
    nodes = [node.id for node in store.view(taken.session).nodes() if node.kind == "message"]
    with store.session(taken.session) as session:
        session.checkout(nodes[0])
    done = export(store.view(taken.session), tmp_path / "on.jsonl", format=name)
    assert (done.left_out, done.same_context) == ([], True)
    assert header(tmp_path / "on.jsonl")["version"] == 3
