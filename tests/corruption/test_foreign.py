"""Files that are not ours among ours: reported, left alone, and never followed out of the store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.session.backends import files_below, local_backend

from treering.api.store import Store
from treering.errors import AccessError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A local store with a session `s`."""
    with local_backend(tmp_path / "store").store().session("s") as session:
        session.append("a")
        session.seal()
        session.append("x" * 300_000)
    return tmp_path / "store"


def store(folder: Path) -> Store:
    """The store, opened by a new process."""
    return local_backend(folder).store()


def test_foreign_files_are_reported_and_stay(folder: Path) -> None:
    """Whatever lies in a session's folder and is not ours is an oddity, and outlives sealing, merging and repairs."""
    (life,) = [path for path in (folder / "sessions/s").iterdir() if path.is_dir()]
    foreign = [life / "segments/README", life / "blobs/not-a-digest", life / "x", folder / "sessions/s/tail.jsonl.bak"]
    for path in foreign:
        path.write_bytes(b"mine")
    findings = store(folder).verify("s")
    assert {each.key for each in findings} == {str(path.relative_to(folder)) for path in foreign}
    assert {(each.severity, each.kind) for each in findings} == {("oddity", "foreign")}
    with store(folder).session("s") as session:
        session.append("b")
        session.seal()
        session.optimize(everything=True)
    store(folder).repair("s", into="t")
    assert [path.read_bytes() for path in foreign] == [b"mine"] * len(foreign)


@pytest.mark.parametrize("part", ["latest/s.jsonl.zst", "sessions/s/tail.jsonl", "sessions/s", "sessions", "latest"])
def test_a_link_inside_the_store_is_refused(folder: Path, tmp_path: Path, part: str) -> None:
    """A link in place of a file or folder is an error with a remedy in every call; its target is not changed."""
    elsewhere = tmp_path / "elsewhere"
    (folder / part).rename(elsewhere)
    os.symlink(elsewhere, folder / part)
    before = files_below(elsewhere) if elsewhere.is_dir() else {"": elsewhere.read_bytes()}
    for call in (
        lambda: store(folder).view("s"),
        lambda: store(folder).session("s").append("x"),
        lambda: store(folder).delete("s"),
        lambda: store(folder).verify("s"),
    ):
        with pytest.raises(AccessError) as caught:
            call()
        assert caught.value.kind == "link"
        assert caught.value.remedy
    assert before == (files_below(elsewhere) if elsewhere.is_dir() else {"": elsewhere.read_bytes()})


def test_a_linked_blob_is_not_read(folder: Path, tmp_path: Path) -> None:
    """A link in place of a large part could show any file of this user to a model: it is refused."""
    (blob,) = (path for path in (folder / "sessions/s").rglob("blobs/*") if not path.name.startswith("."))
    secret = tmp_path / "secret"
    secret.write_text("a password")
    blob.unlink()
    os.symlink(secret, blob)
    with pytest.raises(AccessError):
        store(folder).view("s")
