"""Let `latest` account for the tail: close covers it, seal also writes it to a segment.

Rule 1: records leave the tail only below `sealed`, and `sealed` rises only after their segment is durable.
Rule 2: `latest` is swapped, never overwritten, and never by a view whose tail ends before what `latest` covers.
Rule 3: views of different epochs cover nothing: an erasure is under way.
Rule 4: what was only read from a log is written anew before `latest` or a segment tells of it. Its writer may have died
before it was synced; a power cut would take it from the tail, and leave `latest` ahead of the journal.

Theory of operation
-------------------
Two sealers may run at once. Both write a segment, one wins the swap of `latest`; both segments hold the same records
at the same positions, so readers that see both see the same journal. The loser's segment is waste, not harm, and the
next merge takes it away. Any request may be the last one ever sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treering.errors import ConflictError, NotFoundError, TreeringError
from treering.format.paths import SegmentName
from treering.format.register import Card, Latest, decode_latest, encode_latest
from treering.format.segment import build_segment
from treering.journal.append import rewrite_tail
from treering.journal.view import View, deleted
from treering.storage.requests import Found, Get, Put, Steps, Written
from treering.storage.run import ask, checked


class Covered(msgspec.Struct, frozen=True):
    """What became of a seal or close."""

    view: View
    done: bool
    """Our swap of `latest` took place. If not, somebody else's did, or there was nothing to do."""
    latest_bytes: int = 0
    """Size of `latest` as written."""


def cover(
    view: View, card: Card, lines: Sequence[bytes], *, seal: bool, nonce: str, again: bool = False
) -> Steps[Covered]:
    """Replace `latest` by one that accounts for all of `view.tail`.

    Args:
        view: What stands in the store.
        card: The card at `view.end`; what the journal keeps there (life, covers, sealed, ...) is filled in here.
        lines: Body of `latest`: the state at `view.end`, then the records its context needs.
        seal: Write the unsealed records to a segment first.
        nonce: Names this write and its segment; never used again.
        again: Replace `latest` even if it covers everything already, to change what it carries.

    Raises:
        SessionDeletedError: The session was deleted meanwhile.
        UnavailableError: The store did not answer; `latest` may or may not be replaced. Nothing is lost.
    """
    sealing = seal and bool(view.unsealed_lines)
    if view.torn or view.end < view.covers:
        return Covered(view, done=False)
    if view.end == view.covers and not sealing and not again:
        return Covered(view, done=False)
    if not view.durable:
        rewritten = yield from rewrite_tail(view, nonce)
        if rewritten is None:
            return Covered(view, done=False)
        view = rewritten
    sealed = view.sealed
    if sealing:
        yield from ask(_segment(view, nonce), Written)
        sealed = view.end
    card = msgspec.structs.replace(
        card,
        session=view.keys.session,
        life=view.life,
        epoch=view.latest.card.epoch,
        erased=view.latest.card.erased,
        erasures=view.latest.card.erasures,
        covers=view.end,
        sealed=sealed,
        dead=False,
        write=nonce,
        lines=len(lines),
    )
    return (yield from _swap(view, Latest(card=card, lines=tuple(lines))))


def _segment(view: View, unique: str) -> Put:
    lines = view.unsealed_lines
    name = SegmentName(view.end - len(lines), view.end, view.tail.header.epoch, unique)
    key = view.keys.segment(view.life, name)
    return Put(key, build_segment(lines, key=key))


def _swap(view: View, latest: Latest) -> Steps[Covered]:
    data = encode_latest(latest.card, latest.lines)
    (answer,) = yield (Put(view.keys.latest, data, expect=view.latest_version),)
    if isinstance(answer, Written):
        return Covered(view.with_latest(latest, answer.version), done=True, latest_bytes=len(data))
    if not isinstance(answer, (ConflictError, NotFoundError)):
        raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
    (now,) = yield (Get(view.keys.latest, register=True),)
    if isinstance(now, NotFoundError):  # deleted, and purged
        raise deleted(view.keys)
    found = checked(now, Found)
    there = decode_latest(found.data, key=view.keys.latest)
    if there.card.dead or there.card.life != view.life:
        raise deleted(view.keys)
    ours = there.card.write == latest.card.write  # our own swap, whose reply was lost
    return Covered(view.with_latest(there, found.version), done=ours, latest_bytes=len(data) if ours else 0)
