"""Keep a store within a policy: look, choose, delete and prune, one session after the other.

Rule 1: a card may lag behind the last append. So every session chosen for deletion by its card is read, and the choice
is repeated with the result, until all sessions to delete have been read.
Rule 2: the tombstone replaces exactly the tail that was read. An append in between wins: the session stays. An append
afterwards raises `SessionDeletedError`.
Rule 3: a failure is reported in the row of its session, and the run continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import ConflictError, NotFoundError, SessionDeletedError, SessionHeldError, TreeringError
from treering.journal.resume import Registers
from treering.maintenance import failures
from treering.maintenance.retention import KEEP_STATUS, Choice, Retained, RetainedRow, Retention, choose
from treering.session.verbs.pruning import planned, prune
from treering.storage.effects import Job, tell
from treering.storage.requests import Steps, Version
from treering.storage.run import list_all
from treering.store.info import SessionInfo, info_of
from treering.store.place import Opening, Place, release

OnResult = Callable[[RetainedRow], None]
"""Called with each row as soon as it is done."""

_DAY_MS = 24 * 3_600_000
_TOUCHED = "used since it was looked at"

log = logging.getLogger("treering.retention")
log.addHandler(logging.NullHandler())  # no output unless the program configures this logger


class Seen(NamedTuple):
    """The registers of a session as read."""

    life: str
    tail: Version
    records: int

    def still(self, registers: Registers) -> bool:
        """Whether no writer appended since: every append gives the tail another version."""
        return registers.life == self.life and registers.tail_version == self.tail


class Retaining:
    """One run of a policy over one store."""

    def __init__(self, place: Place, policy: Retention, now_ms: int) -> None:
        self.place = place
        self.policy = policy
        self.now_ms = now_ms
        self.seen: dict[str, Seen | None] = {}
        """Sessions that were read; None for those whose deletion was interrupted."""

    def run(self, rows: list[SessionInfo], *, dry_run: bool, on_result: OnResult) -> Job[Retained]:
        """Apply the policy; see `Store.retain`."""
        choices = yield from self.choices(rows)
        done: dict[str, RetainedRow] = {}
        for choice in sorted(choices, key=lambda choice: choice.action != "delete"):  # deletions first, to free space
            row = yield from self._settled(choice, dry_run=dry_run)
            done[row.session] = row
            if not dry_run:
                _log(row)
            yield from tell(on_result, row)
        result = Retained(rows=tuple(done[choice.row.id] for choice in choices), dry_run=dry_run)
        if dry_run or not self.policy.purge:
            return result
        return (yield from self._purged(result))

    # choose

    def choices(self, rows: list[SessionInfo]) -> Steps[tuple[Choice, ...]]:
        """The action for each session; those to be deleted are read first (rule 1)."""
        known = {row.id: row for row in rows}
        while True:
            choices = choose(known.values(), self.policy, self.now_ms)
            unseen = [choice.row for choice in choices if choice.action == "delete" and choice.row.id not in self.seen]
            if not unseen:
                return choices
            for row in unseen:
                found = yield from self._looked(row)
                if found is None:
                    del known[row.id]
                else:
                    known[row.id] = found

    def _looked(self, row: SessionInfo) -> Steps[SessionInfo | None]:
        """The current row; None if the session is gone."""
        reader = self.place.reader(row.id)
        try:
            yield from reader.resume()
        except SessionDeletedError:
            self.seen[row.id] = None
            return row
        except NotFoundError:
            return None
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one session does not stop the rest
            return msgspec.structs.replace(row, warning=failures.text_of(error))
        self.seen[row.id] = Seen(reader.replica.view.life, reader.replica.view.tail_version, reader.replica.state.end)
        return info_of(reader.replica.state.card, self.place.prefix)

    # do

    def _settled(self, choice: Choice, *, dry_run: bool) -> Job[RetainedRow]:
        """Carry out the action for one session; errors are reported in its row (rule 3)."""
        info = choice.row
        row = RetainedRow(
            session=info.id,
            namespace=info.namespace,
            action="keep",
            reason=choice.reason,
            project=info.project,
            updated_ms=info.updated_ms,
            error=info.warning,
        )
        try:
            if choice.action == "delete":
                return (yield from self._deleted(row, dry_run=dry_run))
            return (yield from self._pruned(row, info, dry_run=dry_run)) if choice.action == "prune" else row
        except SessionHeldError:
            return msgspec.structs.replace(row, reason="another process has it open")
        except ConflictError:
            return msgspec.structs.replace(row, reason=_TOUCHED)
        except NotFoundError:
            return msgspec.structs.replace(row, reason="another process deleted it")
        except Exception as error:  # noqa: BLE001  # likewise
            return msgspec.structs.replace(row, reason=f"{choice.action} failed", error=failures.text_of(error))

    def _deleted(self, row: RetainedRow, *, dry_run: bool) -> Job[RetainedRow]:
        seen = self.seen[row.session]
        entries = yield from list_all(self.place.keys(row.session).home)
        gone = msgspec.structs.replace(
            row,
            action="delete",
            reason=row.reason if seen else "its deletion was cut short",
            records=seen.records if seen else None,
            bytes=sum(entry.size for entry in entries),
        )
        if dry_run or (yield from self.place.delete(row.session, seen.still if seen else _never)):  # rule 2
            return gone
        return msgspec.structs.replace(row, reason=_TOUCHED)

    def _pruned(self, row: RetainedRow, info: SessionInfo, *, dry_run: bool) -> Job[RetainedRow]:
        keep = self.policy.checkpoints
        if keep is None or info.checkpoints <= keep.last:
            return row
        reader = self.place.reader(row.session)
        yield from reader.resume()
        card = reader.replica.state.card
        if card.status == KEEP_STATUS or self.policy.active(card.updated, self.now_ms):
            return msgspec.structs.replace(row, reason=_TOUCHED)
        row = msgspec.structs.replace(row, records=reader.replica.state.end)
        count = len((yield from planned(reader, keep)).pruned)
        if count and not dry_run:
            done = yield from self._prune(row.session, keep, card.updated)
            if done is None:
                return msgspec.structs.replace(row, reason=_TOUCHED)
            count = done
        return msgspec.structs.replace(row, action="prune", checkpoints=count) if count else row

    def _prune(self, session: str, keep: KeepCheckpoints, updated_ms: int) -> Job[int | None]:
        """Prune checkpoints of a session last used at a time; return how many, or None if it was used since."""
        opened = yield from self.place.open(Opening.of(session, {"create": False}))
        try:
            if opened.reader.replica.state.card.updated != updated_ms:
                return None
            done = yield from prune(opened.reader, keep)
            yield from opened.reader.close()
        finally:
            release(opened.holds)
        return len(done.plan.pruned)

    def _purged(self, result: Retained) -> Job[Retained]:
        before = self.now_ms - int((self.policy.sessions_days or 0) * _DAY_MS)
        try:
            names = yield from self.place.purge(before_ms=before)
        except (TreeringError, OSError) as error:
            log.warning("purge failed: %s", error)
            return msgspec.structs.replace(result, purge_error=str(error))
        for name in names:
            log.info("purge %r", name)
        return msgspec.structs.replace(result, purged=names)


def _never(registers: Registers) -> bool:
    """For an interrupted deletion: if the session exists, another process created it again."""
    del registers
    return False


def _log(row: RetainedRow) -> None:
    if row.error:
        log.warning("%s %r (%s): %s", row.action, row.session, row.reason, row.error)
    elif row.action != "keep":
        log.info("%s %r (%s)", row.action, row.session, row.reason)
