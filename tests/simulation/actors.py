"""Processes that use a session through the journal alone: they write, read, merge, load, delete and create it again.

Each process runs the real protocol code and checks every answer. The body of `latest` holds the last records, so a
resume shows at once if a record is missing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw

from tests.simulation.world import World
from treering.errors import ConflictError, LeaseLostError, NotFoundError, SessionHeldError, UnavailableError, UsageError
from treering.format.erasure import Burials, Erasure
from treering.format.paths import DAY_MS, SegmentName
from treering.format.record import Record, decode_record, encode_record
from treering.format.register import Card, Latest
from treering.format.segment import build_segment
from treering.ids import new_nonce
from treering.journal import cover as covering, erase, lease as leases, life as lives
from treering.journal.append import Landed, Overtaken, append, settle, stamp
from treering.journal.marker import MARKED_MS_MAX
from treering.journal.merge import optimize
from treering.journal.moment import require_one_moment
from treering.journal.purge import purge, sweep_folders
from treering.journal.read import read_lines, skeletons
from treering.journal.resume import resume
from treering.journal.rows import records_at
from treering.journal.view import View
from treering.maintenance.reindexing import reindex
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import ask
from treering.store.info import Wanted
from treering.store.recent import list_page

CONTEXT_MAX = 3
SEAL_AT = 4  # records in the tail; small, so that schedules reach many seals and merges
SETTLES_MAX = 6
TTL_STEPS = 15  # the time to live of a lease, in requests of all processes
PATIENCE = 20  # looks of a patient worker: enough for a lease of another worker to expire
LIST_ROWS = 10  # enough for the session and its forks
DAY = 20_000  # days since 1970, in all markers but those that a wrong clock dates


def line_ids(lines: Sequence[bytes]) -> tuple[str, ...]:
    """Return the ids of record lines."""
    return tuple(decode_record(line).id for line in lines)


def context_of(view: View) -> tuple[bytes, ...]:
    """Return the last records that a view holds."""
    return (*bury_lines(view.latest, view.burials).lines, *view.fresh_lines)[-CONTEXT_MAX:]


def bury_lines(latest: Latest, marks: Burials) -> Latest:
    """Return a `latest` whose body is records, without erased payloads."""
    lines = tuple(marks.bury(line, decode_record(line).at) for line in latest.lines)
    return Latest(card=latest.card, lines=lines)


class Actors:
    """Makes processes for one world.

    Args:
        world: The store.
        rng: Decides what the processes do.
    """

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.ghost = world.ghost
        self.keys = world.keys
        self.rng = rng
        self.strict = False
        """Nothing fails any more, so no request may be refused."""
        self.works_max = 8
        """A writer makes fewer appends than this."""
        self.covers_early = 0.0
        """The share of appends after which a writer seals although the tail is still small."""
        self._names = itertools.count(1)

    def _records(self, count: int) -> tuple[Record, ...]:
        return tuple(
            Record(at=0, by="", type="node", kind="message", id=f"r{next(self._names)}", body=Raw(b"1"))
            for _ in range(count)
        )

    def card(self) -> Card:
        """Return a card; some cards name a project, as if the session was moved to it."""
        return Card(session=self.keys.session, life="", write="", project=self.rng.choice(("", "", "", "p")))

    def _now_ms(self) -> int:
        """Return the time of a clock that is right, or that is wrong by one day."""
        return (DAY + self.rng.choice((-1, 0, 0, 0, 1))) * DAY_MS + self.rng.choice((0, MARKED_MS_MAX))

    # writers

    def writer(self, *, shared: bool) -> Steps[None]:
        """Append a few times, seal after some appends, and close."""
        view = yield from self._opened()
        if view is None:
            return
        nonce, numbers = new_nonce(), itertools.count(1)
        try:
            yield from require_one_moment(view)
            if self.rng.random() < 0.2:
                view = yield from self._cover(view, seal=self.rng.random() < 0.5)
            for _ in range(self.rng.randrange(1, self.works_max)):
                records = self._records(self.rng.choice((1, 1, 2, 3)))
                outcome = yield from self._recorded(view, records, nonce, numbers, shared=shared)
                if outcome is None:
                    return
                view = outcome.view
                self.ghost.acknowledge(view.life, [record.id for record in records])
                if self.rng.random() < (0.8 if len(view.tail.lines) >= SEAL_AT else self.covers_early):
                    view = yield from self._cover(view, seal=True)
            yield from self._cover(view, seal=self.rng.random() < 0.3)
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def _recorded(
        self, view: View, records: Sequence[Record], nonce: str, numbers: Iterator[int], *, shared: bool, lease: int = 0
    ) -> Steps[Landed | None]:
        """Append until the records are stored; None: given up, or overtaken although the session is exclusive."""
        while True:
            outcome = yield from self._tried(view, records, f"{nonce}.{next(numbers)}", lease)
            if outcome is None or isinstance(outcome, Landed):
                return outcome
            if outcome.by and not outcome.by.startswith(f"{nonce}.") and not shared:
                return None
            view = outcome.view

    # workers with a lease

    def worker(self, patience: int = PATIENCE) -> Steps[None]:
        """Take the lease, work, give the lease back or keep it, and perhaps come back late."""
        nonce, numbers = new_nonce(), itertools.count(1)
        began = self.rng.randrange(1000)  # clocks of two computers show different times
        detector = leases.FailureDetector(lambda: float(began + self.world.steps))
        view = yield from self._opened()
        if view is None:
            return
        try:
            yield from require_one_moment(view)
            for _ in range(self.rng.randrange(1, 3)):
                taken = yield from self._taken(view, nonce, detector, patience)
                if taken is None:
                    return
                view = yield from self._worked(taken, nonce, numbers, taken.lease.number)
                if view is None:
                    return
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)

    def _taken(self, view: View, nonce: str, detector: leases.FailureDetector, patience: int) -> Steps[View | None]:
        """Read the registers until the lease can be taken; None: given up."""
        for _ in range(patience):
            try:
                taken = yield from leases.take(
                    view,
                    by=nonce,
                    holder="",
                    ttl_ms=TTL_STEPS * 1000,
                    nonce=f"{nonce}.{new_nonce()}",
                    detector=detector,
                )
            except SessionHeldError:
                taken = None
            if taken is not None:
                return taken
            view = yield from resume(self.keys)
        if self.strict:
            self.ghost.problems.append(f"nobody can take the lease of {view.lease.by!r}")
        return None

    def _worked(self, view: View, nonce: str, numbers: Iterator[int], number: int) -> Steps[View | None]:
        """Record a few times, with pauses; None: given up, or the lease was not given back."""
        try:
            for _ in range(self.rng.randrange(1, self.works_max)):
                roll = self.rng.random()
                if roll < 0.2:
                    view = yield from self._renewed(view, nonce, number)
                elif roll < 0.4:
                    for _ in range(self.rng.choice((1, TTL_STEPS))):  # the model takes long
                        yield from resume(self.keys)
                else:
                    records = self._records(self.rng.choice((1, 1, 2)))
                    done = yield from self._recorded(view, records, nonce, numbers, shared=False, lease=number)
                    if done is None:
                        return None
                    view = done.view
                    self.ghost.acknowledge(view.life, [record.id for record in records])
        except LeaseLostError:
            if self.strict:
                raise
            view = yield from resume(self.keys)  # then it gives back a lease that it has lost
        return (yield from self._released(view, nonce)) if self.strict or self.rng.random() < 0.7 else None

    def _renewed(self, view: View, nonce: str, number: int) -> Steps[View]:
        while True:
            unique, ttl_ms = f"{nonce}.{new_nonce()}", TTL_STEPS * 1000
            now = yield from leases.renew(view, number, by=nonce, ttl_ms=ttl_ms, nonce=unique)
            if now is not None:
                return now
            view = yield from resume(self.keys)

    def _released(self, view: View, nonce: str) -> Steps[View]:
        while True:
            now = yield from leases.release(view, by=nonce, nonce=f"{nonce}.{new_nonce()}")
            if now is not None:
                return now
            view = yield from resume(self.keys)

    def creators(self, *, shared: bool) -> Sequence[Callable[[], Steps[None]]]:
        """Return functions that start processes which create the session if it does not exist."""
        return (lambda: self.writer(shared=shared), lambda: self.writer(shared=shared), self.loader)

    def _opened(self) -> Steps[View | None]:
        """Resume, or create the session."""
        moment = self.ghost.now()
        try:
            view = yield from resume(self.keys)
        except NotFoundError:
            return (yield from self._created())
        except UnavailableError as error:
            self.excuse(error)
            return None
        self.ghost.saw_context("a resume", moment, view.life, view.end, line_ids(context_of(view)))
        return view

    def _created(self) -> Steps[View | None]:
        life = new_nonce()
        try:
            view = yield from lives.create(
                self.keys, self.card(), (), life=life, nonce=new_nonce(), now_ms=self._now_ms()
            )
        except (ConflictError, UnavailableError) as error:
            self.excuse(error)
            return None
        self.ghost.created.add(life)
        return view

    def _tried(
        self, view: View, records: Sequence[Record], by: str, lease: int = 0
    ) -> Steps[Landed | Overtaken | None]:
        """Append, and find out the outcome; None: given up, the outcome is unknown."""
        self.ghost.groups[by] = tuple(record.id for record in records)
        try:
            return (yield from append(view, records, by=by, nonce=new_nonce(), lease=lease))
        except SessionHeldError:
            if self.strict:
                raise
            return None
        except UsageError as error:
            if error.kind != "tail_full":
                raise
            covered = yield from self._cover(view, seal=True)
            return Overtaken((yield from resume(self.keys)) if covered.unsealed_lines else covered, "")
        except UnavailableError as error:
            self.excuse(error)
        for _ in range(self.rng.randrange(SETTLES_MAX)):
            try:
                return (yield from settle(view, by=by, nonce=new_nonce()))
            except UnavailableError:
                continue
        return None

    def _cover(self, view: View, *, seal: bool) -> Steps[View]:
        if view.torn and self.rng.random() < 0.5:
            return (yield from erase.heal(self.keys, view.life, bury_lines, unique=new_nonce))
        outcome = yield from covering.cover(
            view, self.card(), context_of(view), seal=seal, nonce=new_nonce(), now_ms=self._now_ms()
        )
        return outcome.view

    # readers

    def reader(self) -> Steps[None]:
        """Read the session a few times, each time in one of the ways of `looks`."""
        for _ in range(self.rng.randrange(1, 4)):
            look = self.rng.choice(self.looks())
            try:
                yield from look()
            except (NotFoundError, UnavailableError) as error:
                self.excuse(error)

    def looks(self) -> Sequence[Callable[[], Steps[object]]]:
        """Return the ways to read the session."""
        return (self.look, self.look_at_graph, self.walk, self.look_back, self.look_at_list)

    def look(self) -> Steps[None]:
        """Resume, as a writer does that wants to continue."""
        yield from self.look_at_end()

    def look_at_end(self) -> Steps[View]:
        moment = self.ghost.now()
        view = yield from resume(self.keys)
        self.ghost.saw_context("a resume", moment, view.life, view.end, line_ids(context_of(view)))
        return view

    def look_at_graph(self) -> Steps[None]:
        moment = self.ghost.now()
        found, rows = yield from skeletons(self.keys)
        self.ghost.saw_journal("the graph", moment, found.tail.header.life, tuple(rows.ids))

    def walk(self) -> Steps[None]:
        moment = self.ghost.now()
        known, lines = yield from read_lines(self.keys, 0)
        every = list(lines)
        while lines:
            known, lines = yield from read_lines(self.keys, len(every), known)
            every += lines
        self.ghost.saw_journal("a walk", moment, known.tail.header.life, line_ids(every))

    def look_at_list(self) -> Steps[None]:
        """List the sessions. A list shows a session once, from its creation to its deletion, and not after that.

        A list may miss a session that gets another marker in the meantime: a list is no snapshot.
        """
        before = self.world.listed()
        page = yield from list_page(
            self.keys.prefix, appends=self.keys.appends, limit=LIST_ROWS, after=None, wanted=Wanted()
        )
        if any(row.warning for row in page.rows):
            return  # a card could not be read
        shown = [row.id for row in page.rows].count(self.keys.session)
        version, name = self.world.listed()
        if shown > 1 or (name and name == before[1] and not shown) or (not name and version == before[0] and shown):
            self.ghost.problems.append(f"a list shows the session {shown} times. marker={before[1]!r}, then={name!r}")

    def look_back(self) -> Steps[None]:
        view = yield from self.look_at_end()
        if not view.end:
            return
        wanted = sorted(self.rng.sample(range(view.end), min(3, view.end)))
        log = self.ghost.logs[view.life]
        found = yield from records_at(view, wanted)
        logs = (log, self.ghost.logs[view.life], self.ghost.log_under(view.life, view.epoch))
        for at in wanted:
            if found[at] not in [each[at] for each in logs]:
                self.ghost.problems.append(f"position {at} of life {view.life} was read as {found[at]!r}")

    # maintenance, creation and deletion

    def merger(self) -> Steps[None]:
        """Merge segments; some calls also rewrite every segment."""
        for _ in range(self.rng.randrange(1, 4)):
            rewrite = (lambda line: line) if self.rng.random() < 0.3 else None
            try:
                yield from optimize(self.keys, new_nonce, everything=self.rng.random() < 0.8, rewrite=rewrite)
            except (NotFoundError, UnavailableError) as error:
                self.excuse(error)

    def loader(self) -> Steps[None]:
        """Load a whole session: write its segments to the folder of a new life, then create the session."""
        life, nonce = new_nonce(), new_nonce()
        records = self._records(self.rng.randrange(1, 8))
        lines = tuple(map(encode_record, stamp(records, at=0, by=f"{nonce}.1")))
        self.ghost.groups[f"{nonce}.1"] = tuple(record.id for record in records)
        first = 0
        try:
            seen = yield from lives.free_name(self.keys, nonce=new_nonce())
            while first < len(lines):
                end = min(len(lines), first + self.rng.randrange(1, 5))
                name = SegmentName(first, end, 0, new_nonce())
                key = self.keys.segment(life, name)
                yield from ask(Put(key, build_segment(lines[first:end], key=key)), Written)
                first = end
            yield from lives.create(
                self.keys, self.card(), lines[-CONTEXT_MAX:], life=life, nonce=new_nonce(), now_ms=self._now_ms(),
                born=lives.Birth(len(lines), "", seen),
            )  # fmt: skip
        except (ConflictError, UnavailableError) as error:
            self.excuse(error)
            return
        self.ghost.created.add(life)
        self.ghost.acknowledge(life, [record.id for record in records])

    def deleter(self) -> Steps[None]:
        """Delete the session; the life that existed when the deletion began must be dead when it is done."""
        there = self.world.current_life()
        try:
            yield from lives.delete(self.keys, nonce=new_nonce())
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)
            return
        if there:
            self.ghost.deleted.add(there)
            if there not in self.ghost.dead:
                self.ghost.problems.append(f"a deletion is done, but life {there} goes on")

    # erasing, and leftovers of deletions

    def eraser(self) -> Steps[None]:
        """Erase a few payloads."""
        for _ in range(self.rng.randrange(1, 3)):
            try:
                view = yield from resume(self.keys)
                if view.end:
                    wanted = sorted(self.rng.sample(range(view.end), min(self.rng.choice((1, 1, 2)), view.end)))
                    yield from self._erase(view, wanted)
            except (NotFoundError, UnavailableError) as error:
                self.excuse(error)

    def _erase(self, view: View, wanted: Sequence[int]) -> Steps[None]:
        life = view.life
        act = Erasure(epoch=0, time=1, records=tuple((at, f"at {at}") for at in wanted))
        while (fenced := (yield from erase.fence(view, act, nonce=new_nonce()))) is None:
            view = yield from resume(self.keys)
            view.require_same_life(life)
        yield from self._finish(life)
        self.ghost.receipt(life, fenced.epoch)

    def _finish(self, life: str) -> Steps[None]:
        yield from erase.heal(self.keys, life, bury_lines, unique=new_nonce)
        yield from erase.sweep(self.keys, life, unique=new_nonce)
        yield from erase.sweep_blobs(self.keys, life)

    def lister(self) -> Steps[None]:
        """Tidy up, as a process does at any later time: finish the erasures, and sweep the folders of other lives."""
        view = yield from resume(self.keys)
        yield from self._finish(view.life)
        yield from sweep_folders(self.keys, nonce=new_nonce())

    def purger(self) -> Steps[None]:
        """Remove leftovers of deletions and of lives other than the current one, or reindex."""
        try:
            roll = self.rng.random()
            if roll < 0.3:
                yield from sweep_folders(self.keys, nonce=new_nonce())
            elif roll < 0.5:
                yield from reindex(self.keys.prefix, appends=self.keys.appends)
            else:
                yield from purge(self.keys, nonce=new_nonce())
        except (NotFoundError, UnavailableError) as error:
            self.excuse(error)
        except UsageError as error:
            if error.kind != "alive":
                raise

    def excuse(self, error: Exception) -> None:
        """Accept an error that faults explain, and raise any other one.

        While requests fail, the store may not answer, and the session may not exist. No other object may be missing.
        """
        if self.strict:
            raise error
        if isinstance(error, NotFoundError) and not self.ghost.dead and error.kind != "session":
            raise error
