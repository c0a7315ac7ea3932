"""Entries that come twice: retried after a lost reply, sent by another process, imported again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.integrations.claude.conftest import opened
from tests.integrations.claude.scribe import PROJECT, key_of
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Unreliable, tail_write

from treering.api.store import Store
from treering.errors import UnavailableError
from treering.integrations.claude import TreeringSessionStore
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan, seeded_plan
from treering.storage.requests import Driver
from treering.store.place import Place

KEY = key_of("s")
MODE: Any = {"type": "mode", "mode": "plan"}


def named(*names: str) -> list[Any]:
    """Entries with these uuids, each behind the one before."""
    return [
        {"type": "user", "uuid": name, "parentUuid": before, "message": {"role": "user", "content": name}}
        for before, name in zip([None, *names], names, strict=False)
    ]


def store_on(driver: Driver) -> TreeringSessionStore:
    """A store of transcripts, opened by a new process."""
    return TreeringSessionStore(Store(Place(driver)))


async def test_the_same_uuid_is_recorded_once(backend: Backend) -> None:
    """Entries that are recorded already add nothing: in the same process, in another, in one batch with new ones."""
    store, (one, two, three) = opened(backend), named("1", "2", "3")
    await store.append(KEY, [one, two])
    await store.append(KEY, [one, two])
    await opened(backend).append(KEY, [two, three, three])
    await opened(backend).append(KEY, [one, two, three])
    assert await store.load(KEY) == [one, two, three]


async def test_the_first_one_counts(near: Backend) -> None:
    """A uuid is the identity of its entry: what comes with it later is left out, whatever it says."""
    (one,) = named("1")
    await opened(near).append(KEY, [one])
    await opened(near).append(KEY, [one | {"later": True}])
    assert await opened(near).load(KEY) == [one]


async def test_equal_entries_without_uuid_both_stay(near: Backend) -> None:
    """Entries without a uuid are never taken for each other: not in a batch, and not in a later one."""
    store = opened(near)
    await store.append(KEY, [MODE, MODE])
    await store.append(KEY, [MODE])
    await opened(near).append(KEY, [MODE])
    assert await opened(near).load(KEY) == [MODE] * 4


async def test_a_repeated_batch_adds_nothing(near: Backend) -> None:
    """A batch that is recorded already adds nothing from another process, its entries without uuid neither."""
    one, two, three = named("1", "2", "3")
    batch = [MODE, one, MODE, MODE, two, MODE]
    await opened(near).append(KEY, batch)
    await opened(near).append(KEY, batch)
    await opened(near).append(KEY, [*batch, three, MODE])
    assert await opened(near).load(KEY) == [*batch, three, MODE]


async def test_a_gap_is_filled_behind(near: Backend) -> None:
    """An import after a gap adds what was dropped, behind what came since, and nothing twice."""
    one, two, three = named("1", "2", "3")
    await opened(near).append(KEY, [one, MODE])
    await opened(near).append(KEY, [three, MODE])
    await opened(near).append(KEY, [one, MODE, two, MODE, three, MODE])
    assert await opened(near).load(KEY) == [one, MODE, three, MODE, two, MODE]


async def test_another_title_in_the_same_place_is_new(near: Backend) -> None:
    """Behind an entry that came before, an entry without uuid is only left out if it is equal to what stands there."""
    (one,) = named("1")
    await opened(near).append(KEY, [one, MODE])
    code: Any = {"type": "mode", "mode": "code"}
    await opened(near).append(KEY, [one, code])
    assert await opened(near).load(KEY) == [one, MODE, code]


async def test_several_faults_in_a_row() -> None:
    """An append whose reply is lost is not forgotten when the store does not answer the first retry either."""
    inner = memory_backend().driver()
    faults = iter([Fault.AFTER, *[Fault.BEFORE] * 4])  # two looks at both registers are lost
    broken: list[bool] = []
    faulty = FaultyDriver(inner, lambda _: next(faults, Fault.NONE) if broken else Fault.NONE)
    store = store_on(faulty)
    await store.append(KEY, named("1"))
    broken.append(True)
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await store.append(KEY, [MODE, MODE])
    await store.append(KEY, [MODE, MODE])
    assert await store_on(inner).load(KEY) == [*named("1"), MODE, MODE]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
@pytest.mark.parametrize("place", range(4, 20))
async def test_retry_after_a_fault(fault: Fault, place: int) -> None:
    """Whichever request fails, and whether it took effect or not: the same call again leaves each entry there once."""
    inner = memory_backend().driver()
    faulty = FaultyDriver(inner, scripted_plan([Fault.NONE] * place + [fault]))
    store = store_on(faulty)
    done: list[Any] = []
    for batch in ([*named("1", "2"), MODE], [MODE, MODE], [MODE], named("3")):
        for _ in range(3):
            try:
                await store.append(KEY, batch)
            except UnavailableError:
                continue
            done += batch
            break
    assert done.count(MODE) == 4
    faulty.settle()
    assert await store_on(inner).load(KEY) == done


@pytest.mark.parametrize("after", range(8))
async def test_a_retry_that_fails_behind_the_recorded_batch(after: int) -> None:
    """What the first try recorded is known then, and the next retry does not record it again."""
    bucket = Unreliable()
    store, (one, two) = TreeringSessionStore(bucket.store), named("1", "2")
    await store.append(KEY, [one])
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        await store.append(KEY, [MODE, MODE])
    await TreeringSessionStore(bucket.sound).append(KEY, [one, two])
    with bucket.sound.namespace(PROJECT).session("s", shared=True, create=False) as other:
        for title in ("t", "u"):  # nothing of it stays in the registers
            other.seal()
            other.set_title(title)
    bucket.plan.arm(Fault.BEFORE, after=after)
    try:
        await store.append(KEY, [MODE, MODE])
    except UnavailableError:
        await store.append(KEY, [MODE, MODE])
    assert await TreeringSessionStore(bucket.sound).load(KEY) == [one, MODE, MODE, two]


async def test_somebody_else_was_faster(near: Backend) -> None:
    """An overtaken append is planned again: its entries keep their uuids and their places."""
    here, there, entries = opened(near), opened(near), named("1", "2", "3", "4")
    for number, entry in enumerate(entries):
        await (here, there)[number % 2].append(KEY, [entry, MODE])
    view = near.store().namespace(PROJECT).view("s")
    assert view.path() == ("1", "2", "3", "4")
    assert await here.load(KEY) == [each for entry in entries for each in (entry, MODE)]


@given(st.integers(0, 2**32))
def test_retries_of_two_processes(seed: int) -> None:
    """Two processes send the same entries on a failing network until they are told that all are recorded: once each."""
    rng = random.Random(seed)
    inner = memory_backend().driver()
    plan = seeded_plan(rng, 0.2)
    stores = [store_on(FaultyDriver(inner, plan, lands=lambda: rng.random() < 0.5)) for _ in range(2)]
    entries = named(*map(str, range(12)))
    asyncio.run(_send_all(stores, entries, rng))
    loaded: Any = asyncio.run(store_on(inner).load(KEY))
    assert Counter(entry["uuid"] for entry in loaded) == Counter(entry["uuid"] for entry in entries)


async def _send_all(stores: list[TreeringSessionStore], entries: list[Any], rng: random.Random) -> None:
    places = [0, 0]
    while min(places) < len(entries):
        who = rng.randrange(2)
        start = places[who]
        end = min(len(entries), start + rng.randint(1, 4))
        try:
            await stores[who].append(KEY, entries[start:end])
        except UnavailableError:
            continue
        places[who] = end


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
async def test_a_subagent_is_linked_once(fault: Fault) -> None:
    """However the first call ended, and whoever made it: the conversation has one link to the subagent."""
    subagent = KEY | {"subpath": "subagents/agent-a"}
    for after in range(30):
        bucket = Unreliable()
        await TreeringSessionStore(bucket.sound).append(KEY, named("1"))
        bucket.plan.arm(fault, after=after)
        first = TreeringSessionStore(bucket.store)
        for store in (first, first, TreeringSessionStore(bucket.sound)):
            with suppress(UnavailableError):
                await store.append(subagent, named("2"))
        bucket.settle()
        links = bucket.sound.namespace(PROJECT).view("s").notes("link")
        assert [link.brief["child"] for link in links] == ["s/subagents/agent-a"], after
        if not bucket.plan.pending:  # the fault came
            continue
        assert after > 8
        return
    raise AssertionError("more requests than expected")
