"""Which segments say that the walk along rows could go wrong in them, and sessions with indexes of both versions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.format.segment_v1 import build_segment_1
from tests.session.backends import Backend, memory_backend

from treering import Draft
from treering.format.index import SegmentIndex
from treering.format.paths import SessionKeys
from treering.format.segment import read_footer, read_segment
from treering.journal.merge import merge
from treering.journal.read import survey
from treering.session import loader
from treering.storage.requests import Put
from treering.storage.run import run

KEYS = SessionKeys("", "s", appends=False)
FOREIGN = ["ann", "bob", "eve"]


def segments_of(backend: Backend) -> list[str]:
    """The keys of all segments, in order."""
    return sorted(key for key in backend.snapshot() if "/segments/" in key)


def index_of(backend: Backend, key: str) -> SegmentIndex:
    """The index of a segment."""
    data = backend.snapshot()[key]
    index = read_footer(data, len(data), key=key)
    assert isinstance(index, SegmentIndex)
    return index


def odd(backend: Backend) -> list[bool]:
    """What each segment says."""
    return [index_of(backend, key).odd for key in segments_of(backend)]


def recorded(ids: Sequence[str | None]) -> Backend:
    """A session with a segment for each message, of which some have ids of their caller."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        for name in ids:
            session.append(Draft(role="user", payload={"role": "user", "content": f"I am {name}"}, id=name))
            session.seal()
    return backend


def make_early(backend: Backend, numbers: Sequence[int]) -> None:
    """Write some segments anew, with an index of version 1."""
    for number in numbers:
        key = segments_of(backend)[number]
        data = build_segment_1(read_segment(backend.snapshot()[key], key=key))
        backend.driver().execute((Put(key, data),))


def merged(backend: Backend, first: int) -> list[bool]:
    """What the segments say after all from the given one on were merged."""
    driver = backend.driver()
    where = run(survey(KEYS), driver)
    run(merge(where, where.segments[first:], unique="f" * 12), driver)
    return odd(backend)


def test_ids_of_callers_are_not_doubted() -> None:
    """They are looked up before they are recorded, or the caller promised that they are new."""
    assert odd(recorded(FOREIGN)) == [False] * 3
    assert merged(recorded(FOREIGN), 1) == [False] * 2


@pytest.mark.parametrize("early", [[0], [1], [2], [0, 1, 2]])
def test_both_versions_in_one_session(early: list[int]) -> None:
    """Segments of both versions are read, checked and merged together."""
    backend = recorded([None, "ann", None])
    plain = backend.store().view("s")
    nodes, page = [row.id for row in plain.nodes()], plain.history(limit=9)
    make_early(backend, early)
    assert [index_of(backend, key).version for key in segments_of(backend)] == [
        1 + (row not in early) for row in range(3)
    ]
    assert backend.store().verify("s") == []
    view = backend.store().view("s")
    assert [row.id for row in view.nodes()] == nodes
    assert view.history(limit=9) == page
    with backend.store().session("s") as session:
        session.optimize(everything=True)
        assert [row.id for row in session.nodes()] == nodes
    assert {index_of(backend, key).version for key in segments_of(backend)} == {2}
    assert backend.store().verify("s") == []


def test_doubt_of_early_segments_is_kept_by_a_merge() -> None:
    """An id of an early segment that is not ours may occur in segments before; if there are none, it is known."""
    backend = recorded([*FOREIGN, None])
    make_early(backend, [1])
    assert odd(backend) == [False, True, False, False]
    assert merged(backend, 1) == [False, True]
    assert merged(backend, 0) == [False]
    backend = recorded([None, None, "ann"])
    make_early(backend, [0, 1])
    assert odd(backend) == [False, False, False]
    assert merged(backend, 1) == [False, False]


def test_doubt_of_early_segments_is_kept_by_an_erasure() -> None:
    """A segment that is written anew without a payload is as doubtful as it was."""
    backend = recorded(FOREIGN)
    make_early(backend, [0, 2])
    with backend.store().session("s") as session:
        for name in ("ann", "eve"):
            session.erase(name)
    assert odd(backend) == [False, False, True]
    assert {index_of(backend, key).version for key in segments_of(backend)} == {2}


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ([("a", None), ("b", "a"), ("c", "b")], [False] * 3),
        ([("a", "gone"), ("b", "a"), ("c", "b")], [False] * 3),
        ([("a", None), ("b", "a"), ("a", "b"), ("c", "b")], [False, False, True, True]),
        ([("a", "c"), ("b", "a"), ("c", "b"), ("d", "c")], [False, False, True, True]),
        ([("a", "a"), ("b", "a")], [True, True]),
        ([("b", "a"), ("a", None)], [False, False]),
    ],
    ids=["plain", "orphan", "twice", "circle", "itself", "later"],
)
def test_what_an_import_knows(
    links: list[tuple[str, str | None]], expected: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded session knows its ids: a segment with one that came before, and what follows it, is odd."""
    monkeypatch.setattr(loader, "SEGMENT_BYTES", 1)  # a segment for each record
    backend = memory_backend()
    drafts = [
        Draft(role="user", payload={"role": "user", "content": name}, id=name, parent=parent) for name, parent in links
    ]
    backend.store().load("s", drafts, leaf=lambda: links[-1][0])
    assert odd(backend)[: len(links)] == expected
    assert set(odd(backend)[len(links) :]) <= {expected[-1]}
    assert all(finding.severity == "oddity" for finding in backend.store().verify("s"))


@pytest.mark.parametrize("apart", [False, True])
def test_a_parent_that_is_no_node(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001  # a parameter
    """A node below a note is odd, also if the note is in an earlier segment."""
    if apart:
        monkeypatch.setattr(loader, "SEGMENT_BYTES", 1)
    backend = memory_backend()
    drafts = [
        Draft(role="user", payload={"role": "user", "content": "1"}, id="a"),
        Draft(type="note", kind="label", payload="x", id="n", target="a", brief={"label": "x"}),
        Draft(role="user", payload={"role": "user", "content": "2"}, id="b", parent="n"),
    ]
    backend.store().load("s", drafts, leaf=lambda: "b")
    assert odd(backend)[: 3 if apart else 1] == ([False, False, True] if apart else [True])


def test_records_of_other_types_count() -> None:
    """A node with the id of a note is as odd as two nodes with one id."""
    backend = memory_backend()
    drafts = [
        Draft(role="user", payload={"role": "user", "content": "1"}, id="a"),
        Draft(type="note", kind="label", payload="x", id="b", target="a", brief={"label": "x"}),
        Draft(role="user", payload={"role": "user", "content": "2"}, id="b", parent="a"),
    ]
    backend.store().load("s", drafts, leaf=lambda: "b")
    assert odd(backend)[0]
