"""The formats that are known, and which of them a file has."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from treering.errors import UsageError
from treering.format.values import Fields
from treering.importers.entry import Entry
from treering.importers.folder import Folder, folder_at
from treering.importers.rules import Rules
from treering.importers.source import HEAD_BYTES, Importer, open_stream, read_start
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.importers.session_file import SessionFile

FORMATS: Final = {
    "omp": "treering.importers.omp",
    "kit": "treering.importers.kit",
    "operator": "treering.importers.operator",
    "evva": "treering.importers.evva",
    "claude": "treering.importers.claude",
    "strands": "treering.importers.strands",
    "pi": "treering.importers.pi",
}
"""Modules of formats by name, in the order in which they are asked whether a file is theirs.

Each is imported when it is needed. pi comes last, since its header is the plainest; the others take only what pi did
not write."""


class Format(Importer, Protocol):
    """What the module of a format offers."""

    @property
    def NAME(self) -> str:  # noqa: N802  # a constant of the module
        """As in `FORMATS`."""

    @property
    def POLICIES(self) -> tuple[str, ...]:  # noqa: N802
        """The policies of the program in its versions; the first is the one that imported sessions get."""

    @property
    def RULES(self) -> Rules:  # noqa: N802
        """How the program finds its way in a file."""

    def folders(self, home: Path, environ: Mapping[str, str]) -> list[Path]:
        """Return the folders in which the program keeps sessions, whether they exist or not.

        Args:
            home: The user's home.
            environ: The environment, which may name other places.
        """

    def restore(self, entries: Sequence[Entry]) -> str | None:
        """Return the id of the entry at which the program goes on; None is the place before the first one."""

    def listing(self, file: SessionFile) -> dict[str, object]:
        """Return what the program's own list shows of a session, under its names."""

    def to_record(self, draft: Draft, parent: str | None) -> Fields:
        """Return the record of which a draft was made, without regard to bytes or order that are kept in its source.

        Args:
            draft: As the importer made it, or made of a node, note or edit in a store.
            parent: What the record names as its parent.
        """

    def encode(self, record: Mapping[str, object]) -> bytes:
        """Return a record as the program writes it, without a line break."""


class FolderFormat(Format, Protocol):
    """A format whose sessions are folders: its `detect` takes no file, its `find` yields them."""

    def unit_of(self, path: str) -> str | None:
        """Return the folder whose session a file is part of; see `treering.importers.folder.UnitOf`.

        Args:
            path: Absolute, or a URL; the file need not be there.
        """


LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a first line that is looked at; no program writes a header of this size."""
ENTRY_POINTS: Final = "treering.importers"
"""Group of the entry points by which packages offer formats: the name of the format, and its module."""

_registered: dict[str, Format] = {}


def register_format(found: Format) -> None:
    """Make a format of your own known in this process. It is asked before the others whether a file is its own.

    A package can offer one to every process instead, by an entry point of the group `treering.importers`. Those are
    looked for only where no other format fits.

    Args:
        found: A module, or an object like one. One of the same name is replaced.

    Raises:
        UsageError: It has the name of one that treering comes with.
    """
    if found.NAME in FORMATS:
        raise UsageError(f"format has the name of one that exists. format={found.NAME!r}", kind="format")
    _registered[found.NAME] = found


def known_formats() -> list[str]:
    """Return the names of all formats that are known so far, in the order in which they are asked about a file."""
    return [*_registered, *FORMATS]


def find_format(name: str) -> Format:
    """Return the format of that name.

    Raises:
        UsageError: There is none.
    """
    if name not in FORMATS and name not in _registered:
        _load_entry_points()
    if name in _registered:
        return _registered[name]
    if name not in FORMATS:
        raise UsageError(f"format is unknown. format={name!r}, known={sorted(known_formats())}", kind="format")
    return cast(Format, import_module(FORMATS[name]))  # modules have no types of their own


def format_with(policy: str) -> Format | None:
    """Return the format of the program that a policy is of; None if it is of none."""
    return next((found for found in map(find_format, known_formats()) if policy in found.POLICIES), None)


def unit_of(path: str) -> str | None:
    """Return the folder whose session a file is part of, in whatever format; see `treering.importers.folder.UnitOf`."""
    return next((unit for found in folder_formats() if (unit := found.unit_of(path)) is not None), None)


def folder_formats() -> list[FolderFormat]:
    """Return the formats that are known whose sessions are folders."""
    return [cast(FolderFormat, found) for found in map(find_format, known_formats()) if hasattr(found, "unit_of")]


@cache
def _load_entry_points() -> None:
    """Register what installed packages offer, once. One that cannot be imported is its package's own trouble."""
    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in FORMATS and point.name not in _registered:
            with suppress(ImportError, AttributeError):
                _registered[point.name] = point.load()


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file by its content, or of a folder by the names of its files.

    Raises:
        UsageError: It is none of those known.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    folder = folder_at(path)
    found = _format_of_file(Path(path)) if folder is None else _format_of_folder(folder)
    if found is not None:
        return found
    what, remedy = ("file", "its format") if folder is None else ("folder", "a folder in which some are")
    raise UsageError(
        f"this is no session {what} that is known. path={str(path)!r}, known={sorted(known_formats())}",
        kind="format",
        remedy=f"name a session file, or {remedy}",
    )


def _format_of_file(path: Path) -> Format | None:
    with open_stream(path) as stream:
        head = read_start(stream, HEAD_BYTES)
        if len(head) == HEAD_BYTES and head.count(b"\n") < _LINES_MIN:  # the first lines may be longer than that
            head += _read_lines(stream, _LINES_MIN)
    asked = known_formats()
    found = _detect(asked, head)
    if found is None:
        _load_entry_points()
        found = _detect([name for name in known_formats() if name not in asked], head)
    return found


def _format_of_folder(folder: Folder) -> Format | None:
    _load_entry_points()
    paths = [f"{folder.path}/{file.name}" for file in folder.files()]
    return next((found for found in folder_formats() if folder.path in map(found.unit_of, paths)), None)


def _read_lines(stream: io.BufferedIOBase, count: int) -> bytes:
    try:
        return b"".join(stream.readline(LINE_BYTES_MAX) for _ in range(count))
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return b""


def _detect(names: Iterable[str], head: bytes) -> Format | None:
    return next((found for name in names if (found := find_format(name)).detect(head)), None)


_LINES_MIN: Final = 2  # a title slot and a header
