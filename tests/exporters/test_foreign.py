"""Messages of all APIs in the files of all programs: what was said is in the file, or is told to be left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treering
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import read
from treering.programs.common.target import targets

SAID_BESIDE: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "refusal": "no, WORDS"},
    {"role": "assistant", "content": "", "refusal": "no, WORDS", "tool_calls": None},
    {"role": "assistant", "content": "first", "refusal": "no, WORDS"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no, WORDS"}]},
    {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "no, WORDS"}},
]


CALLED = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"x":"WORDS"}'}}


def exported(message: dict[str, Any], path: Path, format_: str) -> Exported:
    """Export a conversation with a message."""
    store = treering.open(f"memory://foreign-{new_nonce()}")
    with store.session("s", cwd="/work") as session:
        session.append("go", message)
    return export(store.view("s"), path, format=format_)


def sent(path: Path, format_: str) -> str:
    """What the program sends of its file."""
    file = read(path, format=format_)
    return repr([each.message for each in file.context(file.leaf).messages])


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("message", SAID_BESIDE)
def test_what_a_model_said_beside_its_content_is_sent(message: dict[str, Any], format_: str, tmp_path: Path) -> None:
    """A refusal and the transcript of speech are as much of a message as its content."""
    done = exported(message, tmp_path / "file", format_)
    assert done.same_context
    assert sent(tmp_path / "file", format_).count("WORDS") == 1


@pytest.mark.parametrize("format_", targets())
def test_a_call_beside_the_content_is_written(format_: str, tmp_path: Path) -> None:
    """The single call of the chat API before it had `tool_calls` is a call like others."""
    exported(CALLED, tmp_path / "file", format_)
    written = (tmp_path / "file").read_text()
    assert "WORDS" in written
    assert "function_call" not in written
