"""The protocols of a program's parts, and the detection of a file's program."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, cast

from treering.errors import UsageError
from treering.format.values import Fields
from treering.kinds import Kind
from treering.programs import known_programs, load_installed, part_of
from treering.programs.common.entry import Entry
from treering.programs.common.filing import Filed
from treering.programs.common.folder import Folder, folder_at
from treering.programs.common.read_file import ReadFile
from treering.programs.common.rules import Rules
from treering.programs.common.source import HEAD_BYTES, Importer, open_stream, read_start
from treering.transcript.node import Draft


class Format(Importer, Protocol):
    """The interface of a program's part `read`."""

    @property
    def NAME(self) -> str:  # noqa: N802  # a constant of the module
        """The name of the program."""

    @property
    def POLICIES(self) -> tuple[str, ...]:  # noqa: N802
        """The policies of the program, one for each of its versions; imported sessions get the first."""

    @property
    def RULES(self) -> Rules:  # noqa: N802
        """How the program reads the tree of a file."""

    def restore(self, entries: Sequence[Entry]) -> str | None:
        """Return the id of the entry at which the program continues; None is the place before the first one."""

    def listing(self, file: ReadFile) -> dict[str, object]:
        """Return the facts that the program's own list of sessions shows, under its names."""

    def to_record(self, draft: Draft, parent: str | None) -> Fields:
        """Return the record from which a draft was made; bytes and order kept in its source are ignored.

        Args:
            draft: A draft from the importer, or made from a node, note or edit in a store.
            parent: The parent that the record names.
        """

    def encode(self, record: Mapping[str, object]) -> bytes:
        """Return the bytes that the program writes for a record, without a line break."""


class Locator(Protocol):
    """The interface of a program's part `locate`: it finds the program's sessions without reading them.

    These methods are optional: `unit_of` if sessions are folders, see `FolderLocator`; `breadcrumbs` and `breadcrumb`
    if the program records which session a terminal has open, see `Breadcrumbs`; `blobs_folder` if it keeps parts of
    sessions in separate files, see `BlobsLocator`.
    """

    def find(self, folder: str | os.PathLike[str]) -> Iterator[Path]:
        """Yield the files or folders below a folder whose names may be those of sessions; a session yields itself.

        Raises:
            NotFoundError: There is no such folder.
        """

    def folders(self, home: Path, environ: Mapping[str, str]) -> list[Path]:
        """Return the folders in which the program keeps sessions, whether they exist or not.

        Args:
            home: The user's home.
            environ: The environment, which may name other places.
        """


class FolderLocator(Locator, Protocol):
    """The locator of a program whose sessions are folders: `find` yields folders, and `detect` accepts no file."""

    def unit_of(self, path: str) -> str | None:
        """Return the folder of the session to which a file belongs; see `treering.programs.common.folder.UnitOf`.

        Args:
            path: An absolute path or a URL; the file need not exist.
        """


class FilingLocator(Locator, Protocol):
    """The locator of a program whose folders and file names are known: a session can be put where its list finds it."""

    def place(self, filed: Filed, home: Path, environ: Mapping[str, str]) -> Path:
        """Return the file in which the program would keep a session.

        Args:
            filed: The session.
            home: The user's home.
            environ: The environment, which may name other places.
        """


class BlobsLocator(Locator, Protocol):
    """The locator of a program that keeps large parts of sessions, such as images, in separate files."""

    def blobs_folder(self, file: Path) -> Path:
        """Return the folder with the parts of a session file; it may not exist."""


class Breadcrumb(Protocol):
    """The session that a terminal had open last."""

    @property
    def cwd(self) -> Path:
        """The folder in which the program was started."""

    @property
    def session_file(self) -> Path:
        """The file of the session."""

    @property
    def fresh(self) -> bool:
        """Whether the session has no messages yet."""

    def is_of(self, cwd: Path) -> bool:
        """Tell whether the program was started in a folder."""


class Breadcrumbs(Locator, Protocol):
    """The locator of a program that records which session each terminal has open."""

    def breadcrumbs(self, home: Path, environ: Mapping[str, str]) -> list[Breadcrumb]:
        """Return the sessions that terminals had open, newest first."""

    def breadcrumb(self, home: Path, environ: Mapping[str, str], tty: str | None) -> Breadcrumb | None:
        """Return the session that this terminal had open; None if that is unknown.

        Args:
            home: The user's home.
            environ: The environment.
            tty: The path of the terminal's device, or None.
        """


LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most bytes of a first line that are read; no program writes a header of this size."""


def find_format(name: str) -> Format:
    """Return the reader of a program's files.

    Raises:
        UsageError: There is no such program.
    """
    found = part_of(name, "read")
    if found is None:
        raise UsageError(f"format is unknown. format={name!r}, known={sorted(known_programs())}", kind=Kind.FORMAT)
    return cast(Format, found)  # modules have no types of their own


def find_locator(name: str) -> Locator:
    """Return the locator of a program's sessions.

    Raises:
        UsageError: There is no such program.
    """
    found = part_of(name, "locate")
    if found is None:
        raise UsageError(f"format is unknown. format={name!r}, known={sorted(known_programs())}", kind=Kind.FORMAT)
    return cast(Locator, found)


def blobs_folder(name: str, file: Path) -> Path | None:
    """Return the folder with the separate parts of a session file; None if the program has no such folder.

    Args:
        name: The program.
        file: The session file, which need not exist.
    """
    locator = find_locator(name)
    return cast(BlobsLocator, locator).blobs_folder(file) if hasattr(locator, "blobs_folder") else None


def format_by_name(file: Path) -> Format:
    """Return the format whose files have names like this one; of several, the format that is asked last."""
    last_first = known_programs()[::-1]
    files = (name for name in last_first if name not in _folder_locators())
    named = (name for name in files if file.name.endswith(getattr(find_locator(name), "ENDINGS", ())))
    return find_format(next(named, last_first[0]))


def format_with(policy: str) -> Format | None:
    """Return the format of the program that has a policy; None if no program has it."""
    return next((found for found in map(find_format, known_programs()) if policy in found.POLICIES), None)


def unit_of(path: str) -> str | None:
    """Return the folder of the session to which a file belongs, in any format.

    See `treering.programs.common.folder.UnitOf`.
    """
    units = (found.unit_of(path) for found in _folder_locators().values())
    return next((unit for unit in units if unit is not None), None)


def _folder_locators() -> dict[str, FolderLocator]:
    """Return the locators of programs whose sessions are folders, by program."""
    found = {name: find_locator(name) for name in known_programs()}
    return {name: cast(FolderLocator, each) for name, each in found.items() if hasattr(each, "unit_of")}


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file by its content, or of a folder by the names of its files.

    Raises:
        UsageError: It is no session of a known format.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    folder = folder_at(path)
    found = _format_of_file(Path(path)) if folder is None else _format_of_folder(folder)
    if found is not None:
        return found
    what, remedy = ("file", "its format") if folder is None else ("folder", "a folder in which some are")
    raise UsageError(
        f"this is no session {what} that is known. path={str(path)!r}, known={sorted(known_programs())}",
        kind=Kind.FORMAT,
        remedy=f"name a session file, or {remedy}",
    )


def _format_of_file(path: Path) -> Format | None:
    with open_stream(path) as stream:
        head = read_start(stream, HEAD_BYTES)
        if len(head) == HEAD_BYTES and head.count(b"\n") < _LINES_MIN:  # the first lines may be longer
            head += _read_lines(stream, _LINES_MIN)
    return _detect(known_programs(), head) or _detect(load_installed(), head)


def _format_of_folder(folder: Folder) -> Format | None:
    load_installed()
    paths = [f"{folder.path}/{file.name}" for file in folder.files()]
    named = (name for name, found in _folder_locators().items() if folder.path in map(found.unit_of, paths))
    return next(map(find_format, named), None)


def _read_lines(stream: io.BufferedIOBase, count: int) -> bytes:
    try:
        return b"".join(stream.readline(LINE_BYTES_MAX) for _ in range(count))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return b""


def _detect(names: Iterable[str], head: bytes) -> Format | None:
    return next((found for name in names if (found := find_format(name)).detect(head)), None)


_LINES_MIN: Final = 2  # a title slot and a header
