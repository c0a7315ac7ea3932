"""Breadcrumbs: small files that record which sessions a terminal used.

    <the user's state folder>/treering/terminals/<host and terminal>.json

They belong to one computer and not to a store: a store may be used on many computers, each of which has a terminal
`pts-0`, and reading a session must not write to the store.

Rule 1: a breadcrumb is a hint. Its session is looked up in the store, and losing a breadcrumb loses no data: an
unreadable file counts as missing, a failed write is ignored, and of two writers at one terminal the last one wins.
Rule 2: a breadcrumb that is older than its terminal belongs to an earlier terminal of that name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from treering.format.paths import encode_id
from treering.ids import now_ms
from treering.storage.atomic import write_atomically
from treering.store.info import SessionInfo
from treering.terminals.terminal import Terminal

if TYPE_CHECKING:
    from treering.api.async_session import AsyncSession
    from treering.api.async_store import AsyncStore
    from treering.api.async_view import AsyncView
    from treering.api.session import Session
    from treering.api.store import Store
    from treering.api.view import View

SESSIONS_MAX: Final = 16
"""Most sessions of one terminal, in all stores and folders together; the oldest are dropped."""
TERMINALS_MAX: Final = 256
"""Most terminals; the least recently used ones are dropped."""
_FILE_BYTES_MAX: Final = 1024 * 1024
"""The names and folders of these sessions take less; a larger file is not read."""
_DIGITS: Final = 32  # of a SHA-256, as in the names of search indexes


class Breadcrumb(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a terminal used."""

    store: str
    """Digest of the address of its store, which may hold a password."""
    namespace: tuple[str, ...]
    """As in `SessionInfo`."""
    session: str
    project: str
    cwd: str
    """Working directory of the session, at that time."""
    time_ms: int

    @property
    def place(self) -> tuple[str, tuple[str, ...], str]:
        """The identity of the session."""
        return self.store, self.namespace, self.session


class _Breadcrumbs(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a terminal."""

    host: str
    terminal: str
    sessions: tuple[Breadcrumb, ...]
    """The sessions, the last used one first."""


_decoder = msgspec.json.Decoder(_Breadcrumbs)


def leave_breadcrumb(
    store: Store | AsyncStore,
    session: Session | AsyncSession | View | AsyncView,
    terminal: Terminal | None,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> bool:
    """Remember on this computer that a terminal uses a session. The store is neither read nor written.

    The last 16 sessions of each terminal are remembered, for at most 256 terminals.

    Args:
        store: The store of the session, or one around it.
        session: The session, open for writing or reading.
        terminal: The terminal; None does nothing.
        folder: The folder of the breadcrumbs; by default one in the user's state folder.

    Returns:
        Whether it is remembered. False without a terminal, for a store without a lasting address (in memory, or made
        from a filesystem object), or if the file cannot be written.
    """
    address = store.place.address
    if terminal is None or address is None:
        return False
    info = session.info
    crumb = Breadcrumb(
        store=_digest(address), namespace=info.namespace, session=session.id, project=info.project, cwd=info.cwd,
        time_ms=now_ms(),
    )  # fmt: skip
    place = _file_of(terminal, folder)
    others = [each for each in _read(place, terminal) if each.place != crumb.place]
    return _write(place, terminal, [crumb, *others[: SESSIONS_MAX - 1]])


def breadcrumbs(
    address: str | None, terminal: Terminal | None, *, folder: str | os.PathLike[str] | None = None
) -> list[Breadcrumb]:
    """Return the sessions of a store that a terminal used, the last one first.

    Args:
        address: The address of the store; None if it has none.
        terminal: The terminal; None if there is none.
        folder: As in `leave_breadcrumb`.
    """
    if terminal is None or address is None:
        return []
    store = _digest(address)
    return [crumb for crumb in _read(_file_of(terminal, folder), terminal) if crumb.store == store]


def row_of(crumb: Breadcrumb) -> SessionInfo:
    """Return the facts about the session in a breadcrumb."""
    return SessionInfo(id=crumb.session, namespace=crumb.namespace, project=crumb.project, cwd=crumb.cwd)


def _digest(address: str) -> str:
    return sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _file_of(terminal: Terminal, folder: str | os.PathLike[str] | None) -> Path:
    if folder is None:
        import platformdirs

        folder = os.path.join(platformdirs.user_state_dir("treering", appauthor=False), "terminals")
    return Path(folder, f"{encode_id(f'{terminal.host}/{terminal.name}')}.json")


def _read(place: Path, terminal: Terminal) -> list[Breadcrumb]:
    """The breadcrumbs of a terminal; none if the file is missing or is something else (rule 1)."""
    try:
        with place.open("rb") as file:
            found = _decoder.decode(file.read(_FILE_BYTES_MAX))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [crumb for crumb in found.sessions if crumb.time_ms >= terminal.opened_ms]


def _write(place: Path, terminal: Terminal, crumbs: Sequence[Breadcrumb]) -> bool:
    """Replace the file of a terminal; return whether that worked (rule 1)."""
    content = _Breadcrumbs(host=terminal.host, terminal=terminal.name, sessions=tuple(crumbs))
    try:
        data = msgspec.json.encode(content)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(place, [data])
    except (OSError, UnicodeEncodeError):  # the second: half of a surrogate pair in a name
        return False
    with suppress(OSError):
        _drop_old(place.parent)
    return True


def _drop_old(folder: Path) -> None:
    found = sorted(os.scandir(folder), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for each in found[TERMINALS_MAX:]:
        os.unlink(each.path)
