"""The driver for any fsspec filesystem: slots that a crash cannot tear, and what is told apart from what."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from tests.storage.processes import finish, start

from treering.errors import (
    AccessError,
    ConflictError,
    CorruptError,
    NotFoundError,
    UnavailableError,
    UnsafeStoreError,
    UsageError,
)
from treering.storage import slots
from treering.storage.generic import GenericDriver
from treering.storage.local import LocalDriver
from treering.storage.requests import ABSENT, Delete, Deleted, Entry, Found, Get, List, Listed, Put, Version, Written
from treering.testing.conformance import ask, ask_any, at_once, keys_below

KEY = "latest/x"
FIRST, SECOND = b"the first bytes", b"the second bytes, longer"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the store will be."""
    return tmp_path / "store"


@pytest.fixture
def driver(root: Path) -> GenericDriver:
    """A driver on fsspec's local filesystem."""
    return GenericDriver(LocalFileSystem(), str(root))


def write_two(driver: GenericDriver) -> tuple[Version, Version]:
    """Write a register twice and return both versions; the first lies in slot a, the second in slot b."""
    first = ask(driver, Put(KEY, FIRST, expect=ABSENT), Written).version
    return first, ask(driver, Put(KEY, SECOND, expect=first), Written).version


def test_a_torn_write_leaves_the_bytes_before_it(driver: GenericDriver, root: Path) -> None:
    """Wherever a write of a slot was interrupted, the register has its last acknowledged bytes and can be written."""
    first, _ = write_two(driver)
    newest = root / f"{KEY}.b"
    whole = newest.read_bytes()
    for torn in [whole[:length] for length in range(len(whole))] + [bytes(len(whole)), bytes(10)]:
        newest.write_bytes(torn)
        assert ask(driver, Get(KEY, register=True), Found) == Found(FIRST, first, len(FIRST))
    second = ask(driver, Put(KEY, b"again", expect=first), Written).version
    assert ask(driver, Get(KEY, register=True), Found) == Found(b"again", second, 5)


def test_a_torn_creation_is_no_object(driver: GenericDriver, root: Path) -> None:
    """A register whose very first write was interrupted was never acknowledged, so it is not there."""
    ask(driver, Put(KEY, FIRST, expect=ABSENT), Written)
    slot = root / f"{KEY}.a"
    slot.write_bytes(slot.read_bytes()[:-1])
    assert isinstance(ask_any(driver, Get(KEY, register=True)), NotFoundError)
    ask(driver, Put(KEY, SECOND, expect=ABSENT), Written)
    assert ask(driver, Get(KEY, register=True), Found).data == SECOND


@pytest.mark.parametrize("ending", slots.ENDINGS)
def test_damage_is_reported_and_never_taken_for_a_torn_write(driver: GenericDriver, root: Path, ending: str) -> None:
    """A changed bit in the newest slot is an error, in the older slot it is harmless or an error: never wrong bytes."""
    _, second = write_two(driver)
    slot = root / f"{KEY}{ending}"
    whole = slot.read_bytes()
    seen = set()
    for place in range(len(whole)):
        slot.write_bytes(whole[:place] + bytes([whole[place] ^ 0x04]) + whole[place + 1 :])
        answer = ask_any(driver, Get(KEY, register=True))
        assert isinstance(answer, CorruptError) or answer == Found(SECOND, second, len(SECOND))
        assert isinstance(ask_any(driver, Put(KEY, b"no", expect=ABSENT)), CorruptError | ConflictError)
        seen.add(type(answer))
    assert seen == ({CorruptError} if ending == ".b" else {CorruptError, Found})
    assert slot.read_bytes()[:-1] == whole[:-1]


def test_a_slot_says_which_register_is_damaged(driver: GenericDriver, root: Path) -> None:
    """The error names the file."""
    write_two(driver)
    (root / f"{KEY}.b").write_bytes(b"something else entirely" * 5)
    answer = ask_any(driver, Get(KEY, register=True))
    assert isinstance(answer, CorruptError)
    assert answer.key == f"{KEY}.b"


def test_slots_take_turns(driver: GenericDriver, root: Path) -> None:
    """No write touches the slot that holds the current bytes."""
    version = ABSENT
    for number in range(5):
        before = {path.name: path.read_bytes() for path in root.rglob("x.*")}
        version = ask(driver, Put(KEY, b"%d" % number, expect=version), Written).version
        after = {path.name: path.read_bytes() for path in root.rglob("x.*")}
        changed = [name for name in after if after[name] != before.get(name)]
        assert changed == ["x.a" if number % 2 == 0 else "x.b"]


class Breaking(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Fails as told."""

    cachable = False
    error: Exception | None = None
    removals_left = 99

    def rm_file(self, path: str) -> None:
        """Remove a file, if one more may be removed."""
        self.removals_left -= 1
        if self.removals_left < 0:
            raise OSError("no more")
        super().rm_file(path)

    def cat_file(self, path: str, *args: Any, **options: Any) -> bytes:
        """Read a file, or fail."""
        if self.error:
            raise self.error
        found: bytes = super().cat_file(path, *args, **options)
        return found


@pytest.mark.parametrize("conditional", [True, False])
def test_an_interrupted_delete_brings_no_old_bytes_back(root: Path, *, conditional: bool) -> None:
    """The older slot goes first, so a delete that stops in the middle leaves the current bytes or nothing."""
    fs = Breaking()
    driver = GenericDriver(fs, str(root))
    for number in range(3):
        key = f"{KEY}{number}"
        version = ABSENT
        for i in range(number + 2):
            version = ask(driver, Put(key, b"%d" % i, expect=version), Written).version
        fs.removals_left = 1
        delete = Delete((key,), expect=version if conditional else None)
        assert isinstance(ask_any(driver, delete), UnavailableError)
        assert ask(driver, Get(key, register=True), Found).data == b"%d" % (number + 1)
        fs.removals_left = 99
        ask(driver, delete, Deleted)
        assert keys_below(driver, "latest/") == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError("no"), AccessError),
        (OSError(5, "io"), UnavailableError),
        (RuntimeError("anything"), UnavailableError),
        (KeyError("anything"), UnavailableError),
    ],
)
def test_whatever_a_filesystem_raises_is_an_answer(root: Path, error: Exception, expected: type[Exception]) -> None:
    """Errors of a filesystem, known or not, come back as values, with the original as their cause."""
    fs = Breaking()
    driver = GenericDriver(fs, str(root))
    ask(driver, Put("a", b""), Written)
    fs.error = error
    answer = ask_any(driver, Get("a"))
    assert isinstance(answer, expected)
    assert isinstance(answer, Exception)
    assert answer.__cause__ is error


def test_a_register_of_another_layout_is_refused(driver: GenericDriver, root: Path) -> None:
    """A store made by a driver with conditions keeps registers without slots; they are not taken for missing."""
    ask(LocalDriver(root), Put(KEY, b"local", expect=ABSENT), Written)
    for request in (Get(KEY, register=True), Put(KEY, b"no", expect=ABSENT)):
        answer = ask_any(driver, request)
        assert isinstance(answer, UnsafeStoreError)
        assert "without single_writer" in str(answer)
    assert ask(LocalDriver(root), Get(KEY), Found).data == b"local"


def test_a_register_is_found_without_saying_so(driver: GenericDriver) -> None:
    """Whoever copies what a list names need not know which keys are registers."""
    _, second = write_two(driver)
    assert ask(driver, Get(KEY), Found) == Found(SECOND, second, len(SECOND))
    assert ask(driver, Get(KEY, start=-6), Found).data == SECOND[-6:]


def test_a_list_shows_the_slot_written_last(driver: GenericDriver, root: Path) -> None:
    """Size and time of a register are those of its current bytes."""
    write_two(driver)
    for ending, seconds in ((".a", 100), (".b", 200)):
        os.utime(root / f"{KEY}{ending}", (seconds, seconds))
    assert ask(driver, List(""), Listed).entries == (Entry(KEY, len(SECOND), 200_000),)


def test_keys_that_look_like_slots_are_refused(driver: GenericDriver) -> None:
    """A key with the ending of a slot could be taken for part of a register."""
    for request in (Get("x.a"), Put("x.b", b""), Delete(("y", "x.a"))):
        assert isinstance(ask_any(driver, request), UsageError)


def test_other_peoples_files_are_not_listed(driver: GenericDriver, root: Path) -> None:
    """Names that cannot be keys are passed over."""
    ask(driver, Put("a/x", b""), Written)
    for name in (".hidden", "ü", "x.poisoned"):
        (root / "a" / name).touch()
    assert keys_below(driver, "a/") == ["a/x"]


def test_threads_of_one_process_do_not_overwrite_each_other() -> None:
    """Two drivers on one place in one process still lose no update."""
    drivers = [GenericDriver(fsspec.filesystem("memory"), "/two-drivers") for _ in range(2)]
    ask(drivers[0], Put("n", b"0", expect=ABSENT), Written)

    def add(i: int) -> None:
        for _ in range(20):
            answer: object = None
            while not isinstance(answer, Written):
                found = ask(drivers[i % 2], Get("n", register=True), Found)
                answer = ask_any(drivers[i % 2], Put("n", b"%d" % (int(found.data) + 1), expect=found.version))

    at_once(4, add)
    assert ask(drivers[0], Get("n", register=True), Found).data == b"80"


def test_processes_may_follow_each_other(root: Path) -> None:
    """What one process wrote, the next one finds, and an older view of it is a conflict."""
    code = """
from treering.storage.open import open_driver
driver = open_driver(f"file://{sys.argv[1]}", single_writer=True)
found = ask(driver, Get("n", register=True))
count = int(found.data) if isinstance(found, Found) else 0
answer = ask(driver, Put("n", b"%d" % (count + 1), expect=found.version if count else ABSENT))
assert isinstance(answer, Written), answer
print(answer.version)
"""
    versions = [Version(finish(start(code, root)).strip()) for _ in range(3)]
    driver = GenericDriver(LocalFileSystem(), str(root))
    assert ask(driver, Get("n", register=True), Found) == Found(b"3", versions[2], 1)
    assert isinstance(ask_any(driver, Put("n", b"no", expect=versions[1])), ConflictError)


def test_a_store_goes_on_when_another_program_removed_its_folder(driver: GenericDriver, root: Path) -> None:
    """A folder that was made once may be gone when the next object is written."""
    write_two(driver)
    shutil.rmtree(root)
    ask(driver, Put(KEY, FIRST, expect=ABSENT), Written)
    ask(driver, Put("sessions/x/1", FIRST), Written)
    assert ask(driver, Get(KEY, register=True), Found).data == FIRST
