"""Write `latest`, the snapshot, so that it covers the tail; a seal also writes the tail's records to a segment.

Rule 1: records leave the tail only below `sealed`, and `sealed` rises only after their segment is durable.
Rule 2: `latest` is swapped, never overwritten, and never from a view whose tail ends before the covered records do.
Rule 3: a view whose registers have different epochs covers nothing: an erasure is under way.
The marker for lists is written before `latest`, and the older one is deleted after it; see `treering.journal.marker`.

Theory of operation
-------------------
Two processes may seal at once. Both write a segment, one wins the swap of `latest`; both segments hold the same records
at the same positions, so readers that see both see the same journal. The loser's segment is waste and does no harm; the
next merge removes it. The process may be killed after any request.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treering.format.paths import SegmentName, file_name
from treering.format.register import SEGMENTS_NAMED_MAX, Card, Latest
from treering.format.segment import build_segment
from treering.journal import marker
from treering.journal.register import LatestRegister, Swapped
from treering.journal.view import View, deleted
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import ask


class Covered(msgspec.Struct, frozen=True):
    """The outcome of a seal or close."""

    view: View
    done: bool
    """Our swap of `latest` won. If not, another process swapped it, or there was nothing to do."""
    latest_bytes: int = 0
    """Size of `latest` as written."""


def cover(
    view: View,
    card: Card,
    lines: Sequence[bytes],
    *,
    seal: bool,
    nonce: str,
    now_ms: int,
    again: bool = False,
    segments: Sequence[str] | None = None,
) -> Steps[Covered]:
    """Replace `latest` by one that covers all of `view.tail`.

    Args:
        view: The registers as last read.
        card: The card at `view.end`; the fields that the journal keeps there (life, covers, sealed, ...) are filled in
            here.
        lines: Body of `latest`: the state at `view.end`, then the records its context needs.
        seal: Write the unsealed records to a segment first.
        nonce: Names this write, its segment and its marker; never used again.
        now_ms: The time, in milliseconds since 1970.
        again: Replace `latest` even if it covers everything already, to change its content.
        segments: File names of the segments that hold all sealed records, if the caller listed them; by default those
            that `latest` names.

    Raises:
        SessionDeletedError: The session was deleted since it was read.
        UnavailableError: The store did not answer; `latest` may or may not be replaced. Nothing is lost.
    """
    sealing = seal and bool(view.unsealed_lines)
    if view.torn or view.end < view.covers:  # rule: cover-forward, cover-one-epoch
        return Covered(view, done=False)
    if view.end == view.covers and not sealing and not again:
        return Covered(view, done=False)
    sealed, names = view.sealed, tuple(view.latest.card.segments if segments is None else segments)
    if sealing:
        put = _segment(view, nonce)
        yield from ask(put, Written)  # rule: segment-first
        names = (*names, file_name(put.key)) if names or not sealed else ()
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
        mark=view.mark_at(view.end),
        segments=names if len(names) <= SEGMENTS_NAMED_MAX else (),
        dead=False,
        write=nonce,
        lines=len(lines),
    )
    active_ms = marker.active_ms(card, now_ms)
    card = marker.marked(card, view.latest.card, ms=active_ms, unique=nonce)  # rule: name-marker-once
    yield from marker.put(view.keys, card, view.latest.card)  # rule: marker-first
    # rule: segment-first before this, marker-first before this
    return (yield from _swap(view, Latest(card=card, lines=tuple(lines))))


def _segment(view: View, unique: str) -> Put:
    """Return the request that writes the unsealed records.

    Ids that callers chose are not marked as doubtful: they were looked up, or the caller promised that they are new.
    """
    lines = view.unsealed_lines
    first = view.end - len(lines)
    marks = view.marks(first, view.end)
    name = SegmentName.marked(first, view.end, view.epoch, unique, marks)  # rule: name-epoch
    key = view.keys.segment(view.life, name)
    return Put(key, build_segment(lines, key=key))


def _swap(view: View, latest: Latest) -> Steps[Covered]:
    # rule: swap-latest, drop-marker-last
    outcome = yield from LatestRegister(view.keys).replace(latest, expect=view.latest_version)
    if isinstance(outcome, Swapped):
        yield from marker.drop(view.keys, view.latest.card, latest.card)
        return Covered(view.with_latest(latest, outcome.version), done=True, latest_bytes=outcome.sent_bytes)
    there = outcome.value
    yield from marker.drop(view.keys, latest.card, there.card if there is not None and not there.card.dead else None)
    if there is None or there.card.dead or there.card.life != view.life:  # rule: cover-same-life
        raise deleted(view.keys)
    return Covered(view.with_latest(there, outcome.version), done=False)
