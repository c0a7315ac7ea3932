"""Files and folders of the local driver: opened without following links, written whole, synced, errors translated.

Everything below the root is opened relative to an open folder and with `O_NOFOLLOW`: a link inside the store could lead
anywhere, so it is refused and not followed. The path of the root itself may contain links, as the user chose it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence

import msgspec

from treering._late import Kind
from treering.digests import blake2b
from treering.errors import AccessError, TreeringError, UnavailableError
from treering.ids import new_nonce
from treering.storage import rules
from treering.storage.requests import Version

FOLDER_MODE = 0o700  # sessions are private: they hold conversations of people with an agent
FILE_MODE = 0o600
TEMPORARY_START = ".tmp-"
FIRST_LINE_GUESS = 4096  # bytes read to find the first line of a log; a longer one costs more reads

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe in the store would wait for ever.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sync(msgspec.Struct, frozen=True):
    """How bytes are forced to disk; tests replace it by one that fails."""

    data: Callable[[int], None]
    """Content and length of a file."""
    whole: Callable[[int], None]
    """A file or folder with all its attributes."""


def _full_sync(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore]  # macOS: fsync stops at the drive's cache


OS_SYNC = Sync(_full_sync, _full_sync) if hasattr(fcntl, "F_FULLFSYNC") else Sync(os.fdatasync, os.fsync)


def explain(error: OSError, key: str) -> TreeringError:
    """Return the Treering error for `error`, with a remedy."""
    if error.errno == errno.ENOENT:
        return rules.missing(key)
    # Made here and not at import, since most processes need none of these; see `treering._late.Kind`.
    access = {
        errno.EACCES: (Kind.PERMISSION, "grant this user access to the store's folder"),
        errno.EPERM: (Kind.PERMISSION, "grant this user access to the store's folder"),
        errno.EROFS: (Kind.READ_ONLY, "mount the filesystem writable"),
        errno.ELOOP: (Kind.LINK, "replace the symbolic link by what it points to"),
        errno.EISDIR: (Kind.FOLDER, "move the folder away; it stands where a file belongs"),
        errno.ENOTDIR: (Kind.FOLDER, "move the file away; it stands where a folder belongs"),
    }
    unavailable = {
        errno.ENOSPC: (Kind.FULL, "free some space on this disk"),
        errno.EDQUOT: (Kind.FULL, "free some of this user's quota"),
        errno.EFBIG: (Kind.FULL, "raise the limit on the size of files"),
        errno.EIO: (Kind.IO, "check the disk"),
        errno.EMFILE: (Kind.DESCRIPTORS, "raise the limit on open files (ulimit -n)"),
        errno.ENFILE: (Kind.DESCRIPTORS, "raise the limit on open files (ulimit -n)"),
    }
    text = (error.strerror or str(error)).lower()
    if found := access.get(error.errno or 0):
        return AccessError(text, kind=found[0], key=key, remedy=found[1])
    kind, remedy = unavailable.get(error.errno or 0, (Kind.IO, ""))
    return UnavailableError(text, kind=kind, key=key, remedy=remedy)


def open_folder(root: str, names: Sequence[str]) -> int:
    """Open the folder reached from `root` through `names` and return its descriptor."""
    return _walk(os.open(root, _FOLDER), names, open_folder_in)


def make_folder(root: str, names: Sequence[str], sync: Sync, *, settle: bool) -> int:
    """Like `open_folder`, but durably create missing folders.

    Args:
        root: The root folder; created, too, with its parents.
        names: Folders below it.
        sync: How to make new names durable.
        settle: Sync every folder on the path even if it exists. Another process may have just made it and not synced it
            yet, and acknowledged writes must not depend on that.
    """

    def step(fd: int, name: str) -> int:
        made = False
        with contextlib.suppress(FileExistsError):
            _make_one(fd, name)
            made = True
        if made or settle:
            sync.whole(fd)
        return open_folder_in(fd, name)

    return _walk(
        _make_root(root, sync, settle=settle), names, step if settle else lambda fd, name: _step_or(step, fd, name)
    )


def _make_root(root: str, sync: Sync, *, settle: bool) -> int:
    parent, name = os.path.split(root)
    try:
        fd = os.open(root, _FOLDER)
    except FileNotFoundError:
        above = _make_root(parent, sync, settle=False)
    else:
        if not settle:
            return fd
        os.close(fd)
        try:
            above = os.open(parent, _FOLDER)
        except PermissionError:  # this process may lack the right to open it
            return os.open(root, _FOLDER)
    try:
        with contextlib.suppress(FileExistsError):
            _make_one(above, name)
        sync.whole(above)
        return os.open(name, _FOLDER, dir_fd=above)
    finally:
        os.close(above)


def _make_one(parent: int, name: str) -> None:
    os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    os.chmod(name, FOLDER_MODE, dir_fd=parent)  # the umask may have taken our own rights, too


def _walk(fd: int, names: Sequence[str], step: Callable[[int, str], int]) -> int:
    for name in names:
        try:
            inner = step(fd, name)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_folder_in(fd: int, name: str) -> int:
    """Open the folder `name` inside an open one and return its descriptor."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
    except NotADirectoryError:  # Linux raises it for links, too
        if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def _step_or(make: Callable[[int, str], int], fd: int, name: str) -> int:
    try:
        return open_folder_in(fd, name)
    except FileNotFoundError:
        return make(fd, name)


def open_file(folder: int, name: str, flags: int) -> int:
    """Open a regular file, never through a link, and return its descriptor.

    Raises:
        FileNotFoundError: There is no such file, or it is a folder.
    """
    fd = os.open(name, flags | _FILE, FILE_MODE, dir_fd=folder)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        if flags & os.O_CREAT and stat.S_IMODE(mode) != FILE_MODE:  # the umask may have taken our own rights, too
            with contextlib.suppress(PermissionError):  # another user's file
                os.fchmod(fd, FILE_MODE)
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    raise PermissionError(errno.EACCES, "not a regular file")


def read(fd: int, start: int, count: int) -> bytes:
    """Return `count` bytes from `start` on, fewer only at the end of the file."""
    chunks = []
    while count > 0 and (chunk := os.pread(fd, count, start)):
        chunks.append(chunk)
        start += len(chunk)
        count -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def read_all(fd: int) -> bytes:
    """Return the current bytes of the whole file."""
    return read(fd, 0, os.fstat(fd).st_size)


def write(fd: int, data: bytes) -> None:
    """Write all of `data`; one call of the system unless it accepts less."""
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, memoryview(data)[done:])


def content_version(data: bytes) -> Version:
    """Return the version of a file that is only replaced, never changed in place."""
    return Version(blake2b(data, 16))


@contextlib.contextmanager
def temporary(folder: int) -> Iterator[tuple[int, str]]:
    """Make a new file in `folder`, and yield its descriptor and name. Afterwards the name is removed, if still there.

    The file stays locked while its writer lives, which distinguishes it from a file that a killed process left.
    """
    while True:
        name = f"{TEMPORARY_START}{new_nonce()}"
        fd = open_file(folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if _lock_now(fd) and os.fstat(fd).st_nlink:
            break
        os.close(fd)  # another process swept it first
    try:
        yield fd, name
    finally:
        # The renamed file exists all the same; a temporary one that cannot be removed now is swept by the next writer.
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        os.close(fd)


def sweep(folder: int) -> None:
    """Remove temporary files that killed writers left in `folder`; they may hold payloads that were erased since."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(TEMPORARY_START)]
    for name in names:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            fd = open_file(folder, name, os.O_RDONLY)
            try:
                if _lock_now(fd):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(fd)


def sweep_below(folder: int, sync: Sync, *, deep: bool) -> None:
    """Like `sweep`, but durably; with `deep` also in all folders below."""
    sweep(folder)
    sync.whole(folder)
    if not deep:
        return
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            fd = open_folder_in(folder, name)
            try:
                sweep_below(fd, sync, deep=True)
            finally:
                os.close(fd)


def _lock_now(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
