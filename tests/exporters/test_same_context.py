"""An export claims the same context only if the program will send what the session shows."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.programs.claude.sessions import SESSION, Talk
from tests.roundtrip.authors import Pi

import treering
from treering import Store
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    with closing(treering.open(f"memory://claims-{new_nonce()}")) as opened:
        yield opened


def _killed(talk: Talk) -> None:
    talk.call("c1")


def _killed_between_results(talk: Talk) -> None:
    talk.call("c1", "msg_a")
    talk.call("c2", "msg_a")
    talk.result("r1", of="c1")
    talk.user("u2")


def _answered_twice(talk: Talk) -> None:
    talk.call("c1")
    talk.result("r1", of="c1")
    talk.result("r2", of="c1", after="r1")


def _answered_without_a_call(talk: Talk) -> None:
    talk.answer("a1")
    talk.result("r1", of="a1")


def _interrupted_in_thought(talk: Talk) -> None:
    talk.answer("a1", {"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    talk.user("u2")


def _blank(talk: Talk) -> None:
    talk.answer("a1", {"type": "text", "text": "\n\n"}, {"type": "text", "text": "words"})


UNSENT: dict[Callable[[Talk], None], tuple[str, int]] = {
    _killed: ("tool_call", 1),
    _killed_between_results: ("tool_call", 1),
    _answered_twice: ("tool_result", 1),
    _answered_without_a_call: ("tool_result", 1),
    _interrupted_in_thought: ("thinking", 1),
    _blank: ("text", 1),
}


@pytest.mark.parametrize(("end", "what"), UNSENT.items())
def test_what_claude_code_passes_over_is_not_the_same(
    end: Callable[[Talk], None], what: tuple[str, int], store: Store, tmp_path: Path
) -> None:
    """The file has it, to the byte, and what the session shows of it will not be sent."""
    talk = Talk()
    talk.user("u1")
    end(talk)
    path = talk.save(tmp_path)
    FileImporter(store).load(path)
    shown = [item.message for item in store.view(SESSION).recorded_context]
    done = export(store.view(SESSION), tmp_path / "out.jsonl", format="claude")
    assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()
    expected = [what] if what[0] in _kinds(shown) else []
    assert [(each.kind, each.count) for each in done.left_out if each.seen] == expected
    assert done.same_context is not bool(expected)


def _kinds(messages: list[Any]) -> set[str]:
    """Of what Claude Code passes over: what stands in a context. Written apart from the rule of the export."""
    blocks = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    answers = [message for message in messages if message["role"] == "assistant"]
    found = {
        "tool_call": {*calls} - {*results},
        "tool_result": {*results} - {*calls} or len(results) > len({*results}),
        "thinking": [each for each in answers if {block["type"] for block in each["content"]} == {"thinking"}],
        "text": [block for block in blocks if block["type"] == "text" and not block["text"].strip()],
    }
    return {kind for kind, each in found.items() if each}


@pytest.mark.parametrize("policy", [None, "pi"])
def test_a_call_that_was_never_answered_is_no_claim_for_claude_code(
    policy: str | None, store: Store, tmp_path: Path
) -> None:
    """Also of one recorded here, whatever chooses the context."""
    options: Any = {"policy": policy} if policy else {}
    with store.session("s", **options) as session:
        session.append("hi")
        call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
        session.append({"role": "assistant", "content": [{"type": "text", "text": "so"}, call]})
    done = export(store.view("s"), tmp_path / "out.jsonl", format="claude")
    assert [(each.kind, each.count) for each in done.left_out if each.seen] == [("tool_call", 1)]
    assert not done.same_context


def test_thinking_with_an_answer_behind_it_is_sent(store: Store, tmp_path: Path) -> None:
    """In the same entry or in another one of the same answer."""
    talk = Talk()
    talk.user("u1")
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    talk.answer("a1", thought, response="msg_a")
    talk.call("c1", "msg_a")
    talk.result("r1", of="c1")
    talk.answer("a2", thought, {"type": "text", "text": "done"})
    FileImporter(store).load(talk.save(tmp_path))
    done = export(store.view(SESSION), tmp_path / "out.jsonl", format="claude")
    assert (done.left_out, done.same_context) == ([], True)


def test_the_rules_of_an_older_version_are_not_those_of_the_newest(store: Store, tmp_path: Path) -> None:
    """Read by the rules of pi 0.73, a session shows what an edit hides in the file from version 1.5."""
    author = Pi(tmp_path / "given.jsonl", Random("older"))
    author.astray = 0
    author.begin()
    author.write("message", "context_edit")
    for policy, same in (("pi", False), ("pi-1.5", True)):
        taken = FileImporter(store, policy=policy).load(author.path, name=policy)
        done = export(store.view(taken.session), tmp_path / f"{policy}.jsonl", format="pi")
        assert done.same_context is same


def test_a_retracted_message_beside_what_a_compaction_keeps_is_told(tmp_path: Path) -> None:
    """For kit that is all that was recorded since the first kept message, of all branches, and hides nothing."""
    with treering.open(str(tmp_path / "store")) as store:
        with store.session("s") as session:
            question = session.append(treering.user("one")).node
            answer = session.append(treering.assistant("answer")).node
            session.branch("x", node=question)
            session.append("another question")
            session.retract(answer)
            session.compact("gist", kept=question)
        done = export(store.view("s"), tmp_path / "out", format="kit")
    assert not done.same_context
    assert any(left.seen for left in done.left_out)


def test_a_file_that_is_not_right_is_no_damage_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the exporter is to be reported; the session has nothing to verify or to restore."""
    store = treering.open(tmp_path / "store")
    with store.session("made") as session:
        session.append("go", treering.assistant("gone"))
    read = itertools.count()
    monkeypatch.setattr(sys.modules["treering.exporters.export"], "_named", lambda _: [next(read)])
    with pytest.raises(treering.CorruptError, match="report this") as raised:
        export(store.view("made"), tmp_path / "file", format="pi")
    assert "verify" not in str(raised.value)
    assert not (tmp_path / "file").exists()
