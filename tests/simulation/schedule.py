"""One random schedule: processes are interleaved at every request and killed at random; then the result is checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.simulation.actors import PATIENCE, Actors
from tests.simulation.agents import Agents
from tests.simulation.codec import Chance, parse_latest, repeatable
from tests.simulation.disk import Disk
from tests.simulation.process import Process, Tell
from tests.simulation.streamers import Streamers
from tests.simulation.world import World
from treering.errors import CorruptError
from treering.format import blobs, patch
from treering.format.paths import SessionKeys
from treering.journal import append, limits, merge, stream
from treering.session import loader, upkeep
from treering.storage.requests import Steps

STEPS_MAX = 20_000  # a schedule normally takes a few hundred
REAL_CODERS_EVERY = 25
RESUME_REQUESTS = 2


class Schedule:
    """One schedule on an object store.

    Args:
        seed: Determines everything.
        tell: Takes one line for each request; None if no trace is wanted.
        rng: Replaces the random numbers of the seed, which then determines ids only.
    """

    faults: tuple[float, ...] = (0.0, 0.06, 0.06, 0.2)
    """Shares of failing requests, of which a schedule chooses one."""
    sends: tuple[int, ...] = (1, 2, 4)
    """The most times that a request is sent; a schedule chooses one of these."""
    killed_share = 0.01
    disk_share = 0.0
    """The share of schedules on a local disk instead."""

    def __init__(self, seed: int, tell: Tell | None = None, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(seed)
        self.tell = tell
        self.world = self.make_world()
        self.actors = self.make_actors()
        self.problems = self.world.ghost.problems

    def make_world(self) -> World:
        rng = self.rng
        if self.disk_share and rng.random() < self.disk_share:
            return Disk(rng, SessionKeys("", "s", True), faults=rng.choice(self.faults))
        faults, page, sends_max = rng.choice(self.faults), rng.choice((2, 3, 1000)), rng.choice(self.sends)
        return World(rng, SessionKeys("", "s", False), faults=faults, page=page, sends_max=sends_max)

    def make_actors(self) -> Actors:
        return Actors(self.world, self.rng)

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        """Return the processes that begin at once, and those that begin later."""
        rng, actors = self.rng, self.actors
        shared = rng.random() < 0.5
        early = [actors.writer(shared=shared) for _ in range(rng.randrange(1, 4))]
        early += [actors.reader() for _ in range(rng.randrange(1, 3))]
        early += [actors.merger() for _ in range(rng.randrange(3))]
        late = [actors.writer(shared=shared) for _ in range(rng.randrange(4))]
        late += [actors.merger() for _ in range(rng.choice((0, 0, 1)))]
        if rng.random() < 0.2:
            (early if rng.random() < 0.7 else late).append(actors.loader())
        if rng.random() < 0.3:
            late += [actors.deleter() for _ in range(rng.randrange(1, 3))]
            late += [actors.reader() for _ in range(rng.randrange(2))]
            late += [actors.purger() for _ in range(rng.randrange(2))]
        if rng.random() < 0.4:
            late += [actors.eraser() for _ in range(rng.randrange(1, 3))]
        return early, late

    def run(self) -> list[str]:
        """Run the schedule to its end, and return the problems."""
        try:
            early, late = self.cast()
            self.play(early, late)
            if not self.problems:
                self.rest()
        except CorruptError as error:  # raised by the checks themselves
            self.problems.append(f"what is stored is damaged: {error}")
        return self.problems

    def play(self, early: list[Steps[None]], late: list[Steps[None]]) -> None:
        """Interleave processes until all have ended."""
        running = [self._process(number, steps) for number, steps in enumerate(early)]
        waiting = [self._process(number, steps) for number, steps in enumerate(late, len(running))]
        rng = self.rng
        for _ in range(STEPS_MAX):
            if self.problems:
                return
            if waiting and (not running or rng.random() < 0.05):
                running.append(waiting.pop(rng.randrange(len(waiting))))
            if not running:
                return
            process = rng.choice(running)
            if not all(process.step() for _ in range(rng.choice((1, 1, 1, 2, 5, 20)))):
                running.remove(process)
            elif rng.random() < self.killed_share:
                self._say(f"{process.name} is killed")
                process.kill()
                running.remove(process)
            elif self.cuts_power():
                self._say("the power is cut")
                for process in running:
                    process.kill()
                running.clear()
                self.lose_power()
        self.problems.append("a process never ends")

    def cuts_power(self) -> bool:
        """Whether the power is cut now."""
        return False

    def lose_power(self) -> None:
        """Change the store as a power cut does, after all processes were killed."""

    def _process(self, number: int, steps: Steps[None]) -> Process:
        return Process(f"{number} {steps.__name__}", self.world, steps, self.tell)  # type: ignore[attr-defined]

    def _say(self, text: str) -> None:
        if self.tell is not None:
            self.tell(text)

    # after all processes have ended

    def rest(self) -> None:
        """Let late requests take effect; then a process must be able to read everything, continue, and delete."""
        self._say("nothing goes wrong any more")
        self.world.heal()
        self.actors.strict = True
        ghost, actors = self.world.ghost, self.actors
        ghost.check(self.world.current_life())
        if not self.world.current_life() and self.rng.random() < 0.5:
            self._delete()
        elif self.world.current_life():
            self.alone(actors.lister())
            ghost.check_erased(self.world.current_life())
            for act in (actors.look, actors.look_at_graph, actors.walk, actors.merger, actors.look_at_graph):
                self.alone(act())
        if not self.problems:
            self.alone(actors.writer(shared=True))
            self.alone(actors.look_at_graph())
            ghost.check(self.world.current_life())
        if not self.problems and self.rng.random() < 0.2:
            self._afterlife()
        elif not self.problems and self.rng.random() < 0.2:
            self._damage()

    def _afterlife(self) -> None:
        """Check that a deletion leaves nothing, whatever state it began with, and that the name can be used again."""
        self._delete()
        if not self.problems:
            self.alone(self.actors.writer(shared=False))
            self.alone(self.actors.look_at_graph())
            self.world.ghost.check(self.world.current_life())

    def _delete(self) -> None:
        life = self.world.deleted_life()
        if life or self.world.current_life():
            self.alone(self.actors.deleter())
        life = self.world.deleted_life()
        left = [key for key in self.world.objects if life and key.startswith(self.world.keys.folder(life))]
        if left or self.world.current_life():
            self.problems.append(f"deleted, but there are still {left or self.world.current_life()}")

    def _damage(self) -> None:
        """Check that a lost object is reported as damage, never as an empty session, and that every read ends."""
        objects, keys = self.world.objects, self.world.keys
        gone = self.rng.choice(sorted(objects))
        card = parse_latest(objects[keys.latest][1], key=keys.latest).card
        if "/segments/" in gone and self.rng.random() < 0.3:
            self._say(f"{gone} is lost, and listed nevertheless")
            self.world.listed_only = gone
            self.alone(self.actors.look_at_graph())
            self.problems[:] = [problem for problem in self.problems if "never ends" in problem]
            return
        self._say(f"{gone} is lost")
        self.world.lose(gone)
        if gone in (keys.latest, keys.tail):
            # Until the first append, only `latest` shows that a session exists: its tail is still a tombstone.
            missed = self.world.appended_to(card.life) if gone == keys.latest else card.covers > card.born
            look: Steps[object] = self.actors.look()
        else:
            missed = self.world.missing() is not None
            look = self.actors.look_at_graph()
        failure = self.alone(look).failure
        self.problems.clear()  # the loss caused them
        if missed and not isinstance(failure, CorruptError):
            self.problems.append(f"{gone} is missing, and a look at it ends with {failure!r}")

    def alone(self, steps: Steps[object]) -> Process:
        """Run one process to its end."""
        process = self._process(99, steps)  # type: ignore[arg-type]
        for _ in range(STEPS_MAX):
            if not process.step():
                return process
        self.problems.append(f"{process.name} never ends")
        return process


class LivesSchedule(Schedule):
    """One schedule of short lives: many processes create, delete and create the session again."""

    faults: tuple[float, ...] = (0.0, 0.1, 0.3)
    purging_share = 0.2
    """The share of schedules that also purge."""

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        rng, actors = self.rng, self.actors
        actors.works_max = rng.choice((2, 3, 8))
        actors.covers_early = 0.4
        self.shared = shared = rng.random() < 0.5
        purgers = (actors.purger,) if rng.random() < self.purging_share else ()
        kinds = (actors.deleter, actors.deleter, actors.reader, *purgers, *actors.creators(shared=shared))
        cast = [rng.choice(kinds)() for _ in range(rng.randrange(4, 10))]
        middle = rng.randrange(1, len(cast))
        return cast[:middle], cast[middle:]


class DiskSchedule(Schedule):
    """One schedule on a local disk, with power cuts."""

    faults: tuple[float, ...] = (0.0, 0.05, 0.15, 0.3)
    killed_share = 0.02

    def make_world(self) -> World:
        self.disk = Disk(self.rng, SessionKeys("", "s", True), faults=self.rng.choice(self.faults))
        return self.disk

    def cuts_power(self) -> bool:
        return self.rng.random() < 0.01

    def lose_power(self) -> None:
        self.disk.lose_power()

    def rest(self) -> None:
        if self.rng.random() < 0.5:
            self._say("the power is cut")
            self.disk.lose_power()
        super().rest()


class SessionSchedule(Schedule):
    """One schedule of whole sessions on an object store: real writers with real verbs."""

    actors: Agents
    shared_share = 0.4

    def make_actors(self) -> Actors:
        return Agents(self.world, self.rng)

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        rng, actors = self.rng, self.actors
        self.shared = shared = rng.random() < self.shared_share
        early = [actors.writer(shared=shared) for _ in range(rng.choice((1, 1, 2)))]
        early += [actors.reader() for _ in range(rng.randrange(2))]
        late = [actors.writer(shared=shared) for _ in range(rng.randrange(1, 4))]
        late += [actors.merger() for _ in range(rng.randrange(2))]
        if rng.random() < 0.2:
            early.append(actors.loader())
        if rng.random() < 0.2:
            late += [actors.deleter(), actors.purger()]
        if rng.random() < 0.2:
            late += [actors.eraser() for _ in range(rng.randrange(1, 3))]
        return early, late

    def rest(self) -> None:
        """Check that an agent can resume with two reads, whatever happened."""
        self.world.heal()
        self.actors.strict = True
        reborn = self.world.entombed()  # without an append yet: only a second read proves the life
        if self.world.current_life() and not self.shared and not reborn and not self.actors.parts:
            process = self.alone(self.actors.look_once())
            if process.requests != RESUME_REQUESTS and not self.problems:
                self.problems.append(f"resuming took {process.requests} requests")
        super().rest()


class MovesSchedule(SessionSchedule):
    """One schedule of agents that mostly move to other nodes, while other agents replace `latest`."""

    shared_share = 0.0

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.weights = (2, 1, 3, 0, 4, 1, 1, 3, 2, 4, 1, 0)
        return actors


class ErasuresSchedule(SessionSchedule):
    """One schedule of whole sessions in which payloads are recorded more than once, and erased."""

    faults: tuple[float, ...] = (0.0, 0.1, 0.2)
    shared_share = 0.8

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.weights = (4, 4, 1, 1, 1, 1, 1, 1, 1, 3, 6, 2)
        actors.parts = self.rng.choice((0.0, 0.5))
        return actors

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        early, late = super().cast()
        late += [self.actors.copier() for _ in range(self.rng.randrange(3))]
        return early, [*late, self.actors.eraser(), self.actors.eraser(), self.actors.merger()]


class SecretsSchedule(ErasuresSchedule):
    """One schedule of whole sessions whose state is erased, while agents go back to checkpoints of it."""

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.weights = (1, 8, 1, 0, 1, 1, 1, 4, 1, 3, 1, 2)
        actors.states = 0.8
        return actors


class PatchesSchedule(SecretsSchedule):
    """One schedule of whole sessions whose state grows, so that patches of it are recorded, and is erased."""

    shared_share = 0.5

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.weights = (1, 12, 1, 0, 1, 2, 2, 4, 1, 3, 1, 2)
        actors.states, actors.grows, actors.works_max = 0.8, True, 12
        return actors


class NamesSchedule(LivesSchedule, SessionSchedule):
    """One schedule of whole sessions that many processes create and delete, on a store that often fails."""

    faults: tuple[float, ...] = (0.2, 0.4)
    purging_share = 0.8
    sends: tuple[int, ...] = (1, 1, 2)


class LaptopSchedule(DiskSchedule, SessionSchedule):
    """One schedule of whole sessions on a local disk, mostly with several processes that choose the same ids."""

    faults: tuple[float, ...] = (0.1, 0.2, 0.3)
    shared_share = 0.8

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.chosen, actors.turns = 0.5, 0.6
        return actors


class DoubtsSchedule(SessionSchedule):
    """One schedule of whole sessions of which many appends have no answer, while agents look again and go elsewhere."""

    faults: tuple[float, ...] = (0.15, 0.3)
    sends: tuple[int, ...] = (1, 1, 2)
    killed_share = 0.001
    disk_share = 0.3

    def make_actors(self) -> Actors:
        actors = Agents(self.world, self.rng)
        actors.weights = (4, 5, 1, 1, 2, 3, 3, 2, 1, 1, 1, 0)
        actors.turns, actors.works_max, actors.looks_again = self.rng.choice((0.0, 0.5)), 16, 0.5
        return actors


class DelaysSchedule(ErasuresSchedule):
    """One schedule of sessions that are copied while payloads are erased, and writes take effect much later."""

    faults: tuple[float, ...] = (0.15, 0.3)

    def make_world(self) -> World:
        world = super().make_world()
        world.late_share = self.rng.choice((0.01, 0.05))
        return world

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        early, late = super().cast()
        return early, [*late, *(self.actors.copier() for _ in range(self.rng.randrange(1, 3)))]


class LeasesSchedule(Schedule):
    """One schedule of workers that take the lease one after the other, beside writers without a lease."""

    disk_share = 0.3

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        rng, actors = self.rng, self.actors
        early = [actors.worker(rng.choice((2, PATIENCE))) for _ in range(rng.randrange(1, 4))]
        early += [actors.writer(shared=rng.random() < 0.5) for _ in range(rng.randrange(2))]
        late = [actors.worker(rng.choice((2, PATIENCE))) for _ in range(rng.randrange(1, 4))]
        others = (actors.merger, actors.eraser, actors.deleter, actors.reader, actors.loader)
        late += [rng.choice(others)() for _ in range(rng.randrange(3))]
        return early, late

    def rest(self) -> None:
        """Check that the lease can be taken after its time to live, and at once if it was given back."""
        self.world.heal()
        self.actors.strict = True
        if self.world.current_life():
            self.alone(self.actors.worker())
            self.alone(self.actors.worker(patience=1))
        if not self.problems:
            super().rest()


class StreamsSchedule(SessionSchedule):
    """One schedule of answers written piece by piece: writers die, and other writers go on; on both kinds of store."""

    actors: Streamers
    disk_share = 0.4

    def make_actors(self) -> Actors:
        return Streamers(self.world, self.rng)

    def cast(self) -> tuple[list[Steps[None]], list[Steps[None]]]:
        rng, actors = self.rng, self.actors
        self.shared = shared = rng.random() < 0.7
        actors.weights = (6, 2, 0, 2, 0, 0, 0, 0, 2, 3, 0, 0)
        early = [actors.teller(shared=shared) for _ in range(rng.choice((1, 1, 2)))]
        late = [actors.successor(shared=shared) for _ in range(rng.randrange(1, 4))]
        late += [actors.follower() for _ in range(rng.randrange(1, 4))]
        others: tuple[Callable[[], Steps[None]], ...] = (
            lambda: actors.judge(shared=shared), lambda: actors.writer(shared=shared), actors.follower, actors.tidier,
            lambda: actors.teller(shared=shared), actors.eraser, actors.merger,
        )  # fmt: skip
        late += [rng.choice(others)() for _ in range(rng.randrange(4))]
        if rng.random() < 0.1:
            late.append(actors.deleter())
        return early, late

    def cuts_power(self) -> bool:
        return isinstance(self.world, Disk) and self.rng.random() < 0.01

    def lose_power(self) -> None:
        if isinstance(self.world, Disk):
            self.world.lose_power()


KINDS: dict[str, type[Schedule]] = {
    "store": Schedule,
    "lives": LivesSchedule,
    "disk": DiskSchedule,
    "session": SessionSchedule,
    "moves": MovesSchedule,
    "erasures": ErasuresSchedule,
    "names": NamesSchedule,
    "laptop": LaptopSchedule,
    "secrets": SecretsSchedule,
    "leases": LeasesSchedule,
    "patches": PatchesSchedule,
    "streams": StreamsSchedule,
    "doubts": DoubtsSchedule,
    "delays": DelaysSchedule,
}


@contextmanager
def small() -> Iterator[None]:
    """Make sizes so small inside the block that every limit is reached."""
    changes = (
        (append, "TAIL_BYTES_MAX", 2500),
        (merge, "MERGED_BYTES_MAX", 3000),
        (limits, "TAIL_BYTES_SEAL", 2000),
        (loader, "SEGMENT_BYTES", 400),
        (limits, "LOG_BYTES_SEAL", 2000),
        (upkeep, "SEALED_BYTES_DROP", 1),
        (limits, "APPENDS_PER_SEAL_MIN", 2),
        (limits, "SEAL_REQUESTS_BYTES", 0),
        (blobs, "BASE64_BYTES_MIN", 64),
        (patch, "VALUE_BYTES_MIN", 64),
        (stream, "CHUNK_BYTES_CLOSE", 300),
    )
    before = [getattr(module, name) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(changes, before, strict=True):
            setattr(module, name, value)


def run_schedule(seed: int, kind: str, tell: Tell | None = None, rng: random.Random | None = None) -> list[str]:
    """Run the schedule of a seed, and return the problems; empty if no promise was broken."""
    with small(), repeatable(tokens=seed % REAL_CODERS_EVERY != 0):
        Chance.begin(seed)
        return KINDS[kind](seed, tell, rng).run()
