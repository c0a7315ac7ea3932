"""In which order both registers are read, and what would be seen otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from tests.drivers import PassingDriver
from tests.session.at_rest import put_back
from tests.session.backends import kill, memory_backend

from treering.errors import CorruptError
from treering.format.paths import SessionKeys
from treering.journal.resume import look, resume
from treering.storage.requests import Answer, Batch, Driver, Found, Get
from treering.storage.rules import missing
from treering.storage.run import run
from treering.testing.conformance import ask


class Slow(PassingDriver):
    """Runs what is sent at once one after the other, the last first, and lets others in behind the first request."""

    def __init__(self, inner: Driver, others: Callable[[], None]) -> None:
        super().__init__(inner)
        self._others: Callable[[], None] | None = others

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers: list[Answer] = []
        for request in reversed(batch):
            answers += self.inner.execute((request,))
            if self._others is not None:
                others, self._others = self._others, None
                others()
        return tuple(reversed(answers))


def keys_of(batch: Batch) -> list[str]:
    """What a batch reads."""
    return [request.key for request in batch if isinstance(request, Get)]


@pytest.mark.parametrize(("appends", "expected"), [(False, [2]), (True, [1, 1])])
def test_a_tail_is_read_beside_latest_and_a_log_behind_it(*, appends: bool, expected: list[int]) -> None:
    """Two requests, on an object store in one batch."""
    keys = SessionKeys("", "s", appends=appends)
    steps = look(keys)
    batches = [next(steps)]
    with contextlib.suppress(StopIteration):
        while True:
            batches.append(steps.send(tuple(missing(key) for key in keys_of(batches[-1]))))
    assert [len(batch) for batch in batches] == expected
    assert [key for batch in batches for key in keys_of(batch)] == [keys.latest, keys.tail]


def test_what_was_never_safe_is_not_taken_for_what_is_covered() -> None:
    """Between a reader's two requests a log loses its end, and somebody else writes there and covers that."""
    backend = memory_backend(appends=True)
    driver = backend.driver()
    with backend.store().session("s") as session:
        session.append("one")
    before = ask(driver, Get("sessions/s/tail.jsonl"), Found).data
    dying = backend.store().session("s")
    dying.append("never safe")
    kill(dying)

    def replace() -> None:
        put_back(driver, "s", before)
        with backend.store().session("s") as other:
            other.append("safe")

    view = run(resume(SessionKeys("", "s", appends=True)), Slow(driver, replace))
    assert b"never safe" not in b"".join(view.tail.lines)


@pytest.mark.parametrize("missing_thrice", [False, True])
def test_a_register_that_is_missing_is_damage_only_when_it_is_missing_three_times(*, missing_thrice: bool) -> None:
    """Two looks that show the same version twice prove that it was there; what is missing may have been there."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.append("said")
    keys = SessionKeys("", "s", appends=False)
    steps, driver = resume(keys), backend.driver()
    batch = next(steps)
    (tail,) = driver.execute((Get(keys.tail),))
    for _ in range(2):
        assert keys_of(batch) == [keys.latest, keys.tail]
        batch = steps.send((missing(keys.latest), tail))
    if missing_thrice:
        with pytest.raises(CorruptError):
            steps.send((missing(keys.latest), tail))
        return
    with pytest.raises(StopIteration) as ended:
        steps.send(driver.execute(batch))
    assert ended.value.value.end == 1
