"""Lists of sessions, as the SDK and Treering show them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from claude_agent_sdk import fold_session_summary, list_sessions_from_store, project_key_for_directory
from tests.integrations.claude.conftest import opened
from tests.integrations.claude.scribe import PROJECT, Scribe, key_of
from tests.session.backends import Backend
from tests.storage.processes import wait_until

from treering.api.store import Store
from treering.errors import CorruptError
from treering.ids import now_ms
from treering.importers import FileImporter
from treering.integrations.claude import TreeringSessionStore
from treering.programs.common.times import write_time
from treering.storage.requests import Answer, Batch, Listed, Put
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place


async def summaries(backend: Backend) -> dict[str, Any]:
    """What another process is told of each session."""
    return {row["session_id"]: row["data"] for row in await opened(backend).list_session_summaries(PROJECT)}


def folded(scribe: Scribe) -> Any:
    """What the SDK makes of the whole transcript."""
    return fold_session_summary(None, scribe.key, scribe.entries)["data"]


def talk(scribe: Scribe) -> None:
    """Say things that change the summary in every way there is."""
    scribe.say("<command-name>/init</command-name>")
    scribe.turn("find out why\nthe clock is wrong", "ls")
    scribe.note("ai-title", aiTitle="A clock")
    scribe.note("tag", tag="urgent")
    scribe.note("last-prompt", lastPrompt="why")
    scribe.note("custom-title", customTitle="The clock")
    scribe.note("tag", tag="")
    scribe.write("user", gitBranch="fix", message={"role": "user", "content": "go on"})


@pytest.mark.parametrize("at_once", [1, 4, 100])
@pytest.mark.parametrize("closed", [True, False])
async def test_summaries_are_the_folds_of_the_sdk(at_once: int, closed: bool, near: Backend) -> None:  # noqa: FBT001
    """A summary is what the SDK's fold makes of all entries, also before any card was written again."""
    scribe, store = Scribe(), opened(near)
    talk(scribe)
    for start in range(0, len(scribe.entries), at_once):
        await store.append(scribe.key, scribe.entries[start : start + at_once])
        if not closed:
            assert (await summaries(near))[scribe.session] == fold_session_summary(
                None, scribe.key, scribe.entries[: start + at_once]
            )["data"]
    if closed:
        await store.close()
    assert await summaries(near) == {scribe.session: folded(scribe)}


async def test_summaries_of_two_writers(near: Backend) -> None:
    """Two processes that append by turns keep one summary."""
    scribe, stores = Scribe(), [opened(near), opened(near)]
    talk(scribe)
    for number, entry in enumerate(scribe.entries):
        await stores[number % 2].append(scribe.key, [entry])
    assert await summaries(near) == {scribe.session: folded(scribe)}


async def test_a_summary_too_large_for_a_card(near: Backend) -> None:
    """A summary that no card can hold is left out, so that the SDK reads the transcript; the session stays listed."""
    scribe, store = Scribe(), opened(near)
    scribe.turn("short")
    scribe.note("custom-title", customTitle="long " * 2000)
    await store.append(scribe.key, scribe.entries)
    await store.append(scribe.key, scribe.turn("more"))
    await store.close()
    assert await summaries(near) == {}
    assert [row["session_id"] for row in await opened(near).list_sessions(PROJECT)] == [scribe.session]


async def test_the_sdk_lists_without_loading(near: Backend, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's list shows titles, prompts, branches; it loads no transcript for that, and leaves out subagents."""
    project = project_key_for_directory(tmp_path)
    store, reading = opened(near), opened(near)
    scribes = [Scribe() for _ in range(3)]
    for scribe in scribes:
        talk(scribe)
        await store.append(scribe.key | {"project_key": project}, scribe.entries)
    agent = Scribe(scribes[0].session, agent="a")
    await store.append(agent.key | {"project_key": project}, agent.turn("look"))

    async def load(_: Any) -> Any:
        raise AssertionError("a list loads no transcript")

    monkeypatch.setattr(reading, "load", load)
    infos = await list_sessions_from_store(reading, str(tmp_path))
    assert {info.session_id for info in infos} == {scribe.session for scribe in scribes}
    assert {(info.summary, info.first_prompt, info.git_branch, info.tag) for info in infos} == {
        ("The clock", "find out why the clock is wrong", "fix", None)
    }


async def test_the_newest_is_the_last_written(near: Backend) -> None:
    """What was appended to last comes last in time, though another session's card was written after it."""
    first, second = Scribe(), Scribe()
    store = opened(near)
    await store.append(first.key, first.turn("one"))
    await store.append(second.key, second.turn("two"))
    await store.close()
    closed_ms = max(row["mtime"] for row in await store.list_sessions(PROJECT))
    wait_until(lambda: time.time_ns() // 1_000_000 > closed_ms + 20)  # clocks of disks tick more slowly
    await opened(near).append(first.key, first.turn("three"))
    times = {row["session_id"]: row["mtime"] for row in await opened(near).list_sessions(PROJECT)}
    assert times[first.session] > times[second.session]


class OneSecond(DriverWrapper):
    """Tells one time for everything that is stored, as an object store does for what is written within a second."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch; see `Driver.execute`."""
        return tuple(map(_at_one_time, self.inner.execute(batch)))

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Likewise."""
        return tuple(map(_at_one_time, await self.inner.aexecute(batch)))


def _at_one_time(answer: Answer) -> Answer:
    if not isinstance(answer, Listed):
        return answer
    entries = [msgspec.structs.replace(entry, modified_ms=1_700_000_000_000) for entry in answer.entries]
    return Listed(tuple(entries), more=answer.more)


async def test_the_newest_of_one_second(near: Backend) -> None:
    """Of conversations that were written within one second, the one that was appended to last comes last in time."""
    store, scribes = TreeringSessionStore(Store(Place(OneSecond(near.driver())))), [Scribe() for _ in range(4)]
    for scribe in (*scribes, scribes[1]):
        said = [entry | {"timestamp": write_time(now_ms())} for entry in scribe.turn("go on")]
        await store.append(scribe.key, said)
        done_ms = now_ms()
        wait_until(lambda: now_ms() > done_ms)  # noqa: B023  # called at once
    for _ in range(2):
        rows = sorted(await store.list_sessions(PROJECT), key=lambda row: row["mtime"])
        assert [row["session_id"] for row in rows] == [scribes[place].session for place in (0, 2, 3, 1)]
        summed = {row["session_id"]: row["mtime"] for row in await store.list_session_summaries(PROJECT)}
        assert summed == {row["session_id"]: row["mtime"] for row in rows}
        await store.close()


async def test_closing_is_no_activity(near: Backend) -> None:
    """A conversation that is closed after others were appended to is no newer than they are."""
    first, second, slow = Scribe(), Scribe(), opened(near)
    await slow.append(first.key, first.turn("one"))
    appended_ms = max(row["mtime"] for row in await slow.list_sessions(PROJECT))
    wait_until(lambda: time.time_ns() // 1_000_000 > appended_ms + 20)  # clocks of disks tick more slowly
    await opened(near).append(second.key, second.turn("two"))
    await slow.close()
    times = {row["session_id"]: row["mtime"] for row in await opened(near).list_sessions(PROJECT)}
    assert times[second.session] > times[first.session]


async def test_other_sessions_beside(near: Backend) -> None:
    """Sessions of Treering's own in the same namespace are listed like others, and have no entries."""
    with near.store().namespace(PROJECT).session("mine") as session:
        session.append("hello")
    store = opened(near)
    assert [row["session_id"] for row in await store.list_sessions(PROJECT)] == ["mine"]
    assert await store.list_session_summaries(PROJECT) == []
    assert await store.load(key_of("mine")) is None


async def test_damage_is_told(near: Backend) -> None:
    """A damaged session is an error when it is loaded, never an empty one; lists show it and the others."""
    store, scribe, other = opened(near), Scribe(), Scribe()
    await store.append(scribe.key, scribe.turn("one"))
    await store.append(other.key, other.turn("two"))
    keys = near.store().namespace(PROJECT).place.keys(scribe.session)
    near.driver().execute((Put(keys.latest, b"damaged"),))
    rows = await opened(near).list_sessions(PROJECT)
    assert {row["session_id"] for row in rows} == {scribe.session, other.session}
    assert await summaries(near) == {other.session: folded(other)}
    with pytest.raises(CorruptError, match=scribe.session):
        await opened(near).load(scribe.key)


async def test_sessions_from_files(near: Backend, tmp_path: Path) -> None:
    """A session imported from a file is one of the SDK's: loaded, listed, gone on with, summed up from its start."""
    scribe = Scribe()
    talk(scribe)
    agent = Scribe(scribe.session, agent="a1")
    agent.turn("look", "ls")
    files = {f"{scribe.session}.jsonl": scribe, f"{scribe.session}/subagents/agent-a1.jsonl": agent}
    importer = FileImporter(near.store().namespace(PROJECT))
    for name, written in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in written.entries))
        importer.load(path)
    store = opened(near)
    assert await store.load(scribe.key) == scribe.entries
    assert await store.load(agent.key) == agent.entries
    assert await store.list_subkeys(scribe.key) == ["subagents/agent-a1"]
    assert await summaries(near) == {}  # so the SDK reads the transcript
    await store.append(scribe.key, scribe.turn("more"))
    assert await opened(near).load(scribe.key) == scribe.entries
    assert await summaries(near) == {scribe.session: folded(scribe)}
