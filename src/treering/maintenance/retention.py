"""Choose sessions to delete because they are old, or because there are many.

Rule 1: each limit counts by itself. A session is deleted if it is too old, or if enough newer ones exist.
Rule 2: recently active sessions stay, whatever the limits say; so do sessions marked to be kept, and unreadable ones.
Only sessions marked to be kept and unreadable ones are not counted among the newest. This module does no I/O;
`treering.maintenance.retaining` carries out the choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import UsageError
from treering.kinds import Kind
from treering.store.info import SessionInfo

KEEP_STATUS: Final = "keep"
"""A session with this status is never deleted or pruned by a policy: `session.set_status("keep")`."""

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long sessions and checkpoints are kept. Each limit counts by itself: either is enough to delete a session."""

    sessions_days: float | None = None
    """Delete sessions whose last activity is longer ago than this."""
    sessions_max: int | None = None
    """Delete all but this many sessions, the newest by last activity."""
    per_project: bool = False
    """Count `sessions_max` in each project by itself; sessions without a project are counted together."""
    checkpoints: KeepCheckpoints | None = None
    """Prune the checkpoints of the sessions that stay."""
    min_idle_hours: float = 1.0
    """Neither delete nor prune sessions active more recently than this."""
    purge: bool = False
    """Also remove the tombstones of sessions deleted longer ago than `sessions_days`."""

    def __post_init__(self) -> None:
        """Refuse meaningless limits."""
        if self.sessions_days is not None and not self.sessions_days > 0:
            raise UsageError(f"sessions_days must be more than 0. got={self.sessions_days}", kind=Kind.OPTION)
        if self.sessions_max is not None and self.sessions_max < 1:
            raise UsageError(f"sessions_max must be at least 1. got={self.sessions_max}", kind=Kind.OPTION)
        if not self.min_idle_hours >= 0:
            raise UsageError(f"min_idle_hours must not be negative. got={self.min_idle_hours}", kind=Kind.OPTION)
        if self.per_project and self.sessions_max is None:
            raise UsageError("per_project needs sessions_max", kind=Kind.OPTION)
        if self.purge and self.sessions_days is None:
            raise UsageError("purge needs sessions_days", kind=Kind.OPTION)
        if self.sessions_days is None and self.sessions_max is None and self.checkpoints is None:
            raise UsageError("a policy needs a limit: sessions_days, sessions_max or checkpoints", kind=Kind.OPTION)

    def active(self, updated_ms: int, now_ms: int) -> bool:
        """Whether activity at a time is so recent that the session must be left alone."""
        return now_ms - updated_ms < self.min_idle_hours * _HOUR_MS


class Choice(NamedTuple):
    """The action for a session."""

    row: SessionInfo
    action: Literal["delete", "prune", "keep"]
    """`prune`: it stays, and its checkpoints may be pruned."""
    reason: str


class RetainedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy did to one session; in a dry run, what it would do."""

    session: str
    namespace: tuple[str, ...] = ()
    """As in `SessionInfo`."""
    action: Literal["delete", "prune", "keep"]
    reason: str
    project: str = ""
    updated_ms: int = 0
    """Its last activity."""
    records: int | None = None
    """The number of its records; None if it was not read."""
    bytes: int | None = None
    """Its size in the store without its card; None if it is not deleted."""
    checkpoints: int = 0
    """The number of pruned checkpoints."""
    error: str = ""
    """Why the action failed or is incomplete. The next run tries again."""


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """The result of applying a policy to a store."""

    rows: tuple[RetainedRow, ...]
    """Every session, the most recently active first."""
    dry_run: bool
    purged: tuple[str, ...] = ()
    """Names of purged sessions."""
    purge_error: str = ""

    @property
    def failed(self) -> bool:
        """Whether an action failed."""
        return bool(self.purge_error) or any(row.error for row in self.rows)


def choose(rows: Iterable[SessionInfo], policy: Retention, now_ms: int) -> tuple[Choice, ...]:
    """Return the action for each session, the most recently active first.

    Args:
        rows: All sessions of a store.
        policy: The limits.
        now_ms: Milliseconds since 1970.
    """
    newer: Counter[str] = Counter()
    choices: list[Choice] = []
    for row in sorted(rows, key=lambda row: (-row.updated_ms, row.id)):
        if row.warning:
            choices.append(Choice(row, "keep", "it cannot be read"))
        elif row.status == KEEP_STATUS:
            choices.append(Choice(row, "keep", f"its status is {KEEP_STATUS}"))
        else:
            group = row.project if policy.per_project else ""
            newer[group] += 1
            choices.append(_choose(row, newer[group], policy, now_ms))
    return tuple(choices)


def _choose(row: SessionInfo, rank: int, policy: Retention, now_ms: int) -> Choice:
    if policy.active(row.updated_ms, now_ms):
        return Choice(row, "keep", f"active in the last {policy.min_idle_hours:g} h")
    if policy.sessions_days is not None and now_ms - row.updated_ms > policy.sessions_days * _DAY_MS:
        return Choice(row, "delete", f"older than {policy.sessions_days:g} days")
    if policy.sessions_max is not None and rank > policy.sessions_max:
        where = " of its project" if policy.per_project else ""
        return Choice(row, "delete", f"beyond the newest {policy.sessions_max}{where}")
    return Choice(row, "keep" if policy.checkpoints is None else "prune", "within the limits")
