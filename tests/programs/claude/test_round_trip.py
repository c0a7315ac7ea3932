"""Sessions of Claude Code, imported, continued here, and exported: it continues at the session's head."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.programs.claude.sessions import SESSION, Chance, Talk, uuid
from tests.sampling import few

import treering
from treering import assistant, tool
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import FileImporter, read


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://claude-{new_nonce()}")
    yield store
    store.close()


def talk() -> Talk:
    """Two prompts and their answers."""
    found = Talk()
    found.user("u1")
    found.answer("a1")
    found.user("u2")
    found.answer("a2")
    return found


def written(store: treering.Store, folder: Path, session: str = SESSION) -> tuple[Exported, Path]:
    """Export a session as Claude Code would find it."""
    path = folder / "out" / f"{uuid('written')}.jsonl"
    path.parent.mkdir()
    return export(store.view(session), path, format="claude"), path


def texts(path: Path) -> list[str]:
    """What a model sees where Claude Code goes on: texts, and calls and results by their names."""
    file = read(path)
    found: list[str] = []
    for shown in file.context(file.leaf).messages:
        content: Any = shown.message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        found += [str(block.get("text") or block.get("id") or block["content"]) for block in blocks]
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    """The entries of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@settings(max_examples=few(10, whole=30))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 6))
def test_untouched_sessions_give_their_files_back(
    random: Random, turns: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """To the byte, whatever happened in them."""
    folder = tmp_path_factory.mktemp("claude")
    given_path = Chance(random, turns).save(folder)
    with closing(treering.open(f"memory://claude-{new_nonce()}")) as store:
        FileImporter(store).load(given_path)
        done, path = written(store, folder)
    assert path.read_bytes() == given_path.read_bytes()
    assert (done.left_out, done.same_context) == ([], True)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "no line break at the end": lambda data: data.removesuffix(b"\n"),
    "two characters for a line break": lambda data: data.replace(b"\n", b"\r\n"),
    "blank lines": lambda data: b"\n" + data.replace(b"\n", b"\n\n"),
    "as Python writes it": lambda data: data.replace(b'":', b'": ').replace(b'"u1"', b'"\\u0075\\u0031"'),
    "half a character": lambda data: data.replace(b'"u1"', b'"\\ud800"'),
}


@pytest.mark.parametrize("change", FORMS.values(), ids=FORMS.keys())
def test_files_in_another_form_come_back_in_it(
    change: Callable[[bytes], bytes], store: treering.Store, tmp_path: Path
) -> None:
    """Line breaks, blank lines and another way to write JSON are kept: the SDK writes forks as Python does."""
    given_path = tmp_path / f"{SESSION}.jsonl"
    given_path.write_bytes(change(talk().data))
    FileImporter(store).load(given_path)
    assert written(store, tmp_path)[1].read_bytes() == given_path.read_bytes()


def test_a_file_in_the_result_of_a_tool(store: treering.Store, tmp_path: Path) -> None:
    """Claude Code puts whole files beside results: larger than a record may be, and given back all the same."""
    found = talk()
    found.call("a3")
    found.result("r3", "a3", toolUseResult={"file": {"content": "line of a log\n" * 1_300_000}})
    given_path = found.save(tmp_path)
    assert given_path.stat().st_size > 17 * 1024 * 1024
    FileImporter(store).load(given_path)
    assert written(store, tmp_path)[1].read_bytes() == given_path.read_bytes()


def test_samples(shared: Path, store: treering.Store, tmp_path: Path) -> None:
    """Files from public test data come back to the byte."""
    folder = shared / "samples" / "agent-sessions" / "Resources" / "Fixtures" / "stage0" / "agents" / "claude"
    if not folder.is_dir():
        pytest.skip("no samples of other agents in the shared test data")
    importer = FileImporter(store)
    for number, path in enumerate(sorted(folder.rglob("*.jsonl"))):
        taken = importer.load(path)
        (tmp_path / str(number)).mkdir()
        assert written(store, tmp_path / str(number), taken.session)[1].read_bytes() == path.read_bytes()


# gone on with here


def _say(session: treering.Session) -> None:
    session.append("more")
    call = {"id": "c/1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
    session.append(assistant("I look", tool_calls=[call, {**call, "id": "c2"}]))
    session.append(tool("one file", call="c/1"))
    session.append(tool("two files", call="c2"))
    session.append(assistant("done"))


def _go_back_and_say(session: treering.Session) -> None:
    session.checkout(uuid("a1"))
    _say(session)


def _compact(session: treering.Session) -> None:
    session.append("more")
    session.append(treering.compaction("what was said", kept=uuid("u2"), tokens_before=1000))
    session.append("after")


def _compact_twice(session: treering.Session) -> None:
    _compact(session)
    session.append(treering.compaction("all of it", kept=uuid("u2")))
    session.append("later")


SUMMARY = "This session goes on from a conversation whose context was full. Its summary:\n\n"
SAID = ["more", "I look", "c_1", "c2", "one file", "two files", "done"]
DONE: dict[str, tuple[Callable[[treering.Session], None], list[str]]] = {
    "said more": (_say, ["u1", "a1", "u2", "a2", *SAID]),
    "went back": (lambda session: session.checkout(uuid("a1")), ["u1", "a1"]),
    "went back and said more": (_go_back_and_say, ["u1", "a1", *SAID]),
    "compacted": (_compact, [SUMMARY + "what was said", "u2", "a2", "more", "after"]),
    "compacted twice": (_compact_twice, [SUMMARY + "all of it", "u2", "a2", "more", "after", "later"]),
}
"""What is done here, and what Claude Code 2.1.330 then sent when it was given the file that was exported."""


@pytest.mark.parametrize(("change", "expected"), DONE.values(), ids=DONE.keys())
def test_what_is_done_here_is_there(
    change: Callable[[treering.Session], None], expected: list[str], store: treering.Store, tmp_path: Path
) -> None:
    """The program continues at the session's head, and sends the same context."""
    FileImporter(store).load(talk().save(tmp_path))
    with store.session(SESSION) as session:
        change(session)
        session.commit()
        here = [item.node for item in session.recorded_context]
    done, path = written(store, tmp_path)
    assert texts(path) == expected
    assert [shown.entry for shown in read(path).context(read(path).leaf).messages] == here
    assert (done.left_out, done.same_context) == ([], True)


def test_what_is_said_here_looks_like_the_rest(store: treering.Store, tmp_path: Path) -> None:
    """New entries have the fields that Claude Code relies on, like those before them, and its own words for a call."""
    found = talk()
    found.entries[-1]["cwd"] = "/elsewhere"
    FileImporter(store).load(found.save(tmp_path))
    with store.session(SESSION) as session:
        _say(session)
    entry, result = rows(written(store, tmp_path)[1])[5:7]
    expected = {"userType": "external", "cwd": "/elsewhere", "version": "2.1.330", "gitBranch": "main"}
    assert expected.items() <= entry.items()
    assert (entry["sessionId"], entry["isSidechain"]) == (SESSION, False)
    assert entry["message"]["content"][1] == {"type": "tool_use", "id": "c_1", "name": "ls", "input": {"path": "."}}
    assert (entry["message"]["stop_reason"], entry["message"]["model"]) == ("tool_use", "claude-opus-5")
    assert result["message"]["content"][0]["tool_use_id"] == "c_1"
    assert result["parentUuid"] == entry["uuid"]


def test_titles_and_what_cannot_be_said(store: treering.Store, tmp_path: Path) -> None:
    """A title is one there, too; a label is not, and a message that was hidden would be sent: both are reported."""
    FileImporter(store).load(talk().save(tmp_path))
    with store.session(SESSION) as session:
        session.set_title("by hand")
        session.label(uuid("u1"), "start")
        session.retract(uuid("a2"))
    done, path = written(store, tmp_path)
    assert rows(path)[-1] == {"type": "custom-title", "customTitle": "by hand", "sessionId": SESSION}
    assert {(left.kind, left.seen) for left in done.left_out} == {("label", False), ("retract", True)}
    assert not done.same_context


def test_an_amended_message_says_what_it_says_now(store: treering.Store, tmp_path: Path) -> None:
    """Its entry is the same but for the message."""
    FileImporter(store).load(talk().save(tmp_path))
    with store.session(SESSION) as session:
        session.amend(uuid("u2"), {"role": "user", "content": "better"})
    done, path = written(store, tmp_path)
    assert texts(path) == ["u1", "a1", "better", "a2"]
    assert done.same_context
    assert {**rows(path)[2], "message": None} == {**talk().entries[2], "message": None}


def test_a_fork_is_a_session_of_its_own(store: treering.Store, tmp_path: Path) -> None:
    """It has another id, which Claude Code can open, and its entries say where they came from."""
    FileImporter(store).load(talk().save(tmp_path))
    with store.session(SESSION) as session:
        session.fork("elsewhere", node=uuid("a1"))
    done, path = written(store, tmp_path, "elsewhere")
    found = rows(path)
    assert texts(path) == ["u1", "a1"]
    assert {entry["sessionId"] for entry in found} == {found[0]["sessionId"]} != {SESSION}
    assert found[0]["forkedFrom"] == {"sessionId": SESSION, "messageUuid": uuid("u1")}
    assert done.same_context


def test_a_session_made_here(store: treering.Store, tmp_path: Path) -> None:
    """It becomes a file that Claude Code can open; thinking that the API did not sign is left out and reported."""
    with store.session("own", cwd="/repo") as session:
        session.append(treering.system("be brief"))
        session.append("hi")
        session.append(assistant([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hello"}]))
    done, path = written(store, tmp_path, "own")
    assert texts(path) == ["be brief", "hi", "hello"]
    assert [(left.kind, left.count, left.seen) for left in done.left_out] == [("thinking", 1, True)]
    assert [entry.get("isMeta", False) for entry in rows(path)] == [True, False, False]
    assert {entry["cwd"] for entry in rows(path)} == {"/repo"}


def test_what_stands_beside_a_subagents_file_is_reported(store: treering.Store, tmp_path: Path) -> None:
    """The file comes back, and it is said that another one is missing."""
    path = talk().save(tmp_path, "agent-a1")
    (tmp_path / "agent-a1.meta.json").write_text('{"agentType":"Explore"}')
    taken = FileImporter(store).load(path)
    done, out = written(store, tmp_path, taken.session)
    assert out.read_bytes() == path.read_bytes()
    assert [(left.kind, left.seen) for left in done.left_out] == [("agent", False)]


def test_nothing_was_said(store: treering.Store, tmp_path: Path) -> None:
    """An empty session is a file with no message in it."""
    with store.session("own") as session:
        session.checkout(None)
        session.set_mode("plan")
    done, path = written(store, tmp_path, "own")
    assert (done.entries, texts(path), done.same_context) == (1, [], True)


def test_an_answer_becomes_one_of_pi(store: treering.Store, tmp_path: Path) -> None:
    """Numbers, the reason to stop, images and results have the names that pi has for them."""
    found = Talk()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}}
    found.add("user", "u1", message={"role": "user", "content": [image]})
    found.call("a1")
    found.result("r1", "a1")
    found.entries[1]["message"] |= {"stop_reason": "tool_use", "usage": {"output_tokens": 7}}
    FileImporter(store).load(found.save(tmp_path))
    export(store.view(SESSION), tmp_path / "pi.jsonl", format="pi")
    messages: list[Any] = [entry.record["message"] for entry in read(tmp_path / "pi.jsonl").entries]
    assert messages[0]["content"] == [{"type": "image", "data": "R0lG", "mimeType": "image/gif"}]
    assert (messages[1]["stopReason"], messages[1]["usage"]["output"]) == ("toolUse", 7)
    assert (messages[1]["provider"], messages[1]["model"]) == ("anthropic", "claude-opus-5")
    assert (messages[2]["role"], messages[2]["toolCallId"]) == ("toolResult", "toolu_a1")
