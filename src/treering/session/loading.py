"""Bring whole sessions into a store: from an importer, or from another store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from treering.checkpoint.policy import Policy
from treering.format.paths import SessionKeys
from treering.format.record import decode_record
from treering.session.lineage import Loader, copy_blobs
from treering.session.reader import Reader
from treering.session.reading import read_all
from treering.session.tally import ORIGIN
from treering.session.writer import Writer
from treering.storage.requests import Driver, Steps
from treering.storage.run import run
from treering.transcript.node import Draft

DRAFTS_AT_ONCE = 256  # recorded between two reports of progress
Progress = Callable[[int], None]
"""Called with the number of records done so far."""


def import_drafts(
    driver: Driver,
    loader: Loader,
    *,
    drafts: Iterable[Draft],
    leaf: Callable[[], str | None],
    origin: Callable[[], Mapping[str, object]] | None = None,
    progress: Progress | None = None,
) -> None:
    """Make a session from what an importer reads.

    Args:
        driver: The store.
        loader: The new session, still without a record.
        drafts: All records, in order; read once.
        leaf: Asked after the last draft: the node to stand at.
        origin: Asked after that: what to remember of the file.
        progress: Told how far it is.

    Raises:
        ConflictError: There is a session of that name.
    """
    for part in _parts(drafts):
        run(_add_drafts(loader, part), driver)
        if progress is not None:
            progress(loader.end)
    run(loader.stand("main", leaf()), driver)
    if origin is not None:
        run(loader.add_draft(origin_note(origin())), driver)
    run(loader.finish(), driver)


def _parts(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    part: list[Draft] = []
    for draft in drafts:
        part.append(draft)
        if len(part) == DRAFTS_AT_ONCE:
            yield part
            part = []
    yield part


def _add_drafts(loader: Loader, drafts: list[Draft]) -> Steps[None]:
    for draft in drafts:
        yield from loader.add_draft(draft)


def origin_note(facts: Mapping[str, object]) -> Draft:
    """The note about the file that a session is made of; the card has what the last one says."""
    return Draft(type="note", kind=ORIGIN, payload=dict(facts), parent=None)


def copy_session(
    source: Driver, reader: Reader, target: Driver, keys: SessionKeys, progress: Progress | None = None
) -> None:
    """Copy a session, as it is at this moment and record by record, into another store or under another name.

    Args:
        source: The store it is in.
        reader: The session, resumed.
        target: The store to copy to.
        keys: The session to make there.
        progress: Told how far it is.

    Raises:
        ConflictError: There is a session of that name in the target.
    """
    card = msgspec.structs.replace(reader.state.card, nodes=0, messages=0, checkpoints=0, first_prompt="", born=0)
    loader = Loader(keys, reader.policy, card)
    for steps in read_all(reader):
        lines = run(steps, source)
        for line in lines:
            _copy_blobs(source, reader, target, loader, line)
            run(loader.add_line(line), target)
        if progress is not None:
            progress(loader.end)
    run(loader.finish(), target)
    run(settle(keys, reader.policy), target)


def _copy_blobs(source: Driver, reader: Reader, target: Driver, loader: Loader, line: bytes) -> None:
    if b'"$blob"' not in line:
        return
    run(reader.fetch_blobs([line]), source)
    run(copy_blobs(reader, loader, [bytes(decode_record(line).body)]), target)
    reader.blobs.clear()


def settle(keys: SessionKeys, policy: Policy) -> Steps[None]:
    """Let `latest` of a loaded session hold the context's records where the fold alone could not tell them."""
    writer = Writer.visiting(keys, policy)
    yield from writer.open()
    yield from writer.cover(seal=False, again=True)
