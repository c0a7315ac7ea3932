"""The session store: snapshots come back, a snapshot stores what changed, and of two processes the second is told."""

from __future__ import annotations

import random
from typing import Any

import pytest
from agent_framework import AgentSession, InMemoryHistoryProvider, Message
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Outage

from treering.api.store import Store
from treering.errors import HeadMovedError, UnavailableError, UsageError
from treering.integrations.agent_framework import TreeringHistoryProvider, TreeringSessionStore
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

TURNS = 60


def session(**state: Any) -> AgentSession:
    """A session with some state."""
    made = AgentSession(session_id="own", service_session_id={"id": "service"})
    made.state.update(state)
    return made


async def test_sessions_come_back(anywhere: Backend) -> None:
    """As they were, a new object each time, also in another process; a deleted one is gone."""
    first, second = (TreeringSessionStore(anywhere.store()) for _ in range(2))
    assert await second.get("talk") is None
    stored = session(said=[Message("user", ["a"])], deep={"@at": [1.5, None], "": {"type": "other"}})
    await first.set("talk", stored)
    stored.state["deep"]["@at"].append("later")
    found = await second.get("talk")
    assert found is not None
    assert (found.session_id, found.service_session_id) == ("own", {"id": "service"})
    assert found.state["said"][0].text == "a"
    assert found.state["deep"] == {"@at": [1.5, None], "": {"type": "other"}}
    assert (await second.get("talk")) is not found
    await second.set("talk", session(only=1))
    again = await first.get("talk")
    assert again is not None
    assert again.state == {"only": 1}
    await first.delete("talk")
    await first.delete("talk")
    assert await second.get("talk") is None
    await second.set("talk", session(new=1))
    assert await first.get("talk") is not None
    first.close()
    second.close()
    assert anywhere.store().verify("talk") == []


async def test_of_two_processes_the_second_is_told(anywhere: Backend) -> None:
    """Unless the last one is to win; what other classes record in the session is no conflict."""
    first, second = (TreeringSessionStore(anywhere.store()) for _ in range(2))
    await first.set("talk", session())
    one, other = await first.get("talk"), await second.get("talk")
    assert one is not None
    assert other is not None
    one.state["by"] = "one"
    await first.set("talk", one)
    await TreeringHistoryProvider(anywhere.store()).save_messages("talk", [Message("user", ["a"])])
    one.state["more"] = 1
    await first.set("talk", one)
    other.state["by"] = "other"
    with pytest.raises(HeadMovedError, match="another process"):
        await second.set("talk", other)
    found = await second.get("talk")
    assert found is not None
    assert found.state == {"by": "one", "more": 1}
    await TreeringSessionStore(anywhere.store(), on_conflict="replace").set("talk", other)
    with pytest.raises(HeadMovedError):
        await first.set("talk", one)
    await first.set("talk copied", one)
    assert [each.role for each in anywhere.store().view("talk").nodes()] == ["user"]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("met", [False, True])
async def test_a_snapshot_without_an_answer_may_be_set_again(fault: Fault, *, met: bool) -> None:
    """It is no other process's; but another process may have stored one since."""
    outage, memory = Outage(), MemoryDriver()
    store, other = (TreeringSessionStore(Store(Place(each))) for each in (FaultyDriver(memory, outage), memory))
    await store.set("talk", session())
    mine, another = await store.get("talk"), await store.get("talk")
    assert mine is not None
    assert another is not None
    mine.state["turn"] = 1
    outage.begin(fault)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await store.set("talk", mine)
    outage.end()
    if met:
        theirs = await other.get("talk")
        assert theirs is not None
        await other.set("talk", theirs)
        with pytest.raises(HeadMovedError):
            await store.set("talk", mine)
        return
    mine.state["turn"] = 2
    await store.set("talk", mine)
    with pytest.raises(HeadMovedError):
        await store.set("talk", another)
    found = await other.get("talk")
    assert found is not None
    assert found.state == {"turn": 2}


async def test_what_would_not_come_back_is_refused() -> None:
    """A class of the user, an object in the state, an id without a name."""

    class Own(AgentSession):
        pass

    store = TreeringSessionStore(memory_backend().store())
    with pytest.raises(UsageError, match="Own"):
        await store.set("talk", Own())
    with pytest.raises(UsageError, match=r"state\.key"), pytest.warns(RuntimeWarning, match="unsupported"):
        await store.set("talk", session(key=object()))
    for call in (store.get(""), store.delete(""), store.set("", session())):
        with pytest.raises(ValueError, match="non-empty"):
            await call
    with pytest.raises(UsageError, match="on_conflict"):
        TreeringSessionStore(memory_backend().store(), on_conflict="merge")  # type: ignore[arg-type]
    assert await store.get("talk") is None


async def test_a_snapshot_stores_what_is_new() -> None:
    """Of a history in the state, as the framework's own provider in memory keeps it there; each set is one request."""
    backend = memory_backend()
    store, counts = backend.counted()
    sessions, history = TreeringSessionStore(store), InMemoryHistoryProvider()
    rng, made = random.Random(1), session()
    for _ in range(TURNS):
        said = Message("user", ["".join(rng.choices("abcdefghijklmnop", k=1000))])
        await history.save_messages("own", [said], state=made.state.setdefault("in_memory", {}))
        await sessions.set("own", made)
    assert counts.counts["Put"] <= 1.3 * TURNS
    segments = sum(len(data) for key, data in backend.snapshot().items() if "/segments/" in key or "/tail" in key)
    assert segments <= 2 * TURNS * 1000


async def test_an_erased_snapshot_is_told_and_replaced(backend: Backend) -> None:
    """Reading it says that it was erased; it can be stored again, and so can one that this object deleted."""
    store, stored = TreeringSessionStore(backend.store()), session(plan="secret")
    await store.set("talk", stored)
    with backend.store().session("talk", shared=True) as opened:
        opened.erase(state=["agent_framework/state"])
    with pytest.raises(UsageError, match="was erased"):
        await store.get("talk")
    stored.state["plan"] = "new"
    await store.set("talk", stored)
    found = await store.get("talk")
    assert found is not None
    assert found.state == {"plan": "new"}
    await store.delete("talk")
    await store.set("talk", stored)
    assert await store.get("talk") is not None
