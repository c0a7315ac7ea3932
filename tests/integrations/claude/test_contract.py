"""The contract of `SessionStore`: the SDK's own suite, and what its words promise beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from tests.integrations.claude.conftest import S3_WHOLE, opened
from tests.integrations.claude.scribe import PROJECT, Scribe, key_of
from tests.session.backends import Backend
from tests.session.faults import Unreliable

from treering.errors import UnavailableError
from treering.integrations.claude import TreeringSessionStore
from treering.storage.faulty import Fault


@pytest.mark.parametrize("kind", ["memory", "local", S3_WHOLE])
async def test_conformance(kind: str, make_backend: Callable[[str], Backend]) -> None:
    """The store passes the SDK's conformance suite, with all optional methods, on every kind of store."""
    await run_session_store_conformance(lambda: opened(make_backend(kind)))


ODD: list[Any] = [
    {"type": "x"},
    {"type": "x"},
    {"type": "user", "uuid": "", "message": "no object"},
    {
        "type": "user",
        "uuid": "u1",
        "message": {"role": "user", "content": "a"},
        "zebra": 1,
        "apple": {"b": [], "a": {}},
    },
    {"type": "x", "uuid": "u2", "parentUuid": "later", "float": 1e300, "small": 5e-324, "zero": -0.0, "one": 1.0},
    {
        "type": "assistant",
        "uuid": "u3",
        "parentUuid": "u3",
        "message": {"content": [{"type": "text", "text": "\ud800"}]},
    },
    {
        "type": "user",
        "uuid": "later",
        "parentUuid": "u1",
        "message": {"content": None},
        "big": 2**70,
        "$ref": {"$a": 1},
    },
    {"type": "system", "subtype": "compact_boundary", "uuid": "u4", "parentUuid": None, "logicalParentUuid": "nowhere"},
    {"type": "custom-title", "customTitle": "t" * 5000},
    {"type": "title", "uuid": "u5", "payload": {"$erased": {"sha256": ""}}, "image": "iVBORw0KGgo" * 9000},
    {"type": "card", "claude": {"first_prompt": "not ours"}},
    {"type": "link", "uuid": "u6", "brief": {"child": "x"}},
    {
        "type": "user",
        "uuid": "u7",
        "timestamp": "yesterday",
        "message": {"role": "user", "content": "$", "x": "\x00\u2028"},
    },
    {
        "type": "user",
        "uuid": "0" * 12 + "7" + "0" * 3 + "8" + "0" * 15,
        "message": {"role": "user", "content": "like ours"},
    },
    {"type": "progress", "uuid": "u8", "parentUuid": "u7", "data": [[[["deep"]]]], "true": True, "null": None},
]


def copied(*entries: Any) -> list[Any]:
    """Entries of their own, as callers have them."""
    return [dict(entry) for entry in entries]


async def test_entries_come_back_equal(backend: Backend) -> None:
    """What is loaded is equal to what was appended, in the same order: odd shapes, numbers, texts, large parts."""
    await opened(backend).append(key_of("s"), copied(*ODD))
    loaded: Any = await opened(backend).load(key_of("s"))
    assert loaded == ODD
    zero = loaded[4]["zero"]
    assert [list(entry) for entry in loaded] == [list(entry) for entry in ODD]
    assert math.copysign(1, zero) == -1


async def test_one_by_one(near: Backend) -> None:
    """It makes no difference whether entries come together or one by one, from one process or from many."""
    for entry in ODD:
        await opened(near).append(key_of("s"), copied(entry))
    assert await opened(near).load(key_of("s")) == ODD


async def test_whole_transcripts(near: Backend) -> None:
    """A conversation as Claude Code writes it comes back entry by entry."""
    scribe = Scribe()
    scribe.turn("find it", "ls", "cat a", "cat b")
    scribe.note("custom-title", customTitle="Clock")
    scribe.compact("we looked")
    scribe.turn("mend it", "sed")
    store = opened(near)
    for start in range(0, len(scribe.entries), 3):
        await store.append(scribe.key, scribe.entries[start : start + 3])
    assert await store.load(scribe.key) == scribe.entries


async def test_entries_nested_too_deep(near: Backend) -> None:
    """An entry nested deeper than a payload may be is kept as text, and comes back equal, as do those beside it."""
    deep: Any = "core"
    for _ in range(300):
        deep = [deep]
    scribe = Scribe()
    for kind, fields in (("user", {"message": {"role": "user", "content": deep}}), ("progress", {"data": deep})):
        scribe.say("before")
        scribe.write(kind, **fields)
    scribe.note("mode", mode=deep)
    scribe.answer("behind")
    await opened(near).append(scribe.key, scribe.entries)
    await opened(near).append(scribe.key, scribe.entries)
    assert await opened(near).load(scribe.key) == scribe.entries


async def test_large_batches_are_split(near: Backend) -> None:
    """The SDK forks a session in a single call: it is recorded in several appends, and nothing is lost or moved."""
    scribe = Scribe()
    for number in range(60):
        scribe.say(f"{number} " + "abcdefgh" * 12_500)
    await opened(near).append(scribe.key, scribe.entries)
    assert await opened(near).load(scribe.key) == scribe.entries


async def test_subagents_are_linked_sessions(near: Backend) -> None:
    """A subagent's transcript is a session of its own; each of the two sessions names the other."""
    main = Scribe()
    agent = Scribe(main.session, agent="a1")
    main.turn("go", "ls")
    agent.turn("look around", "ls")
    store = opened(near)
    await store.append(main.key, main.entries)
    await store.append(agent.key, agent.entries)
    name = f"{main.session}/subagents/agent-a1"
    project = near.store().namespace(PROJECT)
    assert project.view(name).info.parent_session == main.session
    view = project.view(main.session)
    assert view.checkpoint(str(view.checkpoint_id)).policy == "claude"  # so other programs show it as Claude Code does
    (link,) = view.notes("link")
    assert link.brief["child"] == name
    assert await store.load(main.key) == main.entries
    assert await store.load(agent.key) == agent.entries
    assert (await opened(near).list_subkeys(main.key)) == ["subagents/agent-a1"]


async def test_subagent_before_its_conversation(near: Backend) -> None:
    """A subagent's transcript may come before that of its conversation; the conversation is then not made up."""
    agent = Scribe(agent="a1")
    agent.turn("look around")
    await opened(near).append(agent.key, agent.entries)
    assert await opened(near).list_sessions(PROJECT) == []
    assert await opened(near).load(agent.key) == agent.entries


async def test_a_conversation_behind_its_subagent_has_a_working_folder(near: Backend) -> None:
    """The store opened it for the link to the subagent, before it had an entry."""
    main = Scribe()
    agent = Scribe(main.session, agent="a1")
    agent.turn("look around")
    main.turn("go", "ls")
    store = opened(near)
    await store.append(agent.key, agent.entries)
    await store.append(main.key, main.entries)
    assert near.store().namespace(PROJECT).view(main.session).info.cwd == "/home/ada/clock"


@pytest.mark.parametrize("session", ["a/b", "a%2Fb", "a", "..", "CON", "ü" * 80])
async def test_any_session_id(session: str, near: Backend) -> None:
    """Any string is a session id; none is taken for a subagent of another, and long ones are listed, too."""
    store = opened(near)
    await store.append(key_of(session), copied(ODD[0]))
    await store.append(key_of(session, "b"), copied(ODD[0]))
    assert [row["session_id"] for row in await store.list_sessions(PROJECT)] == [session]
    assert await store.list_subkeys(key_of(session)) == ["b"]
    await store.delete(key_of(session))
    assert await store.load(key_of(session, "b")) is None


async def test_deleted_and_begun_again(near: Backend) -> None:
    """A session that another process deleted begins anew with the next append; nothing of the old one comes back."""
    store, scribe = opened(near), Scribe()
    await store.append(scribe.key, scribe.turn("first"))
    await opened(near).delete(scribe.key)
    again = scribe.turn("second")
    await store.append(scribe.key, again)
    assert await store.load(scribe.key) == again


async def test_use_in_several_event_loops(near: Backend) -> None:
    """A store made outside an event loop serves one loop after the other."""
    import asyncio

    store: TreeringSessionStore = opened(near)
    scribe = Scribe()

    def in_a_loop_of_its_own(text: str) -> None:
        asyncio.run(store.append(scribe.key, scribe.turn(text)))

    for text in ("one", "two"):
        await asyncio.to_thread(in_a_loop_of_its_own, text)
    assert await store.load(scribe.key) == scribe.entries


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_deletion_that_was_interrupted_is_finished_by_the_next(fault: Fault) -> None:
    """Whichever request of it had no answer: nothing stays of a subagent, although it counts as deleted."""
    entries = Scribe().turn("first")
    for after in range(100):
        bucket = Unreliable()
        store = TreeringSessionStore(bucket.sound)
        for key in (key_of("s"), key_of("s", "subagents/agent-a"), key_of("s", "subagents/agent-b")):
            await store.append(key, entries)
        await store.close()
        place = bucket.sound.namespace(PROJECT)
        for row in list(place.each_session()):
            with place.session(row.id, shared=True) as session:
                session.seal()
        bucket.plan.arm(fault, after=after)
        with suppress(UnavailableError):
            await TreeringSessionStore(bucket.store).delete(key_of("s"))
        came = not bucket.plan.pending
        bucket.plan.disarm()
        await TreeringSessionStore(bucket.store).delete(key_of("s"))
        assert [key for key in bucket.memory.snapshot() if "/segments/" in key] == [], after
        if not came:
            return
    raise AssertionError("a deletion without end")
