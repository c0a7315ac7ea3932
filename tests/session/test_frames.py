"""Frames of segments that the handles of a store remember together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treering.api.store import Store
from treering.storage.counting import CountingDriver
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
