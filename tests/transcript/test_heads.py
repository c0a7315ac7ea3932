from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from tests.transcript.records import Records, forked

from treering.errors import CorruptError
from treering.transcript.heads import Heads, Placed, decode_heads, heads_of

names = st.sampled_from(["main", "main-2", "idea"])
targets = st.none() | st.sampled_from(["a", "b"])


def test_nodes_move_their_heads_and_the_first_makes_its_head_current() -> None:
    """Appending moves the named head, makes it if need be, and leaves the current one alone."""
    heads = heads_of(forked())
    assert heads.heads == {"main": "b1", "main-2": "d", "main-3": "b3"}
    assert heads.current == "main"
    assert heads.tip == "b1"
    records = Records()
    records.node("a", head="idea")
    assert heads_of(records).current == "idea"


def test_navigation_moves_a_head_and_makes_it_current() -> None:
    """A head record moves its head to a node or before the first one; the user is there from then on."""
    records = forked()
    records.move("main-2", "c")
    heads = heads_of(records)
    assert (heads.heads, heads.current) == ({"main": "b1", "main-2": "c", "main-3": "b3"}, "main-2")
    records.move("main-2", None)
    assert heads_of(records).tip is None
    assert "main-2" in heads_of(records).heads


def test_a_head_moved_aside_does_not_become_current() -> None:
    """A branch can be made without going there."""
    records = forked()
    records.move("idea", "a", current=False)
    heads = heads_of(records)
    assert heads.heads["idea"] == "a"
    assert heads.current == "main"


@pytest.mark.parametrize(
    ("dropped", "current"), [(["main-2"], "main"), (["main"], "main-2"), (["main", "main-2", "main-3"], "main")]
)
def test_a_dropped_head_is_forgotten(dropped: list[str], current: str) -> None:
    """Only the name goes; if it was the current one, the first that is left takes over."""
    records = forked()
    for name in dropped:
        records.move(name, None, kind="drop")
    heads = heads_of(records)
    assert not set(dropped) & set(heads.heads)
    assert heads.current == current


def test_main_takes_over_from_another_head_that_is_dropped() -> None:
    """After an experiment is dropped, the user is back on main."""
    records = Records()
    records.node("a", head="idea")
    records.node("b", "a", head="main")
    records.node("c", "a", head="next")
    records.move("next", "c")
    records.move("next", None, kind="drop")
    assert heads_of(records).current == "main"


def test_nothing_but_nodes_and_head_records_moves_a_head() -> None:
    """Notes, edits, checkpoints and unknown types leave every head where it is, whatever fields they have."""
    records = forked()
    before = heads_of(records)
    for kind in ("note", "edit", "checkpoint", "hologram"):
        records.add("label", type=kind, head="main", target="a")
    records.node("beside", "a", head="")
    assert heads_of(records) == before


def test_free_names_count_up_from_two() -> None:
    """A name in use gets the first number that is free."""
    heads = heads_of(forked())
    assert heads.free_name("idea") == "idea"
    assert heads.free_name("main") == "main-4"
    assert heads.free_name("main-2") == "main-2-2"


def test_heads_say_where_they_were_placed() -> None:
    """By the last record that moved them, or by their first node; a head made again forgets the one before it."""
    records = Records()
    records.node("a", head="main")
    records.node("b", "a", head="main")
    records.node("c", "a", head="idea")
    assert heads_of(records).placed == {"main": Placed(0, None, 0), "idea": Placed(2, "a", 2)}
    records.move("idea", "b")
    assert (heads_of(records).placed or {})["idea"] == Placed(3, "b", 2)
    records.move("idea", None, kind="drop")
    records.move("idea", "a")
    assert (heads_of(records).placed or {})["idea"] == Placed(5, "a", 5)


def test_heads_of_an_early_version_do_not_say_where_they_were_placed() -> None:
    """Then nobody knows, also after further records, and nothing wrong is written."""
    heads = decode_heads({"heads": {"main": "a"}, "current": "main"})
    assert heads.placed is None
    records = Records()
    records.node("b", "a", head="idea")
    assert heads.apply(next(iter(records))).placed is None
    assert "placed" not in heads.encode()


@given(st.lists(st.tuples(st.sampled_from(["node", "head", "drop", "aside"]), names, targets), max_size=20))
def test_heads_are_values_and_survive_storage(moves: list[tuple[str, str, str | None]]) -> None:
    """Applying records one by one gives the same as all at once, changes nothing given before, and is kept as JSON."""
    records = Records()
    for sort, name, target in moves:
        if sort == "node":
            records.node(target or "c", head=name)
        else:
            brief = {"current": False} if sort == "aside" else {}
            records.move(name, target, kind="drop" if sort == "drop" else "checkout", **brief)
    heads = Heads()
    for record in records:
        before, held = heads, dict(heads.heads)
        heads = heads.apply(record)
        assert before.heads == held
    assert heads == heads_of(records)
    assert decode_heads(heads.encode()) == heads
    assert heads.current in heads.heads if heads.heads else heads.current == "main"


def test_damaged_heads_are_refused() -> None:
    """What is not the shape of heads is reported, not guessed at."""
    with pytest.raises(CorruptError, match="heads are not readable"):
        decode_heads({"heads": ["main"]})
