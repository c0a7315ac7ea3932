"""The local driver: what stands on the disk, what is refused, and what it survives inside one process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import resource
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from treering.errors import AccessError, ConflictError, NotFoundError, PoisonedError, UnavailableError, UnsafeStoreError
from treering.storage import local_disk, local_lock, local_log, memory, open_log, rules
from treering.storage.local import LocalDriver
from treering.storage.local_disk import OS_SYNC, Sync
from treering.storage.memory import MemoryDriver
from treering.storage.requests import (
    ABSENT,
    Append,
    Delete,
    Deleted,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
)
from treering.testing.conformance import ask, ask_any, keys_below

LOG = "sessions/x/tail.jsonl"


class Disk:
    """Syncs for real, notes what was synced, fails where told, and lets something happen before a sync."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.fail_on: str | None = None
        self.before: dict[str, Callable[[], object]] = {}
        self.sync = Sync(self._data, self._whole)

    def _data(self, fd: int) -> None:
        self._note(fd)
        OS_SYNC.data(fd)

    def _whole(self, fd: int) -> None:
        self._note(fd)
        OS_SYNC.whole(fd)

    def _note(self, fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        name = ".tmp" if name.startswith(".tmp") else name
        if name in self.before:
            self.before.pop(name)()
        if self.fail_on == name:
            raise OSError(errno.EIO, "no luck")
        self.synced.append(name)


@pytest.fixture
def disk() -> Disk:
    """A disk that notes syncs and can fail."""
    return Disk()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the store will be; not there yet."""
    return tmp_path / "store"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys for whose lock somebody had to wait, noted when they begin to."""
    noted: list[str] = []
    wait = local_lock.wait_for_lock

    def note(fd: int, key: str) -> None:
        noted.append(key)
        wait(fd, key)

    monkeypatch.setattr(local_lock, "wait_for_lock", note)
    return noted


@pytest.fixture
def driver(root: Path, disk: Disk) -> LocalDriver:
    """A driver on that disk."""
    return LocalDriver(root, sync=disk.sync)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every file and folder with its time and bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def start_log(driver: LocalDriver, key: str = LOG) -> Version:
    """Create a log of one line and return its version."""
    return ask(driver, Put(key, b"head\n", expect=ABSENT), Written).version


# Reading leaves no trace


def test_reading_a_missing_store_creates_nothing(driver: LocalDriver, root: Path) -> None:
    """A store that does not exist is an empty one, whatever is asked of it, and stays missing."""
    reads = (Get("a/b"), List(""), List("a/"), Delete(("a/b", "c")), Append(LOG, b"x\n", Version("0:5")))
    kinds = [NotFoundError, Listed, Listed, Deleted, NotFoundError]
    assert [type(answer) for answer in driver.execute(reads)] == kinds
    assert not root.exists()


def test_reading_changes_nothing(driver: LocalDriver, root: Path) -> None:
    """Gets, lists, refused writes and deletes of nothing leave every name, byte and time as it was."""
    driver.execute((Put("latest/a", b"x"), Put(LOG, b"head\ntorn"), Put("plain/b", b"y")))
    before = tree(root)
    driver.execute((Get(LOG), Get("latest/a", 0, 1), List(""), Get("plain/no"), Delete(("plain/no",), Version("v"))))
    assert tree(root) == before


# What stands on the disk


def test_files_and_folders_are_private(driver: LocalDriver, root: Path) -> None:
    """Nobody else may read a session, whatever the umask says."""
    umask = os.umask(0)
    try:
        start_log(driver)
    finally:
        os.umask(umask)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert set(modes.values()) == {0o600, 0o700}
    assert all((mode == 0o700) == path.is_dir() for path, mode in modes.items())


def test_own_files_are_not_listed(driver: LocalDriver, root: Path) -> None:
    """Locks, markers and temporary files are no objects."""
    start_log(driver)
    (root / "sessions/x/.tmp-0123").touch()
    (root / "sessions/x/tail.jsonl.poisoned").touch()
    assert keys_below(driver, "") == [LOG]


def test_a_put_syncs_the_file_and_then_its_new_name(driver: LocalDriver, disk: Disk) -> None:
    """The bytes are on the disk before the rename, and the folder after it; the lock is left out of it."""
    start_log(driver)
    disk.synced.clear()
    ask(driver, Put(LOG, b"other\n"), Written)
    assert disk.synced == [".tmp", "x"]


def test_new_folders_are_synced_by_whoever_uses_them_first(driver: LocalDriver, disk: Disk, root: Path) -> None:
    """A new name is synced in its folder, also if another process has just made it and may not have synced it."""
    start_log(driver)
    assert disk.synced == [root.parent.name, "store", "sessions", ".tmp", "x"]
    second = Disk()
    ask(LocalDriver(root, sync=second.sync), Put("sessions/x/a", b""), Written)
    assert second.synced == [root.parent.name, "store", "sessions", ".tmp", "x"]


def test_an_append_syncs_its_data_once(driver: LocalDriver, disk: Disk) -> None:
    """An append waits for one sync, of the log itself."""
    version = start_log(driver)
    disk.synced.clear()
    ask(driver, Append(LOG, b"a\n", version), Written)
    assert disk.synced == ["tail.jsonl"]


def test_what_a_killed_writer_left_is_removed(root: Path) -> None:
    """The first write into a folder removes temporary files without a living owner, and only those."""
    ask(LocalDriver(root), Put("a/x", b""), Written)
    (root / "a/.tmp-dead").write_bytes(b"erased long ago")
    folder = os.open(root / "a", os.O_RDONLY)
    with local_disk.temporary(folder) as (_, alive):
        ask(LocalDriver(root), Put("a/y", b""), Written)
        assert {path.name for path in (root / "a").iterdir()} == {"x", "y", alive}
    os.close(folder)


# Failures


def test_a_failed_sync_poisons_the_log(driver: LocalDriver, disk: Disk, root: Path) -> None:
    """After a failed sync nothing is acknowledged, in no process, until a put replaced the log."""
    version = start_log(driver)
    version = ask(driver, Append(LOG, b"a\n", version), Written).version
    disk.fail_on = "tail.jsonl"
    assert isinstance(ask_any(driver, Append(LOG, b"b\n", version)), PoisonedError)
    disk.fail_on = None
    other = LocalDriver(root)
    for one in (driver, other):
        answer = ask_any(one, Append(LOG, b"b\n", version))
        assert isinstance(answer, PoisonedError)
        assert "replace it" in str(answer)
    assert ask(other, Get(LOG), Found).data == b"head\na\n"
    version = ask(driver, Put(LOG, b"head 2\na\n", expect=version), Written).version
    for one in (driver, other):
        version = ask(one, Append(LOG, b"b\n", version), Written).version
    assert ask(other, Get(LOG), Found).data == b"head 2\na\nb\nb\n"
    assert not list(root.rglob("*.poisoned"))


def test_a_log_is_poisoned_even_without_a_marker(
    driver: LocalDriver, disk: Disk, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk refuses the marker as well, this process remembers by itself."""
    version = start_log(driver)
    monkeypatch.setattr(local_log, "POISON_ENDING", "/not a name")
    disk.fail_on = "tail.jsonl"
    assert isinstance(ask_any(driver, Append(LOG, b"b\n", version)), PoisonedError)
    disk.fail_on = None
    assert isinstance(ask_any(driver, Append(LOG, b"b\n", version)), PoisonedError)


def test_a_put_that_cannot_be_synced_changes_nothing(driver: LocalDriver, disk: Disk, root: Path) -> None:
    """If the new bytes do not reach the disk, the old ones stay and no temporary file remains."""
    version = start_log(driver)
    disk.fail_on = ".tmp"
    answer = ask_any(driver, Put(LOG, b"other\n", expect=version))
    assert isinstance(answer, UnavailableError)
    assert not isinstance(answer, PoisonedError)
    assert ask(driver, Get(LOG), Found) == Found(b"head\n", version, 5)
    assert {path.name for path in (root / "sessions/x").iterdir()} == {".lock", "tail.jsonl"}


@pytest.mark.parametrize("key", [LOG, "sessions/x/register"])
def test_a_put_whose_name_cannot_be_synced_is_not_trusted(driver: LocalDriver, disk: Disk, key: str) -> None:
    """If only the rename did not reach the disk, reading it back proves nothing, so the answer is poison."""
    start_log(driver, f"{key}.other.jsonl")
    disk.fail_on = "x"
    assert isinstance(ask_any(driver, Put(key, b"head\n", expect=ABSENT)), PoisonedError)
    disk.fail_on = None
    version = ask(driver, Get(key), Found).version
    if key == LOG:
        assert isinstance(ask_any(driver, Append(key, b"a\n", version)), PoisonedError)
    ask(driver, Put(key, b"head 2\n", expect=version), Written)


@pytest.mark.parametrize(
    ("number", "expected", "kind"),
    [
        (errno.ENOENT, NotFoundError, "notfound"),
        (errno.EACCES, AccessError, "permission"),
        (errno.EPERM, AccessError, "permission"),
        (errno.EROFS, AccessError, "read-only"),
        (errno.ELOOP, AccessError, "link"),
        (errno.ENOSPC, UnavailableError, "full"),
        (errno.EDQUOT, UnavailableError, "full"),
        (errno.EIO, UnavailableError, "io"),
        (errno.EMFILE, UnavailableError, "descriptors"),
        (errno.ESTALE, UnavailableError, "io"),
    ],
)
def test_errors_of_the_system_say_what_to_do(number: int, expected: type[Exception], kind: str) -> None:
    """Each error of the system becomes the one of ours with the right next step, with its key."""
    error = local_disk.explain(OSError(number, os.strerror(number)), "a/b")
    assert type(error) is expected
    assert (error.kind, error.key) == (kind, "a/b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_forbidden_folder_is_an_access_error(driver: LocalDriver, root: Path) -> None:
    """A folder that this user may not enter is reported, not taken for an empty one."""
    start_log(driver)
    (root / "sessions").chmod(0)
    answers = driver.execute((Get(LOG), Put(LOG, b"x\n"), List("sessions/x/")))
    (root / "sessions").chmod(0o700)
    assert all(isinstance(answer, AccessError) for answer in answers)


def test_names_in_the_way_are_reported(driver: LocalDriver, root: Path) -> None:
    """A file where a folder belongs, or the other way round, is an error for writers and nothing for readers."""
    driver.execute((Put("a", b""), Put("b/c", b"")))
    answers = driver.execute((Get("a/x"), Get("b"), List("a/"), Put("a/x", b""), Put("b", b"")))
    assert [type(answer) for answer in answers] == [NotFoundError, NotFoundError, Listed, AccessError, AccessError]
    assert sorted(tree(root)) == ["a", "b", "b/c"]


def test_what_is_removed_in_the_middle_of_a_list_is_skipped(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list meets deletions: a file or a folder that was there when names were read, and is gone a moment later."""
    for key in ("a", "b/x", "c"):
        ask(driver, Put(key, b"1"), Written)
    scandir = os.scandir

    def removes_behind(folder: int) -> contextlib.AbstractContextManager[list[os.DirEntry[str]]]:
        with scandir(folder) as found:
            names = list(found)
        monkeypatch.setattr(os, "scandir", scandir)
        (root / "a").unlink()
        shutil.rmtree(root / "b")
        return contextlib.nullcontext(names)

    monkeypatch.setattr(os, "scandir", removes_behind)
    assert [entry.key for entry in ask(driver, List(""), Listed).entries] == ["c"]


def test_a_folder_removed_in_the_middle_of_a_put_is_no_missing_object(
    driver: LocalDriver, disk: Disk, root: Path
) -> None:
    """A put cannot be answered by "not found"; the next one makes the folder again."""
    disk.before[".tmp"] = lambda: shutil.rmtree(root)
    answer = ask_any(driver, Put("a/x", b"1"))
    assert isinstance(answer, UnavailableError)
    assert answer.kind == "vanished"
    ask(driver, Put("a/x", b"1"), Written)


# Links and other strange things


def test_a_linked_file_is_not_followed(driver: LocalDriver, root: Path, tmp_path: Path) -> None:
    """A link in place of an object could lead anywhere: nothing is read or written through it."""
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(b"secret\n")
    start_log(driver, "a/real.jsonl")
    (root / "a/link.jsonl").symlink_to(outside)
    version = Version(f"{rules.first_line_digest(outside.read_bytes())}:7")
    answers = driver.execute(
        (Get("a/link.jsonl"), Put("a/link.jsonl", b"x\n", version), Append("a/link.jsonl", b"x\n", version))
    )
    assert [(type(answer), getattr(answer, "kind", "")) for answer in answers] == [(AccessError, "link")] * 3
    assert outside.read_bytes() == b"secret\n"


def test_a_linked_folder_is_not_followed(driver: LocalDriver, root: Path, tmp_path: Path) -> None:
    """A link in place of a folder is refused too, for reading, listing and writing."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_bytes(b"secret")
    ask(driver, Put("a/x", b""), Written)
    (root / "b").symlink_to(tmp_path / "outside")
    for request in (Get("b/x"), Put("b/x", b"mine"), Put("b/y", b"mine", ABSENT), List("b/"), Delete(("b/x",))):
        answer = ask_any(driver, request)
        assert isinstance(answer, AccessError), request
        assert answer.kind == "link"
    assert tree(tmp_path / "outside").keys() == {"x"}
    assert (tmp_path / "outside/x").read_bytes() == b"secret"


def test_the_store_itself_may_be_linked(driver: LocalDriver, root: Path, tmp_path: Path) -> None:
    """Where the store lies is the user's choice, links included."""
    ask(driver, Put("a/x", b"1"), Written)
    (tmp_path / "link").symlink_to(root)
    assert ask(LocalDriver(tmp_path / "link"), Get("a/x"), Found).data == b"1"


def test_a_named_pipe_does_not_block(driver: LocalDriver, root: Path) -> None:
    """Something that is no file is refused at once instead of being waited for."""
    ask(driver, Put("a/x", b""), Written)
    os.mkfifo(root / "a/pipe.jsonl")
    for request in (Get("a/pipe.jsonl"), Append("a/pipe.jsonl", b"x\n", Version("0:1"))):
        assert isinstance(ask_any(driver, request), AccessError)


# Open logs


def test_a_log_replaced_by_another_process_is_noticed(driver: LocalDriver, root: Path) -> None:
    """An append into a log that was replaced or deleted meanwhile never goes into the old file."""
    old = ask(driver, Append(LOG, b"a\n", start_log(driver)), Written).version
    other = LocalDriver(root)
    new = ask(other, Put(LOG, b"head 2\n", expect=old), Written).version
    assert isinstance(ask_any(driver, Append(LOG, b"b\n", old)), ConflictError)
    new = ask(driver, Append(LOG, b"b\n", new), Written).version
    ask(other, Delete((LOG,), expect=new), Deleted)
    assert isinstance(ask_any(driver, Append(LOG, b"c\n", new)), NotFoundError)
    again = start_log(other)
    ask(driver, Append(LOG, b"d\n", again), Written)
    assert ask(other, Get(LOG), Found).data == b"head\nd\n"


def test_nobody_replaces_a_log_in_the_middle_of_an_append(driver: LocalDriver, disk: Disk, waits: list[str]) -> None:
    """Every write to a log waits for an append in progress, also one without a condition."""
    version = start_log(driver)
    others = [
        threading.Thread(target=ask_any, args=(driver, request)) for request in (Put(LOG, b"new\n"), Delete((LOG,)))
    ]

    def interrupt() -> None:
        for other in others:
            other.start()
        while len(waits) < len(others) and all(other.is_alive() for other in others):
            pass
        assert ask(driver, Get(LOG), Found).data == b"head\n"

    disk.before["tail.jsonl"] = interrupt
    ask(driver, Append(LOG, b"a\n", version), Written)
    for other in others:
        other.join()


def test_a_deletion_that_waited_compares_with_what_is_there_then(
    driver: LocalDriver, root: Path, waits: list[str]
) -> None:
    """Another process writes while it waits for the lock: the version from before is gone, and nothing is removed."""
    version, answers = start_log(driver), list[object]()
    deleting = threading.Thread(target=lambda: answers.append(ask_any(driver, Delete((LOG,), expect=version))))
    folder = os.open((root / LOG).parent, os.O_RDONLY)
    with local_lock.open_lock(folder) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        deleting.start()
        while not waits and deleting.is_alive():
            pass
        with (root / LOG).open("ab") as log:
            log.write(b"a\n")
    deleting.join()
    os.close(folder)
    assert isinstance(answers[0], ConflictError)
    assert (root / LOG).read_bytes() == b"head\na\n"


def test_a_replaced_log_is_not_kept_open(driver: LocalDriver, root: Path) -> None:
    """An open descriptor would keep erased bytes on the disk, so replacing a log closes it."""
    version = ask(driver, Append(LOG, b"a\n", start_log(driver)), Written).version
    assert open_logs(root) == 1
    ask(driver, Put(LOG, b"head 2\n", expect=version), Written)
    assert open_logs(root) == 0


def test_only_some_logs_are_kept_open(driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions a process writes, it keeps few descriptors, and every log still grows."""
    monkeypatch.setattr(local_log, "LOGS_KEPT_MAX", 2)
    keys = [f"s/{i}/tail.jsonl" for i in range(5)]
    versions = {key: start_log(driver, key) for key in keys}
    for key in keys * 3:
        versions[key] = ask(driver, Append(key, b"a\n", versions[key]), Written).version
        assert open_logs(root) <= 2
    assert all(ask(driver, Get(key), Found).data == b"head\n" + b"a\n" * 3 for key in keys)
    driver.close()
    assert open_logs(root) == 0


def open_logs(root: Path) -> int:
    """Count the descriptors of this process that lead to logs."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:  # the one that listed the folder
            continue
    return sum(link.startswith(str(root)) and "tail.jsonl" in link for link in links)


# Room behind a log


def test_a_log_grows_by_more_than_is_appended(driver: LocalDriver, root: Path) -> None:
    """So its length seldom changes, which a sync would have to write as well; nobody is shown the room."""
    version, sizes, said = start_log(driver, LOG), set[int](), b"head\n"
    for number in range(400):
        line = f"line {number}, and some more that makes it as long as a short message is\n".encode()
        version = ask(driver, Append(LOG, line, version), Written).version
        said += line
        sizes.add((root / LOG).stat().st_size)
        assert (root / LOG).stat().st_size <= len(said) + max(4096, len(said) // 2 + 4096)
    assert len(sizes) <= 10
    assert all(size % 4096 == 0 for size in sizes)
    assert ask(driver, Get(LOG), Found) == Found(said, version, len(said))


def test_what_another_wrote_into_the_room_is_noticed(driver: LocalDriver, root: Path) -> None:
    """The file is as long as before; where our lines end there are others now."""
    version = ask(driver, Append(LOG, b"mine\n", start_log(driver, LOG)), Written).version
    size = (root / LOG).stat().st_size
    other = LocalDriver(root)
    later = ask(other, Append(LOG, b"another's\n", version), Written).version
    assert (root / LOG).stat().st_size == size
    assert isinstance(ask_any(driver, Get(LOG, unless=version)), Found)
    assert isinstance(ask_any(driver, Append(LOG, b"lost\n", version)), ConflictError)
    last = ask(driver, Append(LOG, b"mine again\n", later), Written).version
    assert ask(other, Get(LOG), Found).data == b"head\nmine\nanother's\nmine again\n"
    assert isinstance(ask_any(other, Get(LOG, unless=last)), Unchanged)


def test_a_torn_end_in_the_room_is_cut_with_all_that_is_left_of_it(driver: LocalDriver, root: Path) -> None:
    """A power cut may leave the end of an append and not its beginning; nothing of that follows what comes next."""
    version = ask(driver, Append(LOG, b"mine\n", start_log(driver, LOG)), Written).version
    driver.close()
    with (root / LOG).open("r+b") as file:
        file.seek(200)
        file.write(b"the end of a line\n")
    for number in range(30):
        version = ask(driver, Append(LOG, f"line {number}\n".encode(), version), Written).version
    assert ask(driver, Get(LOG), Found).data.endswith(b"\nline 28\nline 29\n")


def test_a_line_that_is_being_written_is_not_taken_for_a_torn_one(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads may have passed its beginning when its end comes: what looks torn is read again."""
    version = start_log(driver, LOG)
    whole = b"head\n" + b"x" * 5000 + b"\n"
    looks = itertools.chain([b"head\n" + bytes(4091) + whole[4096:]], itertools.repeat(whole))
    monkeypatch.setattr(local_disk, "read_all", lambda _: next(looks))
    assert version != ask(driver, Get(LOG), Found).version == rules.log_version(whole)


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the system take no more than the first `size` bytes of any file, like a disk that fills up."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_room_that_does_not_fit_is_no_reason_to_refuse(driver: LocalDriver, root: Path) -> None:
    """The line is there as a whole: to cut it off would take back what others may have read."""
    version = start_log(driver, LOG)
    with files_of_at_most(60):
        version = ask(driver, Append(LOG, b"as much as fits\n", version), Written).version
        version = ask(driver, Append(LOG, b"and once more\n", version), Written).version
        assert (root / LOG).stat().st_size == 60
        assert isinstance(ask_any(driver, Append(LOG, b"x" * 60 + b"\n", version)), UnavailableError)
    ask(driver, Append(LOG, b"more\n", version), Written)
    assert ask(driver, Get(LOG), Found).data == b"head\nas much as fits\nand once more\nmore\n"


def test_lines_that_are_taken_back_were_seen_by_nobody(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version of a log contains its length, not its lines: other lines of that length may follow."""
    version, other, cut = start_log(driver, LOG), LocalDriver(root), open_log.OpenLog.cut
    seen: list[Found] = []

    def read_then_cut(log: open_log.OpenLog) -> None:
        seen.append(ask(other, Get(LOG), Found))
        cut(log)

    monkeypatch.setattr(open_log.OpenLog, "cut", read_then_cut)
    with files_of_at_most(20):
        assert isinstance(ask_any(driver, Append(LOG, b"one line\nand another\n", version)), UnavailableError)
    assert [found.data for found in seen] == [b"head\n"]
    ask(other, Append(LOG, b"any line\n", version), Written)


def test_what_a_killed_writer_left_is_synced_before_it_is_shown(root: Path, disk: Disk) -> None:
    """Once: then a mark tells everybody that it is durable."""
    driver = LocalDriver(root, sync=disk.sync)
    start_log(driver, LOG)
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\n"))
        file.write(b"left\ntorn")
    disk.synced.clear()
    assert ask(driver, Get(LOG), Found).data == b"head\nleft\ntorn"
    assert disk.synced == ["tail.jsonl", "x"]
    assert ask(LocalDriver(root, sync=disk.sync), Get(LOG), Found).data == b"head\nleft\ntorn"
    assert disk.synced == ["tail.jsonl", "x"]


def test_what_cannot_be_synced_is_not_shown(root: Path, disk: Disk) -> None:
    """A reader gets an error. It alone was told by the system, so nothing is added to the log until it was replaced."""
    driver = LocalDriver(root, sync=disk.sync)
    version = start_log(driver, LOG)
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\n"))
        file.write(b"left\n")
    disk.fail_on = "tail.jsonl"
    assert isinstance(ask_any(driver, Get(LOG)), UnavailableError)
    disk.fail_on = ""
    other = LocalDriver(root, sync=disk.sync)
    assert isinstance(ask_any(other, Append(LOG, b"more\n", version)), PoisonedError)
    found = ask(other, Get(LOG), Found)
    assert found.data == b"head\nleft\n"
    assert isinstance(ask_any(other, Append(LOG, b"more\n", found.version)), PoisonedError)
    version = ask(other, Put(LOG, b"new head\nleft\n", expect=found.version), Written).version
    ask(other, Append(LOG, b"more\n", version), Written)


def unsyncable(number: int) -> Sync:
    """Syncs that all fail with an error of this number."""

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    return Sync(fail, fail)


def test_a_log_on_media_that_know_of_no_sync_is_shown_whole(root: Path) -> None:
    """Nobody can write there, whatever a mark says that was copied along."""
    version = start_log(LocalDriver(root))
    mark = (root / "sessions/x/.lock").read_bytes()
    ask(LocalDriver(root), Append(LOG, b"line\n", version), Written)
    for there in (mark, b""):
        (root / "sessions/x/.lock").write_bytes(there)
        reader = LocalDriver(root, sync=unsyncable(errno.EINVAL))
        assert ask(reader, Get(LOG), Found).data == b"head\nline\n"


def test_a_file_system_that_failed_shows_only_what_is_marked(root: Path) -> None:
    """It takes no writes any more, and what it has in memory is gone with the next start."""
    start_log(LocalDriver(root))
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\n"))
        file.write(b"left\n")
    reader = LocalDriver(root, sync=unsyncable(errno.EROFS))
    assert ask(reader, Get(LOG), Found).data == b"head\n"
    (root / "sessions/x/.lock").write_bytes(b"")
    assert isinstance(ask_any(reader, Get(LOG)), AccessError)


@pytest.mark.parametrize("marker_lasts", [True, False])
@pytest.mark.parametrize("cut", [True, False])
def test_a_power_cut_after_a_failed_sync_hides_nothing_acknowledged(
    root: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, *, marker_lasts: bool, cut: bool
) -> None:
    """The mark in the lock file is an older one then, while the marker was synced, or its name at least."""
    driver, lock = LocalDriver(root, sync=disk.sync), root / "sessions/x/.lock"
    first = start_log(driver, LOG)
    mark = lock.read_bytes()
    second = ask(driver, Append(LOG, b"line\n", first), Written).version
    if not cut:
        monkeypatch.setattr(open_log.OpenLog, "cut", lambda _: os.close(-1))
    disk.fail_on = "tail.jsonl"
    assert isinstance(ask_any(driver, Append(LOG, b"more\n", second)), PoisonedError)
    disk.fail_on = ""
    lock.write_bytes(mark)
    if not marker_lasts:
        os.truncate(root / f"{LOG}.poisoned", 0)
    other = LocalDriver(root, sync=disk.sync)
    found = ask(other, Get(LOG), Found)
    assert found.data.startswith(b"head\nline\n")
    assert (found.version == second) == (marker_lasts or cut)
    assert isinstance(ask_any(other, Put(LOG, b"new head\n", expect=first)), ConflictError)
    ask(other, Put(LOG, b"new head\n", expect=found.version), Written)


@pytest.mark.parametrize("mark", [b"", b"durable 0:5 00000000\n", b"durable", b"durable \xff\xff 00000000\n"])
def test_a_mark_that_is_not_whole_costs_a_sync(root: Path, disk: Disk, mark: bytes) -> None:
    """It is never believed, and written anew."""
    driver = LocalDriver(root, sync=disk.sync)
    start_log(driver, LOG)
    lock = root / "sessions/x/.lock"
    good = lock.read_bytes()
    lock.write_bytes(mark)
    disk.synced.clear()
    for _ in range(2):
        ask(driver, Get(LOG), Found)
    assert disk.synced == ["tail.jsonl", "x"]
    assert lock.read_bytes().startswith(good)


@pytest.mark.parametrize("at", range(45))
def test_a_mark_is_believed_only_with_all_its_digits(root: Path, disk: Disk, at: int) -> None:
    """A reader may see a mark that is half written."""
    driver = LocalDriver(root, sync=disk.sync)
    start_log(driver, LOG)
    lock = root / "sessions/x/.lock"
    mark = bytearray(lock.read_bytes())
    if at >= len(mark) - 1:
        pytest.skip("the mark is shorter")
    mark[at] ^= 1
    lock.write_bytes(mark)
    disk.synced.clear()
    ask(driver, Get(LOG), Found)
    assert disk.synced == ["tail.jsonl", "x"]


def test_a_log_without_a_lock_is_synced_and_nothing_is_created(root: Path, disk: Disk) -> None:
    """Another tool copied it here: whether it is on this disk nobody knows."""
    driver = LocalDriver(root, sync=disk.sync)
    start_log(driver, LOG)
    (root / "sessions/x/.lock").unlink()
    disk.synced.clear()
    before = tree(root)
    for _ in range(2):
        assert ask(driver, Get(LOG), Found).data == b"head\n"
    assert disk.synced == ["tail.jsonl", "x"] * 2
    assert tree(root) == before


def test_a_reader_without_the_right_to_write_marks_nothing(
    root: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can take the lock and sync all the same."""
    start_log(LocalDriver(root, sync=disk.sync), LOG)
    lock, opened = root / "sessions/x/.lock", local_disk.open_file
    lock.write_bytes(b"")

    def open_file(folder: int, name: str, flags: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "permission denied")
        return opened(folder, name, flags)

    monkeypatch.setattr(local_disk, "open_file", open_file)
    disk.synced.clear()
    assert ask(LocalDriver(root, sync=disk.sync), Get(LOG), Found).data == b"head\n"
    assert disk.synced == ["tail.jsonl", "x"]
    assert lock.read_bytes() == b""


def test_a_log_that_is_being_replaced_is_shown_when_its_name_is_durable(driver: LocalDriver, disk: Disk) -> None:
    """Whoever asks in between waits."""
    version = start_log(driver, LOG)
    seen: list[Found] = []
    reader = threading.Thread(target=lambda: seen.append(ask(driver, Get(LOG), Found)))

    early: list[Found] = []

    def read() -> None:
        reader.start()
        reader.join(timeout=0.1)
        early.extend(seen)

    disk.before["x"] = read
    ask(driver, Put(LOG, b"new head\n", expect=version), Written)
    reader.join()
    assert not early
    assert [found.data for found in seen] == [b"new head\n"]


def test_a_reader_does_not_wait_for_ever(driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has the lock may be stopped."""
    start_log(driver, LOG)
    (root / LOG).write_bytes(b"other head\n")
    monkeypatch.setattr(local_log, "_PAUSES_MAX", 3)
    with (root / "sessions/x/.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = ask_any(driver, Get(LOG))
    assert isinstance(answer, UnavailableError)
    assert (answer.kind, f"process {os.getpid()}, which is running" in str(answer)) == ("locked", True)
    assert ask(driver, Get(LOG), Found).data == b"other head\n"


@pytest.mark.parametrize("change", ["append", "put", "delete"])
def test_a_writer_does_not_wait_for_ever(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Nothing was written then; and where the system does not tell who has the lock, the error says how to find it."""
    version = ask(driver, Append(LOG, b"line\n", start_log(driver, LOG)), Written).version
    changes: dict[str, Request] = {
        "append": Append(LOG, b"more\n", version),
        "put": Put(LOG, b"new\n"),
        "delete": Delete((LOG,)),
    }
    monkeypatch.setattr(local_lock, "LOCK_SECONDS_MAX", 0)
    monkeypatch.setattr(local_lock, "LOCKS_TABLE", root / "none")
    with (root / "sessions/x/.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = ask_any(driver, changes[change])
    assert isinstance(answer, UnavailableError)
    assert (answer.kind, "lsof" in (answer.remedy or "")) == ("locked", True)
    assert ask(driver, Get(LOG), Found).data == b"head\nline\n"
    assert not isinstance(ask_any(driver, changes[change]), UnavailableError)


def test_a_log_is_replaced_while_a_thread_waits_to_append_to_it(
    driver: LocalDriver, disk: Disk, waits: list[str]
) -> None:
    """Who replaces a log closes it, and must not wait for a thread that waits for the lock it has."""
    version = ask(driver, Append(LOG, b"a\n", start_log(driver, LOG)), Written).version
    answers: list[object] = []
    appending = threading.Thread(
        target=lambda: answers.append(ask_any(driver, Append(LOG, b"b\n", version))), daemon=True
    )

    def append() -> None:
        appending.start()
        while not waits and appending.is_alive():
            pass

    disk.before["x"] = append
    putting = threading.Thread(
        target=lambda: answers.append(ask_any(driver, Put(LOG, b"new head\n", expect=version))), daemon=True
    )
    putting.start()
    putting.join(timeout=20)
    appending.join(timeout=20)
    assert sorted(type(answer).__name__ for answer in answers) == ["ConflictError", "Written"]


def test_a_reader_that_syncs_hides_nothing_from_other_readers(root: Path, disk: Disk) -> None:
    """After a power cut a mark may cover less than was acknowledged, and several processes look at once."""
    driver = LocalDriver(root, sync=disk.sync)
    version = start_log(driver, LOG)
    lock = root / "sessions/x/.lock"
    mark = lock.read_bytes()
    ask(driver, Append(LOG, b"line\n", version), Written)
    lock.write_bytes(mark)
    seen: list[bytes] = []
    disk.before["tail.jsonl"] = lambda: seen.append(ask(LocalDriver(root), Get(LOG), Found).data)
    assert ask(driver, Get(LOG), Found).data == b"head\nline\n"
    assert seen == [b"head\nline\n"]


def test_lines_taken_back_while_they_are_read_are_not_taken_for_others_of_their_length(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark that is written meanwhile is about those others."""
    version, read_log = start_log(driver, LOG), local_log.read_log
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\n"))
        file.write(b"mine\n")

    def read_then_change(fd: int) -> bytes:
        monkeypatch.setattr(local_log, "read_log", read_log)
        data = read_log(fd)
        os.truncate(root / LOG, len(b"head\n"))
        ask(LocalDriver(root), Append(LOG, b"your\n", version), Written)
        return data

    monkeypatch.setattr(local_log, "read_log", read_then_change)
    assert ask(driver, Get(LOG), Found).data == b"head\nyour\n"


def test_a_writer_that_comes_to_a_log_without_a_lock_is_noticed(root: Path, disk: Disk) -> None:
    """What a reader saw of its append may have been taken back by now."""
    driver = LocalDriver(root, sync=disk.sync)
    version = start_log(driver, LOG)
    (root / "sessions/x/.lock").unlink()
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\n"))
        file.write(b"mine\n")

    def take_back() -> None:
        os.truncate(root / LOG, len(b"head\n"))
        ask(LocalDriver(root), Append(LOG, b"another line\n", version), Written)

    disk.before["tail.jsonl"] = take_back
    assert ask(driver, Get(LOG), Found).data == b"head\nanother line\n"


def test_a_child_forked_while_a_reader_syncs_does_not_keep_the_lock(root: Path, disk: Disk) -> None:
    """It may live as long as it likes, and others may append."""
    driver = LocalDriver(root, sync=disk.sync)
    start_log(driver, LOG)
    lock = root / "sessions/x/.lock"
    lock.write_bytes(b"")
    end, start = os.pipe()
    begun, begins = os.pipe()

    def fork() -> None:
        if not os.fork():
            os.close(start)
            os.write(begins, b"!")
            os.read(end, 1)
            os._exit(0)

    disk.before["tail.jsonl"] = fork
    ask(driver, Get(LOG), Found)
    try:
        os.read(begun, 1)
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for each in (start, end, begun, begins):
            os.close(each)
        os.wait()


def test_what_could_not_be_cut_off_after_a_failed_sync_is_not_shown(
    driver: LocalDriver, disk: Disk, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No later sync proves anything about it; a put replaces it under the version that readers see."""
    version = start_log(driver, LOG)

    def fail(_: object) -> None:
        raise OSError(errno.EIO, "no luck")

    monkeypatch.setattr(open_log.OpenLog, "cut", fail)
    disk.fail_on = "tail.jsonl"
    assert isinstance(ask_any(driver, Append(LOG, b"line\n", version)), PoisonedError)
    disk.fail_on = ""
    assert (root / LOG).read_bytes().startswith(b"head\nline\n")
    other = LocalDriver(root, sync=disk.sync)
    assert ask(other, Get(LOG), Found).version == version
    ask(other, Put(LOG, b"new head\n", expect=version), Written)
    assert ask(driver, Get(LOG), Found).data == b"new head\n"


def test_what_was_torn_is_gone_from_the_disk_before_more_is_written(
    driver: LocalDriver, disk: Disk, root: Path
) -> None:
    """Else a power cut could leave the beginning of one append and the end of another."""
    version = ask(driver, Append(LOG, b"mine\n", start_log(driver, LOG)), Written).version
    with (root / LOG).open("r+b") as file:
        file.seek(len(b"head\nmine\n"))
        file.write(b"another process was killed")
    sizes: list[int] = []
    disk.before["tail.jsonl"] = lambda: sizes.append((root / LOG).stat().st_size)
    ask(driver, Append(LOG, b"more\n", version), Written)
    assert sizes == [len(b"head\nmine\n")]


def test_what_an_interrupted_append_left_is_synced_when_it_is_looked_for(driver: LocalDriver, disk: Disk) -> None:
    """A log that was written and not synced does not count as our own."""
    version = start_log(driver, LOG)

    def interrupt() -> None:
        raise KeyboardInterrupt

    disk.before["tail.jsonl"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        driver.execute((Append(LOG, b"line\n", version),))
    assert isinstance(ask_any(driver, Append(LOG, b"line\n", version)), ConflictError)
    disk.synced.clear()
    found = ask(driver, Get(LOG), Found)
    assert found.data == b"head\nline\n"
    assert disk.synced == ["tail.jsonl", "x"]
    ask(driver, Append(LOG, b"more\n", found.version), Written)
    assert disk.synced == ["tail.jsonl", "x", "tail.jsonl"]


def test_a_store_whose_link_leads_elsewhere_is_appended_to_there(root: Path, tmp_path: Path) -> None:
    """Who moves a store and lets the old name lead to the new place finds all that is acknowledged there."""
    (tmp_path / "old").mkdir()
    root.symlink_to(tmp_path / "old")
    driver = LocalDriver(root)
    version = ask(driver, Append(LOG, b"one\n", start_log(driver, LOG)), Written).version
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    root.unlink()
    root.symlink_to(tmp_path / "new")
    ask(driver, Append(LOG, b"two\n", version), Written)
    assert ask(driver, Get(LOG), Found).data == b"head\none\ntwo\n"
    assert b"two" not in (tmp_path / "old" / LOG).read_bytes()


def test_a_log_replaced_while_it_is_opened_is_not_appended_to(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may be another file's before it is asked for the first time."""
    version, link_of = start_log(driver, LOG), open_log.link_of

    def replaced(link: str) -> str:
        monkeypatch.setattr(open_log, "link_of", link_of)
        (root / "sessions/x/new").write_bytes(b"head\n")
        (root / "sessions/x/new").replace(root / LOG)
        return link_of(link)

    monkeypatch.setattr(open_log, "link_of", replaced)
    ask(driver, Append(LOG, b"line\n", version), Written)
    assert ask(driver, Get(LOG), Found).data == b"head\nline\n"


@pytest.mark.parametrize("link", [True, False])
def test_a_log_that_was_removed_is_noticed(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch, *, link: bool
) -> None:
    """Also where the kernel does not tell the name of an open file."""
    if not link:
        monkeypatch.setattr(open_log, "link_of", lambda _: "")
    version = ask(driver, Append(LOG, b"one\n", start_log(driver, LOG)), Written).version
    version = ask(driver, Append(LOG, b"two\n", version), Written).version
    (root / LOG).unlink()
    assert isinstance(ask_any(driver, Append(LOG, b"three\n", version)), NotFoundError)


def test_a_long_first_line_is_read_whole(driver: LocalDriver) -> None:
    """The first line of a log may be of any length and still names the log."""
    data = b"x" * 20_000 + b"\n"
    version = ask(driver, Put(LOG, data, expect=ABSENT), Written).version
    version = ask(driver, Append(LOG, b"a\n", version), Written).version
    ask(driver, Append(LOG, b"a\n", version), Written)


def test_a_part_is_no_ground_for_a_write(driver: LocalDriver) -> None:
    """A part is answered without reading the rest, so its version must not pass for one of the whole."""
    ask(driver, Put("a", b"12345"), Written)
    found = ask(driver, Get("a", 0, 2), Found)
    assert isinstance(ask_any(driver, Put("a", b"x", expect=found.version)), ConflictError)
    assert ask(driver, Get("a"), Found).data == b"12345"


@pytest.mark.parametrize("left", [b"head\n", b"head\nline", b"head\n" + bytes(40)])
def test_a_log_that_ends_before_its_mark_says_so(driver: LocalDriver, root: Path, left: bytes) -> None:
    """Also when it is asked for again, and nothing makes it forget; a log with another first line is another one."""
    version = ask(driver, Append(LOG, b"line\n", start_log(driver)), Written).version
    (root / LOG).write_bytes(left)
    for each in (driver, LocalDriver(root)):
        found = ask(each, Get(LOG, unless=version), Found)
        assert (found.version, found.lost_bytes) == (rules.log_version(b"head\n"), 5)
    assert isinstance(ask_any(driver, Append(LOG, b"more\n", version)), ConflictError)
    (root / LOG).write_bytes(b"damaged\nline\n")
    assert ask(driver, Get(LOG), Found).lost_bytes == 0
    (root / LOG).write_bytes(left)
    assert ask(driver, Get(LOG), Found).lost_bytes == 5


def test_a_log_that_gets_nothing_new_keeps_its_time(driver: LocalDriver, root: Path) -> None:
    """Where a put says so, the time of modification stays, any other put changes it."""
    version = ask(driver, Put(LOG, b"head\n", expect=ABSENT), Written).version
    os.utime(root / LOG, ns=(5_000_000, 5_000_000))
    version = ask(driver, Put(LOG, b"other\n", expect=version, keeps_time=True), Written).version
    assert (root / LOG).stat().st_mtime_ns == 5_000_000
    assert isinstance(ask_any(driver, Put(LOG, b"x\n", expect=Version("stale"), keeps_time=True)), ConflictError)
    ask(driver, Put(LOG, b"third\n", expect=version), Written)
    assert (root / LOG).stat().st_mtime_ns > 5_000_000


def test_memory_keeps_times_like_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that protocols see in memory what they see on a disk."""
    times = itertools.count(1)
    monkeypatch.setattr(memory, "now_ms", lambda: next(times))
    driver = MemoryDriver(appends=True)
    version = ask(driver, Put(LOG, b"head\n", expect=ABSENT), Written).version
    version = ask(driver, Put(LOG, b"other\n", expect=version, keeps_time=True), Written).version
    assert ask(driver, List("sessions/x/"), Listed).entries[0].modified_ms == 1
    ask(driver, Put(LOG, b"third\n", expect=version), Written)
    assert ask(driver, List("sessions/x/"), Listed).entries[0].modified_ms == 2


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_told(
    number: int, driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT and exFAT answer a link with EPERM; that is no question of rights."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    answer = ask_any(driver, Put("a", b"x", expect=ABSENT))
    assert isinstance(answer, UnsafeStoreError)
    assert (answer.kind, answer.key) == ("feature", "a")
    assert "hard links" in str(answer)
    assert keys_below(driver, "") == []
