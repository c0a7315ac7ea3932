"""Every file of the golden folder goes in and comes out: the same bytes, and the same when it goes in once more."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import find_shared
from tests.golden.folder import SYSTEMS, Golden, find_golden

import treering
from treering.errors import TreeringError
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import ImportSource
from treering.programs.formats import Format, find_format
from treering.transcript.node import Draft

DAMAGED = {"bom", "garbage", "glued", "nul", "torn", "nesting"}
"""Kinds of problems that stand for bytes which are no record, or records that had no line to themselves."""


def _files() -> list[Any]:
    shared = find_shared()
    if shared is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no shared test data: set TREERING_SHARED"))]
    return [
        pytest.param(golden, id=f"{golden.system}-{golden.stem}")
        for golden in find_golden(shared / "golden")
        if golden.system in SYSTEMS
    ]


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://files-{new_nonce()}")
    yield store
    store.close()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("golden", _files())
def test_a_file_comes_out_as_it_went_in(golden: Golden, store: treering.Store, tmp_path: Path) -> None:
    """The export has the bytes of the file, or of its records where others are damaged, and is read as the file was.

    One file in eight here, all with `make whole`.
    """
    found = find_format(SYSTEMS[golden.system].format)
    try:
        source = found.open_source(golden.path, blobs=golden.blobs if golden.blobs.is_dir() else None)
    except TreeringError:
        return  # no session; what is said of it is compared elsewhere
    first = _loaded(store, "first", source, found)
    path = tmp_path / golden.path.name.removesuffix(".gz")
    export(store.view("first"), path, format=found.NAME)
    if not DAMAGED & {problem.kind for problem in source.problems}:
        assert path.read_bytes() == _data(golden.path)
    again = _loaded(store, "again", found.open_source(path), found)
    assert again == first
    assert [item.message for item in store.view("again").recorded_context] == [
        item.message for item in store.view("first").recorded_context
    ]


def _loaded(store: treering.Store, name: str, source: ImportSource, found: Format) -> list[Draft]:
    """Import a file; what became of it, without what is said of damage and its places."""
    store.load(name, source.drafts(), leaf=lambda: source.leaf, policy=found.POLICIES[0])
    drafts = [draft for draft in source.drafts() if draft.kind not in ("import", "damage")]
    made: dict[str | None, int] = {draft.id: number for number, draft in enumerate(drafts)}
    return [_numbered(draft, made) for draft in drafts]


def _numbered(draft: Draft, made: dict[str | None, int]) -> Draft:
    """A draft with numbers for ids: damage counts when ids are made, and is gone the second time."""

    def number(name: object) -> object:
        return str(made.get(name, name)) if isinstance(name, str) else name

    brief = {
        name: number(value) if name in ("kept", "target") else value for name, value in (draft.brief or {}).items()
    }
    ids: dict[str, Any] = {name: number(getattr(draft, name)) for name in ("id", "parent", "target")}
    return msgspec.structs.replace(draft, **ids, brief=brief)


def _data(path: Path) -> bytes:
    """The bytes of a file, uncompressed."""
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
