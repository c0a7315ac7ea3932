"""Searching as a type checker sees it. Never run: mypy checks it, and each `type: ignore` must be needed."""

from __future__ import annotations

from typing import assert_type

from treering import AsyncStore, Store, TreeringError
from treering.search import Hit, Index, Updated, forget, open_index


def _report(done: int, total: int) -> None:
    assert done <= total


def search(store: Store, other: AsyncStore) -> None:
    """An index is opened for either kind of store, brought up to date and asked."""
    assert_type(open_index(other), Index)
    assert_type(forget(store, "fix-login", "node", path="index"), bool)
    with open_index(store, "index") as index:
        assert_type(index.update(_report), Updated)
        assert_type(index.update().problems, tuple[tuple[str, TreeringError], ...])
        hits = index.search("words", kinds=["prompt"], project=None, since_ms=0, order="newest", limit=5)
        assert_type(hits, list[Hit])
        assert_type(hits[0].marks, tuple[tuple[int, int], ...])
        index.search("words", order="worst")  # type: ignore[arg-type]
        index.search("words", colour="red")  # type: ignore[call-arg]
