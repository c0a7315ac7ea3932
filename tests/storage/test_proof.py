"""The proof that conditions hold, against stores that ignore some of them."""

from __future__ import annotations

import json

import pytest

from treering.errors import AccessError, UnavailableError, UnsafeStoreError
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan
from treering.storage.memory import MemoryDriver
from treering.storage.proof import declare, prove
from treering.storage.requests import ABSENT, Answer, Batch, Put, Request
from treering.storage.run import run
from treering.storage.wrapper import DriverWrapper


class Ignoring(DriverWrapper):
    """Accepts conditions on puts and ignores some of them."""

    def __init__(self, inner: MemoryDriver, *, ignores_absent: bool, ignores_versions: bool) -> None:
        super().__init__(inner)
        self.ignores = {True: ignores_absent, False: ignores_versions}

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch without those conditions."""
        return self.inner.execute(tuple(self._strip(request) for request in batch))

    def _strip(self, request: Request) -> Request:
        if isinstance(request, Put) and request.expect is not None and self.ignores[request.expect == ABSENT]:
            return Put(request.key, request.data)
        return request

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`."""
        return self.execute(batch)


@pytest.mark.parametrize(("absent", "versions"), [(True, False), (False, True), (True, True)])
def test_a_store_that_ignores_a_condition_is_refused(absent: bool, versions: bool) -> None:  # noqa: FBT001
    """Whichever condition is ignored, the proof fails and leaves nothing behind."""
    memory = MemoryDriver()
    driver = Ignoring(memory, ignores_absent=absent, ignores_versions=versions)
    with pytest.raises(UnsafeStoreError) as caught:
        run(prove("ns/"), driver)
    assert caught.value.kind == "conditions"
    assert memory.snapshot() == {}


@pytest.mark.parametrize(("absent", "versions"), [(True, False), (False, True), (True, True)])
def test_an_existing_store_keeps_its_objects(absent: bool, versions: bool) -> None:  # noqa: FBT001
    """A store that was made elsewhere loses nothing to a proof that fails."""
    memory = MemoryDriver()
    run(prove(), memory)
    memory.execute((Put("latest/x", b"x"),))
    with pytest.raises(UnsafeStoreError):
        run(prove(), Ignoring(memory, ignores_absent=absent, ignores_versions=versions))
    assert memory.snapshot() == {"latest/x": b"x", "treering.json": b'{"treering":1}\n'}


def test_the_first_process_writes_down_the_facts() -> None:
    """The file at the root holds format version and creation facts, and is never replaced."""
    memory = MemoryDriver()
    counting = CountingDriver(memory)
    run(prove(facts={"created": 1}), counting)
    run(prove(facts={"created": 2}), counting)
    assert {key: json.loads(data) for key, data in memory.snapshot().items()} == {
        "treering.json": {"treering": 1, "created": 1}
    }
    assert (counting.counts, counting.batches) == ({"Put": 5}, 3)


def test_declaring_is_one_request() -> None:
    """A store whose conditions are known to hold only gets its file, once."""
    counting = CountingDriver(MemoryDriver())
    for created in (1, 2):
        run(declare("ns/", facts={"created": created}), counting)
    assert counting.inner.snapshot() == {"ns/treering.json": b'{"treering":1,"created":1}\n'}  # type: ignore[attr-defined]
    assert counting.counts == {"Put": 2}


@pytest.mark.parametrize("place", range(3))
def test_no_answer_is_no_proof(place: int) -> None:
    """If any request of the proof gets no answer, it raises that error instead of passing."""
    faults = [Fault.NONE] * place + [Fault.BEFORE]
    with pytest.raises(UnavailableError):
        run(prove(), FaultyDriver(MemoryDriver(), scripted_plan(faults)))


def test_a_refusal_for_other_reasons_is_no_proof() -> None:
    """A store that refuses every write has not shown that it checks conditions."""

    class Forbidding(DriverWrapper):
        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            """Refuse everything."""
            return tuple(AccessError("no") for _ in batch)

        async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
            """Refuse everything."""
            return self.execute(batch)

    with pytest.raises(AccessError):
        run(prove(), Forbidding(MemoryDriver()))
