"""Where a writer stands: its head, its node and its checkpoint belong together, and no call goes back on its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.simulation.ghost import Ghost
from treering.checkpoint.checkpoint import BODY, read_form
from treering.checkpoint.resolve import resolve
from treering.errors import NotFoundError
from treering.format.record import Record, decode_record
from treering.session.writer import Writer


class Place(NamedTuple):
    """A head, a node and the id of a checkpoint."""

    head: str
    node: str | None
    checkpoint: str | None


def place_of(writer: Writer) -> Place | None:
    """Return where a writer stands; None if its next call finds out first, or if it has to stop."""
    replica = writer.replica
    if not replica.exists or replica.stopped is not None or not writer.position.is_known:
        return None
    return Place(writer.head, writer.node, writer.checkpoint.id if writer.checkpoint is not None else None)


def is_moving(writer: Writer) -> bool:
    """Whether a writer has yet to find out about an append that moves it to another place, such as a checkout."""
    if writer.appender.pending is None:
        return False
    planned = writer.appender.pending.planned
    return planned.head != writer.head or any(record.type == "head" for record in planned.records)


def check_place(ghost: Ghost, writer: Writer, before: Place | None) -> None:
    """Check the place of a writer behind a call.

    Args:
        ghost: The journal as it is.
        writer: The writer.
        before: Where it stood before the call, if the call only records. The place is then the same or one below it,
            perhaps on a head of its own.
    """
    place = place_of(writer)
    if place is None or writer.appender.pending is not None:
        return
    life, epoch = writer.replica.view.life, writer.replica.epoch
    records = {record.id: record for record in map(_decoded, ghost.log_under(life, epoch))}
    path = set(_path(place.node, records))
    missing = {*path, place.checkpoint} - {None, *records}
    if missing:
        ghost.problems.append(f"a writer stands at {place}, and {missing} are in no record")
        return
    made_at = records[place.checkpoint].target if place.checkpoint is not None else None
    if made_at is not None and made_at not in path:
        ghost.problems.append(f"a writer stands at {place}, whose checkpoint was made elsewhere, at {made_at}")
    if ghost.epochs.get(life, 0) == epoch and place.checkpoint is not None:
        _check_state(ghost, writer, place.checkpoint, records)
    if before is None:
        return
    newest = [-1 if name is None else records[name].at for name in (before.checkpoint, place.checkpoint)]
    if before.node not in {None, *path} or newest[1] < newest[0]:
        ghost.problems.append(f"a writer stood at {before}, and went back to {place} by itself")


def _path(node: str | None, records: Mapping[str, Record]) -> Iterator[str]:
    while node is not None:
        yield node
        node = records[node].parent if node in records else None


def _check_state(ghost: Ghost, writer: Writer, name: str, records: Mapping[str, Record]) -> None:
    """Check that the state of a writer is that of its checkpoint."""
    chain = [records[name]]
    while not (body := read_form(chain[-1].body, BODY)).full and not body.pruned:
        chain.append(records[chain[-1].parent or ""])
    try:
        state = resolve(chain[::-1], records.__getitem__).state
    except NotFoundError:  # pruned
        return
    if writer.checkpoint is None or writer.checkpoint.state != state:
        ghost.problems.append(f"a writer has another state than its checkpoint {name}")


_decoded = functools.lru_cache(4096)(decode_record)
