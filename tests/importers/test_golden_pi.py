"""Whole files, compared with what the real programs answered for them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.conftest import find_shared
from tests.importers.reading import Read, collect

from treering.errors import UsageError
from treering.format import values
from treering.format.record import BRIEF_BYTES_MAX
from treering.importers import open_source

REFUSED = {"empty", "header_missing", "header_second", "title_slot", "title_slot_bad", "title_slot_overrides_header"}
"""Files without a header at their start: one of the two programs overwrites them, we refuse them like the other."""
UNLIKE = {
    "bom": "pi 1.5 refuses a byte order mark",
    "dup_ids": "pi shows the later of two entries with one id to the children of both",
    "glued_two": "pi loses both records and then the path",
    "header_no_id": "one program destroys the file, the other refuses it",
    "nul_padding_then_append": "pi loses the record behind the bytes and then the path",
    "null_line": "pi 0.73 crashes",
    "torn_then_glued": "pi loses the record behind the torn one",
}
"""Recorded defects; `test_pi_damage` says what we do instead."""


class Golden(NamedTuple):
    path: Path
    expected: dict[str, Any]


def _files(*without: str) -> list[Any]:
    shared = find_shared()
    if shared is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no shared test data: set TREERING_SHARED"))]
    paths = sorted(path for version in ("pi073", "pi152") for path in (shared / "golden" / version).glob("*/*.jsonl"))
    return [pytest.param(path, id=f"{path.parts[-3]}-{path.stem}") for path in paths if path.stem not in without]


def _golden(path: Path) -> Golden:
    return Golden(path, msgspec.json.decode(path.with_suffix(".expect.json").read_bytes()))


def _entries(path: Path) -> list[dict[str, Any]]:
    """The entries by the standard of the recorded programs: one JSON object on each line, or nothing."""
    found = [_parse(line) for line in path.read_bytes().decode("utf-8", "replace").split("\n")]
    return [value for value in found if isinstance(value, dict) and value.get("type") != "session"]


def _parse(line: str) -> Any:
    try:
        return json.loads(line.strip("\ufeff \t\r"))
    except ValueError:
        return None


def _names(golden: Golden, ours: Read) -> dict[str, str]:
    """Our ids by those that the program gave, entry by entry."""
    theirs = [identifier for identifier in golden.expected["entry_ids"] if identifier is not None]
    found = [draft for draft in ours.drafts if (draft.source or {}).get("id", draft.id) is not None]
    if golden.path.stem == "id_absent":
        found = [draft for draft in found if draft.payload["content"] != "user q"]
    found = [draft for draft in found if draft.kind != "session"]
    assert len(found) == len(theirs)
    if ours.header.version > 1:
        assert [draft.id for draft in found] == theirs
    return {their: draft.id for their, draft in zip(theirs, found, strict=True) if draft.id is not None}


@pytest.mark.parametrize("path", _files(*REFUSED, *UNLIKE))
def test_every_file_is_read_as_the_program_reads_it(path: Path) -> None:
    """Entries, order, leaf, paths, labels, compactions and title are those of the program, labels aside as notes."""
    golden = _golden(path)
    ours, expected = collect(open_source(path)), golden.expected
    assert {draft.type for draft in ours.drafts} <= {"node", "note"}
    names = _names(golden, ours)
    assert ours.leaf == _node_at(names.get(expected["open"]["leaf"]), ours)
    _check_paths(expected, names, ours)
    assert _labels(ours) == {names[target]: text for target, text in expected["labels"].items()}
    assert _kept(ours) == [_kept_by_pi(found, names) for found in expected["compactions"]]
    assert _title(ours) == (expected["open"]["session_name"] or "")


def _node_at(name: str | None, ours: Read) -> str | None:
    """Climb from a note over the ids of the file to the first node."""
    notes = {draft.id: (draft.links or {}).get("source_parent") for draft in ours.notes}
    while name in notes:
        name = notes[name]
    return name


def _check_paths(expected: dict[str, Any], names: dict[str, str], ours: Read) -> None:
    nodes = ours.parents
    for case in expected.get("cases", ()):  # none where the program hangs
        branch = case.get("branch")
        if not branch or case["leaf"] == "no-such-id":
            continue
        path = [names[name] for name in branch if names.get(name) in nodes]
        last = names[branch[-1]]
        assert _path(_node_at(last, ours), nodes) == path, case["leaf"]


def _path(leaf: str | None, parents: dict[str, str | None]) -> list[str]:
    path: list[str] = []
    while leaf in parents and leaf not in path:
        path.insert(0, leaf)
        leaf = parents[leaf]
    return path


def _labels(ours: Read) -> dict[str, str]:
    labels = {draft.target: (draft.brief or {}).get("label") for draft in ours.notes if draft.kind == "label"}
    return {target: text for target, text in labels.items() if text and target in ours.parents}


def _kept(ours: Read) -> list[tuple[str, str | None]]:
    found = [draft for draft in ours.nodes if draft.kind == "compaction"]
    return [(draft.id, draft.brief.get("kept")) for draft in found]


def _kept_by_pi(found: dict[str, Any], names: dict[str, str]) -> tuple[str, str | None]:
    kept = found["firstKeptEntryId"] or None
    if kept == "lb":
        kept = "k1"  # a label, and what follows it on the path
    return names[found["id"]], names.get(kept, kept)


def _title(ours: Read) -> str:
    titles = [draft.brief["title"] for draft in ours.notes if draft.kind == "title"]
    return (titles[-1] if titles else "") or ""


# The program's tree leaves a cycle out, and holds entries without ids.
@pytest.mark.parametrize("path", _files(*REFUSED, *UNLIKE, "cycle", "id_absent", "nonobject_lines"))
def test_children_stand_as_in_the_program_once_notes_are_taken_out(path: Path) -> None:
    """The whole tree is that of the program, with the children of a note joined to the node above it."""
    golden = _golden(path)
    ours = collect(open_source(path))
    names = _names(golden, ours)
    expected = _without_notes(golden.expected["tree"], names, set(ours.parents))
    parents = {child: parent for parent, child in _edges(expected, None)}
    existing = {
        name: parent if parent in ours.parents and parent != name else None for name, parent in ours.parents.items()
    }
    assert existing == parents


def _without_notes(tree: list[Any], names: dict[str, str], nodes: set[str]) -> list[Any]:
    out: list[Any] = []
    for name, _label, children in tree:
        below = _without_notes(children, names, nodes)
        out += [[names[name], below]] if names[name] in nodes else below
    return out


def _edges(tree: list[Any], parent: str | None) -> list[tuple[str | None, str]]:
    return [edge for name, below in tree for edge in ((parent, name), *_edges(below, name))]


# In the last three, lines are not entries.
@pytest.mark.parametrize("path", _files(*REFUSED, "glued_two", "torn_then_glued", "nul_padding_then_append"))
def test_no_value_of_an_entry_is_lost(path: Path) -> None:
    """Every value in the file is found again in the draft of its entry, wherever its place is now."""
    drafts = [draft for draft in collect(open_source(path)).drafts if draft.kind != "session"]
    entries = _entries(path)
    assert len(entries) == len(drafts)
    for entry, draft in zip(entries, drafts, strict=True):
        kept = msgspec.structs.asdict(draft)
        time = kept["time_ms"]
        kept["iso"] = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        missing = _values({name: value for name, value in entry.items() if name != "type"}) - _values(kept)
        if path.stem == "deep_nesting":
            missing -= {1}  # inside what is kept as text
        assert not missing - {None, ""}


@pytest.mark.parametrize("path", _files(*REFUSED))
def test_every_draft_can_be_stored_exactly(path: Path) -> None:
    """Payload, brief and source of each draft come back as they are from the form in which they are stored."""
    for draft in collect(open_source(path)).drafts:
        for value in (draft.payload, draft.brief, draft.source):
            assert values.decode(values.encode(value)) == value
        assert len(values.encode(draft.brief)) <= BRIEF_BYTES_MAX


def _values(value: Any) -> set[Any]:
    if isinstance(value, dict):
        return {found for part in value.values() for found in _values(part)}
    if isinstance(value, list | tuple):
        return {found for part in value for found in _values(part)}
    return {value} if not hasattr(value, "value") else set()


@pytest.mark.parametrize("stem", sorted(REFUSED))
@pytest.mark.parametrize("version", ["pi073", "pi152"])
def test_files_without_a_header_are_refused_and_left_alone(shared: Path, version: str, stem: str) -> None:
    """Where one program overwrites the file and the other refuses, the error names it and nothing is written."""
    path = shared / "golden" / version / "edge" / f"{stem}.jsonl"
    before = path.read_bytes()
    with pytest.raises(UsageError, match=stem):
        open_source(path)
    assert path.read_bytes() == before


def test_the_golden_folder_is_read_completely(shared: Path) -> None:
    """No file of the two folders goes unnoticed, and every exception above exists there."""
    found = [param.values[0] for param in _files()]
    assert len(found) == 2 * (88 + 16)
    assert (REFUSED | set(UNLIKE)) <= {path.stem for path in found}


@pytest.mark.parametrize("answer", ["pi073", "pi152"])
def test_a_real_session_is_read_as_the_program_reads_it(shared: Path, answer: str) -> None:
    """1,019 lines of version 1, compressed: counts, order, settings and every recorded path agree."""
    folder = shared / "golden" / "fixtures"
    expected = msgspec.json.decode((folder / f"large-session.{answer}.expect.json").read_bytes())
    ours = collect(open_source(folder / "large-session.jsonl.gz"))
    assert ours.problems == []
    assert len(ours.drafts) == 1_018
    counts = {kind: sum(draft.kind == kind for draft in ours.nodes) for kind in {draft.kind for draft in ours.nodes}}
    assert counts == {"message": 914, "thinking_change": 103, "model_change": 1}
    roles = [draft.role for draft in ours.nodes if draft.kind == "message"]
    assert {role: roles.count(role) for role in set(roles)} == {"assistant": 453, "toolResult": 373, "user": 88}
    names = dict(zip(expected["entry_ids"], (draft.id for draft in ours.nodes), strict=True))
    assert len(set(names.values())) == 1_018
    assert ours.leaf == names[expected["open"]["leaf"]]
    _check_paths(expected, names, ours)
    assert ours.header.session_id == "d703a1a9-1b7b-4fb1-b512-c9738b1fe617"
    assert (ours.header.version, ours.header.cwd) == (1, "/Users/badlogic/workspaces/pi-mono")
    assert ours.header.extra == {"provider": "anthropic", "modelId": "claude-sonnet-4-5", "thinkingLevel": "off"}
