"""Session files of Operator-Use: what is peculiar to them, rule by rule."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import treering
from treering.errors import UsageError
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, SessionFile, diagnose, read, repair
from treering.programs.common.reader import LinesSource
from treering.programs.formats import detect_format, find_format
from treering.programs.operator import read as operator
from treering.programs.operator.readable import operator_reads
from treering.transcript.node import branch_summary

HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": 1767600000.0, "cwd": "/repo"}
TIME = 1767600005.25
FLAT: list[Any] = [
    {"type": "metadata", "id": "old", "created_at": "2026-01-05T09:00:00", "updated_at": "x", "metadata": {}},
    {"role": "human", "content": "h\u00e9"},
    {"role": "ai", "content": "yes", "thinking": "hm", "usage": None},
    {"role": "tool", "id": "c1", "name": "ls", "params": {"path": "."}, "content": "out"},
]


def entry(kind: str, identifier: str, parent: str | None = None, /, **fields: Any) -> dict[str, Any]:
    """Return an entry of a file."""
    above = {} if parent is None else {"parent_id": parent}
    return {"id": identifier, "timestamp": TIME, **above, "type": kind, **fields}


def said(name: str, parent: str | None, text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Return a message of one part."""
    message = {"contents": [{"type": "text", "content": text}], "id": f"m{name}", "timestamp": TIME, "role": "user"}
    return entry("message", name, parent, message=message, **fields)


def source(*records: Any) -> LinesSource:
    """Open a file of these records, or bytes, behind a header."""
    data = b"".join(each if isinstance(each, bytes) else operator.encode(each) + b"\n" for each in (HEADER, *records))
    return LinesSource(operator.DIALECT, lambda: io.BytesIO(data), Path("x.jsonl"))


def opened(*records: Any) -> SessionFile:
    """Return such a file as Operator sees it."""
    return SessionFile(find_format("operator"), source(*records))


def shown(file: SessionFile) -> list[Any]:
    """Return the messages where the file goes on."""
    return [each.message for each in file.context(file.leaf).messages]


def flat(path: Path) -> bytes:
    """Write a flat file; return its bytes."""
    data = b"".join(json.dumps(record).encode() + b"\n" for record in FLAT)
    path.write_bytes(data)
    return data


TALK = [said("u1", None, "one"), said("u2", "u1", "two")]


@pytest.mark.parametrize(
    ("target", "leaf", "texts"), [("u1", "u1", 1), (None, None, 0), ("gone", "gone", 0), ("l1", "l1", 2)]
)
def test_a_leaf_entry_says_where_operator_goes_on(target: str | None, leaf: str | None, texts: int) -> None:
    """At its target, which may be missing or another entry of its kind; without one before the first entry."""
    named = {} if target is None else {"target_id": target}
    file = opened(*TALK, entry("leaf", "l1", "u2", target_id="u1"), entry("leaf", "l2", "u1", **named))
    assert (file.leaf, len(shown(file))) == (leaf, texts)


def test_a_leaf_entry_is_a_note_that_moves_the_leaf() -> None:
    """It is a link of the chain in the file, and beside the tree here; what is added next makes its own place."""
    read_ = source(*TALK, entry("leaf", "l1", "u2", target_id="u1"))
    note = [*read_.drafts()][-1]
    assert (note.type, note.kind, note.target, note.source, read_.leaf) == ("note", "leaf", "u1", None, "u1")
    assert opened(*TALK, entry("leaf", "l1", "u2", target_id="u1"), said("u3", "u1")).leaf == "u3"


def test_what_belongs_to_a_channel_stays_beside_the_message() -> None:
    """The model sees the message object and nothing else."""
    meta = {"channel_message_id": "7", "reactions": ["+1"]}
    draft = [*source(said("u1", None, meta=meta)).drafts()][-1]
    assert (draft.source, sorted(draft.payload)) == ({"meta": meta}, ["contents", "id", "role", "timestamp"])


def test_empty_branch_summaries_are_sent() -> None:
    """Other programs leave them out."""
    file = opened(*TALK, entry("branch_summary", "b1", "u1", from_id="u2", summary="", from_hook=False))
    assert shown(file)[-1] == {"role": "branch_summary", "summary": "", "from_id": "u2", "timestamp": TIME}


def test_a_custom_message_is_sent_in_parts() -> None:
    """A content that is text, for which Operator drops the entry, becomes one part."""
    file = opened(entry("custom_message", "c1", None, custom_type="e", content="plain", display=True, details={"d": 1}))
    contents = [{"type": "text", "content": "plain"}]
    message = {"role": "custom", "custom_type": "e", "timestamp": TIME, "contents": contents, "details": {"d": 1}}
    assert shown(file) == [message]


def test_times_are_exact() -> None:
    """Microseconds come back, in the entry and in what is made of it."""
    odd = entry("compaction", "c1", "u2", summary="S", first_kept_entry_id="u2", tokens_before=5, from_hook=False)
    file = opened(*TALK, odd | {"timestamp": 1767600005.7620439})
    summary = {"role": "compaction_summary", "summary": "S", "tokens_before": 5, "timestamp": 1767600005.7620439}
    assert shown(file)[0] == summary
    assert [*source(*TALK, odd | {"timestamp": 1767600005.7620439}).drafts()][-1].time_ms == 1767600005762


def test_settings_outlive_compactions_and_unknown_levels_change_nothing() -> None:
    """The whole path counts; a level that Operator does not know is passed over, and the chain holds."""
    level = entry("thinking_level_change", "t1", "u2", thinking_level="high")
    model = entry("model_change", "x1", "t1", model_id="m", provider_id="p")
    cut = entry("compaction", "c1", "x1", summary="S", first_kept_entry_id="c1", tokens_before=5)
    odd = entry("thinking_level_change", "t2", "c1", thinking_level="ultra")
    file = opened(*TALK, level, model, cut, odd)
    assert file.context("t2").state == {"thinking_level": "high", "model_id": "m", "provider_id": "p"}
    assert file.path("t2") == ["u1", "u2", "t1", "x1", "c1", "t2"]


def test_name_and_channel_are_those_of_the_branch() -> None:
    """A name of another branch does not count, an empty one neither."""
    names = [entry("session_info", "i1", "u1", name=" A "), entry("session_info", "i2", "i1", name="")]
    file = opened(*TALK, *names, entry("channel", "h1", "i2", name="slack"))
    assert (file.title, file.listing()["name"], file.listing()["channel"]) == ("A", "A", "slack")
    assert opened(*TALK, *names, said("u3", "u2")).title == ""


@pytest.mark.parametrize("fields", [{}, {"name": None}, {"name": " "}])
def test_an_entry_without_a_name_takes_no_title_off(fields: dict[str, Any]) -> None:
    """As in Operator; the entry is kept as it is."""
    named, unnamed = entry("session_info", "i1", "u1", name="A"), entry("session_info", "i2", "i1", **fields)
    notes = [each for each in source(*TALK, named, unnamed).drafts() if each.id in ("i1", "i2")]
    assert [(note.type, note.kind, note.brief) for note in notes] == [
        ("note", "title", {"title": "A"}),
        ("note", "session_info", None),
    ]
    assert operator.to_record(notes[1], "i1") == unnamed


def test_contents_of_odd_types_are_no_activity() -> None:
    """The listing shows the session all the same."""
    odd = said("u1", None) | {"message": {"role": "user", "contents": [{"type": []}, 1], "timestamp": TIME}}
    assert opened(odd).listing()["modified"] == HEADER["timestamp"]


def test_roots_and_children_are_ordered_by_time() -> None:
    """Whatever their order in the file, equal times aside."""
    file = opened(
        said("a", None) | {"timestamp": 9.0},
        said("b", None) | {"timestamp": 5.0},
        said("c", "a"),
        said("d", "a") | {"timestamp": 1.0},
    )
    assert file.tree() == [["b", None, []], ["a", None, [["d", None, []], ["c", None, []]]]]


def test_what_operator_drops_stays_in_the_chain() -> None:
    """An unknown type, two records on one line, and a line separator inside a text cost nothing."""
    glued = operator.encode(said("u2", "f1")) + operator.encode(said("u3", "u2", "a\u2028b")) + b"\n"
    file = opened(said("u1", None), entry("future", "f1", "u1", x=1), glued, said("u4", "u3"))
    assert file.path(file.leaf) == ["u1", "f1", "u2", "u3", "u4"]
    assert len(shown(file)) == 4


def test_a_message_of_another_shape_is_sent_in_operators() -> None:
    """Who continues a session here need not know its program."""
    read_ = source(*TALK)
    store = treering.open(f"memory://operator-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="operator")
    with store.session("s") as session:
        call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}
        session.append(treering.assistant([{"type": "text", "text": "yes"}, call]))
        session.append(treering.tool("one file", call="c1"))
        message: Any = session.context[-2].message
    assert message["contents"] == [
        {"type": "text", "content": "yes"},
        {"type": "tool_call", "id": "c1", "name": "ls", "args": {"path": "."}, "metadata": {}},
    ]
    store.close()


def test_a_flat_file_is_a_chain_of_messages(tmp_path: Path) -> None:
    """Its messages get ids and follow one another; they are shown in the shape that Operator has now."""
    flat(path := tmp_path / "old.jsonl")
    file = read(path)
    assert (file.format, file.header.session_id, file.leaf) == ("operator", "old", file.entry_ids[-1])
    assert [message["role"] for message in shown(file)] == ["user", "assistant", "tool"]
    assert shown(file)[0]["contents"] == [{"type": "text", "content": "h\u00e9"}]
    assert file.path(file.leaf) == file.entry_ids


def test_a_flat_file_comes_back_as_it_was_or_as_a_tree(tmp_path: Path) -> None:
    """Untouched to the byte; continued in the version that Operator reads now."""
    data = flat(path := tmp_path / "old.jsonl")
    source_ = find_format("operator").open_source(path)
    store = treering.open(f"memory://operator-{new_nonce()}")
    store.load("s", source_.drafts(), leaf=lambda: source_.leaf, policy="operator")
    export(store.view("s"), tmp_path / "same.jsonl", format="operator")
    assert (tmp_path / "same.jsonl").read_bytes() == data
    with store.session("s") as session:
        session.append("more")
    export(store.view("s"), tmp_path / "more.jsonl", format="operator")
    file = read(tmp_path / "more.jsonl")
    assert (file.header.version, len(file.entries)) == (3, 4)
    assert shown(file)[-1]["contents"] == [{"type": "text", "content": "more"}]
    store.close()


def test_an_encrypted_file_is_refused_with_a_reason(tmp_path: Path) -> None:
    """A Fernet token is unreadable without its key, and the error says so."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"gAAAAABlZ2hpamtsbW5vcHFyc3R1dnd4eXo=")
    assert detect_format(path).NAME == "operator"
    with pytest.raises(UsageError, match="encrypted with Fernet"):
        read(path)


@pytest.mark.parametrize(
    ("header", "name"), [(HEADER, "operator"), (HEADER | {"timestamp": "2026-01-05T09:00:00.000Z"}, "operator")]
)
def test_a_file_is_told_by_its_content(header: Any, name: str, tmp_path: Path) -> None:
    """A time in seconds, or messages with `contents`."""
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in (header, TALK[0])))
    assert name == detect_format(path).NAME


@pytest.fixture
def documented(tmp_path: Path) -> Path:
    """A file with the header that Operator's documentation describes, and its code refuses."""
    path = tmp_path / "x.jsonl"
    records = (HEADER | {"type": "session_header"}, said("u1", None), said("u2", "u1"))
    path.write_bytes(b"".join(operator.encode(each) + b"\n" for each in records))
    return path


def test_a_header_as_operator_documents_it_is_read(documented: Path) -> None:
    """It is detected and read like any other, and its type is reported."""
    file = read(documented)
    assert (file.format, file.header.session_id, file.header.cwd, len(shown(file))) == ("operator", "s-1", "/repo", 2)
    assert [problem.kind for problem in file.problems] == ["header_name"]


def test_a_documented_header_is_written_back_and_what_operator_refuses_is_said(documented: Path) -> None:
    """The unchanged session gives the same bytes; once something is recorded, the header is one that Operator reads."""
    with treering.open(f"memory://operator-{new_nonce()}") as store:
        FileImporter(store).load(documented)
        target = documented.with_name("out.jsonl")
        told = export(store.view("s-1"), target, format="operator")
        assert target.read_bytes() == documented.read_bytes()
        assert [(left.kind, left.seen) for left in told.left_out] == [("session", True)]
        with store.session("s-1") as session:
            session.append("on")
        assert export(store.view("s-1"), target, format="operator", overwrite=True).left_out == []
        assert json.loads(target.read_bytes().split(b"\n")[0]) == HEADER


def test_a_documented_header_is_repaired(documented: Path) -> None:
    """The doctor finds it, and a repaired copy has the header that Operator's code writes."""
    assert [finding.kind for finding in diagnose(documented).findings] == ["header_name"]
    repair(documented, documented.with_name("copy.jsonl"))
    assert read(documented.with_name("copy.jsonl")).problems == []


def test_an_empty_summary_of_a_branch_is_sent_also_if_it_was_made_here() -> None:
    """By our own policy it shows nothing; an exported file would show it."""
    read_ = source(*TALK)
    store = treering.open(f"memory://operator-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="operator")
    with store.session("s") as session:
        session.append(branch_summary("", source="u2"))
        message: Any = session.context[-1].message
    assert (message["role"], message["summary"], message["from_id"]) == ("branch_summary", "", "u2")
    store.close()


@pytest.mark.parametrize(
    "odd",
    [
        entry("future", "x1", "u1"),
        entry("thinking_level_change", "x1", "u1", thinking_level="ultra"),
        entry("custom_message", "x1", "u1", custom_type="c", content="text"),
        entry("model_change", "x1", "u1", model_id="m"),
        entry("label", "x1", "u1", target_id="u1") | {"timestamp": "2026-01-05T08:00:01Z"},
        said("x1", "u1") | {"message": {"role": "odd", "contents": []}},
        said("x1", "u1") | {"message": {"role": "user", "contents": [{"type": "odd"}]}},
        said("x1", "u1") | {"message": {"role": "user", "contents": [{"type": "text", "content": []}]}},
        said("x1", "u1") | {"message": {"role": "user", "contents": [], "id": 1}},
    ],
)
@pytest.mark.parametrize("below", [True, False])
def test_entries_that_operator_passes_over_are_reported(odd: Any, tmp_path: Path, *, below: bool) -> None:
    """They are kept. A model sees less there if one is on the way to where the session stands."""
    store = treering.open(f"memory://operator-{new_nonce()}")
    read_ = source(said("u1", None), odd, said("u2", "x1" if below else "u1"))
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="operator")
    done = export(store.view("s"), tmp_path / "x.jsonl", format="operator")
    assert [(left.kind, left.seen) for left in done.left_out] == [(odd["type"], below)]
    assert done.same_context is not below
    store.close()


def test_entries_that_operator_takes_are_not_reported() -> None:
    """Pydantic takes texts for numbers, and defaults for what is missing."""
    taken = [
        said("u1", None) | {"timestamp": "1767600005.25"},
        entry("leaf", "l1", "u1"),
        entry("compaction", "c1", "u1", summary="", first_kept_entry_id="u1", tokens_before="9"),
        said("u2", "u1") | {"message": {"role": "user"}},
        said("u3", "u1") | {"message": {"role": "custom", "custom_type": "c", "timestamp": 1}},
        entry("custom_message", "m1", "u1", custom_type="c", content=[{"content": "text"}]),
        entry("channel", "h1", "u1", name="slack", chat_id=None),
    ]
    assert [record["id"] for record in taken if not operator_reads(record)] == []


def test_what_operator_would_cut_a_line_at_is_escaped_in_a_file_that_goes_on(tmp_path: Path) -> None:
    """The file comes back as it was; once it goes on, no line of it is lost there, nor the file for one odd byte."""
    texts = ["a\u2028b\x85c\u2029d", "\ufffd"]
    records = [said("u1", None, texts[0]), said("u2", "u1", texts[1])]
    data = b"".join(operator.encode(each) + b"\n" for each in (HEADER, *records))
    path, targets = tmp_path / "x.jsonl", [tmp_path / "same.jsonl", tmp_path / "more.jsonl"]
    path.write_bytes(data.replace("\ufffd".encode(), b"\xff"))
    store = treering.open(f"memory://operator-{new_nonce()}")
    read_ = find_format("operator").open_source(path)
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="operator")
    done = export(store.view("s"), targets[0], format="operator")
    assert targets[0].read_bytes() == path.read_bytes()
    assert [(left.kind, left.seen) for left in done.left_out] == [("message", True)]
    with store.session("s") as session:
        session.append(texts[0])
        session.commit()
    done = export(store.view("s"), targets[1], format="operator")
    lines = targets[1].read_text(encoding="utf-8").splitlines()
    assert [json.loads(line).get("message", {}).get("contents", [{}])[0].get("content") for line in lines] == [
        None, *texts, texts[0]
    ]  # fmt: skip
    assert (done.left_out, done.same_context) == ([], True)
    store.close()
