"""A process that copies the session under another name while other processes write and erase, and checks the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.simulation.codec import TEXT, content_of, parse_latest, parse_segment_lines
from tests.simulation.ghost import segments_in
from treering.format.blobs import blob_refs_in
from treering.ids import new_nonce
from treering.journal.read import choose
from treering.session.reader import Reader
from treering.storage.effects import Job, On
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Steps
from treering.store.copying import copy_session

if TYPE_CHECKING:
    from tests.simulation.agents import Agents

_NAMES = "copy-"


def is_of_copy(key: str) -> bool:
    """Whether an object belongs to a copy, which keeps payloads that are erased in the original later."""
    return f"/{_NAMES}" in key


class Copier:
    """Makes one copy.

    Args:
        agents: The agents of the world.
    """

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._ghost = agents.ghost
        self._objects = agents.world.objects
        self._moment = self._ghost.now()
        self._there = msgspec.structs.replace(agents.keys, session=f"{_NAMES}{new_nonce()}")
        self._epochs: dict[str, int] = {}
        """By life, the epoch when the copy was about to read the tail of the original for the last time."""
        self._told: dict[str, set[bytes]] = {}
        """By life, the texts whose erasure was acknowledged at that time."""

    def copy(self) -> Steps[None]:
        """Copy the session, and compare the copy with the states that the session had."""
        yield from self._in_one_world(copy_session(self._agents.keys, MemoryDriver(), self._there, prepare=_nothing))
        card = parse_latest(self._objects[self._there.latest][1], key=self._there.latest).card
        lines = self._lines(card.life)
        ids = tuple(map(self._ghost.id_of, lines))
        lives = {life for life, there in self._ghost.states_since(self._moment) if life and there == ids}
        if not lives:
            self._ghost.problems.append(f"a copy holds {ids}; the session never was like that since")
            return
        life = min(lives)
        self._check_lines(life, lines)
        self._check_objects(life, card.life, lines)
        reader = Reader(self._there)
        yield from reader.resume()
        self._agents.compare("a copy", life, reader.replica.state, self._epochs.get(life, 0))

    def _in_one_world(self, job: Job[None]) -> Steps[None]:
        """Run a job for two stores with both of them in this world."""
        effect = next(job)
        try:
            while True:
                batch = effect.batch if isinstance(effect, On) else effect
                assert isinstance(batch, tuple)
                if any(getattr(request, "key", "") == self._agents.keys.tail for request in batch):
                    self._epochs = dict(self._ghost.epochs)
                    self._told = {life: self._ghost.texts(life, told=True) for life in self._ghost.logs}
                effect = job.send((yield batch))
        except StopIteration:
            return

    def _lines(self, life: str) -> list[bytes]:
        lines: list[bytes] = []
        for segment in choose(segments_in(self._objects, self._there.segments(life)))[0]:
            found = parse_segment_lines(self._objects[segment.key][1], key=segment.key)
            lines += found[len(lines) - segment.name.first :]
        return lines

    def _check_lines(self, life: str, lines: list[bytes]) -> None:
        """Check that each record is as it was at some epoch since the last read of the original."""
        epochs = range(self._epochs.get(life, 0), self._ghost.epochs.get(life, 0) + 1)
        logs = [self._ghost.log_under(life, epoch) for epoch in epochs]
        wrong = [at for at, line in enumerate(lines) if line not in [log[at] for log in logs if at < len(log)]]
        if wrong:
            self._ghost.problems.append(f"a copy holds other records at {wrong} of life {life}")

    def _check_objects(self, life: str, copied: str, lines: list[bytes]) -> None:
        """Check that no object of the copy holds an erased text, and that the copy has all blobs of the original.

        A delayed write may reach the folder of a life that the copy gave up; `optimize` sweeps that.
        """
        keys, there = self._agents.keys, self._there
        for key, (_, data) in self._objects.items():
            found = self._told.get(life, set()) & set(TEXT.findall(content_of(data)))
            if found and (key in (there.latest, there.tail) or key.startswith(there.folder(copied))):
                self._ghost.problems.append(f"erased, and in {key} of a copy: {sorted(found)}")
        needed = {digest for line in lines for digest in blob_refs_in(line)}
        has = {key.rpartition("/")[2] for key in self._objects if key.startswith(there.blobs(copied))}
        had = {digest for digest in needed if keys.blob(life, digest) in self._objects}
        marks = self._ghost.marks_under(life, self._epochs.get(life, 0))
        if had - has:
            self._ghost.problems.append(f"a copy lacks large parts: {sorted(had - has)}")
        if left := (marks.blobs - needed) & has:
            self._ghost.problems.append(f"a copy has large parts of erased records: {sorted(left)}")


def _nothing() -> Steps[None]:
    yield from ()
