"""A folder that holds one session of another program, on this computer or in a bucket. It is read and never written.

Most programs keep a session in one file. Some keep it in a folder of files, also in object storage. Such a folder is
found by the paths of its files only, so that a bucket costs one LIST for each 1,000 files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from treering.errors import NotFoundError, UnsafeStoreError
from treering.kinds import Kind
from treering.programs.common.source import refused
from treering.storage.open import open_driver
from treering.storage.requests import Driver, Entry, Found, Get, Steps
from treering.storage.run import checked, list_all, run

UnitOf = Callable[[str], str | None]
"""Maps the path of a file to the path of its session's folder. The result is None if the file has another format, and
empty if the file has this format but belongs to no session."""
FILES_AT_ONCE: Final = 64
"""Files read in parallel from a bucket; the driver has as many connections."""
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes read from a local file: a larger file is treated as if it ended there."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class File(NamedTuple):
    """One file of a folder."""

    name: str
    """Relative to the folder, with `/` as separator."""
    size: int
    modified_ns: int


class Folder(Protocol):
    """The files of one session."""

    @property
    def path(self) -> str:
        """The folder's absolute path or URL, without a slash at its end."""

    def files(self) -> list[File]:
        """Return all files below it, sorted by name; links are skipped.

        Raises:
            NotFoundError: There is no such folder.
        """

    def read(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files, in the order of `names`.

        Raises:
            NotFoundError: A file does not exist, or was deleted.
            AccessError: A file may not be read.
            UnavailableError: The system or the store reported another error.
        """


class LocalFolder:
    """A folder on this computer; see `Folder`."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(place)

    def files(self) -> list[File]:
        """Return all files below it, sorted by name; links are skipped."""
        if not os.path.isdir(self.path):
            raise NotFoundError(f"no such folder. path={self.path!r}", kind=Kind.FILE)
        found = []
        for place, _, names in os.walk(self.path):
            for path in (os.path.join(place, name) for name in names):
                if not os.path.islink(path) and os.path.isfile(path):
                    facts = os.stat(path)
                    name = os.path.relpath(path, self.path).replace(os.sep, "/")
                    found.append(File(name, facts.st_size, facts.st_mtime_ns))
        return sorted(found)

    def read(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files, in the order of `names`; only the beginning of a file that is too large."""
        for name in names:
            path = Path(self.path, name)
            with refused(path), path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX)
            yield data


class StoredFolder(os.PathLike[str]):
    """A folder in a bucket; see `Folder`. Its path is its URL.

    Args:
        driver: A driver that was opened at `base`.
        base: A URL.
        name: The name of the folder below `base`; empty if the folder is `base` itself.
        entries: The objects in the folder, if they were listed already.
    """

    def __init__(self, driver: Driver, base: str, name: str = "", entries: Iterable[Entry] | None = None) -> None:
        self.path = f"{base}/{name}" if name else base
        self._driver = driver
        self._prefix = f"{name}/" if name else ""
        self._files = None if entries is None else self._named(entries)

    def __fspath__(self) -> str:
        """Return its URL."""
        return self.path

    def __str__(self) -> str:
        """Return its URL."""
        return self.path

    def files(self) -> list[File]:
        """Return all files below it, sorted by name: from the list that found it, or from a LIST at the first call."""
        if self._files is None:
            self._files = self._named(run(list_all(self._prefix), self._driver))
        return self._files

    def _named(self, entries: Iterable[Entry]) -> list[File]:
        return sorted(
            File(entry.key.removeprefix(self._prefix), entry.size, entry.modified_ms * 1_000_000) for entry in entries
        )

    def read(self, names: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files, in the order of `names`; at most `FILES_AT_ONCE` are in memory at a time."""
        for part in _parts(names):
            yield from run(self._get(part), self._driver)

    def _get(self, names: list[str]) -> Steps[list[bytes]]:
        answers = yield tuple(Get(self._prefix + name) for name in names)
        return [checked(answer, Found).data for answer in answers]


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for name in names:
        part.append(name)
        if len(part) == FILES_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def open_url(url: str, storage_options: Mapping[str, Any] | None = None) -> Driver:
    """Return a driver for reading from any store: reading needs no conditional writes.

    Raises:
        UsageError: The URL is that of no known store.
    """
    try:
        return open_driver(url, storage_options=storage_options)
    except UnsafeStoreError:
        return open_driver(url, storage_options=storage_options, single_writer=True)


def is_url(place: str | os.PathLike[str]) -> bool:
    """Tell whether a place is a URL, and so not a local path."""
    return _URL.match(os.fspath(place)) is not None


def folder_at(place: str | os.PathLike[str]) -> Folder | None:
    """Return the folder at a place; None if there is a file or nothing."""
    where = located(place)
    if isinstance(where, StoredFolder):
        return where
    return LocalFolder(where) if where.is_dir() else None


def located(place: str | os.PathLike[str]) -> Path | StoredFolder:
    """Return a place as a path, or as a folder in a bucket."""
    if isinstance(place, StoredFolder):
        return place
    if not is_url(place):
        return Path(place)
    url = _without_slash(os.fspath(place))
    return StoredFolder(open_url(url), url)


def _without_slash(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rstrip('/')}"


def find_stored(url: str, unit_of: UnitOf, storage_options: Mapping[str, Any] | None = None) -> Iterator[StoredFolder]:
    """Yield the folders with sessions below a URL, sorted by name: one LIST for each 1,000 files.

    Raises:
        UsageError: The URL is that of no known store.
        UnavailableError: The store does not answer.
    """
    base = _without_slash(url)
    driver = open_url(base, storage_options)
    below: dict[str, list[Entry]] = {}
    for entry in run(list_all(""), driver):
        if unit := unit_of(f"{base}/{entry.key}"):
            below.setdefault(unit, []).append(entry)
    for unit, entries in sorted(below.items()):
        name = unit[len(base) + 1 :]
        if name.isascii():
            yield StoredFolder(driver, base, name, entries)
        else:  # a driver accepts only ASCII keys, but can be opened at any URL
            yield StoredFolder(open_url(unit, storage_options), unit)


def gather(paths: Iterable[Path], unit_of: UnitOf) -> Iterator[Path]:
    """Yield the folders of sessions instead of their files, each once, and files that belong to no such folder."""
    seen: set[str] = set()
    for path in paths:
        unit = unit_of(os.path.abspath(path))
        if unit is None:
            yield path
        elif unit and unit not in seen:
            seen.add(unit)
            yield Path(unit)
