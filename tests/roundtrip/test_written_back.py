"""A session goes to and fro: imported, continued here, written over its file, continued there, imported again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treering
from treering import assistant
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, read
from treering.importers.file_importer import ImportResult

FORMATS = {"pi": "parentId", "omp": "parentId", "operator": "parent_id", "kit": "parent_id"}
"""The programs, and their field for the parent of an entry."""


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://back-{new_nonce()}")
    yield store
    store.close()


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of a program with two messages; its name begins with that of the format."""
    store, path = treering.open(f"memory://made-{new_nonce()}"), tmp_path / f"{request.param}.jsonl"
    with store.session("given", cwd="/repo") as session:
        session.append("question")
        session.append(assistant("answer"))
    export(store.view("given"), path, format=request.param)
    store.close()
    foreign = path.read_text()
    for number, name in enumerate(read(path, format=request.param).entry_ids):
        foreign = foreign.replace(str(name), f"e{number:07x}")
    path.write_text(foreign)
    return path


def say_there(path: Path, name: str, text: str) -> None:
    """Let the program append a message where it goes on: below the last entry of its file."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    asked: dict[str, Any] = next(record for record in records if "question" in json.dumps(record))
    said = json.loads(json.dumps(asked).replace("question", text))
    below = {FORMATS[path.stem]: records[-1]["id"]}
    with path.open("a") as file:
        file.write(json.dumps({**said, "id": name, **below}) + "\n")


def take(store: treering.Store, path: Path) -> ImportResult:
    """Import a file as a program that was just started does."""
    return FileImporter(store).load(path, format=path.stem)


def shown(store: treering.Store) -> list[str]:
    """The texts that a model sees."""
    found = []
    for item in store.view("given").recorded_context:
        content: Any = (
            fields.get("content", fields.get("contents", fields.get("parts"))) if (fields := item.message) else ""
        )
        found.append(content if isinstance(content, str) else json.dumps(content))
    return found


def write_back(store: treering.Store, path: Path) -> None:
    """Write the session over its file."""
    export(store.view("given"), path, format=path.stem, overwrite=True)


def test_nothing_comes_back_twice(store: treering.Store, path: Path) -> None:
    """What was recorded here is in the file after an export. An import of that adds nothing, and no branch."""
    take(store, path)
    with store.session("given") as session:
        session.append("more")
        results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in "ab"]
        session.append({"role": "user", "content": results})
        session.label(session.node or "", "here")
        session.set_title("T")
        session.record_usage(input=5)
    before = store.view("given")
    write_back(store, path)
    taken, view = take(store, path), store.view("given")
    headers = 1 if path.stem == "omp" else 0  # its title stands in front of the file
    assert (taken.records, taken.branch, view.problems()) == (headers, "", ())
    assert view.info.nodes == before.info.nodes
    assert (view.node, view.heads, view.labels(), view.usage) == (
        before.node,
        before.heads,
        before.labels(),
        before.usage,
    )


def test_it_goes_on_here_and_there(store: treering.Store, path: Path) -> None:
    """The session goes along with the program, and each finds what the other one said, however often that is done."""
    take(store, path)
    for turn in range(3):
        with store.session("given") as session:
            session.append(f"here {turn}")
            session.label("e0000000", f"label {turn}")
        write_back(store, path)
        say_there(path, f"f{turn:07x}", f"there {turn}")
        taken = take(store, path)
        assert (taken.outcome, taken.records, taken.branch) == ("updated", 1, "")
    texts = " ".join(shown(store))
    said = ["question", "answer", *(f"{place} {turn}" for turn in range(3) for place in ("here", "there"))]
    assert sorted(said, key=texts.index) == said
    assert store.view("given").problems() == ()


def test_it_goes_along_from_where_it_stood(store: treering.Store, path: Path) -> None:
    """A session that went back before it was written goes on with the program from there."""
    take(store, path)
    with store.session("given") as session:
        session.append("elsewhere")
        session.checkout("e0000000")
    write_back(store, path)
    say_there(path, "f0000000", "there")
    assert take(store, path).branch == ""
    assert ["there" in text for text in shown(store)] == [False, True]


def test_it_stays_where_it_went_since(store: treering.Store, path: Path) -> None:
    """A session that went elsewhere after it was written stays there; what the program said is a branch."""
    take(store, path)
    with store.session("given") as session:
        elsewhere = session.append("elsewhere").node
        session.checkout("e0000000")
    write_back(store, path)
    say_there(path, "f0000000", "there")
    with store.session("given") as session:
        session.checkout(elsewhere)
    assert take(store, path).branch == path.stem
    assert store.view("given").node == elsewhere


def test_both_go_on_at_once(store: treering.Store, path: Path) -> None:
    """What was recorded here after the export, and what the program said meanwhile, are two branches."""
    take(store, path)
    with store.session("given") as session:
        session.append("here")
    write_back(store, path)
    say_there(path, "f0000000", "there")
    with store.session("given") as session:
        session.append("here again")
    assert take(store, path).branch == path.stem
    assert "here again" in shown(store)[-1]
    with store.session("given") as session:
        session.switch(path.stem)
    assert "there" in shown(store)[-1]


def test_a_retracted_message_stays_so(store: treering.Store, tmp_path: Path) -> None:
    """The edit by which pi hides a message comes back as an entry, is written as that, and hides it once."""
    path = tmp_path / "pi.jsonl"
    with store.session("made", cwd="/repo") as session:
        session.append("question")
    export(store.view("made"), path, format="pi")
    path.write_text(path.read_text().replace(str(read(path).entry_ids[0]), "e0000000").replace('"made"', '"given"'))
    take(store, path)
    with store.session("given") as session:
        session.append("more")
        session.retract("e0000000")
    for turn in range(2):
        write_back(store, path)
        say_there(path, f"f{turn:07x}", f"there {turn}")
        take(store, path)
    assert [text for text in ("question", "more", "there 0", "there 1") if text in " ".join(shown(store))] == [
        "more", "there 0", "there 1"
    ]  # fmt: skip
    assert [entry.type for entry in read(path).entries].count("context_edit") == 1
