"""A store that misbehaves on purpose, and a scheduler that interleaves processes at every request.

Each request is one atomic step, except LIST, which answers in two halves. A request may fail before it takes effect,
take effect and lose its reply, or take effect later. A process may be killed at any step. The store keeps a ghost log
of what the first accepted tail put at each position of each life; every read is checked against it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError
from treering.format.paths import SessionKeys
from treering.format.record import decode_record
from treering.format.register import decode_tail
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Delete,
    Deleted,
    Entry,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Steps,
    Unchanged,
    Version,
    Written,
)

RESENDS_MAX = 3


class World:
    """Objects, faults and the ghost log of one schedule."""

    def __init__(self, rng: random.Random, keys: SessionKeys, fault_rate: float) -> None:
        self.rng = rng
        self.keys = keys
        self.fault_rate = fault_rate
        self.objects: dict[str, tuple[Version, bytes]] = {}
        self.late: list[Callable[[], Answer]] = []
        self.log: dict[str, list[str]] = {}  # life -> record id at each position
        self.destroyed: set[str] = set()
        self.trace: list[str] | None = None
        self._versions = itertools.count(1)
        self._known: dict[str, bytes] = {}

    def send(self, request: Request) -> Iterator[None]:
        """Perform one request, with faults; a generator so that others run between the halves of a LIST."""
        if self.late and self.rng.random() < 0.2:
            self.late.pop()()
        roll = self.rng.random()
        if roll < self.fault_rate / 3:
            return UnavailableError("lost on the way")  # type: ignore[return-value]
        if roll < self.fault_rate / 2:
            self.late.append(lambda: self.perform(request))
            return UnavailableError("takes effect later")  # type: ignore[return-value]
        if isinstance(request, List):
            answer: Answer = yield from self._list(request)
        else:
            answer = self.perform(request)
        if roll < self.fault_rate:
            return UnavailableError("reply lost")  # type: ignore[return-value]
        return answer  # type: ignore[return-value]

    def _list(self, request: List) -> Iterator[None]:
        middle = f"{request.prefix}{self.rng.randrange(14):012d}"
        first = [key for key in self._matching(request) if key < middle]
        yield
        keys = (first + [key for key in self._matching(request) if key >= middle])[: request.limit]
        entries = tuple(Entry(key, 1, 0) for key in keys)
        return Listed(entries, more=len(keys) == request.limit)  # type: ignore[return-value]

    def _matching(self, request: List) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(request.prefix) and key > request.after)

    def perform(self, request: Request) -> Answer:
        """Perform one request atomically and without faults."""
        match request:
            case Get():
                return self._get(request)
            case Put(key, data, expect):
                return self._put(key, data, expect)
            case Append(key, data, expect):
                there = self.objects.get(key)
                return self._put(key, (there[1] if there else b"") + data, expect)
            case Delete(keys):
                for key in keys:
                    self.objects.pop(key, None)
                return Deleted()
            case List():
                keys = self._matching(request)[: request.limit]
                return Listed(tuple(Entry(key, 1, 0) for key in keys), more=len(keys) == request.limit)

    def _get(self, request: Get) -> Answer:
        if request.key not in self.objects:
            return NotFoundError("no such object", key=request.key)
        version, data = self.objects[request.key]
        if request.unless == version:
            return Unchanged()
        part = data[-min(-request.start, len(data)) :] if (request.start or 0) < 0 else data[request.start : request.end]  # type: ignore[operator]
        return Found(part, version, len(data))

    def _put(self, key: str, data: bytes, expect: Version | None) -> Answer:
        there = self.objects.get(key)
        if expect is not None and expect != (there[0] if there else ABSENT):
            return ConflictError("somebody else wrote first", key=key)
        version = Version(str(next(self._versions)))
        self.objects[key] = (version, data)
        if key == self.keys.tail:
            self._ghost(data)
        return Written(version)

    def _ghost(self, data: bytes) -> None:
        tail = decode_tail(data, key=self.keys.tail, compressed=not self.keys.appends)
        log = self.log.setdefault(tail.header.life, [])
        if tail.header.dead:
            self.destroyed |= set(log)
            return
        for position, line in enumerate(tail.lines, tail.header.base):
            if position == len(log):
                log.append(decode_record(line).id)


class Crash(Exception):
    """The process was killed."""


class Process:
    """One protocol under way: its generator, and the requests of its batch that were not answered yet."""

    def __init__(self, name: str, world: World, steps: Steps[Any]) -> None:
        self.name = name
        self.world = world
        self.result: Any = None
        self._run = self._drive(steps)

    def step(self) -> bool:
        """Do one atomic thing; false when the process has ended."""
        try:
            next(self._run)
        except StopIteration:
            return False
        return True

    def _drive(self, steps: Steps[Any]) -> Iterator[None]:
        try:
            batch = next(steps)
            while True:
                answers: dict[int, Answer] = {}
                order = list(range(len(batch)))
                self.world.rng.shuffle(order)
                for place in order:
                    yield
                    answers[place] = yield from self._answer(batch[place])
                batch = steps.send(tuple(answers[place] for place in range(len(batch))))
        except StopIteration as stop:
            self.result = stop.value

    def _answer(self, request: Request) -> Iterator[None]:
        """What a retrying driver does: the same request again after no reply, a bounded number of times."""
        answer: Any = None
        for _ in range(1 + RESENDS_MAX):
            answer = yield from self.world.send(request)
            if self.world.trace is not None:
                self.world.trace.append(f"{self.name}: {describe(request)} -> {describe_answer(answer)}")
            if not isinstance(answer, UnavailableError):
                break
            yield
        return answer  # type: ignore[no-any-return]


def describe(request: Request) -> str:
    match request:
        case Get(key):
            return f"get {key}"
        case Put(key, data, expect):
            return f"put {key} ({len(data)} bytes, expecting {expect!r})"
        case Append(key, data, expect):
            return f"append {key} ({len(data)} bytes, expecting {expect!r})"
        case List(prefix):
            return f"list {prefix}"
        case Delete(keys):
            return f"delete {', '.join(keys)}"


def describe_answer(answer: Any) -> str:
    match answer:
        case Found(_, version, size):
            return f"version {version}, {size} bytes"
        case Written(version):
            return f"version {version}"
        case Listed(entries):
            return f"{len(entries)} keys: {', '.join(entry.key.rsplit('/', 1)[1] for entry in entries)}"
        case TreeringError():
            return f"{type(answer).__name__}: {answer}"
    return type(answer).__name__
