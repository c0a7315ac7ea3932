"""The skeletons of a session by column: whatever they were made of, they say what a list of the records says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from operator import attrgetter

import pytest
from hypothesis import given, strategies as st
from tests.format.test_chunk import index_1, records
from tests.format.test_columns import Row, skeletons_of
from tests.format.test_parts import packed

from treering.errors import UsageError
from treering.format.chunk import Chunk
from treering.format.columns import pack
from treering.format.erasure import NONE, Burials, Erasure
from treering.format.parts import read_chunk
from treering.format.record import Skeleton
from treering.format.skeletons import SINGLES_MAX, Skeletons


def messages(count: int, *, heads: int = 1) -> list[Skeleton]:
    """Nodes without parents."""
    rows: list[Row] = [
        ("node", "message", f"{at:032x}", None, f"head {at % heads}", "", None, None, None, b'{"a":1}', 9, False)
        for at in range(count)
    ]
    return skeletons_of(rows, 0)


def chunks_of(skeletons: list[Skeleton], version: int, size: int) -> list[Chunk]:
    """The chunks of a segment of some records."""
    first = skeletons[0].at
    if version == 1:
        index = index_1(pack(skeletons), first, len(skeletons))
        return [read_chunk(b"", index.chunks[0], index)]
    data, index = packed(skeletons, size=size)
    return [read_chunk(data[span.start : span.end], span, index) for span in index.chunks]


def held(skeletons: list[Skeleton], draw: Callable[[int], int], burials: Burials = NONE) -> Skeletons:
    """Hold some records by column: in segments of any versions and sizes, some of which overlap, and behind them."""
    sealed = draw(len(skeletons) + 1)
    found = Skeletons(burials=burials)
    while len(found) < sealed:
        first = max(0, len(found) - draw(3))
        end = min(len(skeletons), len(found) + 1 + draw(len(skeletons)))
        for chunk in chunks_of(skeletons[first:end], 1 + draw(2), 1 + draw(5)):
            found.add_chunk(chunk, sealed)
    found.extend(skeletons[len(found) :])
    return found


def require_same(found: Skeletons, skeletons: Sequence[Skeleton], chosen: list[int]) -> None:
    """Compare everything that is asked for by column with a list of the records."""
    assert [found[row] for row in chosen] == [skeletons[row] for row in chosen]
    assert found.take(chosen) == [skeletons[row] for row in chosen]
    assert len(found) == len(skeletons)
    assert found.end == (skeletons[-1].at + 1 if skeletons else 0)
    assert list(found.ids) == [each.id for each in skeletons]
    names = [(each.type, each.kind, each.role, each.head, each.critical) for each in skeletons]
    assert [found.names[code] for code in found.codes] == names
    assert found.times() == [each.time for each in skeletons]
    assert found.linked() == [row for row, each in enumerate(skeletons) if each.links]
    assert found.targets(chosen) == [skeletons[row].target for row in chosen]
    assert found.parent_ids(chosen) == [skeletons[row].parent for row in chosen]
    assert found.places(chosen) == [skeletons[row].at for row in chosen]
    for first in (0, len(skeletons) // 2):
        nodes = [row for row, each in enumerate(skeletons) if row >= first and each.type == "node"]
        assert found.rows(lambda name: name[0] == "node", first) == nodes
    outside = dict(found.outside)
    for row, parent in enumerate(found.parents):
        named = outside.get(row, found.ids[parent] if parent != row else None)
        assert named == skeletons[row].parent
        assert found.ahead or parent <= row
    assert list(found) == list(skeletons)
    assert found[1:-1] == list(skeletons[1:-1])
    assert list(reversed(found)) == list(skeletons[::-1])


@given(st.lists(records, max_size=14), st.data())
def test_columns_say_what_the_records_say(drawn: list[Row], data: st.DataObject) -> None:
    """Of any ids and references, in segments of both versions, taken in part, and behind them."""
    skeletons = skeletons_of(drawn, 0)
    found = held(skeletons, lambda end: data.draw(st.integers(0, max(0, end - 1))))
    chosen = [row for row in range(len(skeletons)) if data.draw(st.booleans())]
    require_same(found, skeletons, chosen)


def test_erased_records_are_shown_as_such() -> None:
    """Made alone or with the others of their chunk."""
    skeletons = messages(90)
    burials = Burials([(3, 1), (50, 2)], [Erasure(epoch=1, records=((3, skeletons[3].id), (50, skeletons[50].id)))])
    expected = burials.bury_rows(list(skeletons))
    assert expected != skeletons
    for seed in range(5):
        rng = random.Random(seed)
        found = held(skeletons[:60], lambda end, rng=rng: 60 if end == 61 else rng.randrange(end), burials)  # type: ignore[misc]
        found.extend(expected[len(found) :])
        require_same(found, expected, list(range(0, 90, 3)))


def test_who_looks_at_many_rows_of_a_chunk_has_them_made_together() -> None:
    """Each is made once then, and stays what it is."""
    found = Skeletons()
    for chunk in chunks_of(messages(100), 2, 1024):
        found.add_chunk(chunk, 100)
    singles = [found[5] for _ in range(SINGLES_MAX)]
    assert singles[0] is not singles[1]
    assert found[5] is found[5] == singles[0]


def test_records_come_in_order_without_a_gap() -> None:
    """What would put a row at a wrong position is refused."""
    skeletons = messages(8)
    found = Skeletons()
    with pytest.raises(UsageError, match="gap"):
        found.add_chunk(chunks_of(skeletons[4:], 2, 1024)[0], 8)
    found.add_chunk(chunks_of(skeletons[:4], 2, 1024)[0], 8)
    with pytest.raises(UsageError, match="in order"):
        found.append(skeletons[3])
    found.append(skeletons[6])
    assert list(map(attrgetter("at"), found)) == [0, 1, 2, 3, 6]
    assert (found.end, found.places([3, 4])) == (7, [3, 6])


def test_more_names_than_a_byte_counts() -> None:
    """Many heads, in chunks and behind them."""
    skeletons = messages(1500, heads=700)
    for sealed in (0, 100, 200, 1000, 1500):
        found = Skeletons()
        for chunk in chunks_of(skeletons[:sealed], 2, 90) if sealed else ():
            found.add_chunk(chunk, sealed)
        found.extend(skeletons[sealed:])
        require_same(found, skeletons, list(range(0, 1500, 7)))
