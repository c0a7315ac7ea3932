"""Find the session to continue in a terminal: the one that was last used there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from treering.errors import NotFoundError
from treering.format.paths import namespaces_in, prefix_of
from treering.store.info import SessionInfo, Wanted
from treering.store.place import Place, wanted_by
from treering.terminals.breadcrumb import Breadcrumb, breadcrumbs, row_of
from treering.terminals.terminal import Terminal

if TYPE_CHECKING:
    from treering.api.async_store import AsyncStore
    from treering.api.store import Store


def recent(
    store: Store,
    terminal: Terminal | None,
    *,
    project: str | None = None,
    cwd: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> SessionInfo | None:
    """The session that was last used in a terminal, in this store or a namespace of it; None if there is none.

    It takes the two reads of a view, or none if the terminal used no such session. Sessions that were deleted, or moved
    to another project or folder, are skipped.

    Args:
        store: The store.
        terminal: The terminal; for None there are no sessions.
        project: Only sessions of this project.
        cwd: Only sessions with this working directory.
        folder: As in `leave_breadcrumb`.

    Raises:
        CorruptError: That session is damaged; no other session is returned instead.
        UnavailableError: The store does not answer.
    """
    from treering.api.store import Store  # a caller with a store has imported it

    wanted = wanted_by(project, cwd)
    for crumb, place in _candidates(store.place, terminal, wanted, folder):
        try:
            info = Store(place).view(crumb.session).info
        except NotFoundError:
            continue
        if wanted.fits(info):
            return info
    return None


async def arecent(
    store: AsyncStore,
    terminal: Terminal | None,
    *,
    project: str | None = None,
    cwd: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> SessionInfo | None:
    """Like `recent`, for asynchronous code. The breadcrumbs, one small local file, are read without awaiting."""
    from treering.api.async_store import AsyncStore

    wanted = wanted_by(project, cwd)
    for crumb, place in _candidates(store.place, terminal, wanted, folder):
        try:
            info = (await AsyncStore(place).view(crumb.session)).info
        except NotFoundError:
            continue
        if wanted.fits(info):
            return info
    return None


def _candidates(
    place: Place, terminal: Terminal | None, wanted: Wanted, folder: str | os.PathLike[str] | None
) -> Iterator[tuple[Breadcrumb, Place]]:
    """The sessions that the terminal used and that matched at that time, each with its place."""
    outer = namespaces_in(place.prefix)
    for crumb in breadcrumbs(place.address, terminal, folder=folder):
        if crumb.namespace[: len(outer)] == outer and wanted.fits(row_of(crumb)):
            yield crumb, place.at(prefix_of(crumb.namespace))
