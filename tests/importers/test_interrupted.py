"""Imports that end in the middle, whichever request gets no answer, and are run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.session.faults import Unreliable

from treering.api.store import Store
from treering.errors import ConflictError, UnavailableError
from treering.importers import FileImporter, file_importer
from treering.kinds import Kind
from treering.storage.faulty import Fault

SESSION = "11111111-1111-4111-8111-111111111111"


def uuid(at: int) -> str:
    """The id of a line."""
    return f"{at:08d}-0000-4000-8000-000000000000"


def line(at: int) -> str:
    """A line of a transcript of Claude Code: of four, the first is a prompt, the others are parts of one answer."""
    message: dict[str, Any] = {"role": "user", "content": f"text {at}"}
    if at % 4:
        usage = {"input_tokens": 10, "output_tokens": 100}
        message = {"role": "assistant", "id": f"msg{at // 4}", "type": "message", "model": "m", "usage": usage}
        message["content"] = [{"type": "text", "text": f"text {at}"}]
    facts = {"sessionId": SESSION, "timestamp": f"2026-01-01T00:00:{at:02d}.000Z", "cwd": "/x", "version": "2.0.0"}
    place = {"uuid": uuid(at), "parentUuid": uuid(at - 1) if at else None}
    return json.dumps({"type": message["role"], "isSidechain": False, "message": message} | facts | place)


def written(folder: Path, lines: int) -> Path:
    """A transcript with so many lines."""
    path = folder / f"{SESSION}.jsonl"
    path.write_text("".join(line(at) + "\n" for at in range(lines)))
    return path


def said(store: Store) -> tuple[Any, ...]:
    """What a store says of the only session that it has."""
    (row,) = store.sessions().rows
    view = store.view(row.id)
    return row.id, dict(view.heads), view.head, view.path(), dict(view.usage)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("grows", [False, True])
def test_an_import_that_fails_anywhere_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, *, grows: bool
) -> None:
    """Also if the file has grown meanwhile: one session on one head, each answer counted once."""
    monkeypatch.setattr(file_importer, "DRAFTS_AT_ONCE", 3)
    whole = Unreliable()
    FileImporter(whole.store).load(written(tmp_path, 14 if grows else 11))
    wanted = said(whole.store)
    failed = 0
    for after in range(100):
        bucket = Unreliable()
        FileImporter(bucket.store).load(written(tmp_path, 4))
        path = written(tmp_path, 11)
        bucket.plan.arm(fault, after=after)
        try:
            FileImporter(bucket.store).load(path)
        except UnavailableError:
            failed += 1
        came = not bucket.plan.pending
        bucket.plan.disarm()
        FileImporter(bucket.store).load(written(tmp_path, 14) if grows else path)
        assert said(bucket.store) == wanted, after
        if not came:
            break
    assert 5 < failed < after < 99


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
def test_an_importer_whose_first_load_had_no_answer_loads_again(tmp_path: Path, fault: Fault) -> None:
    """The session may exist by then, which only the store knows."""
    path, failed = written(tmp_path, 11), 0
    for after in range(100):
        bucket = Unreliable()
        importer = FileImporter(bucket.store)
        bucket.plan.arm(fault, after=after)
        try:
            importer.load(path)
        except UnavailableError:
            failed += 1
        bucket.settle()
        if bucket.plan.pending:
            break
        assert importer.load(path).outcome in ("new", "unchanged")
        assert importer.load(path).outcome == "unchanged"
        assert len(bucket.sound.view(SESSION).nodes()) == 11
        assert len(bucket.sound.sessions().rows) == 1
    assert 5 < failed < after < 99


def test_two_importers_meet(tmp_path: Path) -> None:
    """Each began when the store was empty, and looked at it only then."""
    store = Unreliable().store
    first, second = FileImporter(store), FileImporter(store)
    path = written(tmp_path, 4)
    assert first.load(path).outcome == "new"
    assert second.load(path).outcome == "unchanged"
    assert second.load(written(tmp_path, 8)).outcome == "updated"
    assert len(store.sessions().rows) == 1


def test_an_importer_meets_a_session_that_is_not_from_its_file(tmp_path: Path) -> None:
    """It keeps away from it: the file becomes a session of another name, or is refused with the name that was given."""
    store = Unreliable().store
    importers = [FileImporter(store) for _ in range(3)]
    for name in (SESSION, "given"):
        with store.session(name) as session:
            session.append("something else")
    path = written(tmp_path, 4)
    assert importers[0].load(path).session == f"{SESSION}-2"
    with pytest.raises(ConflictError) as caught:
        importers[1].load(path, name="given")
    assert caught.value.kind == Kind.EXISTS
    assert importers[2].load(path).outcome == "unchanged"
    assert len(store.sessions().rows) == 3
