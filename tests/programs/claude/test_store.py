"""Files of Claude Code, and what its SDK keeps in a store: one becomes the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.programs.claude.sessions import SESSION, Chance
from tests.sampling import few

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, read

pytest.importorskip("claude_agent_sdk")

from treering.integrations.claude import TreeringSessionStore

PROJECT = "-repo"
KEY: Any = {"project_key": PROJECT, "session_id": SESSION}


def _with(store: treering.Store, work: Any) -> Any:
    """Run something with a session store of the SDK."""

    async def run() -> Any:
        async with TreeringSessionStore(store) as sessions:
            return await work(sessions)

    return asyncio.run(run())


@settings(max_examples=few(2, whole=8))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 5))
def test_what_the_sdk_stored_becomes_the_file(
    random: Random, turns: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The export of a session that the SDK wrote is the file that Claude Code wrote meanwhile, to the byte."""
    talk, path = Chance(random, turns), tmp_path_factory.mktemp("claude") / f"{SESSION}.jsonl"

    async def append(sessions: TreeringSessionStore) -> None:
        for start in range(0, len(talk.entries), 3):
            await sessions.append(KEY, talk.entries[start : start + 3])  # type: ignore[arg-type]  # plain objects

    with closing(treering.open(f"memory://claude-{new_nonce()}")) as store:
        _with(store, append)
        done = export(store.namespace(PROJECT).view(SESSION), path, format="claude")
    assert path.read_bytes() == talk.data
    assert (done.left_out, done.same_context) == ([], True)


def test_the_sdk_finds_what_was_imported(tmp_path: Path) -> None:
    """A file that was brought in with `treering import` is one that the SDK can resume from the store."""
    talk = Chance(Random(3), 5)
    more = {**talk.entries[-1], "uuid": "more", "parentUuid": talk.entries[-1]["uuid"]}

    def load(sessions: TreeringSessionStore) -> Coroutine[Any, Any, Any]:
        return sessions.load(KEY)

    async def append(sessions: TreeringSessionStore) -> None:
        await sessions.append(KEY, [*talk.entries[-2:], more])  # type: ignore[list-item]  # plain objects

    with closing(treering.open(f"memory://claude-{new_nonce()}")) as store:
        project = store.namespace(PROJECT)
        FileImporter(project).load(talk.save(tmp_path))
        assert _with(store, load) == talk.entries
        _with(store, append)
        assert _with(store, load) == [*talk.entries, more]
        export(project.view(SESSION), tmp_path / "out.jsonl", format="claude")
    assert [entry.record for entry in read(tmp_path / "out.jsonl").entries] == [*talk.entries, more]
