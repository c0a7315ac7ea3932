"""Session files of kit: what is peculiar to them, rule by rule."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.programs.pi.reading import entry as pi_entry, lines as pi_lines, message as pi_message

import treering
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import SessionFile, read
from treering.programs.common.reader import LinesSource
from treering.programs.formats import detect_format, find_format
from treering.programs.kit import read as kit
from treering.transcript.node import Draft

HEADER = {"type": "session", "version": 3, "id": "a" * 32, "timestamp": "2026-02-01T10:00:00Z", "cwd": "/repo"}
TIME = "2026-02-01T10:00:01.123456789+02:00"


def entry(kind: str, name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an entry of a file."""
    above = {} if parent is None else {"parent_id": parent}
    return {"type": kind, "id": name, **above, "timestamp": TIME, **fields}


def said(name: str, parent: str | None, text: str = "hello", role: str = "user") -> dict[str, Any]:
    """Return a message of one part."""
    return entry("message", name, parent, role=role, parts=[{"type": "text", "data": {"text": text}}])


def compaction(name: str, kept: str, parent: str | None = None) -> dict[str, Any]:
    """Return a compaction."""
    return entry("compaction", name, parent, summary="SUM", first_kept_entry_id=kept, tokens_before=9)


def source(*records: Any) -> LinesSource:
    """Open a file of these records, or bytes, behind a header."""
    data = b"".join(
        record if isinstance(record, bytes) else kit.encode(record) + b"\n" for record in (HEADER, *records)
    )
    return LinesSource(kit.DIALECT, lambda: io.BytesIO(data), Path("x.jsonl"))


def opened(*records: Any) -> SessionFile:
    """Return such a file as kit sees it."""
    return SessionFile(find_format("kit"), source(*records))


def node(read: LinesSource, name: str) -> Draft:
    """Return the draft with an id."""
    return next(draft for draft in read.drafts() if draft.id == name)


def sent(file: SessionFile, leaf: str | None = None) -> list[Any]:
    """The texts of a context."""
    shown: list[Any] = [each.message for each in file.context(leaf or file.leaf).messages]
    return [message["content"][0]["text"] for message in shown]


def test_a_compaction_is_joined_to_the_entry_before() -> None:
    """The program gives it no parent; here the tree is connected, and the link marks the added parent."""
    read = source(said("u1", None), said("u2", "u1"), compaction("c1", "u2"), said("n1", "c1"))
    made = node(read, "c1")
    assert (made.parent, made.links, made.brief) == ("u2", {"logical_parent": "u2"}, {"kept": "u2", "tokens_before": 9})
    file = opened(said("u1", None), said("u2", "u1"), compaction("c1", "u2"), said("n1", "c1"))
    assert (file.path("n1"), [root[0] for root in file.tree()]) == (["c1", "n1"], ["u1", "c1"])


def test_a_compaction_with_a_parent_keeps_it() -> None:
    """Forks of kit write one; then nothing is joined."""
    made = node(source(said("u1", None), said("u2", "u1"), compaction("c1", "u2", "u1")), "c1")
    assert (made.parent, made.links) == ("u1", None)


def test_what_is_kept_goes_by_the_order_of_the_file() -> None:
    """Messages of another branch that stand in between are sent as well, as kit does it."""
    file = opened(said("u1", None, "one"), said("u2", "u1", "two"), said("b1", "u1", "other"), compaction("c1", "u2"),
                  said("n1", "c1", "new"))  # fmt: skip
    assert sent(file)[1:] == ["two", "other", "new"]
    assert "SUM" in sent(file)[0]


@pytest.mark.parametrize("kept", ["", "gone", "c1", "n1"])
def test_a_compaction_that_names_no_entry_above_keeps_nothing(kept: str) -> None:
    """Neither an empty id, nor one that is missing, its own, or one further down keeps anything."""
    assert sent(opened(said("u1", None, "one"), compaction("c1", kept), said("n1", "c1", "new")))[1:] == ["new"]


def test_of_two_entries_with_one_id_the_first_is_kept_from() -> None:
    """The program looks for it from the top of the file."""
    twice = [said("u1", None, "one"), said("u2", "u1", "two"), said("u1", "u2", "again")]
    assert sent(opened(*twice, compaction("c1", "u1"), said("n1", "c1", "new")))[1:] == ["one", "two", "again", "new"]


def test_nothing_is_kept_from_a_system_prompt() -> None:
    """The program has no index of them."""
    prompt = entry("system_prompt", "s1", content="c", model="m", provider="p")
    assert sent(opened(prompt, said("u1", None), compaction("c1", "s1"), said("n1", "c1", "new")))[1:] == ["new"]


def test_an_entry_without_an_id_is_not_in_the_tree() -> None:
    """The program has no place for it there; it is an entry all the same."""
    nameless = {name: value for name, value in said("x", "u1").items() if name != "id"}
    file = opened(said("u1", None), nameless)
    assert (file.tree(), file.entry_ids, file.leaf) == ([["u1", []]], ["u1", None], None)


def test_a_title_keeps_its_white_space() -> None:
    """The program shows it as it is."""
    assert opened(said("u1", None), entry("session_info", "t1", "u1") | {"name": " a title "}).title == " a title "


def test_a_label_that_is_kept_from_stands_for_what_follows() -> None:
    """A label is no node here, so the first node behind it in the file takes its place."""
    read = [said("u1", None, "one"), entry("label", "l1", "u1", target_id="u1", label="L"), said("u2", "l1", "two")]
    assert sent(opened(*read, compaction("c1", "l1"), said("n1", "c1", "new")))[1:] == ["two", "new"]


def test_a_model_from_before_what_is_kept_is_forgotten() -> None:
    """The program looks for changes of model only among what it sends."""
    change = entry("model_change", "m1", None, provider="p", model_id="m")
    records = [change, said("u1", "m1"), said("u2", "u1")]
    assert opened(*records).context("u2").state == {"provider": "p", "model_id": "m"}
    assert opened(*records, compaction("c1", "u2")).context("c1").state == {"provider": "", "model_id": ""}
    assert opened(*records, compaction("c1", "m1")).context("c1").state == {"provider": "p", "model_id": "m"}


def test_a_system_prompt_is_outside_of_the_tree() -> None:
    """It is a note; after one kit is before the first entry, and it is no parent of a compaction."""
    prompt = {
        "type": "system_prompt",
        "id": "s1",
        "timestamp": TIME,
        "content": "You are",
        "model": "m",
        "provider": "p",
    }
    read = source(said("u1", None), prompt, compaction("c1", "u1"), prompt | {"id": "s2"})
    drafts = [*read.drafts()]
    assert [draft.kind for draft in drafts if draft.type == "note"] == ["import", "system_prompt", "system_prompt"]
    assert (read.leaf, node(read, "c1").parent) == (None, "u1")
    file = opened(said("u1", None), prompt)
    assert (file.leaf, file.entry_ids, file.tree(), file.context(file.leaf).messages) == (
        None,
        ["u1", ""],
        [["u1", []]],
        [],
    )


def test_parts_are_sent_in_the_order_of_kit() -> None:
    """Reasoning, one text, then calls, whose ids lose what a provider refuses; the end of a turn says nothing."""
    parts = [
        {"type": "tool_call", "data": {"id": "call:1", "name": "ls", "input": "{}", "finished": True}},
        {"type": "text", "data": {"text": ""}},
        {"type": "text", "data": {"text": "a"}},
        {"type": "reasoning", "data": {"thinking": "hm"}},
        {"type": "text", "data": {"text": "b"}},
        {"type": "finish", "data": {"reason": "tool_use"}},
    ]
    shown = opened(entry("message", "m", None, role="assistant", parts=parts)).context("m").messages
    content = [{"reasoning": "hm"}, {"text": "a\nb"}, {"tool_call_id": "call_1", "name": "ls", "input": "{}"}]
    assert [each.message for each in shown] == [{"role": "assistant", "content": content}]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "video", "data": {}},
        {"type": "text", "data": {"text": 5}},
        {"type": "text"},
        {"type": "image", "data": {"data": "no base64!"}},
        {"data": {"text": "x"}},
        7,
    ],
)
def test_a_message_with_a_part_that_kit_cannot_read_is_left_out(part: Any) -> None:
    """All of it, also the parts that could be read; the node is there."""
    parts = [{"type": "text", "data": {"text": "hi"}}, part]
    file = opened(said("u1", None), entry("message", "m", "u1", role="user", parts=parts))
    assert (sent(file), file.path("m")) == (["hello"], ["u1", "m"])


def test_times_keep_nine_digits_and_their_offset() -> None:
    """The node has milliseconds; what is finer comes back from beside it, and the bytes are the same."""
    made = node(source(said("u1", None)), "u1")
    assert (made.time_ms, made.source) == (1769932801123, {"timestamp": TIME})


def test_what_go_escapes_costs_nothing() -> None:
    """The program writes `<` as an escape; the record is made again from the draft alone."""
    read = source(said("u1", None, "<b> & \u2028"))
    assert b"\\u003cb\\u003e \\u0026 \\u2028" in next(each.raw for each, _ in read.records() if each is not None)
    assert "raw" not in (node(read, "u1").source or {})


def test_an_orphan_is_in_no_tree_but_has_a_path() -> None:
    """The program shows only what hangs below a root; what it sends for an orphan begins with that."""
    file = opened(said("u1", None), said("o1", "gone", "orphan"))
    assert (file.tree(), file.path("o1"), sent(file, "o1")) == ([["u1", []]], ["o1"], ["orphan"])


def test_damage_costs_only_itself() -> None:
    """The program does not open such a file; here the records beside the damage are read, and it is reported."""
    records = (
        said("u1", None),
        b"garbage\n",
        kit.encode(said("u2", "u1")) + kit.encode(said("u3", "u2")) + b"\n",
        b'{"ty',
    )
    file = opened(*records)
    assert file.path(file.leaf) == ["u1", "u2", "u3"]
    assert [problem.kind for problem in file.problems] == ["garbage", "glued", "torn"]


def test_the_listing_shows_a_hundred_bytes() -> None:
    """A character that is cut is shown as Go shows it, byte by byte; a session without messages is not listed."""
    file = opened(said("u1", None, "x" * 98 + "\U0001f680"))
    assert file.listing()["first_message"] == "x" * 98 + "\ufffd\ufffd..."
    assert opened().listing() == {}


def test_a_time_that_was_never_set_is_no_activity() -> None:
    """Go writes the year 1 for it."""
    first = said("u1", None) | {"timestamp": "0001-01-01T00:00:00Z"}
    assert opened(first).listing()["modified"] == HEADER["timestamp"]
    assert opened(first, said("u2", "u1")).listing()["modified"] == TIME


def test_the_base64_of_an_image_has_no_line_breaks() -> None:
    """The program passes over them when it reads it."""
    image = entry(
        "message", "u1", role="user", parts=[{"type": "image", "data": {"data": "aG\r\nk=", "media_type": "m"}}]
    )
    shown: Any = opened(image).context("u1").messages[0].message
    assert shown["content"] == [{"file": "aGk=", "media_type": "m"}]


@pytest.mark.parametrize(
    ("header", "record", "name"),
    [
        (HEADER, None, "kit"),
        (HEADER | {"id": "s-1"}, said("u1", None), "kit"),
        (HEADER | {"id": "s-1"}, None, "pi"),
        (HEADER | {"id": "s-1"}, {"type": "message", "id": "m", "timestamp": TIME, "message": {}}, "pi"),
    ],
)
def test_a_file_is_told_by_its_content(header: Any, record: Any, name: str, tmp_path: Path) -> None:
    """The id of the header or an entry that only kit writes; a header that could be of both is pi's."""
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in (header, record) if each is not None))
    assert name == detect_format(path).NAME


def test_a_fork_has_all_that_it_shows() -> None:
    """The program's own forks lose what the compaction kept; here the nodes come along, of other branches too."""
    read = source(said("u1", None, "one"), said("u2", "u1", "two"), said("b1", "u1", "other"), compaction("c1", "u2"),
                  said("n1", "c1", "new"))  # fmt: skip
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read.drafts(), leaf=lambda: read.leaf, policy="kit")
    with store.session("s") as session:
        shown = [item.message for item in session.recorded_context]
        session.fork("f", node="n1")
    fork = store.view("f")
    assert [item.message for item in fork.recorded_context] == shown
    assert {each.id for each in fork.nodes()} == {"u1", "u2", "b1", "c1", "n1"}
    store.close()


def test_a_compaction_made_here_keeps_by_the_order_of_recording() -> None:
    """At once, from nodes of the file and from new ones, and the same when the session is opened again."""
    read = source(said("u1", None, "one"), said("u2", "u1", "two"), said("b1", "u1", "other"))
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read.drafts(), leaf=lambda: read.leaf, policy="kit")
    with store.session("s") as session:
        session.compact("all", kept="u2")
        assert [_text(item.message) for item in session.context][1:] == ["two", "other"]
        session.append("more")
        new = session.path()[-1]
        session.append("and more")
        session.compact("again", kept=new)
        assert [_text(item.message) for item in session.context][1:] == ["more", "and more"]
    assert [_text(item.message) for item in store.view("s").context][1:] == ["more", "and more"]
    with store.session("s") as session:
        session.append("last")
        assert [_text(item.message) for item in session.context_at(session.path()[-1])][1:] == [
            "more",
            "and more",
            "last",
        ]
    store.close()


def test_what_was_retracted_among_what_is_kept_is_reported(tmp_path: Path) -> None:
    """The program shows it, though it is on another branch."""
    read_ = source(said("u1", None, "one"), said("u2", "u1", "two"), said("b1", "u1", "other"), said("u3", "u2"),
                   compaction("c1", "u2"))  # fmt: skip
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="kit")
    with store.session("s") as session:
        session.retract("b1")
    done = export(store.view("s"), tmp_path / "x.jsonl", format="kit")
    assert [(left.kind, left.seen) for left in done.left_out] == [("retract", True)]
    assert not done.same_context
    store.close()


@pytest.mark.parametrize(
    "odd",
    [
        entry("future", "x1", "u1"),
        entry("label", "x1", "u1", target_id=1),
        entry("model_change", "x1", "u1") | {"timestamp": "soon"},
        entry("compaction", "x1", tokens_before=1.5),
        entry("compaction", "x1", read_files="a"),
    ],
)
def test_entries_with_which_kit_opens_no_file_are_reported(odd: Any, tmp_path: Path) -> None:
    """They are kept, and the export reports them."""
    done, data = exported([said("u1", None), odd], tmp_path)
    assert [(left.kind, left.count, left.seen) for left in done.left_out] == [(odd["type"], 1, True)]
    assert not done.same_context
    assert kit.encode(odd) in data


def test_a_compaction_of_another_program_that_keeps_nothing_names_nothing(tmp_path: Path) -> None:
    """Kit would send all from an entry further down to the end of the file."""
    store = treering.open(f"memory://kit-{new_nonce()}")
    given = tmp_path / "given.jsonl"
    given.write_bytes(
        pi_lines(
            pi_message("u1", None),
            pi_entry("compaction", "c1", "u1", summary="S", firstKeptEntryId="u2", tokensBefore=1),
            pi_message("u2", "c1"),
        )
    )
    found = find_format("pi").open_source(given)
    store.load("s", found.drafts(), leaf=lambda: found.leaf, policy="pi")
    done = export(store.view("s"), tmp_path / "x.jsonl", format="kit")
    entries = read(tmp_path / "x.jsonl", format="kit").entries
    assert [each.record["first_kept_entry_id"] for each in entries if each.type == "compaction"] == [""]
    assert done.same_context
    store.close()


def test_lines_with_which_kit_opens_no_file_are_left_out(tmp_path: Path) -> None:
    """A file comes back as it was; but once it goes on, kit can open it."""
    assert b"null" in exported([said("u1", None), b"null\n", said("u2", "u1")], tmp_path)[1]
    done, data = exported([said("u1", None), b"null\n", said("u2", "u1")], tmp_path, "more")
    assert b"null" not in data
    assert ([(left.kind, left.seen) for left in done.left_out], done.same_context) == ([("damage", False)], True)


def exported(records: list[Any], tmp_path: Path, *said: str) -> tuple[Exported, bytes]:
    """Import a file, say something, and export it."""
    read_, path = source(*records), tmp_path / f"{new_nonce()}.jsonl"
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="kit")
    with store.session("s") as session:
        for text in said:
            session.append(text)
            session.commit()
    done = export(store.view("s"), path, format="kit")
    store.close()
    return done, path.read_bytes()


def test_the_header_of_a_fork_names_no_parent_but_its_own(tmp_path: Path) -> None:
    """Of the file that was imported another session is the parent, and another agent had the task."""
    data = b"".join(
        kit.encode(each) + b"\n"
        for each in (HEADER | {"parent_session": "/old.jsonl", "subagent_task": "look"}, said("u1", None))
    )
    read_ = LinesSource(kit.DIALECT, lambda: io.BytesIO(data), Path("x.jsonl"))
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="kit")
    with store.session("s") as session:
        session.fork("f")
    export(store.view("f"), tmp_path / "x.jsonl", format="kit")
    header = read(tmp_path / "x.jsonl").header_record
    assert (header["id"], header["parent_session_id"]) == ("f", "s")
    assert not {"parent_session", "subagent_task"} & header.keys()
    store.close()


def _text(message: Any) -> str:
    return str(message["content"][0]["text"])


def test_an_exported_compaction_starts_a_tree_as_kits_own_do(tmp_path: Path) -> None:
    """Whether it came from a file or was made here, its entry names no parent."""
    read_ = source(said("u1", None, "one"), said("u2", "u1", "two"), compaction("c1", "u2"), said("n1", "c1"))
    store = treering.open(f"memory://kit-{new_nonce()}")
    store.load("s", read_.drafts(), leaf=lambda: read_.leaf, policy="kit")
    with store.session("s") as session:
        session.compact("again", kept="n1")
    export(store.view("s"), tmp_path / "x.jsonl", format="kit")
    made = [each for each in read(tmp_path / "x.jsonl").entries if each.type == "compaction"]
    assert [(each.parent, each.record["first_kept_entry_id"]) for each in made] == [(None, "u2"), (None, "n1")]
    store.close()
