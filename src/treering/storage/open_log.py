"""One log of a local folder, open to be appended to; see `treering.storage.local_log`."""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections.abc import Callable

from treering.storage import local_disk, local_lock, rules
from treering.storage.requests import ABSENT, Version


class OpenLog:
    """An open log and the open lock of its folder."""

    def __init__(self, root: str, key: str) -> None:
        *folders, name = key.split("/")
        self.path = f"{root}/{key}"
        self.folder = os.path.dirname(self.path)
        self.mutex = allocate_lock()  # threads share the descriptor, and with it the lock
        folder = local_disk.open_folder(root, folders)
        try:
            self._place = os.fstat(folder)
            self.fd = local_disk.open_file(folder, name, os.O_RDWR)  # -1 once another thread closed it
            try:
                self.lock = local_lock.open_lock(folder)
            except OSError:
                os.close(self.fd)
                raise
        finally:
            os.close(folder)
        self._link = f"/proc/self/fd/{self.fd}"
        self._linked_to = link_of(self._link)
        self.digest = rules.first_line_digest(_first_line(self.fd))
        self.version = ABSENT
        """Version after the last append of this object; the next two fields belong to it:"""
        self.length = 0
        """Bytes of its lines."""
        self.size = 0
        """Bytes of the file, including the free room behind the lines."""

    def has_its_name(self) -> bool:
        """Return whether the log is still the file that was opened.

        After a `stat` of the log the next write would have to update its exact time of modification, which the sync
        then writes as well, on kernels with multigrain timestamps (Linux 6.13). So later checks ask the kernel for the
        name of the open file. They also check the folder, since its path may lead elsewhere now, by a link or a mount.
        """
        if self._linked_to and self.version != ABSENT:
            same_name = link_of(self._link) == self._linked_to
            return same_name and os.path.samestat(os.stat(self.folder), self._place)
        return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self.fd))

    def is_as_left(self) -> bool:
        """Whether no process changed the log's length since the last append of this object."""
        return os.pread(self.fd, 2, self.length - 1) in (b"\n", b"\n\0")

    def ends(self, length: int, size: int) -> None:
        """Remember the lengths of the lines and of the file."""
        self.version, self.length, self.size = rules.join_version(self.digest, length), length, size

    def cut_torn(self, version: Version) -> int | None:
        """Cut off a torn end, so that this log ends at `version`; return how many bytes were cut.

        Returns None, without a cut, if it is another or a shorter log, or if a complete line follows.
        """
        digest, length = rules.split_version(version) or ("", 0)
        if digest != self.digest or not length:
            return None
        size = os.fstat(self.fd).st_size
        behind = local_disk.read(self.fd, length - 1, size - length + 1)
        if behind[:1] != b"\n" or rules.complete_bytes(behind) != 1:
            return None
        torn = 0 if behind.strip(b"\0") == b"\n" else size - length
        if torn:
            os.ftruncate(self.fd, length)
        self.ends(length, size - torn)
        return torn

    def cut(self) -> None:
        """Cut off everything after the lines, including the free room."""
        os.ftruncate(self.fd, self.length)
        self.size = self.length

    def close(self) -> None:
        """Close both descriptors, once no thread uses them."""
        with self.mutex:
            if self.fd >= 0:
                fd, self.fd = self.fd, -1  # first, as a second close could hit another file of that number
                self.lock.close()
                os.close(fd)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "lock", None) and not is_finalizing():  # at the end of a process the modules go first
            self.close()


def _first_line(fd: int) -> bytes:
    """Return the first line, or the whole file if it has no line feed."""
    size = local_disk.FIRST_LINE_GUESS
    while b"\n" not in (data := local_disk.read(fd, 0, size)) and len(data) == size:
        size *= 2
    return data


def link_of(link: str) -> str:
    """Return the target of a link; empty if there is no link.

    The link of an open file, `/proc/self/fd/N`, changes when the file is renamed, replaced or removed. macOS has no
    such links.
    """
    try:
        return os.readlink(link)
    except OSError:
        return ""
