"""Find the session files of other programs on this computer.

Rule 1: names and times are checked first, and the headers of files only if these are not enough.
Rule 2: nothing is written, and a folder that cannot be read is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from treering.errors import TreeringError
from treering.importers.origin import stat_of
from treering.programs import known_programs, load_installed
from treering.programs.common.folder import StoredFolder, find_stored, gather, is_url
from treering.programs.common.source import find_files
from treering.programs.formats import Breadcrumb, Breadcrumbs, detect_format, find_format, find_locator, unit_of

ENDINGS: Final = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
"""The endings of the names of session files in all known formats."""
HEADS_MAX: Final = 1000
"""The most files to open in search of the newest session of a working folder, newest first."""
_NS_PER_MS: Final = 1_000_000


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in which a program keeps its sessions."""

    program: str
    folder: str
    sessions: int
    """The number of files whose names may be those of sessions."""
    bytes: int
    newest: str | None = None
    newest_ms: int | None = None
    """The time at which the newest file was written, in milliseconds since 1970."""


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """The newest session of another program in a working folder."""

    program: str
    path: str
    session: str
    """Its id in the file."""
    modified_ms: int
    breadcrumb: bool = False
    """Whether a program recorded it as the session of this terminal."""


def find_sessions(
    place: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002  # as it is called everywhere here
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Path | StoredFolder]:
    """Yield the files and folders below a folder whose names may be those of sessions.

    A file yields itself, or the folder of the session to which it belongs.

    Args:
        place: A folder, a file, or the URL of a bucket; in a bucket only sessions that are folders are found.
        format: Yield only files that may have this format.
        storage_options: Options of the client, for a URL.

    Raises:
        NotFoundError: There is no such file or folder.
        UsageError: There is no such format, or no driver for the URL.
        UnavailableError: The store does not answer.
    """
    found = find_locator(format) if format is not None else None
    if is_url(place):
        chosen = unit_of if found is None else getattr(found, "unit_of", _no_unit)
        return find_stored(os.fspath(place), chosen, storage_options)
    return found.find(place) if found is not None else gather(find_files(Path(place), ENDINGS), unit_of)


def _no_unit(_path: str) -> str | None:
    return None


def discover(home: Path, environ: Mapping[str, str]) -> list[Folder]:
    """Return the existing folders in which the known programs keep sessions.

    Args:
        home: The user's home.
        environ: The environment, which may name other places.
    """
    claims = _claims(home, environ)
    return [
        _folder(name, folder, None if len(names) == 1 else name)
        for folder, names in claims.items()
        for name in names
        if folder.is_dir()
    ]


def breadcrumbs(home: Path, environ: Mapping[str, str]) -> list[tuple[str, Breadcrumb]]:
    """Return the sessions that terminals had open, newest first, with the names of the programs that recorded them."""
    return [(name, crumb) for name, found in _noting() for crumb in found.breadcrumbs(home, environ)]


def _noting() -> Iterator[tuple[str, Breadcrumbs]]:
    """Yield the programs that record which session a terminal has open."""
    found = ((name, find_locator(name)) for name in known_programs())
    return ((name, cast(Breadcrumbs, each)) for name, each in found if hasattr(each, "breadcrumb"))


def recent(
    cwd: Path,
    home: Path,
    environ: Mapping[str, str],
    *,
    tty: str | None = None,
    after_ms: int | None = None,
    known: Callable[[Path], bool] = lambda _: False,
) -> Recent | None:
    """Return the newest session of any program whose working folder is `cwd`; None if there is none.

    If a program recorded which session this terminal had open in the folder, that counts as the program's last session.

    Args:
        cwd: The working folder.
        home: The user's home.
        environ: The environment.
        tty: The path of the terminal's device, or None.
        after_ms: Consider only files that were written after this time, in milliseconds since 1970.
        known: Tells whether a file can be skipped.
    """
    crumbs = ((name, found.breadcrumb(home, environ, tty)) for name, found in _noting())
    of_cwd = ((name, crumb) for name, crumb in crumbs if crumb is not None and crumb.is_of(cwd))
    noted, crumb = next(of_cwd, (None, None))
    found: list[tuple[int, Path, str | None]] = []
    for folder, names in _claims(home, environ).items():
        if crumb is not None and names == [noted]:
            continue
        found += [(stat_of(path)[1] // _NS_PER_MS, path, names[0] if len(names) == 1 else None) for path in _in(folder)]
    if crumb is not None and crumb.session_file.is_file():
        found.append((stat_of(crumb.session_file)[1] // _NS_PER_MS, crumb.session_file, noted))
    opened = 0
    for modified_ms, path, name in sorted(found, key=lambda each: each[0], reverse=True):
        if opened == HEADS_MAX or (after_ms is not None and modified_ms <= after_ms):
            break
        if known(path):
            continue
        opened += 1
        of_crumb = crumb is not None and path == crumb.session_file
        session = _look(path, name, modified_ms, None if of_crumb else cwd)
        if session is not None:
            return msgspec.structs.replace(session, breadcrumb=of_crumb)
    return None


def _claims(home: Path, environ: Mapping[str, str]) -> dict[Path, list[str]]:
    """Return folders with the programs that use them: a variable or a link may give two programs the same folder."""
    load_installed()
    claims: dict[Path, list[str]] = {}
    known: dict[str, Path] = {}
    for name in known_programs():
        for folder in find_locator(name).folders(home, environ):
            claims.setdefault(known.setdefault(os.path.realpath(folder), folder), []).append(name)
    return claims


def _in(folder: Path) -> Iterator[Path]:
    return gather(find_files(folder, ENDINGS), unit_of) if folder.is_dir() else iter(())


def _folder(name: str, folder: Path, only: str | None) -> Folder:
    """Count the sessions of a program; with `only`, since other programs use the folder too, only its sessions."""
    count = size = newest_ns = 0
    newest: Path | None = None
    for path in find_locator(name).find(folder):
        if only is not None and not _is_of(path, only):
            continue
        own_size, own_ns = stat_of(path)
        count, size = count + 1, size + own_size
        if newest is None or own_ns > newest_ns:
            newest, newest_ns = path, own_ns
    return Folder(
        program=name,
        folder=str(folder),
        sessions=count,
        bytes=size,
        newest=str(newest) if newest else None,
        newest_ms=newest_ns // _NS_PER_MS if newest else None,
    )


def _is_of(path: Path, name: str) -> bool:
    try:
        return name == detect_format(path).NAME
    except TreeringError:
        return False


def _look(path: Path, name: str | None, modified_ms: int, cwd: Path | None) -> Recent | None:
    """Return the session that the beginning of a file describes, if its working folder is `cwd`."""
    try:
        found = find_format(name) if name is not None else detect_format(path)
        header = found.open_source(path).header
    except TreeringError:
        return None
    if cwd is not None and (header.extra.get("subagent") or not _is_same(header.cwd, cwd)):
        return None
    return Recent(program=found.NAME, path=str(path), session=header.session_id, modified_ms=modified_ms)


def _is_same(folder: str, cwd: Path) -> bool:
    return bool(folder) and os.path.realpath(os.path.expanduser(folder)) == os.path.realpath(cwd)
