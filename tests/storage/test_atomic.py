"""Small files beside a store: whole or not there, and replaced without a change of who may read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from treering.storage.atomic import write_atomically


def test_a_new_file_is_its_owners_and_a_replaced_one_stays_what_it_was(tmp_path: Path) -> None:
    """The permissions of a file that is there are kept, whatever they are."""
    path = tmp_path / "page.html"
    write_atomically(path, [b"a", b"b"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"ab", 0o600)
    path.chmod(0o664)
    write_atomically(path, [b"c"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"c", 0o664)


def test_a_failure_changes_nothing(tmp_path: Path) -> None:
    """Neither the file, nor is anything left beside it."""
    path = tmp_path / "page.html"
    path.write_bytes(b"old")

    def parts() -> Iterator[bytes]:
        yield b"new"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_atomically(path, parts())
    assert [(each, each.read_bytes()) for each in tmp_path.iterdir()] == [(path, b"old")]
