"""Bring whole sessions into a store: from an importer, or from another store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Protocol

import msgspec

from treering.checkpoint.policy import Policy
from treering.format.paths import SessionKeys
from treering.format.record import decode_record
from treering.journal.stream import read_stream
from treering.session.loader import Loader, copy_blobs
from treering.session.reader import Readable
from treering.session.state import ORIGIN
from treering.session.verbs.reading import read_all
from treering.session.writer import Writer
from treering.storage.effects import Job, call, on, tell
from treering.storage.requests import Driver, Steps
from treering.transcript.node import Draft

_DRAFTS_AT_ONCE = 16  # read before they are recorded; of more, the first would have left the processor's caches


class Progress(Protocol):
    """A function that is called now and then with the number done so far: of records, or of bytes in a backup."""

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
        origin: Called after that; returns facts about the file.
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


def copy_session(reader: Readable, target: Driver, keys: SessionKeys, progress: Progress | None = None) -> Job[None]:
    """Copy a session, as it is at this moment and record by record, into another store or under another name.

    Args:
        reader: The session, resumed. Its store is the one that the job is run against.
        target: The store to copy to.
        keys: The session to create there.
        progress: Called with the number of records done.

    Raises:
        ConflictError: A session of that name exists in the target.
    """
    card = msgspec.structs.replace(
        reader.replica.state.card, nodes=0, messages=0, checkpoints=0, first_prompt="", born=0
    )
    loader = Loader(keys, reader.replica.policy, card)
    if not (yield from reader.replica.odd()):
        loader.expect_ordinary()
    life = reader.replica.view.life
    chunks = {}
    for name in reader.replica.state.streams:
        chunks[name] = yield from read_stream(reader.keys, life, name)
    for steps in read_all(reader):
        for line in (yield from steps):
            yield from _copy_blobs(reader, target, loader, line)
            yield from on(target, loader.add_line(line))
        yield from tell(progress, loader.end)
    for name, found in chunks.items():
        yield from on(target, loader.add_chunks(name, found))
    yield from on(target, loader.finish())
    yield from on(target, settle(keys, reader.replica.policy))


def _copy_blobs(reader: Readable, target: Driver, loader: Loader, line: bytes) -> Job[None]:
    if b'"$blob"' not in line:
        return
    yield from reader.blobs.fetch([line])
    yield from on(target, copy_blobs(reader, loader, [bytes(decode_record(line).body)]))
    reader.blobs.at_hand.clear()


def settle(keys: SessionKeys, policy: Policy) -> Steps[None]:
    """Write the context's records to `latest` of a loaded session, if folding did not determine them."""
    writer = Writer.visiting(keys, policy)
    yield from writer.open()
    yield from writer.upkeep.cover(seal=False, again=True)
