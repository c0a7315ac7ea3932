"""Keep a store within a policy: look, choose, delete and prune, one session after the other.

Rule 1: a card may lag behind what was appended last. So whatever is to be deleted by its card is looked at, and the
choice is made again with what was seen, until all that is to be deleted was looked at.
Rule 2: the tombstone takes the place of exactly the tail that was looked at. Who appends in between wins: the session
stays. Who appends afterwards is told that it was deleted.
Rule 3: what fails is told in its row, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from treering.errors import NotFoundError, SessionDeletedError, SessionHeldError, TreeringError
from treering.journal.resume import Registers
from treering.maintenance.retention import KEEP_STATUS, Choice, Retained, RetainedRow, Retention, choose
from treering.session.blocking import Session
from treering.session.info import SessionInfo, info_of
from treering.session.place import Place
from treering.session.pruning import planned
from treering.session.purging import purge_all
from treering.storage.requests import Version
from treering.storage.run import list_all, run

Told = Callable[[RetainedRow], None]
"""Called with each row as soon as it is done."""

_DAY_MS = 24 * 3_600_000
_TOUCHED = "used since it was looked at"

log = logging.getLogger("treering.retention")
log.addHandler(logging.NullHandler())  # a program that does not ask for the log gets no line of it


class Seen(NamedTuple):
    """What a look at a session showed."""

    life: str
    tail: Version
    records: int

    def still(self, registers: Registers) -> bool:
        """Nobody has written since: every append gives the tail another version."""
        return registers.life == self.life and registers.tail_version == self.tail


class Retaining:
    """One run of a policy over one store."""

    def __init__(self, place: Place, resume: Callable[[str], Session], policy: Retention, now_ms: int) -> None:
        self.place = place
        self.driver = place.driver
        self.resume = resume
        """Opens a session for writing."""
        self.policy = policy
        self.now_ms = now_ms
        self.seen: dict[str, Seen | None] = {}
        """Sessions that were looked at; None for those whose deletion was cut short."""

    def run(self, rows: list[SessionInfo], *, dry_run: bool, told: Told) -> Retained:
        """Do as the policy says; see `Store.retain`."""
        choices = self.choices(rows)
        done: dict[str, RetainedRow] = {}
        for choice in sorted(choices, key=lambda choice: choice.action != "delete"):  # makes room first
            row = self._settled(choice, dry_run=dry_run)
            done[row.session] = row
            if not dry_run:
                _log(row)
            told(row)
        result = Retained(rows=tuple(done[choice.row.id] for choice in choices), dry_run=dry_run)
        return result if dry_run or not self.policy.purge else self._purged(result)

    # choose

    def choices(self, rows: list[SessionInfo]) -> tuple[Choice, ...]:
        """What becomes of each session, by what was seen of those that are to be deleted (rule 1)."""
        known = {row.id: row for row in rows}
        while True:
            choices = choose(known.values(), self.policy, self.now_ms)
            unseen = [choice.row for choice in choices if choice.action == "delete" and choice.row.id not in self.seen]
            if not unseen:
                return choices
            for row in unseen:
                found = self._looked(row)
                if found is None:
                    del known[row.id]
                else:
                    known[row.id] = found

    def _looked(self, row: SessionInfo) -> SessionInfo | None:
        """The row as it is now; None if nothing is there any more."""
        reader = self.place.reader(row.id)
        try:
            run(reader.resume(), self.driver)
        except SessionDeletedError:
            self.seen[row.id] = None
            return row
        except NotFoundError:
            return None
        except (TreeringError, OSError) as error:
            return msgspec.structs.replace(row, warning=str(error))
        self.seen[row.id] = Seen(reader.view.life, reader.view.tail_version, reader.state.end)
        return info_of(reader.state.card, self.place.prefix)

    # do

    def _settled(self, choice: Choice, *, dry_run: bool) -> RetainedRow:
        """Do what was chosen for one session; whatever goes wrong with it is told in its row (rule 3)."""
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
                return self._deleted(row, dry_run=dry_run)
            return self._pruned(row, info, dry_run=dry_run) if choice.action == "prune" else row
        except SessionHeldError:
            return msgspec.structs.replace(row, reason="somebody has it open")
        except NotFoundError:
            return msgspec.structs.replace(row, reason="somebody else deleted it")
        except (TreeringError, OSError) as error:
            return msgspec.structs.replace(row, reason=f"{choice.action} failed", error=str(error))

    def _deleted(self, row: RetainedRow, *, dry_run: bool) -> RetainedRow:
        seen = self.seen[row.session]
        gone = msgspec.structs.replace(
            row,
            action="delete",
            reason=row.reason if seen else "its deletion was cut short",
            records=seen.records if seen else None,
            bytes=sum(entry.size for entry in run(list_all(self.place.keys(row.session).home), self.driver)),
        )
        if dry_run or self.place.delete(row.session, seen.still if seen else _never):  # rule 2
            return gone
        return msgspec.structs.replace(row, reason=_TOUCHED)

    def _pruned(self, row: RetainedRow, info: SessionInfo, *, dry_run: bool) -> RetainedRow:
        keep = self.policy.checkpoints
        if keep is None or info.checkpoints <= keep.last:
            return row
        reader = self.place.reader(row.session)
        run(reader.resume(), self.driver)
        card = reader.state.card
        if card.status == KEEP_STATUS or self.policy.active(card.updated, self.now_ms):
            return msgspec.structs.replace(row, reason=_TOUCHED)
        row = msgspec.structs.replace(row, records=reader.state.end)
        count = len(run(planned(reader, keep), self.driver).pruned)
        if count and not dry_run:
            with self.resume(row.session) as session:
                if session.info.updated_ms != card.updated:
                    return msgspec.structs.replace(row, reason=_TOUCHED)
                count = len(session.prune(keep).plan.pruned)
        return msgspec.structs.replace(row, action="prune", checkpoints=count) if count else row

    def _purged(self, result: Retained) -> Retained:
        before = self.now_ms - int((self.policy.sessions_days or 0) * _DAY_MS)
        try:
            names = run(purge_all(self.place.prefix, appends=self.driver.appends, before_ms=before), self.driver)
            self.driver.scrub(*(self.place.keys(name).home for name in names))
        except (TreeringError, OSError) as error:
            log.warning("purge failed: %s", error)
            return msgspec.structs.replace(result, purge_error=str(error))
        for name in names:
            log.info("purge %r", name)
        return msgspec.structs.replace(result, purged=names)


def _never(registers: Registers) -> bool:
    """For a deletion that was cut short: if the session lives, somebody created it again."""
    del registers
    return False


def _log(row: RetainedRow) -> None:
    if row.error:
        log.warning("%s %r (%s): %s", row.action, row.session, row.reason, row.error)
    elif row.action != "keep":
        log.info("%s %r (%s)", row.action, row.session, row.reason)
