"""What oh-my-pi sends of messages from elsewhere follows from the written file alone, and an export tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.programs.omp.sessions import assistant, user, written

import treering
from treering import Draft, Session, Store
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import FileImporter

CALL: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
SO: dict[str, Any] = {"type": "text", "text": "so"}
RESULT: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    with closing(treering.open(f"memory://unsent-{new_nonce()}")) as opened:
        yield opened


def exported(store: Store, tmp_path: Path) -> Exported:
    """Export the session to oh-my-pi."""
    return export(store.view("s"), tmp_path / "out.jsonl", format="omp")


def answered(session: Session, *content: dict[str, Any]) -> str:
    """A call that has its result on the branch of before; its node, where the session stands now."""
    session.append("hi")
    call = session.append({"role": "assistant", "content": [*content, CALL]}).nodes[-1]
    session.append(RESULT, "more")
    session.checkout(call)
    return call


def _nothing(_session: Session) -> None:
    """The session ends with the call."""


def _question(session: Session) -> None:
    session.append("something else")


@pytest.mark.parametrize("content", [(), (SO,)], ids=["bare", "with text"])
@pytest.mark.parametrize("then", [_nothing, _question])
def test_a_call_that_is_answered_on_another_branch_only(
    content: tuple[dict[str, Any], ...], then: Callable[[Session], None], store: Store, tmp_path: Path
) -> None:
    """The message is not sent, or without its call: one difference, and the export does not fail."""
    with store.session("s") as session:
        answered(session, *content)
        then(session)
    done = exported(store, tmp_path)
    assert [(each.kind, each.count, each.seen) for each in done.left_out] == [("message", 1, True)]
    assert not done.same_context


def test_a_call_is_sent_where_its_result_is_on_the_branch(store: Store, tmp_path: Path) -> None:
    """A call without a result on another branch is no difference here."""
    with store.session("s") as session:
        call = answered(session)
        session.append("something else")
        session.checkout(call)
        session.append(RESULT)
    done = exported(store, tmp_path)
    assert (done.left_out, done.same_context) == ([], True)


def test_a_failed_turn(store: Store, tmp_path: Path) -> None:
    """The program does not send it."""
    with store.session("s") as session:
        session.append("hi", {"role": "assistant", "content": "no", "stopReason": "error"})
    done = exported(store, tmp_path)
    assert [(each.kind, each.count, each.seen) for each in done.left_out] == [("message", 1, True)]


@pytest.mark.parametrize("content", [{"a": 1}, 5, True])
def test_an_extensions_message_without_words(content: object, store: Store, tmp_path: Path) -> None:
    """The program sends no content but texts and lists."""
    with store.session("s") as session:
        session.append("hi")
        session.append(Draft(type="node", kind="custom_message", payload={"custom_type": "x", "content": content}))
    done = exported(store, tmp_path)
    assert [(each.kind, each.count, each.seen) for each in done.left_out] == [("message", 1, True)]


def test_a_call_that_only_the_program_sends(store: Store, tmp_path: Path) -> None:
    """By the policy of its import a call without a result is not sent; in the new file it has the one recorded here."""
    call = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {}}
    path = written(tmp_path, user("n0", None, "first"), assistant("n1", "n0", call))
    FileImporter(store).load(path, name="s")
    with store.session("s") as session:
        session.append(RESULT)
    assert "n1" not in [item.node for item in store.view("s").recorded_context]
    done = exported(store, tmp_path)
    assert [(each.kind, each.count, each.reason[:28]) for each in done.left_out] == [
        ("message", 1, "the session does not send th")
    ]
    assert not done.same_context
