"""List a folder tree in the order of its keys, reading no more folders than needed and creating nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

from treering.storage import local_disk
from treering.storage.local_log import POISON_ENDING
from treering.storage.requests import LIST_KEYS_MAX, Entry, List, Listed


def list_folder(root: str, request: List) -> Listed:
    """Answer `request` with the files below `root`; raises `OSError` for a folder that cannot be read."""
    limit = min(request.limit, LIST_KEYS_MAX)
    try:
        folder = local_disk.open_folder(root, request.prefix.split("/")[:-1])
    except (FileNotFoundError, NotADirectoryError):
        return Listed((), more=False)
    try:
        entries = tuple(islice(_entries(folder, request.prefix, request), limit + 1))
    finally:
        os.close(folder)
    return Listed(entries[:limit], more=len(entries) > limit)


def _entries(folder: int, prefix: str, request: List) -> Iterator[Entry]:
    """Yield the files below an open folder whose keys are greater than `request.after`, in order."""
    after = request.after
    # The name in this folder that `after` contains: a file, or a folder that may hold further keys.
    start = after[len(prefix) :] if after.startswith(prefix) else ""
    start = start[: start.find("/") + 1] or start
    with os.scandir(folder) as found:
        # A folder is sorted by its name with the slash, as the keys below it sort among their neighbours.
        names = [entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in found]
    for name in sorted([name for name in names if name >= start]):
        key = prefix + name
        if not _is_visible(name):  # asked here, as few of the names may be wanted
            continue
        if name.endswith("/"):
            yield from _entries_below(folder, name, key, request)
        elif key > after and request.names_only:
            yield Entry(key, 0, 0)
        elif key > after and (entry := _entry(folder, name, key)) is not None:
            yield entry


def _entries_below(folder: int, name: str, prefix: str, request: List) -> Iterator[Entry]:
    """Yield the files below a folder that stands in an open folder; none if it was removed since its name was read."""
    try:
        inner = local_disk.open_folder_in(folder, name[:-1])
    except FileNotFoundError:
        return
    try:
        yield from _entries(inner, prefix, request)
    finally:
        os.close(inner)


def _is_visible(name: str) -> bool:
    return name.isascii() and not name.startswith(".") and not name.endswith(POISON_ENDING)


def _entry(folder: int, name: str, key: str) -> Entry | None:
    """Return the entry of a file; None if it was removed since its name was read."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return Entry(key, found.st_size, found.st_mtime_ns // 1_000_000)
