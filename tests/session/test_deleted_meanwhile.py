"""A session that is deleted while somebody writes to it stays deleted."""

from __future__ import annotations

import pytest
from tests.drivers import PassingDriver

from treering.api.store import Store
from treering.errors import ConflictError, NotFoundError, SessionDeletedError
from treering.format.paths import SessionKeys
from treering.journal import life
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Driver, Put
from treering.storage.run import run
from treering.store.place import Place


class Resending(PassingDriver):
    """Loses the answer to one swap of `latest`; the session is deleted before it is sent again, and refused."""

    def __init__(self, inner: Driver) -> None:
        super().__init__(inner)
        self.armed = False

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers = self.inner.execute(batch)
        if not self.armed or not any(isinstance(each, Put) and each.key.startswith("latest/") for each in batch):
            return answers
        self.armed = False
        run(life.delete(SessionKeys("", "s", appends=False), nonce="another-computer"), self.inner)
        return (ConflictError("somebody else wrote first"),)


def test_a_writer_without_an_answer_does_not_take_the_tombstone_for_its_own() -> None:
    """Its `latest` was stored and deleted; what it reads back is no write of its own, and it writes nothing over it."""
    driver = Resending(MemoryDriver())
    session = Store(Place(driver)).session("s", shared=True)
    session.append("hello")
    driver.armed = True
    with pytest.raises(SessionDeletedError):
        session.seal()
    with pytest.raises(SessionDeletedError):
        session.seal()
    with pytest.raises(NotFoundError):
        Store(Place(driver)).view("s")
    assert not Store(Place(driver)).sessions().rows
