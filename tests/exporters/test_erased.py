"""Sessions of which something was erased are written back, without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.session.backends import memory_backend

from treering.exporters.export import export
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
    store = memory_backend().store()
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
