"""Sessions of which something was erased are written back, without it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sampling import few
from tests.session.backends import memory_backend

from treering.api.store import Store
from treering.api.view import View
from treering.calls import pairing
from treering.errors import TreeringError
from treering.exporters.export import export
from treering.format.erasure import Erased
from treering.format.values import fields_of
from treering.importers import FileImporter, read
from treering.programs.common.blocks import blocks_of
from treering.transcript.node import user

SECRET = "the password is swordfish"
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": SECRET},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"password": SECRET}},
    ],
    "timestamp": 1,
}
RESULT: dict[str, Any] = {
    "role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": [{"type": "text", "text": SECRET}],
    "isError": False, "timestamp": 1,
}  # fmt: skip


@pytest.mark.parametrize("form", ["pi", "omp", "operator", "kit", "evva"])
@pytest.mark.parametrize("compacted", [False, True])
def test_an_erased_payload_is_written_as_what_a_model_is_shown(tmp_path: Path, form: str, *, compacted: bool) -> None:
    """The program sends the same as the session does, and the file says nothing of the payload."""
    store = memory_store()
    with store.session("s", policy="pi-1.5") as session:
        gone = [session.append(user(SECRET)).node, session.append(CALL).node, session.append(RESULT).node]
        session.amend(gone[0], {"role": "user", "content": f"again: {SECRET}"})
        session.note("remark", payload=SECRET)
        gone += [note.id for note in session.notes() if note.kind == "remark"]
        if compacted:
            gone.append(session.compact(SECRET).node)
        session.commit(["go on"])
        session.erase(*gone)
    done = export(store.view("s"), tmp_path / "file.jsonl", format=form)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"swordfish" not in written
    assert b"[erased]" in written
    assert done.same_context or compacted


def memory_store() -> Store:
    """An empty store."""
    return memory_backend().store()


HEADER = {"type": "session", "version": 3, "id": "a", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"}
ANSWER = {
    "role": "assistant", "content": [{"type": "text", "text": SECRET}], "provider": "p", "model": "m", "api": "x",
    "usage": {}, "stopReason": "stop", "timestamp": 2,
}  # fmt: skip


PROMPT: dict[str, Any] = {"role": "user", "content": "go on", "timestamp": 1}


def entry(name: str, parent: str | None, message: dict[str, Any] | None = None, **fields: object) -> dict[str, Any]:
    """An entry of a file of pi: a message, or what the fields say."""
    said = {"type": "message", "message": message} if message else fields
    return {"id": name, "parentId": parent, "timestamp": HEADER["timestamp"]} | said


def written(path: Path, *entries: dict[str, Any]) -> Path:
    """A file of pi: by default a prompt and an answer."""
    said = entries or (entry("m0", None, PROMPT), entry("m1", "m0", ANSWER))
    path.write_text("".join(json.dumps(each) + "\n" for each in [HEADER, *said]))
    return path


@pytest.mark.parametrize("form", ["pi", "omp"])
def test_an_erased_answer_of_a_file_has_what_its_program_needs(tmp_path: Path, form: str) -> None:
    """As an answer that was recorded here has it."""
    store = memory_store()
    FileImporter(store).load(written(tmp_path / "a.jsonl"))
    with store.session("a") as session:
        session.erase("m1")
    export(store.view("a"), tmp_path / "out.jsonl", format=form)
    message = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["message"]
    assert message["content"] == [{"type": "text", "text": "[erased]"}]
    assert {"api", "provider", "model", "usage", "stopReason", "timestamp"} <= message.keys()


def calls_in(view: View) -> tuple[int, int, int]:
    """How many calls of a branch have a result, how many results have no call, and how many calls no result."""
    payloads = [view.get(name).payload for name in view.path()]
    found = pairing([each.message if isinstance(each, Erased) else each for each in payloads])
    return len(found.pairs), len(found.orphans), len(found.passed) + len(found.open)


def sessions_in(folder: Path) -> list[Path]:
    """The files below a folder, without what a program answered about them; usually some of them."""
    found = [path for path in sorted(folder.rglob("*.json*")) if ".expect." not in path.name]
    return found[:: few(9, whole=1)]


@pytest.mark.parametrize("form", ["kit", "evva", "operator", "pi073", "omp"])
def test_each_message_of_a_file_can_be_erased(shared: Path, form: str) -> None:
    """One of each kind and role: calls still have their results, and each program gets a file of what is left."""
    done = 0
    for path in sessions_in(shared / "golden" / form):
        store = memory_store()
        try:
            found = FileImporter(store).load(path)
        except TreeringError:
            continue  # some are damaged on purpose
        view = store.view(found.session)
        gone = {(node.kind, node.role): node.id for node in view.each_node()}
        if not gone:
            continue
        before = calls_in(view)
        with store.session(found.session) as session:
            session.erase(*gone.values())
        view = store.view(found.session)
        assert calls_in(view) == before, path
        for target in (str(view.info.extra["imported"]), "omp", "claude"):
            with tempfile.TemporaryDirectory() as folder:
                export(view, Path(folder, "out"), format=target)
        done += 1
    assert done


def test_a_file_whose_message_was_erased_is_exported_and_imported_in_turn(tmp_path: Path) -> None:
    """Over itself, as one with an amended message; its permissions stay."""
    path, store = written(tmp_path / "a.jsonl"), memory_store()
    path.chmod(0o640)
    FileImporter(store).load(path)
    with store.session("a") as session:
        session.erase("m1")
    export(store.view("a"), path, format="pi", overwrite=True)
    assert path.stat().st_mode & 0o777 == 0o640
    again = FileImporter(store).load(path)
    assert (again.session, [each.id for each in store.sessions().rows]) == ("a", ["a"])
    assert b"swordfish" not in path.read_bytes()


def test_what_a_context_edit_hid_stays_hidden_when_the_edit_is_erased(tmp_path: Path) -> None:
    """Only what it said is gone."""
    edit = entry("e", "m1", type="context_edit", targetId="m0", replacement=None)
    path, store = (
        written(tmp_path / "a.jsonl", entry("m0", None, PROMPT), entry("m1", "m0", ANSWER), edit),
        memory_store(),
    )
    FileImporter(store).load(path)
    with store.session("a") as session:
        session.erase("e")
    done = export(store.view("a"), tmp_path / "out.jsonl", format="pi")
    assert done.same_context
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["replacement"] is None


def test_the_second_of_two_entries_with_one_id_can_be_erased(tmp_path: Path) -> None:
    """It was recorded under another id, and after the erasure only the entry below it tells the id in the file."""
    branches = [
        entry("m1", "m0", PROMPT),
        entry("m2", "m1", ANSWER),
        entry("m1", "m0", ANSWER),
        entry("m3", "m1", PROMPT),
    ]
    path, store = written(tmp_path / "a.jsonl", entry("m0", None, PROMPT), *branches), memory_store()
    FileImporter(store).load(path)
    with store.session("a") as session:
        session.erase(session.path()[1])
    done = export(store.view("a"), tmp_path / "out.jsonl", format="pi")
    assert done.same_context
    assert b"swordfish" in (tmp_path / "out.jsonl").read_bytes()  # in the answer m2
    FileImporter(again := memory_store()).load(tmp_path / "out.jsonl")
    assert again.view("a").path() == store.view("a").path()


@pytest.mark.parametrize("form", ["kit", "evva", "operator", "pi073", "pi152", "omp"])
def test_any_message_of_a_file_can_be_erased_alone(shared: Path, form: str) -> None:
    """Its program gets a file in which everything else is as before."""
    done = 0
    for path in sessions_in(shared / "golden" / form / "edge"):
        try:
            FileImporter(store := memory_store()).load(path)
        except TreeringError:
            continue  # some are damaged on purpose
        for row in store.sessions().rows:
            for node in store.view(row.id).each_node():
                FileImporter(store := memory_store()).load(path)
                with store.session(row.id) as session:
                    session.erase(node.id)
                with tempfile.TemporaryDirectory() as folder:
                    export(store.view(row.id), Path(folder, "out"), format=str(row.extra["imported"]))
                done += 1
    assert done


@pytest.mark.parametrize("damaged", [False, True])
def test_the_document_of_evva_does_not_repeat_an_erased_first_prompt(tmp_path: Path, *, damaged: bool) -> None:
    """It stands beside the messages, too; and no copy of it stays in the store."""
    said = [{"Role": "user", "Content": SECRET}, {"Role": "assistant", "Content": "ok"}]
    document = {
        "version": 1, "session_id": "s1", "workdir": "/w", "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z", "first_user_prompt": SECRET, "session": {"messages": said},
    }  # fmt: skip
    (tmp_path / "s1.json").write_text(json.dumps(document)[: -len('"}]}}') if damaged else None])
    store = memory_store()
    FileImporter(store).load(tmp_path / "s1.json")
    with store.session("s1") as session:
        session.erase(session.path()[0])
    assert "swordfish" not in "\n".join(texts_in(store.view("s1")))
    export(store.view("s1"), tmp_path / "out.json", format="evva")
    assert json.loads((tmp_path / "out.json").read_text())["first_user_prompt"] == "[erased]"
    assert b"swordfish" not in (tmp_path / "out.json").read_bytes()


def texts_in(view: View) -> Iterator[str]:
    """Everything that a session says, in its records and its row of a list."""
    waiting: list[Any] = [msgspec.to_builtins(view.info), *map(json.loads, view.lines())]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            yield value


ERASED_FILES = ("golden/evva", "golden/kit", "golden/operator", "golden/pi152", "golden/omp", "samples")
WORDS_MIN = 24  # characters of a line that is looked for; a shorter one may be there for another reason


@pytest.mark.parametrize("folder", ERASED_FILES)
def test_no_record_of_a_file_repeats_what_was_erased(shared: Path, folder: str) -> None:
    """Neither what is kept of a header nor the row of a list; but damage is kept until its note is erased."""
    done = 0
    for path in sessions_in(shared / folder):
        store = memory_store()
        try:
            found = FileImporter(store).load(path)
        except TreeringError:
            continue  # some are damaged on purpose, or no session
        view = store.view(found.session)
        said = {line for text in prose_of(view) for line in text.split("\n") if len(line) >= WORDS_MIN}
        gone = [node.id for node in view.each_node()] + [note.id for note in view.notes() if note.kind == "damage"]
        if not gone:
            continue
        with store.session(found.session) as session:
            session.erase(*gone)
        left = "\n".join(texts_in(store.view(found.session)))
        assert [line for line in said if line in left] == [], path
        done += 1
    assert done


def prose_of(view: View) -> Iterator[str]:
    """The texts of a session's messages, without names and ids of calls."""
    for node in view.each_node():
        if node.kind == "message":
            message = fields_of(node.payload).get("message", node.payload)
            blocks = (block for block in blocks_of(fields_of(message)) if block.kind == "text")
            yield from (block.text for block in blocks)


@pytest.mark.parametrize("form", ["kit", "evva", "operator", "pi152", "omp"])
def test_the_header_of_a_file_can_be_erased(shared: Path, tmp_path: Path, form: str) -> None:
    """An export writes a new one; a model is sent the same as before."""
    path = next(path for path in sorted((shared / "golden" / form).rglob("*.json*")) if "expect" not in path.name)
    store = memory_store()
    found = FileImporter(store).load(path)
    targets = (str(store.view(found.session).info.extra["imported"]), "omp", "claude")
    before = [export(store.view(found.session), tmp_path / f"{target}-1", format=target) for target in targets]
    with store.session(found.session) as session:
        session.erase(*(note.id for note in session.notes() if note.kind == "import"))
    after = [export(store.view(found.session), tmp_path / f"{target}-2", format=target) for target in targets]
    assert [each.same_context for each in after] == [each.same_context for each in before]
    for target, done in zip(targets, after, strict=True):
        assert read(tmp_path / f"{target}-2").entries, target
        assert done.entries
