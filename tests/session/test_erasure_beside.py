"""Erasing and deleting: what drivers keep beside objects, and sessions that hold copies without saying so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tests.session.at_rest import holding
from tests.session.backends import Backend, local_backend

from treering.storage.generic import GenericDriver
from treering.storage.slots import HEADER_BYTES

SECRET = "the password is swordfish"


def slots_backend() -> Backend:
    """A store that keeps each register in two slots, of which one holds what it said before."""
    files, root = MemoryFileSystem(), f"/beside-{os.urandom(6).hex()}"

    def contents() -> dict[str, bytes]:
        found = {path: files.cat_file(path) for path in files.find(root)}
        return {path: data[HEADER_BYTES:] if path.endswith((".a", ".b")) else data for path, data in found.items()}

    return Backend("slots", lambda: GenericDriver(files, root), contents)


def talk(backend: Backend) -> str:
    """A session that says something secret; return the node that does."""
    with backend.store().session("s") as session:
        node = session.append(SECRET)
        session.commit(["and now?"])
    return node


def test_no_slot_holds_what_a_register_said_before_it_was_erased() -> None:
    """Where a register has two slots, the older bytes go as well, and what is left is read as before."""
    backend = slots_backend()
    node = talk(backend)
    with backend.store().session("s") as session:
        session.erase(node)
    assert holding(backend.snapshot(), SECRET) == []
    with backend.store().session("s") as session:
        session.append("more")
        assert len(session.history().rows) == 3


def test_no_slot_holds_what_a_deleted_session_said() -> None:
    """Only the tombstones are left, and a purge takes those."""
    backend = slots_backend()
    talk(backend)
    backend.store().delete("s")
    assert holding(backend.snapshot(), SECRET) == []
    assert backend.store().purge("s") == ("s",)
    assert not [path for path in backend.snapshot() if "sessions/" in path or "latest/" in path]


@pytest.mark.parametrize("kind", ["latest/", "segments/", "sessions/s/tail"])
@pytest.mark.parametrize("verb", ["erase", "delete", "purge"])
def test_what_killed_writers_left_goes_too(tmp_path: Path, kind: str, verb: str) -> None:
    """In every folder of the session, also where nothing has to be written and the folder was settled before."""
    backend = local_backend(tmp_path / "store")
    store = backend.store()
    with store.session("s") as session:
        node = session.append(SECRET)
        session.seal()
        session.commit(["and now?"])
        folder = next(os.path.dirname(name) for name in backend.snapshot() if kind in name)
        if verb == "erase":
            session.erase(node)  # nothing of it is left to be rewritten
            leave(tmp_path / "store" / folder)
            session.erase(node)
    if verb != "erase":
        leave(tmp_path / "store" / folder)
        store.delete("s")
    if verb == "purge" and not kind.startswith("latest"):
        leave(tmp_path / "store" / folder)
        store.purge("s")
    assert holding(backend.snapshot(), SECRET) == []


def leave(folder: Path) -> None:
    """A temporary file whose writer was killed."""
    (folder / ".tmp-0123456789ab").write_text(SECRET)
