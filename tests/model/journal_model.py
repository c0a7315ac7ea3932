"""A small executable model of the journal's protocol: what `treering.journal` does, without bytes.

Two registers swapped by version (`tail`, `latest`) and immutable segments, one folder a life. Writers (create, append,
navigate, seal, close), loaders, tidiers, erasers, deleters and readers take turns at random. A request is one atomic
step, but a LIST is two. It may fail before it takes effect, lose its reply, or take effect later; any process may be
killed. A ghost log beside the store knows what every accepted append put where, and each read is held against it.

    python -m tests.model.journal_model 20000      run 20,000 random schedules
    python -m tests.model.journal_model mutants    remove one rule at a time: each must be noticed

A record is a number, `draft * TRIES + try`; an erased one is the negative number. `Store.says` holds what a navigation
says: the positions that its context consists of. A record may quote another one (an edit, a message kept inline in a
checkpoint), so that it is a copy of its payload, or have a large part in a blob that others have as well. A fork is one
object here: what it copied. Not modelled: the local log and its lock, see `tests/simulation`.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

STEPS_MAX = 20_000  # a schedule normally takes a few hundred
SEAL_AT = 4  # records in the tail; small, so that schedules reach many seals and merges
CONTEXT_MAX = 3
TRIES = 1000  # of one draft
SEEDS_MAX = 40_000  # to look through for one that notices a mutant

# What each does without its rule, behind the first schedule that notices; `mutants` tells anew where that shifts.
MUTANTS = {
    # resume and graph reads
    "no_base_check": (20, "resume goes on with a tail that begins after what latest covers"),
    "no_reach_check": (75, "resume goes on with a tail that ends before what latest covers"),
    "no_restart_on_404": (73, "a graph read passes over a segment that a merge deleted"),
    "no_coverage_check": (447, "a graph read does not ask that segments reach the tail's base"),
    "reads_next_life": (533, "a handle's graph read looks again in the session created after its own"),
    # append
    "drop_covered": (0, "an append drops from the tail what latest covers, not what is sealed"),
    "drop_everything": (12, "an append drops the whole tail once something was sealed"),
    "blind_tail": (1, "an append overwrites the tail without a version"),
    "no_readback": (2, "a conflict after a lost reply is taken for somebody else's append"),
    "readback_in_context": (1, "a doubted record is looked up in the context, not at its position"),
    "no_fence": (59, "a doubted append is given up while it may still land"),
    "live_twice": (11, "a handle goes on in a session that was deleted and created again"),
    # seal and close
    "drop_before_sealed": (367, "latest says that records are sealed before their segment is written"),
    "blind_latest": (1, "a seal or close overwrites latest without a version"),
    "cover_backwards": (34, "a view whose tail ends before what latest covers replaces latest"),
    "cover_mixed_epochs": (29814, "a view whose registers are of different epochs replaces latest"),
    # navigation
    "append_before_bodies": (0, "a navigation is appended before latest carries what its context needs"),
    "bring_unless_in_tail": (37, "what lies in the tail is not brought, though it may be sealed and dropped"),
    "bring_once": (343, "a navigation goes on although its swap of latest lost"),
    "cover_forgets": (1396, "who replaces latest and accounts for nothing new drops what was brought for an append"),
    # maintenance
    "merge_deletes_first": (777, "a merge deletes its inputs before its output is written"),
    "waste_of_equals": (5, "a segment is deleted as waste of another one that holds the same positions"),
    "merge_newest_epoch": (4772, "a merge's output carries the newest epoch of its inputs"),
    # creation
    "tail_first": (4, "a creation writes the tail before latest"),
    "no_adoption": (2, "a life without a tail waits for its creator, who may be gone"),
    "absent_twice": (31962, "two looks that miss a register are believed, though it may have been there in between"),
    "adopt_deleted": (702, "a life whose own tombstone is in the tail is taken for one that has no tail yet"),
    "adopt_at_once": (
        16317,
        "one look is believed that shows a life without a tail beside the tombstone of another life",
    ),
    "tail_from_zero": (2, "the tail of a life that was born with records begins at zero"),
    "load_latest_first": (885, "a load writes latest before the segments"),
    "discard_in_doubt": (659, "a load whose creation had no answer deletes its segments"),
    "create_on_absence": (3505, "latest of a new life is written where there is none, not in place of a tombstone"),
    "load_looks_last": (1591, "a load looks whether the name is free when its segments are there, not before"),
    "reuse_folder": (56, "a session created again under the same name uses the same folder"),
    # deletion
    "tombstone_on_latest": (13, "a delete fences latest only, while appends swap the tail"),
    "fence_existing_tail": (125, "the delete of a life without a tail marks latest only"),
    "tombstone_says_dead": (53, "a tombstone in the tail is taken for that of the card's life, whichever it is"),
    "bury_any_life": (11, "a delete marks the card that it finds, whichever life it is of"),
    "delete_next_life": (3287, "a delete that looks again deletes the session created after the one it was called for"),
    # purging
    "purge_blind": (539, "a purge deletes the registers whichever versions they have"),
    "purge_unfenced": (33952, "a purge deletes folders while a load may still end that looked before"),
    "purge_lists_last": (3957, "a purge deletes folders that it listed after it refused the loads under way"),
    "purge_living": (57, "a purge deletes a folder that latest came to name since it was listed"),
    # erasing
    "erase_latest_first": (3, "an erase raises its epoch in latest before it fences the tail"),
    "erase_deletes_dirty": (0, "an erase deletes dirty segments instead of rewriting them first"),
    "erase_without_epoch": (
        772,
        "names do not say under which epoch a segment was written, so late ones pass for clean",
    ),
    "erase_looks_once": (622, "an erase that was overtaken does not look for copies made meanwhile"),
    "quote_from_memory": (239, "a writer copies a payload that was erased since it read it"),
    "plan_outdated": (
        239,
        "what a writer planned before it brought what its move needs is appended under a later epoch",
    ),
    "no_heal": (2808, "an erase that was cut short between tail and latest is finished by nobody else"),
    "cover_healed": (34519, "what was made up before an erase is covered after it"),
    "heal_own_only": (255, "an erase takes only its own positions out of latest, and raises its epoch to the tail's"),
    "keep_late_blobs": (4124, "a blob that is stored after the fact is not looked for"),
    "delete_shared_blobs": (3, "an erase deletes blobs that other records have as well"),
    "refer_to_gone": (0, "a writer refers to a blob that an erase may be deleting"),
    "fork_links_last": (380, "a fork copies before it tells the parent where to"),
    "fork_reads_early": (380, "a fork reads what it copies before it takes its name"),
    "fork_unrefused": (4320, "an erase leaves a fork alone that took its name and is not there yet"),
}

Register = dict[str, Any]
Steps = Generator[None, None, Any]


class UnavailableError(Exception):
    """The store did not answer; the request may take effect before, now, later, or never."""


class ConflictError(Exception):
    """The register has another version."""


class NotFoundError(Exception):
    """There is no such object."""


class DeletedError(Exception):
    """The session was deleted."""


class CorruptError(Exception):
    """Two looks at the same registers, and they do not fit."""


class NeverEndsError(Exception):
    """A process that runs alone does not come to its end."""


class Store:
    """Objects with versions, requests that fail, and the ghost log."""

    def __init__(self, rng: random.Random, mutants: frozenset[str], fault_rate: float) -> None:
        self.objects: dict[str, tuple[int, Any]] = {}
        self.versions = itertools.count(1)
        self.rng = rng
        self.mutants = mutants
        self.fault_rate = fault_rate
        self.landing = 0.2  # how likely a late request takes effect before any other one
        self.late: list[Callable[[], Any]] = []
        self.says: dict[int, tuple[int, ...]] = {}
        self.quotes: dict[int, int] = {}  # record -> the one that it holds a copy of
        self.parts: dict[int, str] = {}  # record -> its blob
        self.forks: dict[int, str] = {}  # record -> the fork that it tells of
        self.born: dict[int, list[int]] = {}  # what a life begins with
        self.log: dict[int, list[int]] = {}  # ghost: life -> record at each position
        self.fenced: set[int] = set()  # ghost: lives that a tombstone ended
        self.destroyed: set[int] = set()  # ghost: their records at that moment

    def _request(self, effect: Callable[[], Any]) -> Any:
        if self.late and self.rng.random() < self.landing:
            self.land(self.late.pop())
        roll = self.rng.random()
        if roll < self.fault_rate / 3:
            raise UnavailableError
        if roll < self.fault_rate / 2:
            self.late.append(effect)
            raise UnavailableError
        result = effect()
        if roll < self.fault_rate:
            raise UnavailableError
        return result

    def land(self, effect: Callable[[], Any]) -> None:
        """Let a request take effect that nobody waits for any more."""
        with contextlib.suppress(ConflictError, NotFoundError):
            effect()

    def get(self, key: str) -> Any:
        def effect() -> Any:
            if key not in self.objects:
                raise NotFoundError(key)
            return self.objects[key]

        return self._request(effect)

    def list_part(self, prefix: str, after: str, *, first: bool) -> Any:
        return self._request(lambda: sorted(k for k in self.objects if k.startswith(prefix) and (k < after) == first))

    def put(self, key: str, value: Any) -> Any:
        def effect() -> int:
            self.objects[key] = (next(self.versions), value)
            self._ghost(key, value)
            return self.objects[key][0]

        return self._request(effect)

    def swap(self, key: str, value: Register, version: int) -> Any:
        """Replace `key` if it still has `version`; version 0 means that there is none."""

        def effect() -> int:
            if self.objects.get(key, (0, None))[0] != version:
                raise ConflictError(key)
            self.objects[key] = (next(self.versions), value)
            self._ghost(key, value)
            return self.objects[key][0]

        return self._request(effect)

    def _ghost(self, key: str, new: Any) -> None:
        if key == "latest" and not new["dead"]:
            self.log.setdefault(new["life"], list(self.born.get(new["life"], ())))
        if key != "tail":
            return
        log = self.log.setdefault(new["life"], [])
        if new["dead"]:
            self.fenced.add(new["life"])
            self.destroyed |= set(log)
            return
        for position, record in enumerate(new["records"], new["base"]):
            if position == len(log):
                log.append(abs(record))

    def delete(self, keys: list[str], version: int = 0) -> Any:
        def effect() -> None:
            if version and self.objects.get(keys[0], (0, None))[0] != version:
                raise ConflictError(keys[0])
            for key in keys:
                self.objects.pop(key, None)

        return self._request(effect)


def retry(request: Callable[..., Any], *arguments: Any, **named: Any) -> Steps:
    """Repeat a request until it answers; others run before each try."""
    while True:
        yield
        try:
            return request(*arguments, **named)
        except UnavailableError:
            continue


def get_register(store: Store, key: str) -> Steps:
    """GET one register: its version and value, 0 and None if it is missing."""
    try:
        return (yield from retry(store.get, key))
    except NotFoundError:
        return 0, None


# life:    which creation of this name the register belongs to
# tail:    base = position of its first record
# latest:  born = how many records the life began with; covers = how many it accounts for; sealed = how many lie in
#          segments; context = positions; bodies = records by position, those of the context at least
# epoch:   how many erasures there were; erased = ((position, epoch), ...); gone = blobs nobody may refer to again
TAIL: Register = {"life": 0, "epoch": 0, "erased": (), "gone": (), "base": 0, "records": (), "dead": False}
TAKEN: Register = {"records": {}, "taken": True}  # the name of a fork that is to be
LATEST: Register = TAIL | {"born": 0, "covers": 0, "sealed": 0, "context": (), "bodies": {}, "write": None}


class View(NamedTuple):
    """Both registers of a living session, fitting each other."""

    latest_version: int
    latest: Register
    tail_version: int
    tail: Register

    @property
    def life(self) -> int:
        return int(self.latest["life"])

    @property
    def end(self) -> int:
        return end_of(self.tail)

    @property
    def unsealed(self) -> tuple[int, ...]:
        return tuple(self.tail["records"][max(0, self.latest["sealed"] - self.tail["base"]) :])

    @property
    def torn(self) -> bool:
        """An erase came as far as the tail."""
        return bool(self.tail["epoch"] != self.latest["epoch"])

    def context(self, says: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        """Positions: those of latest, then what the tail adds."""
        fresh = self.tail["records"][max(0, self.latest["covers"] - self.tail["base"]) :]
        return fold(self.latest["context"], fresh, self.end - len(fresh), says)

    def bodies(self) -> dict[int, int]:
        """Records by position, as far as two reads bring them."""
        found = dict(self.latest["bodies"]) | dict(enumerate(self.tail["records"], self.tail["base"]))
        return bury_erased(found, self.tail["erased"])


def end_of(tail: Register) -> int:
    """One past the last position."""
    return int(tail["base"]) + len(tail["records"])


def fold(
    context: tuple[int, ...], records: tuple[int, ...], first: int, says: dict[int, tuple[int, ...]]
) -> tuple[int, ...]:
    """The context after some records, the first of which stands at `first`."""
    for position, record in enumerate(records, first):
        context = says.get(abs(record)) or (*context, position)[-CONTEXT_MAX:]
    return context


def bury_erased(found: dict[int, int], erased: tuple[tuple[int, int], ...]) -> dict[int, int]:
    """Where a record and its tombstone are both seen the tombstone wins."""
    gone = {position for position, _ in erased}
    return {at: -abs(record) if at in gone else record for at, record in found.items()}


def empty_tail(store: Store, latest: Register) -> Register:
    """The tail of a life that was not appended to yet."""
    base = 0 if "tail_from_zero" in store.mutants else latest["born"]
    return TAIL | {"life": latest["life"], "base": base}


class Seen:
    """One look at both registers; either may have been answered first, and None stands for a missing one."""

    def __init__(self, store: Store, latest: tuple[int, Any], tail: tuple[int, Any]) -> None:
        self.store = store
        self.latest_version, self.latest = latest
        self.tail_version, self.tail = tail
        self.versions = self.latest_version, self.tail_version

    @property
    def absent(self) -> bool:
        return self.latest is None and self.tail is None

    @property
    def life(self) -> int:
        if self.tail is None or (self.latest is not None and self.tail["dead"]):
            return int(self.latest["life"]) if self.latest else 0
        return int(self.tail["life"])

    @property
    def dead(self) -> bool:
        """DeletedError. A tombstone beside the card of another life says nothing about that life."""
        if self.tail is None:
            return self.latest is not None and bool(self.latest["dead"])
        if not self.tail["dead"]:
            return False
        if "tombstone_says_dead" in self.store.mutants:
            return not self.in_creation
        return self.latest is None or self.latest["dead"] or self.latest["life"] == self.tail["life"]

    @property
    def in_creation(self) -> bool:
        """`latest` of a life stands and its tail does not yet: anybody may go on with it."""
        latest, tail, mutants = self.latest, self.tail, self.store.mutants
        if latest is None or latest["dead"] or "no_adoption" in mutants:
            return False
        if latest["covers"] != latest["born"]:
            return False
        return tail is None or (tail["dead"] and (tail["life"] != latest["life"] or "adopt_deleted" in mutants))

    @property
    def unsure(self) -> bool:
        """A tombstone beside the card of another life: which of the two is older, only a second look tells."""
        if self.tail is not None and (not self.tail["dead"] or self.dead):
            return False
        return not self.in_creation or "adopt_at_once" not in self.store.mutants

    @property
    def looks(self) -> int:
        """How many looks in a row prove that both were there at one moment.

        A version is there once and never again, so two looks do. Nothing is there before a life and after its purge:
        only what was missing between two looks at the other register was missing beside it.
        """
        return 3 if 0 in self.versions and "absent_twice" not in self.store.mutants else 2

    @property
    def fits(self) -> bool:
        latest, tail, mutants = self.latest, self.tail, self.store.mutants
        if latest is None or tail is None or latest["dead"] or tail["dead"] or tail["life"] != latest["life"]:
            return False
        if tail["base"] > latest["covers"] and "no_base_check" not in mutants:
            return False  # latest was answered before a seal, the tail after it
        if end_of(tail) < latest["covers"] and "no_reach_check" not in mutants:
            return False  # the tail was answered before an append, latest after it was covered
        return bool(tail["epoch"] >= latest["epoch"])  # else the tail was answered before an erase, latest after it

    def view(self) -> View | None:
        if self.in_creation:
            return View(self.latest_version, self.latest, self.tail_version, empty_tail(self.store, self.latest))
        return View(self.latest_version, self.latest, self.tail_version, self.tail) if self.fits else None


def look(store: Store) -> Steps:
    """GET both, in parallel."""
    answers = {}
    for key in store.rng.sample(("latest", "tail"), 2):
        answers[key] = yield from get_register(store, key)
    return Seen(store, answers["latest"], answers["tail"])


def resume(store: Store) -> Steps:
    """Look until the registers fit; the same two twice that do not are damage."""
    before, looks = None, 0
    while True:
        seen = yield from look(store)
        if seen.absent:
            raise NotFoundError
        if "adopt_deleted" in store.mutants and seen.in_creation:
            return seen.view()
        if seen.dead:
            raise DeletedError
        before, looks = seen.versions, looks + 1 if seen.versions == before else 1
        if (view := seen.view()) is not None and (looks == seen.looks or not seen.unsure):
            return view
        if looks == seen.looks:
            raise CorruptError(f"the registers do not fit: {seen.latest}, {seen.tail}")


def folder_of(store: Store, life: int) -> str:
    """Where the segments of a life lie."""
    return "segment/" if "reuse_folder" in store.mutants else f"segment/{life:03d}/"


class Name(NamedTuple):
    """What the key of a segment tells."""

    first: int
    end: int
    epoch: int
    key: str


def parse_segment(key: str) -> Name:
    """Read what a key tells."""
    first, end, epoch, _ = key.rsplit("/", 1)[1].split("-")
    return Name(int(first), int(end), int(epoch), key)


def list_segments(store: Store, life: int) -> Steps:
    """LIST is two requests here: names may come and go between its halves."""
    folder = folder_of(store, life)
    after = f"{folder}{store.rng.randrange(12):03d}"
    names = yield from retry(store.list_part, folder, after, first=True)
    names += yield from retry(store.list_part, folder, after, first=False)
    return [parse_segment(key) for key in names]


def choose(names: list[Name]) -> tuple[list[Name], list[Name], int]:
    """Few segments that hold all positions from 0 on, the others, and how far the chosen ones reach."""
    chosen: list[Name] = []
    reach = 0
    while best := max((n for n in names if n.first <= reach < n.end), key=lambda n: n.end, default=None):
        chosen.append(best)
        reach = best.end
    return chosen, [name for name in names if name not in chosen], reach


def survey(store: Store, life: int = 0) -> Steps:
    """The tail first, then the segments, which must reach its base."""
    while True:
        _, tail = yield from get_register(store, "tail")
        if tail is None or tail["dead"]:
            tail = (yield from resume(store)).tail
        if life and tail["life"] != life and "reads_next_life" not in store.mutants:
            raise DeletedError
        chosen, waste, reach = choose((yield from list_segments(store, tail["life"])))
        if reach >= tail["base"] or "no_coverage_check" in store.mutants:
            return tail, chosen, waste


def read_graph(store: Store, life: int = 0) -> Steps:
    """The tail, and every record by position."""
    while True:
        tail, chosen, _ = yield from survey(store, life)
        found: dict[int, int] = {}
        try:
            for name in chosen:
                try:
                    records = (yield from retry(store.get, name.key))[1]
                except NotFoundError:
                    if "no_restart_on_404" not in store.mutants:
                        raise
                    continue
                found |= dict(enumerate(records, name.first))
        except NotFoundError:
            continue
        found |= dict(enumerate(tail["records"], tail["base"]))
        return tail, bury_erased(found, tail["erased"])


class Run:
    """One schedule: which processes there are and who goes next, all from one seed."""

    def __init__(self, seed: int, mutants: frozenset[str] = frozenset(), fault_rate: float = 0.06) -> None:
        self.rng = random.Random(seed)
        self.store = Store(self.rng, mutants, fault_rate)
        self.mutants = mutants
        self.ids = itertools.count(1)
        self.lives = itertools.count(1)
        self.problems: list[str] = []
        self.acknowledged: dict[int, int] = {}  # record -> life
        self.refused: set[int] = set()  # records whose writers were told that they are not written
        self.asked: set[int] = {0}  # lives that somebody was to delete; nobody lived life 0
        self.receipts: list[tuple[int, int]] = []  # (life, position) of finished erasures
        self.forked: list[tuple[int, str]] = []  # (life, fork) of finished forks
        self.rich = 0.1  # how often a record quotes another one, or has a blob
        self.stored: dict[int, set[str]] = {}  # life -> blobs that were stored there some time

    # writers: open or create, append, navigate and seal now and then, close

    def writer(self, *, shared: bool) -> Steps:
        try:
            view = yield from self.open(shared=shared)
            life = view.life
            for _ in range(self.rng.randrange(1, 9)):
                goal = self.rng.randrange(view.end) if view.end and self.rng.random() < 0.2 else None
                said, view = yield from self.record(view, goal, shared=shared)
                if not said:
                    return  # somebody else writes here, and this session is exclusive
                self.acknowledged[said] = life
                if len(view.tail["records"]) >= SEAL_AT and self.rng.random() < 0.8:
                    _, view = yield from self.cover(view, seal=True)
            yield from self.cover(view, seal=self.rng.random() < 0.3)
        except (DeletedError, NotFoundError, UnavailableError):
            return

    def record(self, view: View, goal: int | None, *, shared: bool) -> Steps:
        """Append one draft, again and again if others were first; a navigation brings its bodies first."""
        draft = next(self.ids) * TRIES
        wanted = () if goal is None else tuple(range(max(0, goal + 1 - CONTEXT_MAX), goal + 1))
        known = view.bodies()
        quoted = self.rng.choice(sorted(known)) if known and self.rng.random() < self.rich else None
        part = f"{self.rng.randrange(3)}" if self.rng.random() < self.rich else None
        for said in range(draft, draft + TRIES):
            planned = view
            if wanted:
                self.store.says[said] = wanted
                if "append_before_bodies" not in self.mutants:
                    view = yield from self.bring(view, wanted)
            planned = planned if "plan_outdated" in self.mutants else view
            if part is not None:
                yield from self.store_part(planned, said, part)
            if quoted is not None:
                self.quote(planned, said, quoted, known)
            landed, now = yield from self.append(view, said)
            if landed:
                if wanted and "append_before_bodies" in self.mutants:
                    now = yield from self.bring(now, wanted)
                return said, now
            self.refused.add(said)
            if now.end > view.end and not shared:
                return 0, now
            view = now
        raise NeverEndsError

    def quote(self, view: View, said: int, position: int, known: dict[int, int]) -> None:
        """Let a record hold a copy of another one's payload, unless that was erased."""
        there = known[position] if "quote_from_memory" in self.mutants else view.bodies().get(position, 0)
        if there > 0:
            self.store.quotes[said] = self.store.quotes.get(there, there)

    def store_part(self, view: View, said: int, part: str) -> Steps:
        """Store a blob before the record that refers to it; what was erased is kept inside the record."""
        if part in view.tail["gone"] and "refer_to_gone" not in self.mutants:
            return
        if part not in self.stored.get(view.life, ()):
            yield from retry(self.store.put, f"blob/{view.life:03d}/{part}", part)
            self.stored.setdefault(view.life, set()).add(part)
        self.store.parts[said] = part

    def bring(self, view: View, wanted: tuple[int, ...]) -> Steps:
        """Swap latest for one that carries `wanted`. What the present context holds, every cover carries anyway."""
        while True:
            held = set(view.context(self.store.says))
            if "bring_unless_in_tail" in self.mutants:
                held |= set(range(view.tail["base"], view.end))
            if set(wanted) <= held:
                return view
            tail, found = yield from read_graph(self.store, view.life)
            if "append_before_bodies" not in self.mutants and tail["epoch"] != view.tail["epoch"]:
                view = yield from self.again(view)
                continue
            bodies = {at: found[at] for at in wanted if at not in held and at in found}
            done, view = yield from self.cover(view, seal=False, bodies=bodies)
            if done or "bring_once" in self.mutants:
                return view
            if view.torn and "no_heal" in self.mutants:
                raise UnavailableError
            view = yield from self.again(view)

    def again(self, view: View) -> Steps:
        now = yield from resume(self.store)
        if now.life != view.life and "live_twice" not in self.mutants:
            raise DeletedError  # deleted and created again meanwhile: not our session any more
        return now

    def open(self, *, shared: bool) -> Steps:
        try:
            return (yield from resume(self.store))
        except NotFoundError:
            pass
        except DeletedError:
            if self.rng.random() < 0.5:
                raise
        mine: list[int] = []
        while True:
            mine.append(next(self.lives))  # a life for each try: an earlier one may have landed
            try:
                return (yield from self.create(mine[-1]))
            except UnavailableError:
                if self.rng.random() < 0.3:
                    raise
            except ConflictError:
                view = yield from resume(self.store)
                if not shared and (view.life not in mine or view.end):
                    raise DeletedError from None
                return view

    def free_name(self) -> Steps:
        """Look whether a session may be created; the tombstone in latest is what its creation replaces.

        Where nothing ever was, or was purged, tombstones of a life that never was are put first. What is written in
        place of one of them is refused for ever once it is gone; what is written where nothing is could come late.
        """
        while True:
            seen = yield from look(self.store)
            if seen.dead:
                seen = yield from self.bury(seen, seen.life)
            if not (seen.absent or seen.dead):
                raise ConflictError
            absent = [
                key for key, version in (("latest", seen.latest_version), ("tail", seen.tail_version)) if not version
            ]
            if not absent or "create_on_absence" in self.mutants:
                return seen
            for key in absent:
                yield from self.put_stone(key)

    def create(self, life: int, born: tuple[int, ...] = (), seen: Any = None) -> Steps:
        """Write latest of a new life in place of a tombstone; the first append writes the tail."""
        seen = seen or (yield from self.free_name())
        end = len(born)
        context = fold((), born, 0, {})
        bodies = {at: born[at] for at in context}
        latest = LATEST | {"life": life, "born": end, "covers": end, "sealed": end, "context": context}
        latest |= {"bodies": bodies, "write": next(self.ids)}
        self.store.born[life] = list(born)
        tail, version = empty_tail(self.store, latest), seen.tail_version
        while True:
            yield
            try:
                if "tail_first" in self.mutants:
                    version = self.store.swap("tail", tail, version)
                    yield
                return View(self.store.swap("latest", latest, seen.latest_version), latest, version, tail)
            except UnavailableError:
                if self.rng.random() < 0.5:
                    raise  # else the client sends it again, so our own success may come back as a conflict
            except ConflictError:
                try:
                    view = yield from resume(self.store)
                except (NotFoundError, DeletedError):
                    raise ConflictError from None
                if view.life != life:
                    raise
                return view

    def append(self, view: View, said: int) -> Steps:
        """Swap the tail: drop what is sealed, add the record. Return whether it landed, and what stands there now."""
        keep = view.unsealed
        if "drop_covered" in self.mutants:
            keep = view.tail["records"][max(0, view.latest["covers"] - view.tail["base"]) :]
        if "drop_everything" in self.mutants and view.latest["sealed"] > view.tail["base"]:
            keep = ()
        new = view.tail | {"base": view.end - len(keep), "records": (*keep, said)}
        if not view.tail_version:
            yield from self.put_stone("tail")
            return False, (yield from self.again(view))
        while True:
            yield
            try:
                blind = "blind_tail" in self.mutants
                version = self.store.put("tail", new) if blind else self.store.swap("tail", new, view.tail_version)
                return True, view._replace(tail=new, tail_version=version)
            except UnavailableError:
                if self.rng.random() < 0.5:  # else the client sends it again
                    return (yield from self.settle(view, said, doubt=True))
            except ConflictError:
                if "no_readback" in self.mutants:
                    return False, (yield from self.again(view))
                return (yield from self.settle(view, said, doubt=False))

    def put_stone(self, key: str) -> Steps:
        """Put a tombstone of a life that never was where nothing is: something that is replaced by its version."""
        with contextlib.suppress(ConflictError):
            yield from retry(self.store.swap, key, (LATEST if key == "latest" else TAIL) | {"dead": True}, 0)

    def settle(self, view: View, said: int, *, doubt: bool) -> Steps:
        """Look at the record's position. If an append in doubt is not there, change the tail: then it cannot land."""
        while True:
            now = yield from self.again(view)
            landed = (yield from self.record_at(now, view.end)) == said
            if "readback_in_context" in self.mutants:
                landed = said in (abs(now.bodies().get(at, 0)) for at in now.context(self.store.says))
            if doubt and not landed and now.tail_version == view.tail_version and "no_fence" not in self.mutants:
                try:  # as it is: only an append drops what is sealed, so nobody else's hand is in a base that rises
                    version = yield from retry(self.store.swap, "tail", now.tail, now.tail_version)
                except ConflictError:
                    continue
                now = now._replace(tail_version=version)
            return landed, now

    def record_at(self, view: View, position: int) -> Steps:
        if position >= view.end:
            return None
        if position >= view.tail["base"]:
            return abs(view.tail["records"][position - view.tail["base"]])
        _, found = yield from read_graph(self.store, view.life)
        return abs(found.get(position, 0))

    def cover(self, view: View, *, seal: bool, bodies: dict[int, int] | None = None) -> Steps:
        """Let latest account for the tail; a seal writes a segment first. Return whether our swap took place."""
        if view.torn and "cover_mixed_epochs" not in self.mutants:
            view = yield from self.follow(view)
            if "cover_healed" not in self.mutants or "no_heal" in self.mutants:
                return False, view  # what was to be covered was made up before
        latest, tail, end = view.latest, view.tail, view.end
        if end < latest["covers"] and "cover_backwards" not in self.mutants:
            return False, view  # what we know is older
        sealing = seal and bool(view.unsealed)
        if end == latest["covers"] and not sealing and bodies is None:
            return False, view
        name = f"{end - len(view.unsealed):03d}-{end:03d}-{tail['epoch']:03d}-{next(self.ids)}"
        key = folder_of(self.store, view.life) + name
        if sealing and "drop_before_sealed" not in self.mutants:
            yield from retry(self.store.put, key, view.unsealed)
        new = self.covering(view, bodies or {}) | ({"sealed": end} if sealing else {})
        try:
            version = yield from self.replace_latest(new, view.latest_version)
        except ConflictError:
            version, there = yield from get_register(self.store, "latest")
            if there is None or there["dead"] or there["life"] != view.life:
                raise DeletedError from None
            if there["write"] != new["write"]:
                return False, view._replace(latest=there, latest_version=version)  # our segment is waste, not harm
        if sealing and "drop_before_sealed" in self.mutants:
            yield from retry(self.store.put, key, view.unsealed)
        return True, view._replace(latest=new, latest_version=version)

    def replace_latest(self, new: Register, version: int) -> Steps:
        """Put `new` in the place of the version of latest that was seen."""
        if "blind_latest" in self.mutants:
            return (yield from retry(self.store.put, "latest", new))
        return (yield from retry(self.store.swap, "latest", new, version))

    def follow(self, view: View) -> Steps:
        """An erase is under way, or was cut short: what it has to do to latest comes first."""
        return view if "no_heal" in self.mutants else (yield from self.heal(view.life))

    def covering(self, view: View, bodies: dict[int, int]) -> Register:
        """What latest will be: what its context needs, and `bodies`."""
        known, context = view.bodies(), view.context(self.store.says)
        carried = {at: known[at] for at in context if at in known} | bodies
        if view.end == view.latest["covers"] and "cover_forgets" not in self.mutants:
            carried = dict(view.latest["bodies"]) | carried  # somebody may be about to append what needs it
        return view.latest | {"covers": view.end, "context": context, "bodies": carried, "write": next(self.ids)}

    def loader(self) -> Steps:
        """A session that is born with records: segments first, then latest."""
        life, born = next(self.lives), tuple(next(self.ids) * TRIES for _ in range(self.rng.randrange(1, 6)))
        cut = self.rng.randrange(len(born))
        folder, last = folder_of(self.store, life), len(born)
        parts = [(first, end) for first, end in ((0, cut), (cut, last)) if first < end]
        keys = [(f"{folder}{first:03d}-{end:03d}-000-{next(self.ids)}", born[first:end]) for first, end in parts]
        try:
            seen = None if "load_looks_last" in self.mutants else (yield from self.free_name())
            if "load_latest_first" not in self.mutants:
                yield from self.put_all(keys)
            view = yield from self.create(life, born, seen)
            self.acknowledged |= dict.fromkeys(born, view.life)
            if "load_latest_first" in self.mutants:
                yield from self.put_all(keys)
        except (ConflictError, UnavailableError) as error:
            if isinstance(error, ConflictError) or "discard_in_doubt" in self.mutants:
                yield from self.empty_folder(life)

    def put_all(self, objects: list[tuple[str, tuple[int, ...]]]) -> Steps:
        for key, records in objects:
            yield from retry(self.store.put, key, records)

    # maintenance

    def tidier(self) -> Steps:
        for _ in range(3):
            try:
                tail, chosen, waste = yield from survey(self.store)
                if not chosen:
                    continue
                strict = "waste_of_equals" not in self.mutants
                inside = [w.key for w in waste if any(holds(c, w) and not (strict and holds(w, c)) for c in chosen)]
                yield from retry(self.store.delete, inside)
                first, end = sorted(self.rng.choices(range(len(chosen)), k=2))
                yield from self.merge(tail["life"], chosen[first : end + 1], waste)
            except NotFoundError:
                continue  # nothing there, or somebody else merged
            except DeletedError:
                return

    def merge(self, life: int, run: list[Name], waste: list[Name]) -> Steps:
        """Join one contiguous run (of one: rewrite it), then delete it and the waste whose records the output holds."""
        merged: dict[int, int] = {}
        for name in run:
            records = (yield from retry(self.store.get, name.key))[1]
            merged = dict(enumerate(records, name.first)) | merged
        epochs = [name.epoch for name in run]
        epoch = max(epochs) if "merge_newest_epoch" in self.mutants else min(epochs)
        unique = f"{run[0].first:03d}-{run[-1].end:03d}-{epoch:03d}-{next(self.ids)}"
        output = parse_segment(folder_of(self.store, life) + unique)
        gone = [n.key for n in run] + [n.key for n in waste if holds(output, n)]
        if "merge_deletes_first" in self.mutants:
            yield from retry(self.store.delete, gone)
        yield from self.put_all([(output.key, tuple(merged[at] for at in sorted(merged)))])
        yield from retry(self.store.delete, gone)

    # erasing

    def eraser(self) -> Steps:
        """Fence the tail, then latest, then rewrite what is dirty until a listing shows nothing dirty."""
        try:
            view = yield from resume(self.store)
            if not view.end:
                return
            shown = view.context(self.store.says) if self.rng.random() < 0.5 else range(view.end)
            life, position = view.life, self.rng.choice(shown)
            copies: list[int] = []
            while True:
                if not copies or "erase_looks_once" not in self.mutants:
                    _, found = yield from read_graph(self.store, life)
                    copies = self.copies_of(found, position)
                done, view = yield from self.fence_payload(view, copies)
                if done or not copies:
                    break
                view = yield from self.again(view)
            links = self.forks_among(found.values())
            yield from self.heal(life)
            yield from self.sweep(life, receipt=True)
            for fork in links:
                yield from self.erase_in_fork(fork, view.tail["erased"])
            self.receipts += [(life, at) for at in copies]
        except (DeletedError, NotFoundError):
            return

    def copies_of(self, found: dict[int, int], position: int) -> list[int]:
        """Where the payload is: the record, and those that quote it."""
        record, quotes = found.get(position, 0), self.store.quotes
        source = quotes.get(record, record)
        return [at for at in sorted(found) if found[at] > 0 and source in (found[at], quotes.get(found[at]))]

    def fence_payload(self, view: View, copies: list[int]) -> Steps:
        """Swap the tail: the payloads are gone, and from now on whatever holds these positions is dirty."""
        epoch = view.tail["epoch"] + 1
        erased = (*view.tail["erased"], *((at, epoch) for at in copies))
        if not view.tail_version:
            yield from self.put_stone("tail")
            return False, view
        if "erase_latest_first" in self.mutants:
            yield from self.bury_in_latest(view, epoch, erased)
        kept = dict(enumerate(view.tail["records"], view.tail["base"]))
        held = [self.store.log[view.life][at] for at in copies if at < view.end]
        gone = {self.store.parts[record] for record in held if record in self.store.parts}
        new = view.tail | {"epoch": epoch, "erased": erased, "records": tuple(bury_erased(kept, erased).values())}
        new |= {"gone": tuple(sorted({*view.tail["gone"], *gone}))}
        try:
            version = yield from retry(self.store.swap, "tail", new, view.tail_version)
        except ConflictError:
            return False, view
        return True, view._replace(tail=new, tail_version=version)

    def heal(self, life: int) -> Steps:
        """Let latest follow the tail in what was erased. Anybody may, at any time."""
        while True:
            view = yield from resume(self.store)
            if view.life != life:
                raise DeletedError
            if not view.torn:
                return view
            erased = view.tail["erased"]
            if "heal_own_only" in self.mutants:
                erased = (*view.latest["erased"], erased[-1])
            yield from self.bury_in_latest(view, view.tail["epoch"], erased)

    def bury_in_latest(self, view: View, epoch: int, erased: tuple[tuple[int, int], ...]) -> Steps:
        new = view.latest | {"epoch": epoch, "erased": erased, "write": next(self.ids)}
        new |= {"bodies": bury_erased(view.latest["bodies"], erased)}
        with contextlib.suppress(ConflictError):
            yield from retry(self.store.swap, "latest", new, view.latest_version)

    def sweep(self, life: int, *, receipt: bool) -> Steps:
        """Rewrite segments that were written before an erasure of what they hold, and delete what only the erased had.

        Anybody may, at any time.
        """
        while True:
            view = yield from resume(self.store)
            if view.life != life:
                raise DeletedError
            erased = view.tail["erased"]
            names = yield from list_segments(self.store, life)
            dirty = [n for n in names if any(n.first <= at < n.end and n.epoch < epoch for at, epoch in erased)]
            if not dirty or ("erase_without_epoch" in self.mutants and not receipt):
                yield from self.sweep_blobs(view, receipt=receipt)
                return
            for name in dirty:
                try:
                    records = (yield from retry(self.store.get, name.key))[1]
                except NotFoundError:
                    continue
                clean = bury_erased(dict(enumerate(records, name.first)), erased)
                new = f"{name.first:03d}-{name.end:03d}-{view.tail['epoch']:03d}-{next(self.ids)}"
                if "erase_deletes_dirty" not in self.mutants:
                    yield from self.put_all([(folder_of(self.store, life) + new, tuple(clean.values()))])
                yield from retry(self.store.delete, [name.key])

    def sweep_blobs(self, view: View, *, receipt: bool) -> Steps:
        """Nobody refers to a blob on the list again, so what no living record has now may be deleted at any time."""
        if not view.tail["gone"] or ("keep_late_blobs" in self.mutants and not receipt):
            return
        _, found = yield from read_graph(self.store, view.life)
        living = {self.store.parts.get(record) for record in found.values()}
        living = set() if "delete_shared_blobs" in self.mutants else living
        dead = [f"blob/{view.life:03d}/{part}" for part in view.tail["gone"] if part not in living]
        yield from retry(self.store.delete, dead)

    # forks

    def forker(self) -> Steps:
        """Copy the session into another one, which its record in this one tells of."""
        try:
            view = yield from resume(self.store)
            fork, said = f"fork/{next(self.ids)}", next(self.ids) * TRIES
            self.store.forks |= dict.fromkeys(range(said, said + TRIES), fork)
            if "fork_links_last" not in self.mutants:
                view = yield from self.link(view, said)
            while not (yield from self.copy_into(fork, view.life)):
                pass
            if "fork_links_last" in self.mutants:
                view = yield from self.link(view, said)
            self.forked.append((view.life, fork))
        except (DeletedError, NotFoundError, UnavailableError):
            return

    def copy_into(self, fork: str, life: int) -> Steps:
        """Take the name, read, and put what was read in its place; false if that was refused."""
        early = (yield from read_graph(self.store, life)) if "fork_reads_early" in self.mutants else None
        version, there = yield from get_register(self.store, fork)
        if there is None:
            with contextlib.suppress(ConflictError):  # sent again after a lost reply
                yield from retry(self.store.swap, fork, TAKEN, 0)
            version, there = yield from get_register(self.store, fork)
        if there is not None and not there["taken"]:
            return True  # an earlier try had no answer
        tail, found = early or (yield from read_graph(self.store, life))
        copy = {at: record for at, record in found.items() if at < end_of(tail)}
        try:
            yield from retry(self.store.swap, fork, {"records": copy, "taken": False}, version)
        except ConflictError:
            return False
        return True

    def forks_among(self, records: Iterable[int]) -> list[str]:
        """The forks that some records tell of."""
        return [self.store.forks[abs(record)] for record in records if abs(record) in self.store.forks]

    def link(self, view: View, said: int) -> Steps:
        """Append the record that tells of a fork."""
        while True:
            landed, view = yield from self.append(view, said)
            if landed:
                self.acknowledged[said] = view.life
                return view
            said += 1

    def erase_in_fork(self, fork: str, erased: tuple[tuple[int, int], ...]) -> Steps:
        """Copies are found by what they are copies of; a fork under way, which may have read them, is refused."""
        while True:
            version, there = yield from get_register(self.store, fork)
            if there is None or (there["taken"] and "fork_unrefused" in self.mutants):
                return
            clean = bury_erased(there["records"], erased)
            if clean == there["records"] and not there["taken"]:
                return
            with contextlib.suppress(ConflictError):
                yield from retry(self.store.swap, fork, {"records": clean, "taken": there["taken"]}, version)
                if there["taken"]:
                    return

    # deletion

    def deleter(self) -> Steps:
        """End the life that is there now: tombstone in the tail, then in latest, then empty its folder."""
        life, before, looks = 0, None, 0
        while True:
            seen = yield from look(self.store)
            if seen.absent:
                return
            before, looks = seen.versions, looks + 1 if seen.versions == before else 1
            if seen.unsure and looks < seen.looks:
                continue
            if not life:
                self.asked.add(seen.life)
            life = seen.life if "delete_next_life" in self.mutants else life or seen.life
            if life == seen.life and not seen.dead and not (yield from self.fence(seen, life)):
                continue
            yield from self.bury((yield from look(self.store)), life)
            if "tombstone_on_latest" in self.mutants:
                yield from retry(self.store.put, "tail", TAIL | {"life": life, "dead": True})
            yield from self.empty_folder(life)
            return

    def fence(self, seen: Seen, life: int) -> Steps:
        if "tombstone_on_latest" in self.mutants or ("fence_existing_tail" in self.mutants and seen.in_creation):
            self.store.destroyed |= set(self.store.log.get(life, ()))
            return True
        stone = TAIL | {"life": life, "dead": True}
        try:
            yield from retry(self.store.swap, "tail", stone, seen.tail_version)
        except ConflictError:
            return False
        return True

    def bury(self, seen: Seen, life: int) -> Steps:
        """Mark the card of a fenced life as dead."""
        while True:
            latest = seen.latest
            if latest is None or latest["dead"] or (latest["life"] != life and "bury_any_life" not in self.mutants):
                return seen
            stone, version = LATEST | {"life": latest["life"], "dead": True}, seen.latest_version
            with contextlib.suppress(ConflictError):
                yield from retry(self.store.swap, "latest", stone, version)
            seen = yield from look(self.store)

    def empty_folder(self, life: int) -> Steps:
        names = yield from list_segments(self.store, life)
        yield from retry(self.store.delete, [name.key for name in names])

    def purger(self) -> Steps:
        """Remove what no life needs, then the tombstones. A load looks at latest before it writes its first segment."""
        while True:
            listed = yield from self.list_all()
            seen = yield from look(self.store)
            if not seen.dead or (seen.latest is not None and not seen.latest["dead"]):
                yield from self.sweep_folders(seen, listed)
                return
            if seen.latest is not None and "purge_unfenced" not in self.mutants:
                try:
                    stone = LATEST | {"dead": True, "write": next(self.ids)}
                    version = yield from retry(self.store.swap, "latest", stone, seen.latest_version)
                except ConflictError:
                    continue
                seen.latest_version = version
            if "purge_lists_last" in self.mutants:
                listed = yield from self.list_all()
            yield from retry(self.store.delete, listed)
            for key, version in (("tail", seen.tail_version), ("latest", seen.latest_version)):
                yield from self.purge_register(key, version)
            return

    def sweep_folders(self, seen: Seen, listed: list[str]) -> Steps:
        """Beside a living latest no other life can come to be that had begun to write before."""
        if seen.latest is None or seen.latest["dead"]:
            return
        life = "" if "purge_living" in self.mutants else folder_of(self.store, seen.latest["life"])
        yield from retry(self.store.delete, [key for key in listed if not (life and key.startswith(life))])

    def list_all(self) -> Steps:
        names = yield from retry(self.store.list_part, "segment/", "segment/004", first=True)
        return names + (yield from retry(self.store.list_part, "segment/", "segment/004", first=False))

    def purge_register(self, key: str, version: int) -> Steps:
        if "purge_blind" in self.mutants:
            yield from retry(self.store.delete, [key])
        elif version:
            with contextlib.suppress(ConflictError):
                yield from retry(self.store.delete, [key], version)

    # readers, held against the ghost log

    def reader(self) -> Steps:
        for _ in range(3):
            try:
                life = yield from self.check_resume()
                yield from self.check_graph(life)
            except (DeletedError, NotFoundError):
                return

    def check_graph(self, life: int) -> Steps:
        before = list(self.store.log.get(life, ()))
        erased = [position for there, position in self.receipts if there == life]
        tail, found = yield from read_graph(self.store, life)
        if tail["life"] != life:
            self.problems.append("a graph read shows another life's records")
        elif any(found.get(position, 0) > 0 for position in erased):
            self.problems.append("a graph read shows an erased record")
        elif missed := [record for at, record in enumerate(before) if abs(found.get(at, 0)) != record]:
            self.problems.append(f"a graph read misses {missed}")

    def check_resume(self) -> Steps:
        before = {life: len(log) for life, log in self.store.log.items()}
        view = yield from resume(self.store)
        log, says = list(self.store.log.get(view.life, ())), self.store.says
        context, bodies = view.context(says), view.bodies()
        if not before.get(view.life, 0) <= view.end <= len(log):
            self.problems.append(f"a resume ends at {view.end}, the log at {len(log)}")
        elif context != fold((), tuple(log[: view.end]), 0, says):
            self.problems.append(f"a resume has the context {context}")
        elif any(abs(record) != log[at] for at, record in bodies.items()):
            self.problems.append(f"a resume has the bodies {bodies}")
        elif not set(context) <= bodies.keys():
            yield from self.check_once_more(view)
        return view.life

    def check_once_more(self, view: View) -> Steps:
        """Without somebody who navigated between the two answers, two reads bring the context."""
        now = yield from resume(self.store)
        same = (now.latest_version, now.tail_version) == (view.latest_version, view.tail_version)
        if same and not set(now.context(self.store.says)) <= now.bodies().keys():
            self.problems.append("two reads do not bring the context")

    # a schedule

    def go(self) -> list[str]:
        """Run it and return which promises were broken."""
        shared = self.rng.random() < 0.5
        processes = [self.writer(shared=shared) for _ in range(self.rng.randrange(1, 4))]
        processes += [self.reader() for _ in range(self.rng.randrange(1, 3))]
        processes += [self.tidier() for _ in range(self.rng.randrange(0, 3))]
        processes += [self.loader() for _ in range(self.rng.choice((0, 0, 1)))]
        late = [self.writer(shared=shared) for _ in range(self.rng.randrange(0, 4))]
        late += [self.reader() for _ in range(self.rng.randrange(0, 2))]
        if self.rng.random() < 0.4:
            late += [self.deleter() for _ in range(self.rng.randrange(1, 4))]
            late += [self.loader() for _ in range(self.rng.choice((0, 0, 1)))]
            late += [self.purger() for _ in range(self.rng.choice((0, 0, 1, 2)))]
        late += [self.eraser() for _ in range(self.rng.choice((0, 0, 1, 2)))]
        late += [self.forker() for _ in range(self.rng.choice((0, 0, 0, 1)))]
        kind = self.rng.random()
        if kind < 0.2:  # many short lives under one name, while those who came first hardly go on
            processes = [self.writer(shared=shared) for _ in range(2)]
            late = [self.writer(shared=shared) for _ in range(6)] + [self.deleter() for _ in range(6)]
        elif kind < 0.3:  # names that are purged, while those who came first hardly go on
            self.store.fault_rate, self.store.landing = 0.2, 0.02
            processes = [
                self.rng.choice((self.loader(), self.writer(shared=shared))) for _ in range(self.rng.choice((1, 2, 3)))
            ]
            late = [self.writer(shared=shared) for _ in range(2)] + [
                self.loader() for _ in range(self.rng.randrange(2))
            ]
            late += [self.deleter() for _ in range(3)] + [self.purger() for _ in range(4)]
        elif kind < 0.4:  # much is erased
            self.rich = 0.4
            processes = [self.writer(shared=True) for _ in range(2)] + [self.forker() for _ in range(2)]
            late = [self.writer(shared=True) for _ in range(2)] + [self.eraser() for _ in range(3)] + [self.tidier()]
        try:
            self.interleave(processes, late, 8 if 0.2 < kind < 0.3 else 4 if kind < 0.35 else 1)
            self.judge()
        except (CorruptError, NeverEndsError) as error:
            self.problems.append(f"{type(error).__name__}: {error}")
        return self.problems

    def interleave(self, processes: list[Steps], late: list[Steps], bias: int) -> None:
        for _ in range(STEPS_MAX):
            if late and (not processes or self.rng.random() < 0.05):
                processes.append(late.pop(self.rng.randrange(len(late))))
            if not processes:
                return
            process = processes[-1 - int(len(processes) * self.rng.random() ** bias)]  # the last come first
            for _ in range(self.rng.choice((1, 1, 1, 2, 5, 20))):
                try:
                    next(process)
                except StopIteration:
                    processes.remove(process)
                    break
            else:
                if self.rng.random() < 0.01:
                    processes.remove(process)  # kill -9
        raise NeverEndsError

    def judge(self) -> None:
        """All requests have landed and nobody is left: what must be true now, and for good?"""
        self.store.fault_rate = 0.0
        while self.store.late:
            self.store.land(self.store.late.pop())
        life = 0
        try:
            life = drain(resume(self.store)).life
            self.judge_forks(life)
            drain(self.cover(drain(resume(self.store)), seal=True))  # heals, perhaps, and no more than that
            view = drain(self.cover(drain(resume(self.store)), seal=True))[1]
            if view.unsealed:
                self.problems.append("nobody can seal any more")
            drain(self.sweep(life, receipt=False))  # maintenance, any time later
            for fork in self.forks_among(self.store.log[life]):
                drain(self.erase_in_fork(fork, view.tail["erased"]))
            self.judge_erased(life)
            self.judge_blobs(life)
            drain(self.check_resume())
            drain(self.check_graph(life))
        except (DeletedError, NotFoundError):
            pass
        logged = {record: there for there, log in self.store.log.items() for record in log}
        if len(logged) != sum(map(len, self.store.log.values())) or len({r // TRIES for r in logged}) != len(logged):
            self.problems.append("one draft became two records")
        if lost := [record for record, there in self.acknowledged.items() if logged.get(record) != there]:
            self.problems.append(f"acknowledged, and not in the journal: {lost}")
        if landed := self.refused & logged.keys():
            self.problems.append(f"said not to be written, and in the journal: {landed}")
        gone = [record for record, there in self.acknowledged.items() if there != life]
        if late := [record for record in gone if record not in self.store.destroyed]:
            self.problems.append(f"acknowledged after the session was deleted: {late}")
        if more := self.store.fenced - self.asked:
            self.problems.append(f"deleted, and nobody asked for it: {more}")

    def erased(self, life: int) -> set[int]:
        """Records of which somebody was told that they are erased."""
        return {self.store.log[life][position] for there, position in self.receipts if there == life}

    def judge_erased(self, life: int) -> None:
        held: set[int] = set()
        for _, value in self.store.objects.values():
            held |= set(payloads(value))
        held |= {self.store.quotes[record] for record in held if record in self.store.quotes}
        if left := self.erased(life) & held:
            self.problems.append(f"erased, and still stored: {left}")

    def judge_forks(self, life: int) -> None:
        """Who was told that something is erased need do nothing more, whoever forks was killed or not."""
        erased, linked = self.erased(life), self.forks_among(self.store.log[life])
        for fork in {*linked, *(fork for there, fork in self.forked if there == life)} & self.store.objects.keys():
            if erased & set(payloads(self.store.objects[fork][1])):
                self.problems.append(f"erased, and still in {fork}")

    def judge_blobs(self, life: int) -> None:
        _, found = drain(read_graph(self.store, life))
        living = {self.store.parts[record] for record in found.values() if record in self.store.parts}
        there = {key.rsplit("/", 1)[1] for key in self.store.objects if key.startswith(f"blob/{life:03d}/")}
        if lost := living - there:
            self.problems.append(f"blobs are missing: {lost}")
        gone = {self.store.parts[record] for record in self.erased(life) if record in self.store.parts} - living
        if left := gone & there:
            self.problems.append(f"blobs of erased records are still stored: {left}")


def payloads(value: Any) -> tuple[int, ...]:
    """The records in an object."""
    if isinstance(value, str):
        return ()
    if isinstance(value, tuple):
        return value
    records = value["records"]
    return tuple(records.values() if isinstance(records, dict) else (*records, *value.get("bodies", {}).values()))


def holds(outer: Name, inner: Name) -> bool:
    """Whether all positions of one lie in the other."""
    return outer.first <= inner.first and inner.end <= outer.end


def drain(process: Steps) -> Any:
    """Run one process alone to its end."""
    for _ in range(STEPS_MAX):
        try:
            next(process)
        except StopIteration as stop:
            return stop.value
    raise NeverEndsError


def noticed(mutant: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first of some schedules that breaks a promise without this rule."""
    return next((seed for seed in seeds if broken(seed, frozenset([mutant]))), None)


def broken(seed: int, mutants: frozenset[str] = frozenset()) -> list[str]:
    """The promises that one schedule breaks."""
    run = Run(seed, mutants)
    try:
        return run.go()
    except (KeyError, IndexError, TypeError):
        if not mutants:
            raise
        return run.problems  # without a rule a process may come to a bad end; that alone proves nothing


def main(argument: str) -> None:
    """Run so many schedules, or look for one that notices each mutant."""
    if argument == "mutants":
        missed = 0
        for mutant, (_, rule) in MUTANTS.items():
            seed = noticed(mutant)
            missed += seed is None
            found = "NOT NOTICED" if seed is None else f"noticed by schedule {seed}"
            sys.stdout.write(f"{mutant:21} {found}: {rule}\n")
            sys.stdout.flush()
        sys.exit(missed)
    for seed in range(int(argument)):
        if problems := broken(seed):
            sys.exit(f"schedule {seed}: {problems[0]}")
    sys.stdout.write(f"{argument} schedules, no promise broken\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "5000")
