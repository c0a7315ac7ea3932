"""How both registers are read, and when one counts as missing."""

from __future__ import annotations

import pytest
from tests.session.backends import memory_backend

from treering.errors import CorruptError
from treering.format.paths import SessionKeys
from treering.journal.resume import look, resume
from treering.storage.requests import Batch, Get
from treering.storage.rules import missing


def keys_of(batch: Batch) -> list[str]:
    """What a batch reads."""
    return [request.key for request in batch if isinstance(request, Get)]


@pytest.mark.parametrize("appends", [False, True])
def test_both_registers_are_read_at_once(*, appends: bool) -> None:
    """Two requests in one batch."""
    keys = SessionKeys("", "s", appends=appends)
    assert keys_of(next(look(keys))) == [keys.latest, keys.tail]


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
