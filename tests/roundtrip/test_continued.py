"""What is done to a session here is there when the program that it came from opens the exported file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs.pi.reading import HEADER, entry, lines, message

import treering
from treering import assistant, tool
from treering.errors import UsageError
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import SessionFile, read
from treering.programs.pi.read import open_source

TALK = [
    message("u1", None, "question"),
    message("a1", "u1", "answer", "assistant"),
    entry("label", "l1", "a1", targetId="u1", label="start"),
    message("u2", "l1", "again"),
    message("u3", "a1", "another branch"),
]


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://export-{new_nonce()}")
    yield store
    store.close()


def load(store: treering.Store, path: Path, name: str = "s") -> None:
    """Import a file."""
    source = open_source(path)
    store.load(name, source.drafts(), leaf=lambda: source.leaf, policy="pi-1.5")


@pytest.fixture
def session(store: treering.Store, tmp_path: Path) -> Iterator[treering.Session]:
    """A session that was imported from a file."""
    path = tmp_path / "given.jsonl"
    path.write_bytes(lines(*TALK))
    load(store, path)
    with store.session("s") as session:
        yield session


def out(store: treering.Store, tmp_path: Path, name: str = "s") -> tuple[Exported, SessionFile]:
    """Export a session and read it as pi does."""
    path = tmp_path / f"{name}-{new_nonce()}.jsonl"
    return export(store.view(name), path, format="pi"), read(path, format="pi")


def texts(file: SessionFile) -> list[Any]:
    """What the model sees, message by message."""
    found = []
    for shown in [each.message for each in file.context(file.leaf, "pi-1.5").messages]:
        content = shown.get("content", shown.get("summary"))
        found.append(content if isinstance(content, str) else " ".join(block.get("text", "") for block in content))
    return found


def test_what_was_said_here_follows_in_the_words_of_the_program(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """Messages of ours get the fields that the program relies on, and each stands below the one before."""
    session.append("and now?")
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
    session.append(assistant("I look", tool_calls=[call]))
    session.append(tool("two files", call="c1"))
    session.commit()
    done, file = out(store, tmp_path)
    assert (done.left_out, done.same_context) == ([], True)
    assert texts(file) == ["question", "answer", "another branch", "and now?", "I look ", "two files"]
    said, answered, result = (found.record["message"] for found in file.entries[-3:])
    assert said == {"role": "user", "content": "and now?", "timestamp": said["timestamp"]}
    called = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}
    assert answered["content"] == [{"type": "text", "text": "I look"}, called]
    assert answered["stopReason"] == "toolUse"
    assert answered["usage"]["cost"]["total"] == 0
    assert (result["role"], result["toolCallId"], result["isError"]) == ("toolResult", "c1", False)
    assert result["content"] == [{"type": "text", "text": "two files"}]


def test_the_program_goes_on_where_the_session_stands(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """Going back to an older node is kept by an entry that says nothing new."""
    session.checkout("u2")
    done, file = out(store, tmp_path)
    assert done.left_out == []
    assert texts(file) == ["question", "answer", "again"]
    assert file.entry_ids[:-1] == ["u1", "a1", "l1", "u2", "u3"]
    assert file.labels == {"u1": "start"}
    assert file.entries[-1].parent == "u2"


def test_going_back_to_a_labelled_node_keeps_its_label(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """The last entry repeats the label and does not take it off."""
    session.checkout("u1")
    file = out(store, tmp_path)[1]
    assert (texts(file), file.labels) == (["question"], {"u1": "start"})


def test_before_the_first_node_the_model_sees_nothing(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """The place before all nodes can be kept, too."""
    session.checkout(None)
    file = out(store, tmp_path)[1]
    assert (texts(file), len(file.tree())) == ([], 2)


def test_labels_titles_and_usage_hang_below_the_head(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """What are notes here are entries there, in one chain behind the last node, and change nothing of the context."""
    session.label("u3", "here")
    session.label("u1", None)
    session.set_title("A talk")
    session.record_usage(input=5, cost=0.5)
    done, file = out(store, tmp_path)
    assert (done.left_out, file.labels, file.title) == ([], {"u3": "here"}, "A talk")
    assert [found.type for found in file.entries[-4:]] == ["label", "label", "session_info", "usage"]
    assert [found.parent for found in file.entries[-4:]] == ["u3", *file.entry_ids[-4:-1]]
    assert file.entries[-1].record["usage"] | {"cost": 0} == {
        "input": 5, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": 0
    }  # fmt: skip
    assert file.entries[-1].record["usage"]["cost"]["total"] == 0.5
    assert texts(file) == ["question", "answer", "another branch"]


def test_a_compaction_keeps_what_it_kept(session: treering.Session, store: treering.Store, tmp_path: Path) -> None:
    """The summary stands for what was left out, the kept node follows, in both versions of the program."""
    session.compact("in short", kept="a1", tokens_before=100)
    session.append("more")
    session.commit()
    file = out(store, tmp_path)[1]
    assert texts(file) == ["in short", "answer", "another branch", "more"]
    assert file.context(file.leaf, "pi").messages == file.context(file.leaf, "pi-1.5").messages
    session.compact("all of it")
    assert texts(out(store, tmp_path)[1]) == ["all of it"]


def test_settings_are_those_in_force(session: treering.Session, store: treering.Store, tmp_path: Path) -> None:
    """Model and thinking level are found again; a mode, for which there is no word, is kept as an extension's entry."""
    session.set_model("m", provider="p")
    session.set_thinking("high")
    session.set_mode("plan")
    done, file = out(store, tmp_path)
    assert file.context(file.leaf).state == {"thinkingLevel": "high", "model": {"provider": "p", "modelId": "m"}}
    assert file.entries[-1].record["customType"] == "treering.mode_change"
    assert done.same_context


def test_edits_are_seen(session: treering.Session, store: treering.Store, tmp_path: Path) -> None:
    """An amended message is written as it is now; a retracted one is hidden by an edit of the context."""
    session.amend("a1", {"role": "assistant", "content": "better", "timestamp": 1})
    session.retract("u1")
    done, file = out(store, tmp_path)
    assert texts(file) == ["better", "another branch"]
    assert [(left.kind, left.count, left.seen) for left in done.left_out] == [("amend", 1, False)]
    assert done.same_context


def test_a_retracted_node_of_another_branch_is_reported(
    session: treering.Session, store: treering.Store, tmp_path: Path
) -> None:
    """Where the program has no word for it the export says so, and the model sees the same anyway."""
    session.retract("u2")
    done, file = out(store, tmp_path)
    assert [(left.kind, left.seen) for left in done.left_out] == [("retract", False)]
    assert texts(file) == ["question", "answer", "another branch"]


def test_a_fork_is_a_session_of_its_own(session: treering.Session, store: treering.Store, tmp_path: Path) -> None:
    """It has its own id and names its parent; nothing of its path is missing, though a label lies on it."""
    session.fork("f", node="u2")
    done, file = out(store, tmp_path, "f")
    assert (file.header.session_id, file.header.parent_session, file.header.cwd) == ("f", "s", "/repo")
    assert texts(file) == ["question", "answer", "again"]
    assert file.labels == {"u1": "start"}
    assert done.same_context


def test_a_fork_hangs_together_though_a_label_on_its_path_is_of_another_branch(
    store: treering.Store, tmp_path: Path
) -> None:
    """Labels of nodes that a fork has not stay behind. What was below them is below the nearest node above."""
    path = tmp_path / "given.jsonl"
    labels = [
        entry("label", "l1", "a1", targetId="u3", label="left behind"),
        entry("label", "l2", "l1", targetId="u1", label="start"),
    ]
    path.write_bytes(
        lines(*TALK[:2], TALK[4], *labels, message("u2", "l2", "again"), message("a2", "u2", "done", "assistant"))
    )
    load(store, path)
    with store.session("s") as session:
        session.fork("f", node="a2")
    done, file = out(store, tmp_path, "f")
    assert texts(file) == ["question", "answer", "again", "done"]
    assert [(found.id, found.parent) for found in file.entries] == [
        ("u1", None), ("a1", "u1"), ("l2", "a1"), ("u2", "a1"), ("a2", "u2")
    ]  # fmt: skip
    assert (file.labels, done.same_context) == ({"u1": "start"}, True)


def test_a_label_that_stands_below_what_names_it_keeps_its_id(store: treering.Store, tmp_path: Path) -> None:
    """A node replaces it in the store. The file has the label, also after new records."""
    path = tmp_path / "given.jsonl"
    label = entry("label", "l1", "u1", targetId="u1", label="start")
    path.write_bytes(lines(message("u1", None, "question"), message("a1", "l1", "answer", "assistant"), label))
    load(store, path)
    with store.session("s") as session:
        session.checkout("l1")
        session.append("more")
        session.commit()
        session.fork("f", node="a1")
    file = out(store, tmp_path)[1]
    assert (texts(file), file.entry_ids[:3]) == (["question", "more"], ["u1", "a1", "l1"])
    assert texts(out(store, tmp_path, "f")[1]) == ["question", "answer"]


def test_what_a_program_appends_begins_on_a_line_of_its_own(store: treering.Store, tmp_path: Path) -> None:
    """A file whose last line is not ended comes back so, but a fork of it, or more than it, ends in a line break."""
    path = tmp_path / "given.jsonl"
    path.write_bytes(lines(*TALK).removesuffix(b"\n"))
    load(store, path)
    targets = [tmp_path / f"{name}.jsonl" for name in ("same", "fork", "more")]
    export(store.view("s"), targets[0], format="pi")
    with store.session("s") as session:
        session.fork("f", node="u3")
        session.checkout("u1")
    export(store.view("f"), targets[1], format="pi")
    export(store.view("s"), targets[2], format="pi")
    assert [target.read_bytes().endswith(b"\n") for target in targets] == [False, True, True]


def test_a_fork_names_no_note_that_it_lacks(store: treering.Store, tmp_path: Path) -> None:
    """Usage stays with the session that had it: what stood below it, or was kept from it, names a node in a fork."""
    path = tmp_path / "given.jsonl"
    usage = entry("usage", "c1", "u1", kind="title", provider="p", model="m", usage={"input": 1})
    compaction = entry("compaction", "k1", "a1", summary="in short", firstKeptEntryId="c1", tokensBefore=1)
    rows = [message("u1", None, "question"), usage, message("a1", "c1", "answer", "assistant"), compaction]
    path.write_bytes(lines(*rows, entry("custom_message", "x1", "k1", content="more", customType="x", display=True)))
    load(store, path)
    with store.session("s") as session:
        session.fork("f", node="x1")
    done, file = out(store, tmp_path, "f")
    assert (done.same_context, texts(file)) == (True, ["in short", "answer", "more"])
    assert [(found.id, found.parent) for found in file.entries] == [
        ("u1", None), ("a1", "u1"), ("k1", "a1"), ("x1", "k1")
    ]  # fmt: skip
    assert file.entries[2].record["firstKeptEntryId"] == "a1"


def test_a_session_that_was_made_here_becomes_a_file(store: treering.Store, tmp_path: Path) -> None:
    """A session that never was a file gets a header and is read by the program."""
    with store.session("new", cwd="/work", title="T") as session:
        session.append("hi")
        session.append(assistant([{"type": "text", "text": "hello"}]))
        session.commit(state={"step": 1})
    done, file = out(store, tmp_path, "new")
    assert (file.header.session_id, file.header.cwd, file.header.version) == ("new", "/work", 3)
    assert texts(file) == ["hi", "hello"]
    assert done.entries == 3
    assert (file.entries[2].type, file.entries[2].record["name"]) == ("session_info", "T")


def test_an_old_file_gets_ids_when_it_goes_on(store: treering.Store, tmp_path: Path) -> None:
    """A file of version 1 is written as it was, and in the newest version as soon as something is added."""
    bare = [{name: value for name, value in found.items() if name not in ("id", "parentId")} for found in TALK[:2]]
    compaction: dict[str, Any] = {"type": "compaction", "timestamp": "2026-01-05T08:00:02.000Z", "summary": "S"}
    compaction |= {"firstKeptEntryIndex": 2, "tokensBefore": 5}
    path = tmp_path / "old.jsonl"
    path.write_bytes(lines(*bare, compaction, header=HEADER | {"version": 1}))
    load(store, path)
    target = tmp_path / "same.jsonl"
    export(store.view("s"), target, format="pi")
    assert target.read_bytes() == path.read_bytes()
    with store.session("s") as session:
        session.append("more")
        session.commit()
    file = out(store, tmp_path)[1]
    assert (file.header.version, len(file.entries), texts(file)) == (3, 4, ["S", "answer", "more"])
    assert "firstKeptEntryIndex" not in file.entries[2].record


def test_a_file_is_replaced_only_if_told(session: treering.Session, store: treering.Store, tmp_path: Path) -> None:
    """An existing file stays as it is without permission, and no other file is left behind."""
    path = tmp_path / "there.jsonl"
    path.write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="exists"):
        export(store.view(session.id), path, format="pi")
    assert (path.read_text(), sorted(tmp_path.iterdir())) == ("mine", before)
    export(store.view(session.id), path, format="pi", overwrite=True)
    assert path.read_bytes() == lines(*TALK)
    assert sorted(tmp_path.iterdir()) == before
