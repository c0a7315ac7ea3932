"""What becomes of each entry of a pi session, and where it stands."""

from __future__ import annotations

import io
import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.programs.pi.reading import HEADER, TIME, entry, line, lines, message, read

from treering.format import values
from treering.format.record import BRIEF_BYTES_MAX
from treering.programs.common.reader import LinesSource
from treering.programs.common.times import read_time, write_time
from treering.programs.pi.read import DIALECT
from treering.transcript.node import Draft

TIME_MS = 1767600001000


def one(record: dict[str, Any], *before: dict[str, Any], version: int = 3) -> Draft:
    """Return the draft of `record`, read behind the entries `before`."""
    return read(lines(*before, record, header=HEADER | {"version": version})).drafts[-1]


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_times_are_written_as_javascript_writes_them(ms: int) -> None:
    """Every moment of the years 1 to 9999 has its date, its time to the millisecond and a Z, and is read again."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    text = write_time(ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert read_time(text) == ms


@pytest.mark.parametrize("ms", [-62_135_596_800_001, 253_402_300_800_000, 10**17])
def test_what_is_in_no_year_has_no_time(ms: int) -> None:
    """A time before the year 1 or after 9999 is not written, and is no error."""
    assert write_time(ms) is None


def test_a_message_is_kept_as_it_is() -> None:
    """The message object is the payload, with all it holds; its role and the entry's time are the node's."""
    inner = {"role": "toolResult", "toolCallId": "t", "content": [{"type": "text", "text": "é"}], "future": {"a": [1]}}
    assert one(entry("message", "m1", "m0", message=inner)) == Draft(
        kind="message", role="toolResult", payload=inner, id="m1", parent="m0", time_ms=TIME_MS
    )


@pytest.mark.parametrize(
    "role", ["user", "assistant", "toolResult", "bashExecution", "custom", "system", "hookMessage"]
)
def test_roles_are_kept(role: str) -> None:
    """In the newest version a message keeps whatever role it has."""
    assert one(message("m", None, role=role)).role == role


@pytest.mark.parametrize("version", [1, 2])
def test_hook_messages_of_old_versions_become_custom(version: int) -> None:
    """Before version 3 the role `custom` was called `hookMessage`; the old name is kept beside it."""
    draft = one(message("m", None, role="hookMessage"), version=version)
    assert (draft.role, draft.payload["role"]) == ("custom", "custom")
    assert draft.source is not None
    assert draft.source["message"] == {"role": "hookMessage"}


def test_a_message_without_its_message_stays_out_of_the_context() -> None:
    """An entry that says it is a message and holds none keeps its place and is not shown to a model."""
    draft = one(entry("message", "m", "p", message="text", more=1))
    assert (draft.kind, draft.parent, draft.payload, draft.brief) == ("message", "p", None, {"context": False})
    assert draft.source == {"message": "text", "more": 1}


def test_a_compaction_keeps_its_summary_and_range() -> None:
    """Kept node and size go into the brief, the text and details into the payload, the rest into the source."""
    fields: dict[str, Any] = {"summary": "s", "details": {"readFiles": ["a"]}, "usage": {"input": 1}, "fromHook": True}
    sizes = {"firstKeptEntryId": "a", "tokensBefore": 1234}
    record = entry("compaction", "c", "b", summary=fields.pop("summary"), **sizes, **fields, preserveData={"h": 1})
    fields["summary"] = "s"
    draft = one(record, message("a", None), message("b", "a"))
    assert (draft.kind, draft.brief) == ("compaction", {"kept": "a", "tokens_before": 1234})
    assert (draft.payload, draft.source) == (fields, {"preserveData": {"h": 1}})


@pytest.mark.parametrize("kept", ["", None, 3])
def test_a_compaction_that_names_no_entry_keeps_nothing(kept: object) -> None:
    """What is no id names no node, and is kept as it stands."""
    draft = one(entry("compaction", "c", None, summary="s", tokensBefore=1, firstKeptEntryId=kept))
    assert draft.brief == {"tokens_before": 1}
    assert draft.source == {"firstKeptEntryId": kept}


def test_kept_from_a_label_is_kept_from_what_follows_it() -> None:
    """A compaction that keeps from a label keeps from the next node on its own path, not from another branch."""
    above = [message("a", None), entry("label", "l", "a", targetId="a", label="x")]
    branches = [message("other", "l"), entry("label", "l2", "l", targetId="a"), message("b", "l2"), message("c", "b")]
    draft = one(entry("compaction", "d", "c", summary="s", firstKeptEntryId="l"), *above, *branches)
    assert draft.brief == {"kept": "b"}
    assert draft.source == {"firstKeptEntryId": "l"}


@pytest.mark.parametrize("parent", ["l", "a"])
def test_kept_from_a_label_that_is_not_above_names_no_node(parent: str) -> None:
    """With nothing between label and compaction, or the label on another branch, nothing is kept."""
    above = [message("a", None), entry("label", "l", "a", targetId="a", label="x")]
    ours = read(lines(*above, entry("compaction", "d", parent, summary="s", firstKeptEntryId="l")))
    assert ours.drafts[-1].brief == {"kept": "l"}
    assert "l" not in ours.parents


def test_version_1_counts_what_pi_could_read() -> None:
    """The index of the first kept entry counts the records that pi read: not torn, glued or empty lines, nor null."""
    entries = [
        {key: value for key, value in message(None, None, text).items() if key[-2:] not in ("id", "Id")}
        for text in "abcd"
    ]
    compaction = {"type": "compaction", "timestamp": TIME, "summary": "s", "tokensBefore": 1, "firstKeptEntryIndex": 4}
    damage = line(entries[0]).strip() + line(entries[1])
    data = line(HEADER | {"version": 1}) + damage + b"null\n42\n\n{torn\n" + b"".join(map(line, [*entries, compaction]))
    ours = read(data)
    kept = next(draft for draft in ours.nodes if draft.id == (ours.drafts[-1].brief or {})["kept"])
    assert kept.payload["content"] == "c"  # 0 is the header, 1 is 42, 2 is a
    assert ours.drafts[-1].source == {"raw": line(compaction).decode().strip()}  # pi writes no such field any more


@pytest.mark.parametrize("index", [0, 2, 3, 500, -1])
def test_version_1_keeps_nothing_from_an_index_that_is_not_above(index: int) -> None:
    """The header, the compaction itself, what follows it and what does not exist are no place to keep from."""
    record = {"type": "compaction", "timestamp": TIME, "summary": "s", "firstKeptEntryIndex": index}
    ours = read(lines(message(None, None), record, message(None, None), header=HEADER | {"version": 1}))
    assert (ours.nodes[1].brief or {}).get("kept") in (None, ours.nodes[1].id)


def test_version_1_is_one_line_of_entries() -> None:
    """Entries get ids that are the same each time, and follow one another whatever they say."""
    data = lines(message(None, None), message("x", "nowhere"), message(None, None), header=HEADER | {"version": 1})
    ours = read(data)
    assert [draft.parent for draft in ours.nodes] == [None, *(draft.id for draft in ours.nodes[:-1])]
    assert ours.nodes[1].source == {"id": "x"}
    assert ours.nodes[1].links == {"source_parent": "nowhere"}
    assert all(len(draft.id or "") == 8 and int(draft.id or "", 16) >= 0 for draft in ours.nodes)
    assert read(data) == ours
    assert read(lines(message(None, None), header={**HEADER, "version": 1, "id": "s-2"})).leaf != ours.nodes[0].id
    assert ours.problems == []


@pytest.mark.parametrize(("source", "links"), [("a", {"source": "a"}), ("l", {"source": "a"}), ("root", None)])
def test_a_branch_summary_links_to_the_branch(source: str, links: dict[str, str] | None) -> None:
    """Where the summary comes from is a link to a node; `root` is none, and a note stands for the node above it."""
    above = [message("a", None), entry("label", "l", "a", targetId="a", label="x")]
    draft = one(entry("branch_summary", "b", "a", fromId=source, summary="s", details={"d": 1}), *above)
    assert (draft.links, draft.brief, draft.payload) == (
        links,
        None,
        {"summary": "s", "details": {"d": 1}, "fromId": source},
    )
    assert draft.source is None


def test_an_empty_branch_summary_says_so() -> None:
    """Readers of skeletons see that there is nothing to show."""
    assert one(entry("branch_summary", "b", None, fromId="root", summary="")).brief == {"empty": True}


def test_extension_entries_carry_their_type() -> None:
    """State of an extension and messages of one say in the brief whose they are."""
    state = one(entry("custom", "c", "p", customType="ext", data={"s": 1}))
    assert (state.kind, state.brief, state.payload) == (
        "custom",
        {"custom_type": "ext"},
        {"custom_type": "ext", "data": {"s": 1}},
    )
    shown = one(entry("custom_message", "m", "p", customType="ext", content="c", display=True, details=None))
    assert (shown.kind, shown.brief) == ("custom_message", {"custom_type": "ext"})
    assert shown.payload == {"custom_type": "ext", "content": "c", "display": True, "details": None}


def test_settings_are_briefs() -> None:
    """A change of model or thinking needs no payload to be understood."""
    model = one(entry("model_change", "m", "p", provider="anthropic", modelId="claude", role="smol"))
    assert (model.brief, model.payload, model.source) == (
        {"model": "claude", "provider": "anthropic"},
        None,
        {"role": "smol"},
    )
    thinking = one(entry("thinking_level_change", "t", "p", thinkingLevel="high"))
    assert (thinking.kind, thinking.brief) == ("thinking_change", {"thinking": "high"})


def test_labels_and_names_are_notes() -> None:
    """Labels hang on their target, names on the session; empty or absent text takes them off."""
    records = [
        entry("label", "l1", "a", targetId="a", label="one"),
        entry("label", "l2", "l1", targetId="a"),
        entry("session_info", "i1", "l2", name="A name"),
        entry("session_info", "i2", "i1", name=""),
    ]
    notes = read(lines(message("a", None), *records)).notes
    assert [(note.kind, note.id, note.target, note.brief, note.parent) for note in notes] == [
        ("label", "l1", "a", {"label": "one"}, None),
        ("label", "l2", "a", {"label": None}, None),
        ("title", "i1", None, {"title": "A name"}, None),
        ("title", "i2", None, {"title": None}, None),
    ]
    assert [note.links for note in notes] == [{"source_parent": parent} for parent in ("a", "l1", "l2", "i1")]


def test_usage_is_a_note_with_its_numbers() -> None:
    """Numbers stand in the brief, where they are added up; all the rest is the payload."""
    usage = {"input": 5, "output": 2.5, "note": "x", "flag": True, "cost": {"input": 1, "total": 0.25}}
    fields = {"kind": "cache_warm", "provider": "p", "model": "m", "usage": usage}
    draft = one(entry("usage", "u", "l", **fields), message("a", None), entry("label", "l", "a", targetId="a"))
    assert (draft.type, draft.kind, draft.target) == ("note", "usage", "a")
    assert (draft.brief, draft.payload) == ({"input": 5, "output": 2.5, "cost": 0.25, "turn": False}, fields)


@pytest.mark.parametrize(("replacement", "edit"), [(None, "retract"), ({"content": "new"}, "amend")])
def test_a_context_edit_keeps_its_place_on_the_path(replacement: object, edit: str) -> None:
    """In pi an edit changes what is seen from its own branch only, so it is a node and no edit of all branches."""
    draft = one(entry("context_edit", "e", "a", targetId="a", replacement=replacement), message("a", None))
    assert (draft.type, draft.kind, draft.parent) == ("node", "context_edit", "a")
    shell = {"message": {"role": "user", "content": None, "timestamp": 1767600000001}} if replacement else {}
    assert (draft.brief, draft.payload) == ({"target": "a", "edit": edit}, {"replacement": replacement} | shell)


@pytest.mark.parametrize("kind", ["leaf", "future_thing", "mode_change", "title_change"])
def test_unknown_types_are_nodes_of_that_kind(kind: str) -> None:
    """What we do not know stays in the chain with all its fields."""
    ours = read(lines(message("a", None), entry(kind, "x", "a", targetId=None, deep={"a": [1]}), message("b", "x")))
    assert ours.parents == {"a": None, "x": "a", "b": "x"}
    assert (ours.nodes[1].kind, ours.nodes[1].payload) == (kind, {"targetId": None, "deep": {"a": [1]}})


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-01-05T08:00:01.000Z", TIME_MS),
        ("2026-01-05T09:00:01+01:00", TIME_MS),
        ("2026-01-05T08:00:01", TIME_MS),
        ("1969-12-31T23:59:59.999Z", -1),
        (TIME_MS, TIME_MS),
        (TIME_MS + 0.5, TIME_MS),
    ],
)
def test_times_are_milliseconds(stamp: object, expected: int) -> None:
    """Any ISO time is understood, without an offset as UTC; one that JavaScript would write otherwise is kept too."""
    draft = one(message("a", None) | {"timestamp": stamp})
    assert draft.time_ms == expected
    assert draft.source == (None if str(stamp).endswith("Z") else {"timestamp": stamp})


@pytest.mark.parametrize("stamp", ["yesterday", None, True, [], 1e300, "9" * 5000, ""])
def test_a_time_that_is_none_is_taken_from_the_message(stamp: object) -> None:
    """An unreadable time is reported and kept; the message's own stands in, then that of the entry before."""
    ours = read(lines(message("a", None) | {"timestamp": stamp}, entry("leaf", "b", "a") | {"timestamp": stamp}))
    if stamp is True:
        assert ours.drafts[0].time_ms == 1
        return
    assert [draft.time_ms for draft in ours.drafts] == [1767600000001] * 2
    kept = [{"timestamp": stamp}] * 2
    assert [draft.source for draft in ours.drafts] == kept
    assert ours.kinds == ["timestamp", "timestamp"]


def test_long_texts_fit_into_briefs_and_stay_whole() -> None:
    """A brief that would be too large to store is cut and reported; the whole text is in the source."""
    name = "ä" * 1000
    for record in (
        entry("label", "l", None, targetId="a", label=name),
        entry("session_info", "l", None, name=name),
        entry("model_change", "l", None, modelId=name, provider=name),
        entry("compaction", "l", None, summary="s", firstKeptEntryId=name),
        entry("custom", "l", None, customType=name),
    ):
        ours = read(lines(record))
        draft = ours.drafts[0]
        assert 0 < len(values.encode(draft.brief)) <= BRIEF_BYTES_MAX
        assert ours.kinds == ["too_long"]
        assert name in [*(draft.source or {}).values()]


def test_a_brief_of_too_many_numbers_is_left_out() -> None:
    """Usage with numbers under very long names is still recorded, in the payload."""
    usage = {f"{'n' * 600}{number}": number for number in range(3)}
    draft = one(entry("usage", "u", None, usage=usage))
    assert (draft.brief, draft.payload) == ({"turn": False}, {"usage": usage})


def test_children_of_notes_are_joined_to_the_node_above() -> None:
    """No node has a label, a name or usage as its parent; the file's parent is kept as a link."""
    records = [
        entry("session_info", "i", None, name="n"),
        message("a", "i"),
        entry("label", "l1", "a", targetId="a", label="x"),
        entry("usage", "u", "l1", kind="k"),
        entry("label", "l2", "u", targetId="a"),
        message("b", "l2"),
        message("c", "l1"),
    ]
    ours = read(lines(*records))
    assert ours.parents == {"a": None, "b": "a", "c": "a"}
    assert [node.links for node in ours.nodes] == [{"source_parent": parent} for parent in ("i", "l2", "l1")]


def test_a_note_that_comes_after_its_child_gets_a_stand_in() -> None:
    """Where an entry names a note further down as its parent, a node keeps the note's place in the chain."""
    ours = read(
        lines(
            message("a", None), message("b", "l"), entry("label", "l", "a", targetId="b", label="x"), message("c", "l")
        )
    )
    assert ours.parents == {"a": None, "b": "l", "l": "a", "c": "l"}
    note = ours.notes[0]
    assert (note.target, note.brief, note.source) == ("b", {"label": "x"}, {"id": "l"})
    assert ours.leaf == "c"
    assert ours.kinds == ["late_note"]
    assert len({draft.id for draft in ours.drafts}) == len(ours.drafts)


@pytest.mark.parametrize("kind", ["label", "session_info", "usage"])
def test_the_leaf_is_the_node_above_a_last_note(kind: str) -> None:
    """The program would go on from its last entry; if that is a note, from the nearest node above it."""
    records = [message("a", None), message("b", "a"), entry(kind, "n", "a"), entry(kind, "n2", "n")]
    assert read(lines(*records)).leaf == "a"


@pytest.mark.parametrize("parent", [None, "gone"])
def test_the_leaf_is_before_the_first_node_if_a_note_stands_alone(parent: str | None) -> None:
    """A last note without a node above it leaves pi with an empty path."""
    assert read(lines(message("a", None), entry("label", "n", parent, targetId="a"))).leaf is None


def test_orphans_and_cycles_are_kept() -> None:
    """Parents that do not exist, form cycles, come later or name the entry itself are kept."""
    records = [message("a", "gone"), message("k1", "k2"), message("k2", "k1"), message("s", "s"), message("f", "g")]
    ours = read(lines(*records, message("g", None)))
    assert ours.parents == {"a": "gone", "k1": "k2", "k2": "k1", "s": "s", "f": "g", "g": None}
    assert ours.problems == []


def test_kept_from_a_label_above_a_cycle_ends() -> None:
    """The search for the node after a label ends in a cycle of parents."""
    records = [entry("label", "l", None, targetId="k1"), message("k1", "k2"), message("k2", "k1")]
    draft = one(entry("compaction", "c", "k2", summary="s", firstKeptEntryId="l"), *records)
    assert draft.brief == {"kept": "l"}


def test_a_second_entry_with_an_id_gets_another() -> None:
    """Later references mean the later entry, earlier ones the earlier; the id of the file is kept in the source."""
    records = [
        message("d", None, "first"),
        message("e", "d"),
        message("d", "e", "second"),
        message("f", "d"),
        entry("label", "l", "f", targetId="d", label="x"),
        entry("compaction", "c", "f", summary="s", firstKeptEntryId="d"),
    ]
    ours = read(lines(*records))
    second = ours.nodes[2].id
    assert ours.parents == {"d": None, "e": "d", second: "e", "f": second, "c": "f"}
    assert ours.nodes[2].source == {"id": "d"}
    assert ours.nodes[3].links == {"source_parent": "d"}
    assert ours.notes[0].target == second
    assert ours.nodes[4].brief == {"kept": second}
    assert ours.kinds == ["duplicate_id"]


def test_a_marker_with_one_id_makes_no_circle() -> None:
    """Entries that are written again and again under one id, each below the one before, keep the whole history."""
    records = [message("m", None), message("a", "m"), message("m", "a"), message("b", "m"), message("m", "m")]
    ours = read(lines(*records))
    path, node = [], ours.leaf
    while node is not None:
        path.append(node)
        node = ours.parents[node]
    assert path[::-1] == [draft.id for draft in (ours.nodes[0], ours.nodes[1], ours.nodes[2], ours.nodes[4])]


@pytest.mark.parametrize("identifier", ["absent", None, "", 5, ["x"]])
def test_an_entry_without_an_id_gets_one(identifier: object) -> None:
    """What is no id is kept in the source, and the entry keeps its place."""
    record = message("x", "a") | {"id": identifier}
    if identifier == "absent":
        del record["id"]
    ours = read(lines(message("a", None), record))
    assert (ours.nodes[1].parent, len(ours.nodes[1].id or "")) == ("a", 8)
    order = [name for name in message("x", "a") if name != "id"]
    assert ours.nodes[1].source == ({"order": order} if identifier == "absent" else {"id": identifier})
    assert (ours.leaf, ours.kinds) == (ours.nodes[1].id, ["missing_id"])


def test_a_made_id_is_not_one_of_the_file() -> None:
    """The id that an entry would get is not given if an entry above has it, and taken from one below."""
    made = read(lines(message(None, None))).leaf
    before = read(lines(message(made, None), message(None, made)))
    assert before.parents == {made: None, before.leaf: made}
    after = read(lines(message(None, None), message(made, None)))
    assert [*after.parents] == [made, after.leaf]
    assert after.nodes[1].source == {"id": made}


@pytest.mark.parametrize(("parent", "kinds"), [("", []), (5, ["parent"]), ({}, ["parent"]), (None, [])])
def test_a_parent_that_is_no_id_is_none(parent: object, kinds: list[str]) -> None:
    """The entry becomes a root, as in pi, and what the file said is kept."""
    ours = read(lines(message("a", None), message("b", None) | {"parentId": parent}))
    assert ours.nodes[1].parent is None
    assert ours.nodes[1].source == (None if parent is None else {"parentId": parent})
    assert ours.kinds == kinds


@pytest.mark.parametrize("kind", ["absent", 5, None, ""])
def test_an_object_without_a_type_is_a_note(kind: object) -> None:
    """It is kept whole, its children are not lost, and the leaf goes with it, as in the program."""
    record: dict[str, Any] = {"type": kind, "id": "x", "parentId": "a", "timestamp": TIME, "foo": 1}
    if kind == "absent":
        del record["type"]
    ours = read(lines(message("a", None), message("b", "x"), record))
    assert ours.leaf == "x"
    assert read(lines(message("a", None), record, message("b", "x"))).parents == {"a": None, "b": "a"}
    assert read(lines(message("a", None), record)).leaf == "a"
    note = ours.notes[0]
    assert (note.kind, note.payload) == ("unknown", {"foo": 1} if kind == "absent" else {"foo": 1, "type": kind})


@pytest.mark.parametrize("value", [42, "text", [], [{"type": "message"}], True, None])
def test_what_is_no_object_is_skipped(value: object) -> None:
    """JSON that is no record is reported and moves nothing."""
    ours = read(lines(message("a", None), value, message("b", "a")))
    assert ours.parents == {"a": None, "b": "a"}
    assert ours.kinds == ["null" if value is None else "no_object"]


def test_a_second_header_is_a_note() -> None:
    """Another header further down starts no session; it is kept, and reported."""
    second = HEADER | {"id": "other"}
    ours = read(lines(message("a", None), second, message("b", "a")))
    assert (ours.header.session_id, ours.parents, ours.leaf) == ("s-1", {"a": None, "b": "a"}, "b")
    assert [(note.kind, note.payload) for note in ours.notes] == [("session", second)]
    assert ours.kinds == ["second_header"]


def test_reading_again_gives_the_same() -> None:
    """A source can be read any number of times, also after a reader gave up, and each time tells the whole."""
    data = lines(message("a", None), message("a", "a"), message(None, "a")) + b"garbage\n"
    source = LinesSource(DIALECT, lambda: io.BytesIO(data), Path("s.jsonl"))
    next(source.drafts())
    assert source.leaf is None
    first = list(source.drafts())
    told, leaf = list(source.problems), source.leaf
    again = source.drafts()
    assert next(again) == first[0]
    assert source.leaf is None
    assert list(again) == first[1:]
    assert source.problems == told != []
    assert source.leaf == leaf == first[-2].id


entries = st.lists(
    st.tuples(
        st.sampled_from(["message", "label", "session_info", "usage", "compaction", "leaf"]),
        st.sampled_from(["a", "b", "c", "d", "e", "f", "g", None]),
        st.sampled_from(["a", "b", "c", "d", "e", "f", "g", None, "gone"]),
    ),
    max_size=12,
)


def _records(shape: list[tuple[str, str | None, str | None]]) -> list[dict[str, Any]]:
    return [entry(kind, name, parent, targetId="a", firstKeptEntryId="b") for kind, name, parent in shape]


@given(entries)
def test_no_entry_is_lost_or_hangs_on_a_note(shape: list[tuple[str, str | None, str | None]]) -> None:
    """However ids and parents are mixed: one draft for each entry, ids unique, no node below a note."""
    ours = read(lines(*_records(shape)))
    notes = {note.id for note in ours.notes}
    stand_ins = [node for node in ours.nodes if node.kind == "label" or node.kind in ("session_info", "usage")]
    assert len(ours.drafts) == len(shape) + len(stand_ins)
    assert len({draft.id for draft in ours.drafts}) == len(ours.drafts)
    assert not notes & set(ours.parents.values())
    assert ours.leaf is None or ours.leaf in ours.parents
    named = {name for _, name, _ in shape}
    for node in ours.nodes:  # a parent that is in the file is found, under whatever id
        assert node.parent is None or node.parent in ours.parents or node.parent not in named


@given(entries, entries)
def test_a_file_that_grew_begins_as_before(
    shape: list[tuple[str, str | None, str | None]], more: list[tuple[str, str | None, str | None]]
) -> None:
    """What is appended to a file changes nothing of what was read before, so an import can be continued."""
    before = read(lines(*_records(shape))).drafts
    assert read(lines(*_records([*shape, *more]))).drafts[: len(before)] == before


class _Endless(io.RawIOBase):
    """A file that is made while it is read."""

    def __init__(self, count: int, text: str) -> None:
        self.count, self.text, self.number, self.rest = count, text, 0, line(HEADER)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.rest and self.number < self.count:
            self.number += 1
            parent = f"{self.number - 1:08x}" if self.number > 1 else None
            self.rest = line(message(f"{self.number:08x}", parent, self.text))
        size = min(len(buffer), len(self.rest))
        buffer[:size], self.rest = self.rest[:size], self.rest[size:]
        return size


def test_memory_does_not_follow_the_file() -> None:
    """Reading 64 MB needs less than 4 MB: the lines pass through, what stays is two ids for each entry."""
    source = LinesSource(DIALECT, lambda: io.BufferedReader(_Endless(8_000, "x" * 8_000)), Path("s.jsonl"))
    tracemalloc.start()
    count = sum(1 for _ in source.drafts())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, source.leaf) == (8_001, f"{8_000:08x}")
    assert peak < 4_000_000


def test_files_of_other_types_can_be_compared_by_line() -> None:
    """Spaces between tokens, Windows line ends and a missing last line break change nothing."""
    records = [HEADER, message("a", None), message("b", "a")]
    tight = "\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    loose = "\r\n \r\n".join(json.dumps(record, separators=(" , ", " : ")) for record in records) + "\r\n"
    one, other = (read(text.encode()).drafts for text in (loose, tight))
    bare = [[msgspec.structs.replace(draft, source=None) for draft in drafts] for drafts in (one, other)]
    assert bare[0] == bare[1]
    assert "".join(f"{(draft.source or {})['raw']}\n" for draft in one) == loose.partition("\n")[2].replace(" \r\n", "")
    assert read(loose.encode()).problems == []
