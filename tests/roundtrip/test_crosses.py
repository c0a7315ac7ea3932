"""Every file of the golden folder, written for every other program: nothing fails, and what is said is still said."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from tests.conftest import find_shared
from tests.golden.folder import SYSTEMS, Golden, find_golden
from tests.programs.claude.sessions import Chance
from tests.programs.pi.reading import entry, lines, message
from tests.programs.pi.test_round_trip import sessions
from tests.roundtrip.test_others_generated import KINDS, documents, files
from tests.sampling import few

import treering
from treering.errors import TreeringError
from treering.exporters import Exported, export
from treering.ids import new_nonce
from treering.importers import SessionFile, read
from treering.programs.common.target import targets
from treering.programs.formats import find_format
from treering.transcript.parts import parts_of

SPEAKERS = {"user", "assistant", "human", "ai"}


def _files() -> list[Any]:
    shared = find_shared()
    if shared is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="no shared test data: set TREERING_SHARED"))]
    return [
        pytest.param(golden, id=f"{golden.system}-{golden.stem}")
        for golden in find_golden(shared / "golden")
        if golden.system in SYSTEMS and golden.path.suffix != ".gz"
    ]


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://crosses-{new_nonce()}")
    yield store
    store.close()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("golden", _files())
def test_a_file_becomes_one_of_every_other_program(golden: Golden, store: treering.Store, tmp_path: Path) -> None:
    """Each program is given what the model saw, in its own words; what it lacks is reported.

    One file in ten here, all with `make whole`.
    """
    found = find_format(SYSTEMS[golden.system].format)
    try:
        source = found.open_source(golden.path, blobs=golden.blobs if golden.blobs.is_dir() else None)
    except TreeringError:
        return  # no session; what is said of it is compared elsewhere
    store.load("s", source.drafts(), leaf=lambda: source.leaf, policy=found.POLICIES[0])
    for name in targets():
        path = tmp_path / f"out-{name}"
        done = export(store.view("s"), path, format=name)
        _compare(store.view("s"), read(path, format=name), done)


def _compare(view: treering.View, file: SessionFile, done: Exported) -> None:
    """Each text of a message that the model saw is in one that the program sends, or messages are reported."""
    there = "\n".join(text for shown in file.context(file.leaf).messages for text in _strings(shown.message))
    missing = [text for text in _said(view) if text not in there]
    reported = sum(left.count for left in done.left_out if left.seen)
    assert len(missing) <= reported, (file.format, missing, done.left_out)
    assert done.same_context or reported


def _said(view: treering.View) -> Iterator[str]:
    messages = {node.id for node in view.nodes() if node.kind == "message"}
    for item in (item for item in view.context if item.node in messages):
        message: Any = item.message
        role = message.get("role", message.get("Role")) if isinstance(message, dict) else None
        if role in SPEAKERS:
            texts = [part.text for part in parts_of(_typed(message)) if part.kind == "text"]
            yield from (line for text in texts for line in text.split("\n") if line.strip())


def _typed(message: dict[str, Any]) -> dict[str, Any]:
    """A message as kit sends it has blocks without types."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    blocks = [{"type": "text", **block} if isinstance(block, dict) and "text" in block else block for block in content]
    return {**message, "content": [block for block in blocks if not isinstance(block, dict) or "type" in block]}


def _strings(value: object) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


_ROUND = [entry("message", "d", "h"), message("g", "d"), entry("compaction", "h", "g", firstKeptEntryId="h")]
"""A circle, in which a compaction keeps from itself."""


@settings(max_examples=few(8, whole=25))
@given(sessions(wild=True))
@example(found=_ROUND)
def test_any_session_of_pi_becomes_one_of_every_other_program(found: list[dict[str, Any]]) -> None:
    """However odd a file is, no program's format refuses it."""
    _cross("pi", lines(*found), ".jsonl")


@settings(max_examples=few(5, whole=15))
@given(files(KINDS["operator"]))
def test_any_session_of_operator_becomes_one_of_every_other_program(data: bytes) -> None:
    """However odd a file is, no program's format refuses it."""
    _cross("operator", data, ".jsonl")


@settings(max_examples=few(5, whole=15))
@given(files(KINDS["kit"]))
def test_any_session_of_kit_becomes_one_of_every_other_program(data: bytes) -> None:
    """However odd a file is, no program's format refuses it."""
    _cross("kit", data, ".jsonl")


@settings(max_examples=few(5, whole=15))
@given(documents())
def test_any_session_of_evva_becomes_one_of_every_other_program(data: bytes) -> None:
    """However odd a document is, no program's format refuses it."""
    _cross("evva", data, ".json")


@settings(max_examples=few(5, whole=15))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 5))
def test_any_session_of_claude_becomes_one_of_every_other_program(random: Random, turns: int) -> None:
    """Whatever happened in a session, no program's format refuses it."""
    _cross("claude", Chance(random, turns).data, ".jsonl")


def _cross(name: str, data: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(treering.open(f"memory://{new_nonce()}")) as store:
        path = Path(folder, f"given{suffix}")
        path.write_bytes(data)
        source = find_format(name).open_source(path)
        store.load("s", source.drafts(), leaf=lambda: source.leaf, policy=find_format(name).POLICIES[0])
        for target in targets():
            done = export(store.view("s"), Path(folder, f"out-{target}"), format=target)
            assert done.same_context or any(left.seen for left in done.left_out)
