"""Choose the file to which a session is exported so that the program lists it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final, cast

from treering.api.view import View
from treering.errors import TreeringError, UsageError
from treering.format.values import fields_of
from treering.kinds import Kind
from treering.programs.common.filing import Filed, safe
from treering.programs.common.stored import header_in, is_fork, stored_drafts
from treering.programs.formats import FilingLocator, Locator, find_format, find_locator
from treering.session.state import ORIGIN

FILES_MAX: Final = 1000
"""The most files of a program that are opened to find its folder for a working directory."""


def installed_path(
    view: View,
    *,
    format: str,  # noqa: A002  # as it is called everywhere here
    home: Path,
    environ: Mapping[str, str],
) -> Path:
    """Return the file to which a session is exported so that the program lists it.

    A session that was imported from the program's own folder is exported to its file. Any other session gets a new file
    where the program looks for sessions of the same working folder.

    Args:
        view: The session.
        format: The name of the program.
        home: The user's home.
        environ: The environment, which may name other places.

    Raises:
        UsageError: The session has no working folder, or it is not known how the program names its folder for that.
    """
    locator = find_locator(format)
    roots = locator.folders(home, environ)
    note = header_in(stored_drafts(view, format, types=("note",)))
    header = fields_of(note.payload if note is not None and not is_fork(view.info) else None)
    if header.get("format") == format:
        path = Path(str(fields_of(view.info.extra.get(ORIGIN)).get("path") or "."))
        if path.is_absolute() and any(path.is_relative_to(root) for root in roots):
            return path
    else:
        header = {}
    filed = Filed(
        session=str(header.get("session_id") or view.info.id),
        cwd=str(header.get("cwd") or view.info.cwd),
        created_ms=int(header.get("created_ms") or view.info.created_ms),
    )
    if not filed.cwd:
        raise UsageError(
            f"session is about no folder, and {format} keeps sessions by folder. session={view.info.id!r}",
            kind=Kind.FILE,
            remedy="export it to a file that you name, or give the session a folder first",
        )
    if hasattr(locator, "place"):
        return cast(FilingLocator, locator).place(filed, home, environ)
    return _beside(locator, roots, format, filed)


def _beside(locator: Locator, roots: list[Path], program: str, filed: Filed) -> Path:
    """Return a file next to one of the program's own sessions of the same working folder."""
    for path in islice((path for root in roots if root.is_dir() for path in locator.find(root)), FILES_MAX):
        try:
            cwd = find_format(program).open_source(path).header.cwd
        except TreeringError:
            continue
        if cwd == filed.cwd:
            return path.parent / f"{safe(filed.session)}{path.suffix if path.suffix != '.gz' else path.suffixes[-2]}"
    raise UsageError(
        f"it is not known how {program} names its folder for this one. cwd={filed.cwd!r}",
        kind=Kind.FILE,
        remedy=f"use {program} there once, so that a session of its own shows the folder, or name a file",
    )
