"""A store with every fault that a real store may have, in atomic steps.

Each request is one atomic step, except a LIST, which answers page by page and each page in two halves, and a DELETE of
several keys. A request may be lost before it takes effect, take effect and lose its reply, or take effect later. It may
take effect more than once, since clients repeat a request that was not answered.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Generator
from types import GeneratorType
from typing import TypeAlias

from tests.simulation.codec import Token, parse_latest, parse_segment_lines, parse_tail
from tests.simulation.ghost import Ghost, Objects, lines_in, segment_of, segments_in
from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError
from treering.format.paths import SessionKeys, parse_chunk, recent_complete, recent_folder
from treering.format.record import decode_record
from treering.format.register import Card, Latest, Lease, Tail, TailHeader
from treering.journal.read import choose
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
    Unchanged,
    Version,
    Written,
)

Effect: TypeAlias = Generator[None, None, Answer]
"""A request that takes several steps."""

LOST = "lost on the way"
NO_REPLY = "reply lost"
LATE = "takes effect later"


class World:
    """Objects and faults of one schedule, for a store that swaps whole objects.

    Args:
        rng: The only source of random numbers.
        keys: The session that all processes use.
        faults: The share of requests that fail.
        page: The most keys in one page of a LIST.
        sends_max: How often a client sends a request without an answer; see `RetryingDriver`.
    """

    late_share = 0.2
    """The probability that a late request takes effect before the next request."""

    def __init__(self, rng: random.Random, keys: SessionKeys, *, faults: float, page: int, sends_max: int) -> None:
        self.rng = rng
        self.keys = keys
        self.faults = faults
        self.page = page
        self.sends_max = sends_max
        self.objects: Objects = {}
        self.late: list[Request] = []
        self.ghost = Ghost(keys, self.objects)
        self.listed_only: str | None = None
        """A key that lists show for ever, although its object does not exist any more."""
        self.steps = 0
        """The number of requests that were sent; it is also the clock of the simulation."""
        self.leases: dict[str, tuple[Lease, int, int]] = {}
        """By life, its lease, the end of its journal, and the time at which one of the two last changed."""
        self.touched: dict[str, list[int]] = {}
        """By key of a chunk with pieces of an answer, the times at which it was written."""
        self._versions = itertools.count(1)
        self._markers = recent_folder(keys.prefix)
        self.place(recent_complete(keys.prefix), b"{}\n", self.next_version())

    # requests and their faults

    def send(self, request: Request) -> Answer | Effect:
        """Perform a request, with faults. Some requests answer at once, others take several steps."""
        rng = self.rng
        self.steps += 1
        if self.late and rng.random() < self.late_share:
            self.land(self.late.pop(rng.randrange(len(self.late))))
        roll = rng.random() if self.faults else 1.0
        if roll < self.faults / 3:
            return UnavailableError(LOST)
        if roll < self.faults / 2:
            self.late.append(request)
            return UnavailableError(LATE)
        answer = self.begin(request)
        if roll < self.faults:
            return self._unanswered(answer) if isinstance(answer, GeneratorType) else UnavailableError(NO_REPLY)
        return answer

    def _unanswered(self, effect: Effect) -> Effect:
        yield from effect
        return UnavailableError(NO_REPLY)

    def begin(self, request: Request) -> Answer | Effect:
        """Perform a request without faults."""
        match request:
            case Get():
                return self._get(request)
            case Put():
                return self._put(request)
            case List():
                return self._list(request)
            case Delete():
                return self._delete(request)
            case Append():
                raise TypeError("this store does not append")

    def land(self, request: Request) -> None:
        """Let a late request take effect; no process waits for its answer."""
        answer = self.begin(request)
        if isinstance(answer, GeneratorType):
            for _ in answer:
                pass

    # effects of requests

    def _get(self, request: Get) -> Answer:
        there = self.objects.get(request.key)
        if there is None or request.key == self.listed_only:
            return NotFoundError("no such object", key=request.key)
        version, data = there
        if request.unless == version:
            return Unchanged()
        part = data if isinstance(data, Token) else _part(data, request)
        return Found(part, version, len(data))

    def _put(self, request: Put) -> Answer | Effect:
        return self._refused(request) or self.place(request.key, request.data, self.next_version())

    def _refused(self, request: Put | Delete) -> TreeringError | None:
        key = request.key if isinstance(request, Put) else request.keys[0]
        there = self.objects.get(key)
        if request.expect is None or request.expect == (there[0] if there else ABSENT):
            return None
        if there is None:
            return NotFoundError("no such object", key=key)
        return ConflictError("somebody else wrote first", key=key)

    def next_version(self) -> Version:
        return Version(str(next(self._versions)))

    def place(self, key: str, data: bytes, version: Version) -> Written:
        """Store the bytes of an object, and check the new state with the ghost."""
        old = self.objects.get(key)
        self.objects[key] = (version, data)
        if key == self.keys.tail:
            tail = parse_tail(data, key=key, appends=self.keys.appends)
            self.ghost.tail_written(tail)
            if not tail.header.dead:
                self._require_lease(tail)
                self._require_held()
                self._require_order()
        elif key == self.keys.latest:
            card = parse_latest(old[1], key=key).card if old else None
            self.ghost.latest_written(card, parse_latest(data, key=key).card, lines_in(key, data, self.keys))
            self._require_order()
            self._require_marked()
        elif parse_chunk(key) is not None and "/streams/" in key:
            self.touched.setdefault(key, []).append(self.steps)
            self._require_begun(key)
        elif (segment := segment_of(key, "sessions/s/")) is not None:
            self.ghost.segment_written(*segment, parse_segment_lines(data, key=key))
        return Written(version)

    def _require_lease(self, tail: Tail) -> None:
        """Check a change of the tail against the lease.

        Only the holder records. The lease is taken only from a dead holder, and given back only by its holder.
        """
        life, now = tail.header.life, tail.header.lease or Lease()
        old, end, since = self.leases.get(life, (Lease(), tail.header.base, self.steps))
        told = f"lease {old.number} of {old.by!r} became {now.number} of {now.by!r}"
        if now.number < old.number or (now.by != old.by and now.by and now.number == old.number):
            self.ghost.problems.append(f"{told}: its number did not rise")
        if now.by not in (old.by, "") and old.by and self.steps - since < old.ttl / 1000:
            self.ghost.problems.append(f"{told}, {self.steps - since} steps after its last sign of life")
        if old.by and not now.by and not tail.header.nonce.startswith(f"{old.by}."):
            self.ghost.problems.append(f"{told}: somebody else gave it back")
        for line in tail.lines[max(0, end - tail.header.base) :]:
            record = decode_record(line)
            if (old.by or now.by) and not (record.by.startswith(f"{old.by}.") and now == old):
                self.ghost.problems.append(
                    f"{record.id} is recorded by {record.by!r} under lease {now.number} of {now.by!r}"
                )
        if (now, tail.end) != (old, end):
            self.leases[life] = now, tail.end, self.steps

    def _list(self, request: List) -> Effect:
        """Answer one page in two halves; objects may appear and vanish in between."""
        keys = self._matching(request)
        middle = keys[self.rng.randrange(len(keys))] if keys else request.prefix
        first = [key for key in keys if key < middle]
        yield
        keys = first + [key for key in self._matching(request) if key >= middle]
        limit = min(request.limit, self.page)
        entries = tuple(Entry(key, len(self.objects[key][1]) if key in self.objects else 1, 0) for key in keys[:limit])
        return Listed(entries, more=len(keys) > limit)

    def _matching(self, request: List) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(request.prefix) and key > request.after)

    def _delete(self, request: Delete) -> Answer | Effect:
        if request.expect is not None and (refused := self._refused(request)):
            return refused
        return self._delete_each(request)

    def _delete_each(self, request: Delete) -> Effect:
        for place, key in enumerate(request.keys):
            if place:
                yield
            self.remove(key)
        return Deleted()

    def remove(self, key: str) -> None:
        """Remove an object, as a request does."""
        if self.objects.pop(key, None) is None:
            return
        if "/segments/" in key:
            self._require_held()
        elif "/streams/" in key:
            self._require_over(key)
        elif key.startswith(self._markers):
            self._require_marked()

    def lose(self, key: str) -> None:
        """Remove an object without a request, as damage."""
        del self.objects[key]

    def _require_held(self) -> None:
        """Check that each position below the tail's base is in a segment."""
        if (position := self.missing()) is not None:
            self.ghost.problems.append(f"position {position} is neither in the tail nor in a segment")

    def _require_begun(self, key: str) -> None:
        """Check that the journal says that the stream of a new chunk was begun."""
        name = parse_chunk(key)
        if name is not None and not self._said(key, f'"node":"{name.stream}"'):
            self.ghost.problems.append(f"pieces of {name.stream} are stored, and the journal does not tell of it")

    def _require_over(self, key: str) -> None:
        """Check that the journal says that the stream of a removed chunk has ended."""
        name, life = parse_chunk(key), key.split("/")[-3]
        if name is None or life in self.ghost.dead or life not in self.ghost.logs:
            return
        if not self._said(key, f'"type":"node","kind":"message","id":"{name.stream}"') and not self._said(
            key, f'"node":"{name.stream}","end":"discarded"'
        ):
            self.ghost.problems.append(f"pieces of {name.stream} are gone, and the journal says that it is open")

    def _said(self, key: str, said: str) -> bool:
        return any(said.encode() in line for line in self.ghost.logs.get(key.split("/")[-3], ()))

    def _require_marked(self) -> None:
        """Check that lists find a session that can be resumed: the marker that its card names exists."""
        card, _ = self._registers()
        if card is not None and not card.dead and self.keys.marker(card.marker) not in self.objects:
            self.ghost.problems.append(f"the marker {card.marker!r} of life {card.life} is missing")

    def _require_order(self) -> None:
        """Check that base ≤ `sealed` ≤ `covers` ≤ end of the tail, if both registers are of one life."""
        latest, there = self.objects.get(self.keys.latest), self.objects.get(self.keys.tail)
        if latest is None or there is None:
            return
        card = parse_latest(latest[1], key=self.keys.latest).card
        tail = parse_tail(there[1], key=self.keys.tail, appends=self.keys.appends)
        if card.dead or tail.header.dead or card.life != tail.header.life:
            return
        places = [tail.header.base, card.sealed, card.covers, tail.end]
        if places != sorted(places):
            self.ghost.problems.append(f"base, sealed, covers and end are out of order: {places}")

    def missing(self) -> int | None:
        """Return the first position below the tail's base that no segment holds."""
        there = self.objects.get(self.keys.tail)
        if there is None:
            return None
        header = parse_tail(there[1], key=self.keys.tail, appends=self.keys.appends).header
        if header.dead or header.base == 0:
            return None
        reach = choose(segments_in(self.objects, self.keys.segments(header.life)))[2]
        return reach if reach < header.base else None

    def appended_to(self, life: str) -> bool:
        """Whether the tail is of this life; the first append of a life writes its tail."""
        data = self.objects.get(self.keys.tail, (ABSENT, b""))[1]
        header = parse_tail(data, key=self.keys.tail, appends=self.keys.appends).header if data else None
        return header is not None and header.life == life and not header.dead

    # the end

    def heal(self) -> None:
        """End all faults, and let late requests take effect."""
        self.faults = 0.0
        while self.late:
            self.land(self.late.pop())

    def listed(self) -> tuple[Version, str]:
        """Return the version of `latest`, and the marker by which lists find the session; empty if it is deleted."""
        version, data = self.objects.get(self.keys.latest, (ABSENT, b""))
        card = parse_latest(data, key=self.keys.latest).card if data else None
        return version, "" if card is None or card.dead else card.marker

    def current_life(self) -> str:
        """Return the life that was not deleted; empty if there is none."""
        card, header = self._registers()
        if card is None or card.dead or (header is not None and header.dead and header.life == card.life):
            return ""
        return card.life

    def deleted_life(self) -> str:
        """Return the life whose tombstone is in the tail; empty if there is none, or if its purge has begun."""
        card, header = self._registers()
        purging = card is not None and card.dead and not card.life
        return header.life if header is not None and header.dead and not purging else ""

    def entombed(self) -> bool:
        """Whether the tail is a tombstone or is missing."""
        _, header = self._registers()
        return header is None or header.dead

    def _registers(self) -> tuple[Card | None, TailHeader | None]:
        latest, tail = self.objects.get(self.keys.latest), self.objects.get(self.keys.tail)
        card = parse_latest(latest[1], key=self.keys.latest).card if latest else None
        header = parse_tail(tail[1], key=self.keys.tail, appends=self.keys.appends).header if tail else None
        return card, header


def _part(data: bytes, request: Get) -> bytes:
    start = request.start or 0
    return data[start : request.end] if start >= -len(data) else data


def describe(request: Request) -> str:
    """Describe a request in a trace."""
    match request:
        case Get(key):
            return f"get {_short(key)}"
        case Put(key, data, expect):
            return f"put {_short(key)} ({len(data)} bytes, expecting {expect!r})"
        case Append(key, data, expect):
            return f"append {_short(key)} ({len(data)} bytes, expecting {expect!r})"
        case List(prefix, after):
            return f"list {_short(prefix)} after {_short(after)!r}"
        case Delete(keys):
            return f"delete {', '.join(map(_short, keys))}"


def describe_answer(answer: Answer) -> str:
    """Describe an answer in a trace, with the main values of a register."""
    match answer:
        case Found(data, version, size):
            return f"version {version}, {size} bytes{_told(data)}"
        case Written(version):
            return f"version {version}"
        case Listed(entries, more):
            return f"{', '.join(_short(entry.key) for entry in entries) or 'nothing'}{' and more' if more else ''}"
        case TreeringError():
            return f"{type(answer).__name__}: {answer}"
    return type(answer).__name__


def _told(data: bytes) -> str:
    value = data.value if isinstance(data, Token) else None
    if isinstance(value, Tail):
        header = value.header
        return f" (tail of {header.life}, {header.base} to {value.end}{', dead' if header.dead else ''})"
    if isinstance(value, Latest):
        card = value.card
        facts = f"covers {card.covers}, sealed {card.sealed}{', dead' if card.dead else ''}"
        return f" (latest of {card.life}, {facts})"
    return ""


def name_of(request: Request) -> str:
    """Return the key or keys that a request is about, as one name."""
    match request:
        case List(prefix, after):
            return prefix + after
        case Delete(keys):
            return keys[0]
        case _:
            return request.key


def _short(key: str) -> str:
    return key.replace("sessions/s/", "").replace(".jsonl.zst", "").replace(".jsonl", "").replace("0000000", "")
