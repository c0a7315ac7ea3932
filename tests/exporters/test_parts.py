"""A message that a program can only say in several: its parts are entries of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import SessionFile, read

ANSWERS = {
    "Role": "tool",
    "Content": "",
    "ToolResults": [{"ID": f"c{number}", "Content": f"answer {number}", "IsError": number == 2} for number in (1, 2)],
}
"""Two results in one message, as evva has them."""


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """A store with a session in which two calls are answered by one message."""
    store = treering.open(f"memory://parts-{new_nonce()}")
    calls = [{"type": "toolCall", "id": f"c{number}", "name": "ls", "arguments": {}} for number in (1, 2)]
    with store.session("s") as session:
        session.append("go")
        session.append(treering.assistant(calls))
        session.append(ANSWERS)
    yield store
    store.close()


def out(store: treering.Store, format_: str, folder: Path) -> SessionFile:
    """The session as a file of a program, which shows what the session does."""
    done = export(store.view("s"), folder / "out", format=format_, overwrite=True)
    assert (done.left_out, done.same_context) == ([], True)
    return read(folder / "out", format=format_)


def shown(file: SessionFile) -> list[tuple[str, str]]:
    """Role and text of what is sent."""
    messages: list[Any] = [each.message for each in file.context(file.leaf).messages]
    return [
        (each["role"], "".join(block.get("text", "") for block in each["content"]))
        for each in messages
        if isinstance(each.get("content"), list)
    ]


@pytest.mark.parametrize("format_", ["pi", "omp"])
def test_each_result_is_a_message(format_: str, store: treering.Store, tmp_path: Path) -> None:
    """The results keep their order, each with its call, and later entries are descendants of the last one."""
    with store.session("s") as session:
        last = session.node
        session.append(treering.assistant("done"))
    file = out(store, format_, tmp_path)
    assert shown(file) == [
        ("assistant", ""), ("toolResult", "answer 1"), ("toolResult", "answer 2"), ("assistant", "done")
    ]  # fmt: skip
    first, second, done = file.entries[-3:]
    assert [each.record["message"]["toolCallId"] for each in (first, second)] == ["c1", "c2"]
    assert [each.record["message"]["isError"] for each in (first, second)] == [False, True]
    assert (second.id, second.parent, done.parent) == (last, first.id, last)


@pytest.mark.parametrize("format_", ["kit", "operator", "evva"])
def test_programs_with_all_results_in_one_message_get_one(format_: str, store: treering.Store, tmp_path: Path) -> None:
    """Where a message can hold several results, it stays one."""
    file = out(store, format_, tmp_path)
    assert len(file.context(file.leaf).messages) == 3


def test_a_compaction_keeps_all_parts(store: treering.Store, tmp_path: Path) -> None:
    """What is kept begins with the first part of the node that is kept."""
    with store.session("s") as session:
        session.retract(session.path()[1])  # else nobody may keep results without their calls
        session.compact("in short", kept=session.node)
    file = out(store, "pi", tmp_path)
    assert [text for role, text in shown(file) if role == "toolResult"] == ["answer 1", "answer 2"]


@pytest.mark.parametrize("format_", ["pi", "omp", "kit", "operator", "evva"])
@pytest.mark.parametrize("arguments", ["2026-01-05", "{", '{"path": "."}', None, [1]])
def test_arguments_that_are_no_object_are_written(arguments: object, format_: str, tmp_path: Path) -> None:
    """Some APIs have them as JSON text, and a model may write text that is none."""
    with treering.open(f"memory://parts-{new_nonce()}") as store:
        with store.session("s") as session:
            session.append("go")
            session.append(treering.assistant([{"type": "toolCall", "id": "c1", "name": "ls", "arguments": arguments}]))
            session.append({"role": "toolResult", "toolCallId": "c1", "content": "x"})
        out(store, format_, tmp_path)
