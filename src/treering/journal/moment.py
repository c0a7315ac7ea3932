"""Make sure that registers and segments are of one moment before anything is built on them.

A store that was restored over a newer one, or copied while somebody wrote, can have registers of one moment and
segments of another. Every object is sound, and reading shows what the registers tell of. But who goes on from there
gives positions away that segments hold already, or drops from the tail what lies in no segment.

Rule 1: no segment ends behind the tail: it was made of records that the tail held, and a tail never gets shorter.
Rule 2: segments hold all that the next append drops from the tail, because `latest` says that it is sealed. What lies
below the tail and in no segment is lost, and told to those who read it; it stops nobody, for nothing more gets lost.
Rule 3: nobody is accused of what others did between two answers. What does not fit has to be seen as often as a gap
that a reader of the graph reports.
"""

from __future__ import annotations

from collections.abc import Sequence

from treering.errors import CorruptError, UnavailableError
from treering.journal.read import GAPS_PROVE, LOOKS_MAX, Segment, list_segments
from treering.journal.resume import resume
from treering.journal.view import View
from treering.storage.requests import Steps

REMEDY = (
    "reading goes on; put what is left into a new session with `treering repair SESSION --into NEW`, "
    "or restore the copy again such that files which are not in it are deleted"
)


def require_one_moment(view: View) -> Steps[None]:
    """Refuse to go on where registers and segments are of two moments: one LIST per 1,000 segments.

    Args:
        view: What was read before; nothing of it is built on.

    Raises:
        CorruptError: They are of two moments.
        SessionDeletedError: The session was deleted meanwhile.
        UnavailableError: The store does not answer, or the session changes faster than it can be looked at.
    """
    before: object = None
    looks = 0
    life = view.life
    for _ in range(LOOKS_MAX):
        listed = yield from list_segments(view.keys, life)
        wrong = two_moments(view, listed)
        if not wrong:
            return
        seen = (view.latest_version, view.tail_version, [segment.key for segment in listed])
        looks = looks + 1 if seen == before else 1
        if looks == GAPS_PROVE:
            raise CorruptError(wrong, kind="moment", key=view.keys.segments(life), remedy=REMEDY)
        before = seen
        view = yield from resume(view.keys)
        view.require_same_life(life)
    raise UnavailableError("the session changes faster than it can be looked at", kind="busy", key=view.keys.tail)


def two_moments(view: View, listed: Sequence[Segment]) -> str:
    """Why registers and segments cannot be of one moment, if these answers are; empty if they can."""
    end = max((segment.name.end for segment in listed), default=0)
    if end > view.end:
        return f"the tail ends at {view.end} and segments at {end}: the tail is older than they are"
    reach = reach_of(view.tail.header.base, listed)
    if reach < view.sealed:
        return (
            f"segments hold {reach} records and {view.sealed} are said to be sealed: some of them are in the tail alone"
        )
    return ""


def reach_of(base: int, listed: Sequence[Segment]) -> int:
    """How far segments hold the positions from `base` on without a gap."""
    reach = base
    for segment in sorted(listed, key=lambda segment: segment.name.first):
        if segment.name.first > reach:
            break
        reach = max(reach, segment.name.end)
    return reach
