"""Messages of all APIs in the files of all programs: what was said is in the file, or is told to be left out."""

from __future__ import annotations

from base64 import b64decode
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


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image", "data": PNG, "mimeType": "image/png"},
    {"image": {"format": "png", "source": {"bytes": b64decode(PNG)}}},
    {"type": "file", "file": {"file_data": f"data:image/png;base64,{PNG}"}},
]
ELSEWHERE: list[dict[str, Any]] = [
    {"type": "image", "source": {"type": "url", "url": "https://x/WORDS.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "WORDS"}},
    {"type": "image", "url": "https://x/WORDS.png"},
    {"type": "image_url", "image_url": {"url": "https://x/WORDS.png"}},
    {"type": "input_image", "image_url": "https://x/WORDS.png"},
]
FILES: list[dict[str, Any]] = [
    {"type": "document", "source": {"type": "base64", "media_type": "text/csv", "data": "QUE="}, "title": "WORDS"},
    {"type": "document", "source": {"type": "url", "url": "https://x/WORDS.pdf"}},
    {"type": "file", "file": {"filename": "WORDS", "file_data": "data:text/csv;base64,QUE="}},
    {"type": "file", "file": {"file_id": "WORDS"}},
    {"type": "input_file", "filename": "WORDS", "file_data": "data:text/csv;base64,QUE="},
    {"type": "input_audio", "input_audio": {"data": "QUE=", "format": "WORDS"}},
    {"document": {"format": "csv", "name": "WORDS", "source": {"bytes": b"AA"}}},
]
UNKNOWN = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "WORDS"}}


def exported(message: dict[str, Any], path: Path, format_: str, *more: dict[str, Any]) -> Exported:
    """Export a conversation with a message, or with some."""
    store = treering.open(f"memory://foreign-{new_nonce()}")
    with store.session("s", cwd="/work") as session:
        session.append("go", message, *more)
    return export(store.view("s"), path, format=format_)


def asked(part: dict[str, Any]) -> dict[str, Any]:
    """A question with a part beside its text."""
    beside = {"text": "what is it?"} if "type" not in part else {"type": "text", "text": "what is it?"}
    return {"role": "user", "content": [part, beside]}


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


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("part", IMAGES)
def test_an_image_of_any_api_is_an_image(part: dict[str, Any], format_: str, tmp_path: Path) -> None:
    """Its bytes are where the program looks for them; evva has no images, which is told."""
    done = exported(asked(part), tmp_path / "file", format_)
    told = [(left.kind, left.count, left.seen) for left in done.left_out]
    assert told == ([("image", 1, True)] if format_ == "evva" else [])
    assert done.same_context == (format_ != "evva")
    assert sent(tmp_path / "file", format_).count(PNG) == (format_ != "evva")
    assert "data:image" not in sent(tmp_path / "file", format_)


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("part", ELSEWHERE + FILES)
def test_what_a_program_has_only_a_text_for_is_told(part: dict[str, Any], format_: str, tmp_path: Path) -> None:
    """An image that lies elsewhere or another file: its address or name is in the file, and the export tells it."""
    done = exported(asked(part), tmp_path / "file", format_)
    told = [(left.kind, left.count, left.seen) for left in done.left_out]
    assert "WORDS" in sent(tmp_path / "file", format_)
    assert done.same_context == (not told)
    if format_ == "claude" and (part.get("type") in ("image", "document") or part in ELSEWHERE):
        assert told == []  # it has these
    else:
        assert told == [("image_url" if part in ELSEWHERE else "file", 1, True)]


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("inside", [False, True])
def test_a_part_of_an_unknown_type_is_told(format_: str, tmp_path: Path, *, inside: bool) -> None:
    """It is written, so that nothing is lost, but no program shows it as what it was."""
    call = {"type": "toolCall", "id": "c", "name": "f", "arguments": {}}
    result = {"role": "toolResult", "toolCallId": "c", "content": [UNKNOWN, {"type": "text", "text": "done"}]}
    answer = {"role": "assistant", "content": [UNKNOWN, {"type": "reasoning", "text": "hm"}]}
    said: list[dict[str, Any]] = [{"role": "assistant", "content": [call]}, result] if inside else [answer]
    done = exported(said[0], tmp_path / "file", format_, *said[1:])
    assert ("data", 1, True) in [(left.kind, left.count, left.seen) for left in done.left_out]
    assert "WORDS" in (tmp_path / "file").read_text()


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_content_that_is_an_object_is_text(role: str, format_: str, tmp_path: Path) -> None:
    """No program reads a content that is neither text nor a list."""
    exported({"role": role, "content": {"x": "WORDS"}}, tmp_path / "file", format_)
    assert '{"x":"WORDS"}' in sent(tmp_path / "file", format_).replace("\\", "")
    assert '"content":{' not in (tmp_path / "file").read_text()
