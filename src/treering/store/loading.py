"""Load whole sessions from an importer into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Protocol

from treering.session.loader import Loader
from treering.session.state import ORIGIN
from treering.storage.effects import Job, call, tell
from treering.storage.requests import Steps
from treering.transcript.node import Draft

_DRAFTS_AT_ONCE = 16  # read before they are recorded: few enough to stay in the processor's caches


class Progress(Protocol):
    """A function that is called from time to time with the number done so far: of records, or of bytes in a backup."""

    def __call__(self, done: int, /) -> None: ...


def import_drafts(
    loader: Loader,
    *,
    drafts: Iterable[Draft],
    leaf: Callable[[], str | None],
    origin: Callable[[], Mapping[str, object]] | None = None,
    progress: Progress | None = None,
) -> Job[None]:
    """Create a session from the drafts of an importer.

    Args:
        loader: The new session, still without a record.
        drafts: All records, in order; read once.
        leaf: Called after the last draft; returns the node that the head points to.
        origin: Called after `leaf`; returns facts about the file.
        progress: Called with the number of records done.

    Raises:
        ConflictError: A session of that name exists.
    """
    source = iter(drafts)
    while part := (yield from call(lambda: list(islice(source, _DRAFTS_AT_ONCE)))):
        yield from _add_drafts(loader, part)
        yield from tell(progress, loader.end)
    yield from loader.stand("main", leaf())
    if origin is not None:
        yield from loader.add_draft(origin_note((yield from call(origin))))
    yield from loader.finish()


def _add_drafts(loader: Loader, drafts: list[Draft]) -> Steps[None]:
    for draft in drafts:
        yield from loader.add_draft(draft)


def origin_note(facts: Mapping[str, object]) -> Draft:
    """The note about the file that a session is imported from; the card shows the newest one."""
    return Draft(type="note", kind=ORIGIN, payload=dict(facts), parent=None)
