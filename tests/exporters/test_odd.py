"""Messages whose fields have odd types: what no API sends is written as data, and no export fails because of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.programs.common.target import targets

ODD: list[Any] = [{}, [], {"x": 1}, [1], None, 1, True, ""]


def _messages(odd: object) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "c", "name": "n", "input": {}}
    return [
        {"role": odd, "content": "x"},
        {"role": "user", "content": odd},
        {"role": "user", "content": [{"type": odd, "text": "x"}]},
        {"role": "tool", "content": [{"type": odd, "text": "x"}]},
        {"role": "assistant", "content": [call | {"id": odd}]},
        {"role": "assistant", "content": [call | {"name": odd, "input": odd}]},
        {"role": "assistant", "content": [call | {"input": '{"half'}]},
        {"role": "assistant", "tool_calls": odd},
        {"role": "assistant", "tool_calls": [odd]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": odd}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": odd, "signature": odd}]},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "stopReason": odd},
        {"role": "toolResult", "toolCallId": odd, "content": "x"},
    ]


@pytest.mark.parametrize("format_", targets())
def test_every_program_gets_odd_messages(format_: str, tmp_path: Path) -> None:
    """A role, type, id, name or list of calls that is none: the session is written, and shows the same."""
    store = treering.open(f"memory://odd-{new_nonce()}")
    for number, message in enumerate(message for odd in ODD for message in _messages(odd)):
        with store.session(str(number)) as session:
            session.append("go", message)
        done = export(store.view(str(number)), tmp_path / str(number), format=format_)
        assert Path(done.path).stat().st_size, message
