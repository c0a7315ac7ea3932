"""Stores to be searched, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.session.conftest import backend, store

from treering.api.store import Store
from treering.search import Hit, Index, open_index

__all__ = ["backend", "store"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, where an index is unless another place is named: one of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "cache"


@pytest.fixture
def index(store: Store, tmp_path: Path) -> Iterator[Index]:
    """Its index, in a file of its own."""
    with open_index(store, tmp_path / "index.sqlite") as opened:
        yield opened


def found(index: Index, query: str = "", **filters: object) -> list[str]:
    """The snippets that an up-to-date index gives, in order of text."""
    index.update()
    return sorted(hit.snippet for hit in index.search(query, limit=1000, **filters))  # type: ignore[arg-type]


def everything(index: Index) -> list[tuple[Hit, ...]]:
    """All that an index holds, as searches show it: by time, and by a word that many texts have."""
    kinds = ("prompt", "text", "thinking", "call", "result")
    newest = index.search(kinds=kinds, limit=10_000)
    best = index.search("common", kinds=kinds, limit=10_000)
    return [tuple(newest), tuple(best)]
