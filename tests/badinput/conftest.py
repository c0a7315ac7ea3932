"""Stores of every kind, to be damaged past all our code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.servers import S3Server, moto, seaweedfs
from tests.session.backends import Backend, files_below, local_backend, memory_backend

import treering
from treering.api.store import Store
from treering.storage.open import open_driver
from treering.storage.requests import Delete, Driver, Found, Get, Put, Written
from treering.storage.run import ask, run
from treering.storage.s3 import S3Driver
from treering.store.place import Place

__all__ = ["moto", "seaweedfs"]


class Damaged(NamedTuple):
    """A store, and how to damage it."""

    name: str
    driver: Callable[[], Driver]
    stored: Callable[[], dict[str, bytes]]
    """All bytes of the store, read past our code; not who has a session open."""

    def store(self) -> Store:
        """The store, opened by a new process."""
        return Store(Place(self.driver()))

    def read(self, key: str) -> bytes:
        """The bytes of one object."""
        return run(ask(Get(key, register=_is_register(key)), Found), self.driver()).data

    def write(self, key: str, data: bytes) -> None:
        """Replace one object, whatever it held; a driver that keeps slots writes a good slot with these bytes."""
        driver = self.driver()
        expect = None
        if not driver.conditional and _is_register(key):
            (found,) = driver.execute((Get(key, register=True),))
            expect = found.version if isinstance(found, Found) else None
        run(ask(Put(key, data, expect=expect), Written), driver)

    def remove(self, key: str) -> None:
        """Delete one object."""
        self.driver().execute((Delete((key,)),))

    @property
    def tail(self) -> str:
        """Key of the tail of session `s`."""
        return f"sessions/s/tail.jsonl{'' if self.driver().appends else '.zst'}"

    @property
    def latest(self) -> str:
        """Key of the other register."""
        return "latest/s.jsonl.zst"

    @property
    def segments(self) -> list[str]:
        """Keys of all segments of session `s`, in order."""
        return sorted(key for key in self.stored() if "/segments/" in key)


def _is_register(key: str) -> bool:
    return key.endswith(".jsonl.zst") and "/segments/" not in key


def _of(backend: Backend) -> Damaged:
    def stored() -> dict[str, bytes]:
        return {key: data for key, data in backend.snapshot().items() if not key.endswith("/hold")}

    return Damaged(backend.name, backend.driver, stored)


def _generic(folder: Path) -> Damaged:
    return Damaged("generic", lambda: open_driver(f"file://{folder}", single_writer=True), lambda: files_below(folder))


KINDS = [
    "memory",
    "logs",
    "local",
    "generic",
    pytest.param("seaweedfs", marks=[pytest.mark.s3, pytest.mark.thinned(3)]),
]


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Damaged]:
    """An empty store of each kind; on a server one test in three here, all with `make whole`."""
    match request.param:
        case "local":
            yield _of(local_backend(tmp_path / "store"))
        case "generic":
            yield _generic(tmp_path / "store")
        case "seaweedfs":
            yield from _on_server(request.getfixturevalue("seaweedfs"))
        case _:
            yield _of(memory_backend(appends=request.param == "logs"))


def _on_server(server: S3Server) -> Iterator[Damaged]:
    prefix = f"bad-{os.urandom(6).hex()}"
    driver = S3Driver(f"{server.bucket}/{prefix}", storage_options=server.storage_options)

    def stored() -> dict[str, bytes]:
        return {key.removeprefix(f"{prefix}/"): data for key, data in server.objects(f"{prefix}/").items()}

    yield Damaged("seaweedfs", lambda: driver, stored)  # a driver remembers nothing; a new one only connects anew
    driver.close()


@pytest.fixture
def damaged(place: Damaged) -> Damaged:
    """A store with a session `s` in segments, tail and `latest`, and another one that nobody touches."""
    with place.store().session("other") as session:
        session.append("untouched")
    with place.store().session("s", title="T") as session:
        for number in range(4):
            session.commit([f"m{number}"], state={"n": number})
        session.seal()
        session.commit(["m4"], state={"n": 4})
        session.seal()
        session.commit([treering.user("m5"), treering.assistant("m6")], state={"n": 5})
    return place
