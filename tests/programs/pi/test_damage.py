"""The damaged files of the golden folder whose recorded answers are defects: what we do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.programs.pi.reading import Read, collect

from treering.programs.pi.read import open_source


@pytest.fixture
def edge(shared: Path) -> Path:
    """The folder of hand-written hazards."""
    return shared / "golden" / "pi152" / "edge"


def _read(path: Path) -> Read:
    return collect(open_source(path))


def test_glued_records_are_both_read(edge: Path) -> None:
    """The program drops the line and shows one message; all nine are on the path here."""
    ours = _read(edge / "glued_two.jsonl")
    assert [*ours.parents] == ["u1", "a1", "u2", "a2", "u3", "a3", "g1", "g2", "g3"]
    assert [*ours.parents.values()] == [None, "u1", "a1", "u2", "a2", "u3", "a3", "g1", "g2"]
    assert (ours.leaf, ours.kinds) == ("g3", ["glued"])


def test_a_record_behind_a_torn_one_is_read(edge: Path) -> None:
    """Only the torn record is gone; its child is there and keeps naming it."""
    ours = _read(edge / "torn_then_glued.jsonl")
    assert ours.parents["g2"] == "g1"
    assert "g1" not in ours.parents
    assert (ours.leaf, ours.kinds) == ("g3", ["torn"])


def test_a_record_behind_nul_bytes_is_read(edge: Path) -> None:
    """The program drops the record and loses the path above it."""
    ours = _read(edge / "nul_padding_then_append.jsonl")
    assert [*ours.parents.values()] == [None, "u1", "a1", "u2", "a2", "u3"]
    assert ours.kinds == ["nul"]


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [("bom", "bom", 1), ("null_line", "null", 4), ("header_after_garbage", "garbage", 1), ("torn_tail", "torn", 8)],
)
def test_the_session_around_the_damage_is_whole(edge: Path, name: str, kind: str, line: int) -> None:
    """Six messages in a row are read, and the damage is reported with its line."""
    ours = _read(edge / f"{name}.jsonl")
    assert [*ours.parents] == ["u1", "a1", "u2", "a2", "u3", "a3"]
    assert [(problem.kind, problem.line) for problem in ours.problems] == [(kind, line)]


def test_a_header_without_an_id_takes_that_of_the_file(edge: Path) -> None:
    """The session is read, under the name of its file."""
    ours = _read(edge / "header_no_id.jsonl")
    assert (ours.header.session_id, len(ours.nodes), ours.kinds) == ("header_no_id", 6, ["header_id"])


def test_each_of_two_entries_with_one_id_has_its_own_children(edge: Path) -> None:
    """The child written between the two stays below the first, and the one written after both below the second."""
    ours = _read(edge / "dup_ids.jsonl")
    texts = {node.id: node.payload["content"] for node in ours.nodes if node.role == "user"}
    assert [texts[ours.parents[name]] for name in ("d2", "d3")] == ["first d1", "second d1"]


@pytest.mark.parametrize("name", ["cycle", "self_parent"])
def test_circles_are_kept_for_the_graph_to_report(edge: Path, name: str) -> None:
    """Both programs hang on these; the entries are read as they are."""
    ours = _read(edge / f"{name}.jsonl")
    assert ours.problems == []
    circle = {"cycle": {"k1": "k2", "k2": "k1"}, "self_parent": {"s1": "s1"}}[name]
    assert circle.items() <= ours.parents.items()
