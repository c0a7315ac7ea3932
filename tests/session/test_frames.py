"""Frames of segments and rows of tails that the handles of a store remember together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from treering.api.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

SECRET = "the secret"


def sealed(driver: MemoryDriver) -> str:
    """Write a session whose records are in a segment; returns the node that says a secret."""
    with Store(Place(driver)).session("s") as session:
        node = session.append(SECRET, *[f"message {number}" * 500 for number in range(50)]).nodes[0]
        session.seal()
        session.append("now the tail begins behind the segment")
    return node


def remembered(store: Store) -> list[bytes]:
    """The contents of frames that a store remembers."""
    return [content for content, _ in store.place.memory().frames._held.values()]


def test_a_page_that_was_shown_is_not_read_again() -> None:
    """The next handle of the same store, as a server opens one for each request, reads both registers and no more."""
    driver = MemoryDriver()
    sealed(driver)
    counts = CountingDriver(driver)
    store = Store(Place(counts))
    first = store.view("s").history(limit=100)
    counts.reset()
    assert store.view("s").history(limit=100) == first
    assert counts.counts == {"Get": 2}


def erase_here(_: MemoryDriver, store: Store, node: str) -> None:
    """Erase what a node says, through the same store."""
    with store.session("s") as session:
        session.erase(node)


def erase_elsewhere(driver: MemoryDriver, _: Store, node: str) -> None:
    """Erase it as another process would."""
    with Store(Place(driver)).session("s") as session:
        session.erase(node)


@pytest.mark.parametrize("erase", [erase_here, erase_elsewhere])
def test_what_was_erased_is_forgotten(erase: Callable[[MemoryDriver, Store, str], None]) -> None:
    """A store that looks at a session again remembers no frame with what was erased, by itself or another process."""
    driver = MemoryDriver()
    node = sealed(driver)
    store = Store(Place(driver))
    store.view("s").history(limit=100)
    assert any(SECRET.encode() in content for content in remembered(store))
    erase(driver, store, node)
    assert store.view("s").get(node).erased
    assert store.view("s").history(limit=100).rows[-1].node.erased
    assert not any(SECRET.encode() in content for content in remembered(store))


def decoded(store: Store) -> int:
    """How many rows of the tail a new handle decodes to show a page."""
    view, count = store.view("s"), 0

    def see(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "skeleton_of"

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        view.history()
    finally:
        sys.setprofile(before)
    return count


def test_a_row_of_a_log_is_decoded_once(tmp_path: Path) -> None:
    """The next handle of the same store decodes what was added to the tail since, and no more."""
    store = Store(Place(LocalDriver(tmp_path)))
    with store.session("s") as session:
        session.append(*["said"] * 20)
        assert decoded(store) == session.stored().records
        assert decoded(store) == 0
        before = session.stored().records
        session.append("more")
        assert decoded(store) == session.stored().records - before


def test_each_handle_sees_the_tail_that_it_read(tmp_path: Path) -> None:
    """Rows that a later handle of the same store read are not shown by an earlier one, nor the other way round."""
    store = Store(Place(LocalDriver(tmp_path)))
    with store.session("s") as session:
        first = session.append("question").node
        early = store.view("s")
        assert early.children(first) == ()
        second = session.append("answer").node
        late = store.view("s")
        assert late.children(first) == (second,)
        assert early.children(first) == ()
        assert len(early.history().rows) == 1
        assert store.view("s").children(first) == (second,)
        session.erase(first)
        assert store.view("s").get(first).erased
        assert late.children(first) == (second,)
