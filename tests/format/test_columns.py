"""Columns: every skeleton comes back, whatever ids and references look like."""

import pytest
from hypothesis import example, given, strategies as st

from treering.format.columns import Rows, pack
from treering.format.integers import pack_integers, unpack_integers
from treering.format.record import TIME_MS_MAX, Skeleton
from treering.ids import new_id, time_of

OURS = [new_id() for _ in range(6)]
# Few ids, so that duplicates, circles and references forward and outside all happen.
ids = st.sampled_from([*OURS, "8f3a", "8F3A", "", "\ud800", "é", OURS[0].upper(), OURS[0][:-1]])
texts = st.sampled_from(["", "node", "message", "main", "\ud800"])
links = st.none() | st.dictionaries(ids, ids, max_size=2)
rows = st.tuples(
    texts,
    texts,
    ids,
    st.none() | ids,
    texts,
    texts,
    st.none() | ids,
    st.sampled_from([None, 0, -1, TIME_MS_MAX, -TIME_MS_MAX]),
    links,
    st.sampled_from([b"{}", b'{"a":1}', b"{ }"]),
    st.integers(0, 2**33),
    st.booleans(),
)

Row = tuple[str, str, str, str | None, str, str, str | None, int | None, dict[str, str] | None, bytes, int, bool]


def skeletons_of(drawn: list[Row], first: int) -> list[Skeleton]:
    """Skeletons at consecutive positions; a time of None is that of the id."""
    made = []
    for at, row in enumerate(drawn, first):
        form, kind, name, parent, head, role, target, time, link, brief, length, critical = row
        resolved = (time_of(name) or 0) if time is None else time
        made.append(Skeleton(at, form, kind, name, parent, head, role, target, resolved, link, brief, length, critical))
    return made


@given(st.lists(rows, min_size=1, max_size=12), st.integers(0, 2**40))
def test_round_trip(drawn: list[Row], first: int) -> None:
    """Skeletons come back from their columns as they were."""
    skeletons = skeletons_of(drawn, first)
    rows = Rows(pack(skeletons))
    assert rows.skeletons(first) == skeletons
    assert [rows.skeleton(row, first + row) for row in range(len(rows))] == skeletons


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)))
@example([-(2**63)])
def test_integers_round_trip(values: list[int]) -> None:
    """Integers of up to 64 bits come back."""
    assert unpack_integers(pack_integers(values)) == values


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ([], "01"),
        ([0, 1, -1], "01 00 01 ff"),
        ([127, -128], "01 7f 80"),
        ([-128], "01 80"),
        ([128, 1], "02 80 01 00 00"),
        ([-129], "02 7f ff"),
        ([2**15], "04 00 80 00 00"),
        ([2**31, 1], "08 00 01 00 00 00 00 80 00 00 00 00 00 00 00 00 00"),
    ],
)
def test_bytes_of_integers(values: list[int], column: str) -> None:
    """The narrowest width is taken, and bytes stand plane by plane, lowest first."""
    assert pack_integers(values) == bytes.fromhex(column)


@pytest.mark.parametrize("column", ["", "00", "03 00 00 00", "02 00", "04 00 00"])
def test_malformed_integers(column: str) -> None:
    """What is no integer column is refused."""
    with pytest.raises(ValueError, match="malformed"):
        unpack_integers(bytes.fromhex(column))


def test_parents_share_their_text() -> None:
    """A parent among the same rows is the same object as that row's id, which saves a third of the memory."""
    shape = ("node", "")
    rest = ("", "", None, None, None, b"{}", 1, False)
    skeletons = skeletons_of([(*shape, OURS[0], None, *rest), (*shape, OURS[1], OURS[0], *rest)], first=0)
    first, second = Rows(pack(skeletons)).skeletons(0)
    assert second.parent is first.id
