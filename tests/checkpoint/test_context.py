from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest
from hypothesis import given, strategies as st

from treering.checkpoint.context import (
    Context,
    Item,
    ItemForm,
    Splice,
    decode_items,
    encode_items,
    replace,
    splice_apply,
    without,
)
from treering.errors import CorruptError
from treering.format.splices import splice_diff

items = st.builds(
    Item,
    node=st.sampled_from("abcdefgh"),
    view=st.sampled_from(["", "summary@1"]),
    message=st.none() | st.sampled_from([b'{"role":"user"}', b"null"]),
)
lists = st.lists(items, max_size=12)


def row(nodes: str) -> tuple[Item, ...]:
    """Return plain items, one for each letter."""
    return tuple(Item(node) for node in nodes)


@given(lists, lists)
def test_splices_turn_the_old_list_into_the_new_one(old: list[Item], new: list[Item]) -> None:
    """For any two lists the splices are exact, in order, and never touch an item twice."""
    splices = splice_diff(old, new)
    assert splice_apply(old, splices) == tuple(new)
    assert (splices == []) == (old == new)


@given(st.lists(items, max_size=12, unique=True), st.data())
def test_what_stays_in_order_is_not_written_again(old: list[Item], data: st.DataObject) -> None:
    """When items are only removed, and unknown ones put in, only the unknown ones are written."""
    kept = [item for item in old if data.draw(st.booleans())]
    new: list[Item] = []
    for item in [*kept, None]:
        new += [Item(f"new{len(new) + number}") for number in range(data.draw(st.integers(0, 2)))]
        new += [item] if item else []
    written = [item for _, _, put in splice_diff(old, new) for item in put]
    assert sorted(written, key=lambda item: item.node) == sorted(
        (item for item in new if item.node.startswith("new")), key=lambda item: item.node
    )


@pytest.mark.parametrize(
    ("old", "new", "splices"),
    [
        ("abc", "abc", []),
        ("abc", "abcde", [(3, 0, row("de"))]),
        ("abcd", "cd", [(0, 2, ())]),
        ("abcd", "cdef", [(0, 2, ()), (4, 0, row("ef"))]),
        ("Sabcd", "ScdeS", [(1, 2, ()), (5, 0, row("eS"))]),
        ("abcd", "abXd", [(2, 1, row("X"))]),
        ("Sabcd", "Tcdef", [(0, 3, row("T")), (5, 0, row("ef"))]),
        ("", "ab", [(0, 0, row("ab"))]),
        ("ab", "", [(0, 2, ())]),
        ("aab", "ab", [(1, 1, ())]),
    ],
)
def test_common_changes_are_as_small_as_they_look(old: str, new: str, splices: list[Splice]) -> None:
    """An append, a cut at the front, an edit in the middle, and a compaction with an append write only what is new."""
    assert splice_diff(row(old), row(new)) == splices


class Counted(str):
    """A node id that counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, str(other))

    __hash__ = str.__hash__


def test_lists_without_order_in_common_cost_few_comparisons() -> None:
    """A list of 3,000 items in reverse order is compared in some steps for each item, not for each pair."""
    old = [Item(Counted(number)) for number in range(3000)]
    Counted.compared = 0
    splices = splice_diff(old, old[::-1])
    assert 0 < Counted.compared < 40 * 3000
    assert splice_apply(old, splices) == tuple(old[::-1])


@pytest.mark.parametrize(
    "splices", [[(4, 0, ())], [(2, 2, ())], [(-1, 1, ())], [(2, 0, ()), (1, 0, ())], [(0, -1, ())]]
)
def test_splices_that_do_not_fit_are_corrupt(splices: list[Splice]) -> None:
    """A splice outside of the list or before the last one is damage, not a shorter context."""
    with pytest.raises(CorruptError, match="does not fit"):
        splice_apply(row("abc"), splices)


@given(lists)
def test_items_survive_as_json(old: list[Item]) -> None:
    """An item is a bare id unless there is more to say, and comes back as it was."""
    raw = msgspec.json.encode(encode_items(old))
    assert decode_items(msgspec.json.decode(raw, type=list[str | ItemForm])) == tuple(old)
    assert msgspec.json.encode(encode_items([Item("n1")])) == b'["n1"]'


def test_a_retracted_node_leaves_the_context() -> None:
    """Every item of the node goes, the settings stay."""
    context = Context(row("abca"), {"model": "m"})
    assert without(context, {"a"}) == Context(row("bc"), {"model": "m"})
    assert without(context, {"z"}) == context


def test_an_amended_node_shows_its_new_message_in_place() -> None:
    """The edit is kept inline under the node's own name and view; a node not shown stays so."""
    context = Context((*row("a"), Item("b", "summary@1"), *row("cb")), {"model": "m"})
    edited = replace(context, {"b": b'{"x":1}'})
    assert edited == Context((*row("a"), Item("b", "summary@1", b'{"x":1}'), *row("c")), {"model": "m"})
    assert replace(context, {"z": b"{}"}) is context
