"""Counting, retrying, and failing on purpose."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from treering.errors import ConflictError, PoisonedError, UnavailableError
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan, seeded_plan
from treering.storage.memory import MemoryDriver
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Batch,
    Delete,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Version,
    Written,
)
from treering.storage.retrying import RetryingDriver
from treering.storage.wrapper import DriverWrapper
from treering.testing.conformance import ask, ask_any

LOST = (Fault.BEFORE, Fault.AFTER, Fault.LATE)


def faulty(*faults: Fault, inner: MemoryDriver | None = None) -> FaultyDriver:
    """Return a driver that deals out these faults in turn."""
    return FaultyDriver(inner or MemoryDriver(appends=True), scripted_plan(faults))


class Waits:
    """A retrying driver that waits for nothing but notes how long it would have."""

    def __init__(self, inner: FaultyDriver | DriverWrapper, **limits: float) -> None:
        self.waited: list[float] = []
        self.counting = CountingDriver(inner, keep=True)  # type: ignore[arg-type]  # a bare wrapper has no execute
        options = {"attempts_max": int(limits.get("attempts_max", 5)), "seconds_max": limits.get("seconds_max", 20.0)}
        self.driver = RetryingDriver(self.counting, sleep=self.waited.append, asleep=self._note, **options)  # type: ignore[arg-type]

    async def _note(self, seconds: float) -> None:
        self.waited.append(seconds)


# Counting


def test_requests_and_bytes_are_counted() -> None:
    """Every request counts once, with the payload it carried up or down; batches count apart."""
    counting = CountingDriver(MemoryDriver(appends=True), keep=True)
    batch: Batch = (Put("a", b"12345"), Get("a"), Get("a", 1, 3), Get("no"), List("x/"), Delete(("a",)))
    counting.execute(batch)
    version = ask(counting, Put("l.jsonl", b"h\n"), Written).version
    asyncio.run(counting.aexecute((Append("l.jsonl", b"123\n", version),)))
    assert counting.counts == {"Put": 2, "Get": 3, "List": 1, "Delete": 1, "Append": 1}
    assert (counting.batches, counting.total, counting.bytes_up, counting.bytes_down) == (3, 8, 11, 7)
    assert tuple(counting.requests[:6]) == batch
    counting.reset()
    assert (counting.batches, counting.total, counting.bytes_up, counting.requests) == (0, 0, 0, [])


# Retrying


def test_only_what_was_not_answered_is_sent_again() -> None:
    """Each request of a batch has its own attempts; answers keep their places."""
    waits = Waits(faulty(Fault.NONE, Fault.BEFORE, Fault.NONE, Fault.BEFORE))
    answers = waits.driver.execute((Put("a", b"1"), Put("b", b"2"), Get("no")))
    assert [type(answer).__name__ for answer in answers] == ["Written", "Written", "NotFoundError"]
    sent = [request.key for request in waits.counting.requests if isinstance(request, Put | Get)]
    assert sent == ["a", "b", "no", "b", "b"]
    assert waits.counting.batches == 3


def test_attempts_are_bounded_and_waits_grow() -> None:
    """After the last attempt the error itself is the answer; each wait is at least twice the one before the jitter."""
    waits = Waits(FaultyDriver(MemoryDriver(), lambda _: Fault.BEFORE))
    assert isinstance(ask_any(waits.driver, Get("a")), UnavailableError)
    assert waits.counting.total == 5
    assert [round(wait // 0.1) >= 2**number for number, wait in enumerate(waits.waited)] == [True] * 4
    assert max(waits.waited) <= 5.2


def test_time_is_bounded_too() -> None:
    """Once the time is up nothing is sent again, however few attempts were made."""
    waits = Waits(FaultyDriver(MemoryDriver(), lambda _: Fault.BEFORE), seconds_max=0)
    assert isinstance(ask_any(waits.driver, Get("a")), UnavailableError)
    assert waits.counting.total == 1


def test_a_poisoned_log_is_not_tried_again() -> None:
    """A sync that failed would succeed the next time without having written anything."""

    class Poisoned(DriverWrapper):
        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            """Answer that everything is poisoned."""
            return tuple(PoisonedError("sync failed") for _ in batch)

    waits = Waits(Poisoned(MemoryDriver()))
    assert isinstance(ask_any(waits.driver, Get("a")), PoisonedError)
    assert waits.counting.total == 1


def test_retrying_is_the_same_without_blocking() -> None:
    """On an event loop the same requests are sent again, and it is the loop that waits."""
    waits = Waits(faulty(Fault.BEFORE, Fault.NONE, Fault.AFTER))
    answers = asyncio.run(waits.driver.aexecute((Put("a", b"1", expect=ABSENT), Put("b", b"2", expect=ABSENT))))
    assert [type(answer) for answer in answers] == [ConflictError, Written]
    assert len(waits.waited) == 2


# Failing on purpose


def test_a_fault_is_before_or_after_the_effect() -> None:
    """Lost requests change nothing, lost replies hide what has changed; neither has an answer."""
    for fault, expected in ((Fault.BEFORE, {}), (Fault.AFTER, {"a": b"1"}), (Fault.LATE, {})):
        memory = MemoryDriver()
        answer = ask_any(faulty(fault, inner=memory), Put("a", b"1"))
        assert isinstance(answer, UnavailableError)
        assert answer.kind == fault.value
        assert memory.snapshot() == expected


def test_a_late_request_takes_effect_before_a_later_one() -> None:
    """What arrives late arrives once, in front of a request sent afterwards, and conditions then judge it."""
    memory = MemoryDriver()
    driver = faulty(Fault.LATE, inner=memory)
    ask_any(driver, Put("a", b"late", expect=ABSENT))
    assert ask(driver, Get("a"), Found).data == b"late"
    assert not driver.late
    driver = faulty(Fault.LATE, inner=memory)
    ask_any(driver, Put("b", b"late", expect=ABSENT))
    ask(memory, Put("b", b"first", expect=ABSENT), Written)
    driver.settle()
    assert memory.snapshot()["b"] == b"first"


def test_a_seed_repeats_a_run() -> None:
    """The same seed gives the same faults, all kinds occur, and about as many as asked for."""

    def faults(seed: int) -> list[Fault]:
        plan = seeded_plan(random.Random(seed), 0.3)
        return [plan(Get("a")) for _ in range(1000)]

    assert faults(1) == faults(1) != faults(2)
    assert set(faults(1)) == set(Fault)
    assert 200 < sum(fault in LOST for fault in faults(1)) < 400


def test_a_list_need_not_be_a_snapshot() -> None:
    """What happens in the middle of a list is seen among its later keys only."""
    memory = MemoryDriver()

    def fill(names: Iterable[str]) -> None:
        memory.execute(tuple(Put(f"s/{name}", b"") for name in names))

    fill("bdfh")
    driver = FaultyDriver(memory, scripted_plan([]), between=lambda: fill("ag"))
    listed = ask(driver, List("s/"), Listed)
    assert [entry.key for entry in listed.entries] == [f"s/{name}" for name in "bdfgh"]
    for limit in (1, 2, 3):
        listed = ask(driver, List("s/", limit=limit), Listed)
        assert [entry.key for entry in listed.entries] == [f"s/{name}" for name in "abdfgh"[:limit]]
        assert listed.more
    empty = FaultyDriver(MemoryDriver(), scripted_plan([]), between=lambda: None)
    assert ask(empty, List("s/"), Listed) == Listed((), more=False)


def test_a_faulty_store_behind_retries_loses_nothing() -> None:
    """With retries and a look at what is there, compare-and-swap through any faults counts every success once."""
    for seed in range(20):
        rng = random.Random(seed)
        memory = MemoryDriver()
        broken = FaultyDriver(memory, seeded_plan(rng, 0.3), lands=lambda rng=rng: rng.random() < 0.3)  # type: ignore[misc]
        driver = Waits(broken, attempts_max=50).driver
        version = ask(memory, Put("n", b"0;", expect=ABSENT), Written).version
        done = 0
        for number in range(1, 30):
            version, ours = swap(driver, version, b"%d;" % number)
            done += ours
        assert memory.snapshot()["n"].count(b";") == done + 1


def swap(driver: RetryingDriver, version: Version, addition: bytes) -> tuple[Version, bool]:
    """Add to a register and return its version and whether the addition is in it, looking again after a conflict."""
    found = ask(driver, Get("n"), Found)
    request: Request = Put("n", found.data + addition, expect=found.version)
    answer = ask_any(driver, request)
    if isinstance(answer, Written):
        return answer.version, True
    found = ask(driver, Get("n"), Found)
    return found.version, addition in found.data.split(b";")[-2] + b";"
