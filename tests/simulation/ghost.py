"""The oracle: a log of what really happened. Processes cannot see it; all that they read is checked against it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tests.simulation.codec import TEXT, parse_latest, parse_segment_lines, parse_tail
from treering.checkpoint.checkpoint import BODY, Checkpoint, read_form
from treering.checkpoint.resolve import apply_body
from treering.format.erasure import Burials, Erasure, is_erased
from treering.format.paths import SegmentName, SessionKeys, parse_segment
from treering.format.record import Record, decode_record
from treering.format.register import Card, Tail
from treering.journal.read import Segment, choose
from treering.storage.requests import Version

Objects: TypeAlias = dict[str, tuple[Version, bytes]]
"""The objects of a store: version and bytes by key."""
SHOWN = "shown"
"""The key of the state under which a commit names the checkpoint that its agent was shown."""


class Ghost:
    """Records by life and position, as the store held them, and the promises made about them.

    Args:
        keys: The session.
        objects: The objects of the store.
    """

    def __init__(self, keys: SessionKeys, objects: Objects) -> None:
        self.keys = keys
        self.objects = objects
        self.logs: dict[str, list[bytes]] = {}
        self.history: list[tuple[str, tuple[str, ...]]] = [("", ())]
        """Every state of the journal: its life and the ids of its records."""
        self.promised: dict[str, tuple[str, tuple[str, ...]]] = {}
        """Acknowledged appends: by the id of the first record, the life and all ids."""
        self.contents: dict[tuple[str, str], set[str]] = {}
        """The texts of acknowledged messages whose ids were chosen, by life and id."""
        self.groups: dict[str, tuple[str, ...]] = {}
        """Appends that were attempted: the ids of their records, by `Record.by`."""
        self.dead: dict[str, frozenset[str]] = {}
        """Deleted lives, with the ids of all their records."""
        self.created: set[str] = set()
        """Lives whose creation was acknowledged."""
        self.deleted: set[str] = set()
        """Lives whose deletion was acknowledged."""
        self.fences: dict[str, set[str]] = {}
        """The lives that one deletion ended, by the nonce of the deletion."""
        self.problems: list[str] = []
        self.epochs: dict[str, int] = {}
        """The number of erasures, by life."""
        self.told: set[str] = set()
        """Ids that a receipt names as erased."""
        self.said_again: Counter[bytes] = Counter()
        """Texts that agents may have put into a value of the state again, without knowing that they were erased.

        Commits are counted for each text, since one of several commits of a text may end before another.
        """
        self.told_acts: set[tuple[str, int]] = set()
        """Erasures of state that a receipt names, by life and epoch: a record holds values of several keys."""
        self.receipts: dict[str, int] = {}
        """The newest epoch that a receipt names, by life."""
        self.marks: dict[str, Burials] = {}
        """The erasures, by life."""
        self.before: dict[tuple[str, int], list[bytes]] = {}
        """The log as it was at an epoch, before the next erasure, by life and epoch."""
        self.authors: dict[str, str] = {}
        """Nonces of handles, by the id of each record that they wrote."""
        self._ids: dict[bytes, str] = {}

    # changes of the store

    def tail_written(self, new: Tail) -> None:
        life, base = new.header.life, new.header.base
        if not life:
            return  # the tombstone of a life that never existed
        log = self.logs.get(life)
        if log is None:  # a new life; the records that it was loaded with are in segments
            log = self._sealed(life, base)
        if new.header.dead:
            self.dead[life] = frozenset(map(self.id_of, log))
            self.fences.setdefault(new.header.nonce, set()).add(life)
            return
        if life in self.dead:
            self.problems.append(f"life {life} was deleted, and is appended to")
        if base > len(log):
            self.problems.append(f"the tail begins at {base}, but the journal ended at {len(log)}")
        log = self._buried(life, log, new)
        self._check_copies(new, len(log))
        now = log[:base] + list(new.lines)
        if now == log and life in self.logs:
            return
        if now[: len(log)] != log:
            self.problems.append(f"a record vanished or changed when the tail was written, base {base}")
        self.logs[life] = now
        self.note(life)

    def latest_written(self, old: Card | None, new: Card, lines: Sequence[tuple[int, bytes]]) -> None:
        created = old is None or old.dead or old.life != new.life
        if new.dead:
            return
        if not created:
            marks = self.marks_under(new.life, new.epoch)
            if any(marks.bury(line, at) != line for at, line in lines):
                self.problems.append(f"latest of epoch {new.epoch} holds what was erased before")
            return
        if new.life in self.dead:
            self.problems.append(f"life {new.life} was deleted, and is created again")
        if new.born and new.life not in self.logs:
            self.logs[new.life] = self._sealed(new.life, new.born)
        self.logs.setdefault(new.life, [])
        self.note(new.life)

    def _buried(self, life: str, log: list[bytes], new: Tail) -> list[bytes]:
        """Return the log without the payloads that this tail is the first to list as erased."""
        marks = new.header.burials
        epoch = new.header.epoch
        if epoch > self.epochs.get(life, 0):
            self.before[life, self.epochs.get(life, 0)] = log
            self.epochs[life], self.marks[life] = epoch, marks
            log = self.logs[life] = marks.bury_all(log, 0)
        elif epoch < self.epochs.get(life, 0):
            self.problems.append(f"life {life} forgot what was erased")
            old = self.before[life, epoch]
            log = self.logs[life] = old + log[len(old) :]
            self.epochs[life], self.marks[life] = epoch, marks
        if marks.bury_all(new.lines, new.header.base) != list(new.lines):
            self.problems.append("the tail holds what it says was erased")
        return log

    def _check_copies(self, new: Tail, end: int) -> None:
        """Check that no new record amends an erased node."""
        gone = new.header.burials.names
        for line in new.lines[max(0, end - new.header.base) :] if gone else ():
            record = decode_record(line)
            if record.kind == "amend" and record.target in gone:
                self.problems.append(f"node {record.target} was erased, and is amended")

    def log_under(self, life: str, epoch: int) -> list[bytes]:
        """Return the records as a process sees them that read at this epoch, before any later erasure."""
        later = [
            self.before[life, each] for each in range(epoch, self.epochs.get(life, 0)) if (life, each) in self.before
        ]
        return later[0] if later else self.logs[life]

    def segment_written(self, life: str, name: SegmentName, lines: Sequence[bytes]) -> None:
        """Check that a segment holds no payload that was erased up to the epoch of its name."""
        if self.marks_under(life, name.epoch).bury_all(lines, name.first) != list(lines):
            self.problems.append(f"a segment of epoch {name.epoch} holds what was erased before")

    def marks_under(self, life: str, epoch: int) -> Burials:
        """Return the erasures up to an epoch."""
        marks = self.marks.get(life)
        acts = [act for act in marks.erasures if act.epoch <= epoch] if marks else []
        return Burials([(at, act.epoch) for act in acts for at, _ in act.records], acts)

    def power_lost(self, life: str, born: int, tail: Tail | None) -> None:
        """Note that a disk lost unsynced writes; an unacknowledged deletion may be undone, too.

        Args:
            life: The current life; empty if there is none.
            born: How many records it began with.
            tail: Its tail after the power cut.
        """
        if not life:
            return
        self.dead.pop(life, None)
        for lives in self.fences.values():
            lives.discard(life)
        if tail is not None and tail.header.life == life:
            self.tail_written(tail)
        else:
            if self.receipts.get(life):
                self.problems.append(f"life {life} forgot what was erased")
            self.epochs.pop(life, None)
            self.marks.pop(life, None)
            self.logs[life] = self.before.get((life, 0), self.logs[life])[:born]
            self.note(life)

    def receipt(self, life: str, epoch: int) -> None:
        """Note a receipt: all that was erased up to that epoch is gone."""
        self.receipts[life] = max(epoch, self.receipts.get(life, 0))

    def texts(self, life: str, *, told: bool = False) -> set[bytes]:
        """Return the texts of erased records; with `told`, only of records whose erasure a receipt names."""
        said = set[bytes]()
        marks = self.marks.get(life) if told else None
        secret = {act.epoch for act in marks.erasures if not self._is_told(life, act)} if marks else set()
        for (there, epoch), log in self.before.items():
            if there == life and epoch + 1 not in secret:
                now = self.before.get((life, epoch + 1), self.logs[life])
                for old, new in zip(log, now, strict=False):
                    said |= set() if old == new else set(TEXT.findall(old)) - set(TEXT.findall(new))
        return {text for text in said if not self.said_again[text]}

    def _is_told(self, life: str, act: Erasure) -> bool:
        if act.state:
            return (life, act.epoch) in self.told_acts
        return {name for _, name in act.records} <= self.told

    def check_erased(self, life: str) -> None:
        """Check that no object of a life holds an erased payload.

        No paused process is left at that time, and a process has tidied up since.
        """
        marks = self.marks.get(life)
        if marks is None:
            return
        for key, (_, data) in self.objects.items():
            lines = lines_in(key, data, self.keys)
            if key in (self.keys.tail, self.keys.latest) or key.startswith(self.keys.folder(life)):
                held = [at for at, line in lines if marks.bury(line, at) != line]
                if held:
                    self.problems.append(f"erased, and still in {key}: positions {held}")

    def note(self, life: str) -> None:
        self.history.append((life, tuple(map(self.id_of, self.logs[life]))))

    def _sealed(self, life: str, end: int) -> list[bytes]:
        lines: list[bytes] = []
        for segment in choose(segments_in(self.objects, self.keys.segments(life)))[0]:
            found = parse_segment_lines(self.objects[segment.key][1], key=segment.key)
            lines += found[len(lines) - segment.name.first :]
        return lines[:end]

    def id_of(self, line: bytes) -> str:
        name = self._ids.get(line)
        if name is None:
            record = decode_record(line)
            name = self._ids[line] = record.id
            self.authors[name] = _writer_of(record)
        return name

    # answers that processes get

    def now(self) -> int:
        """Return the current moment, for `states_since`."""
        return len(self.history) - 1

    def states_since(self, moment: int) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return the states of the journal from that moment on."""
        return self.history[moment:]

    def acknowledge(self, life: str, ids: Sequence[str]) -> None:
        """Note that a process got the answer that these records of one append are durable."""
        self.promised[ids[0]] = (life, tuple(ids))

    def saw_journal(self, what: str, moment: int, life: str, ids: tuple[str, ...]) -> None:
        """Check a read of the whole journal: since `moment`, the journal must have been in the state that was read."""
        if (life, ids) not in self.states_since(moment):
            self.problems.append(f"{what} saw {ids} of life {life}; it never was like that since")

    def saw_context(self, what: str, moment: int, life: str, end: int, ids: tuple[str, ...]) -> None:
        """Check a resume: since `moment`, the journal must have ended at `end` with these last records."""
        count = len(ids)
        for there, state in self.states_since(moment):
            if there == life and len(state) == end and state[end - count : end] == ids:
                return
        self.problems.append(f"{what} resumed at {end} with {ids} of life {life}; it never was like that since")

    # promises that must hold at the end

    def check(self, current: str) -> None:
        """Check every promise, after all processes have ended; `current` is the life that is not deleted."""
        held = {life: [self.id_of(line) for line in log] for life, log in self.logs.items()}
        self._check_promised(held, current)
        self._check_lives(current)
        for log in self.logs.values():
            self._check_shown(log)
        for life, name in self.contents:
            self._check_content(life, name)
        every = [name for ids in held.values() for name in ids]
        if len(every) != len(set(every)):
            twice = sorted({name for name in every if every.count(name) > 1})
            self.problems.append(f"recorded twice: {twice}")
        there = set(every)
        for by, ids in self.groups.items():
            landed = [name for name in ids if name in there]
            if landed and len(landed) != len(ids):
                self.problems.append(f"an append landed in part: {landed} of {ids} by {by}")

    def _check_promised(self, held: dict[str, list[str]], current: str) -> None:
        for life, ids in self.promised.values():
            there = held.get(life, [])
            if ids[0] not in there:
                self.problems.append(f"acknowledged and lost: {ids} of life {life}")
            elif tuple(there[there.index(ids[0]) :][: len(ids)]) != ids:
                self.problems.append(f"the records of one append are torn apart: {ids}")
            elif life != current and ids[0] not in self.dead.get(life, ()):
                self.problems.append(f"acknowledged after its session was deleted: {ids} of life {life}")

    def _check_shown(self, log: Sequence[bytes]) -> None:
        """Check that a writer that committed state on a head knew what others had committed there."""
        records: dict[str, Record] = {}
        made: dict[str, Checkpoint] = {}
        for line in log:
            if b'"type":"checkpoint"' not in line:
                continue
            record = decode_record(line)
            said = bytes(read_form(record.body, BODY).set.get(SHOWN, b"")).decode().strip('"')
            if said in made:
                since = [each for each in records.values() if each.head == record.head and each.at > records[said].at]
                # What the writer did without an answer may have arrived since: it follows what it was shown.
                known = next((each.id for each in reversed(since) if _writer_of(each) == _writer_of(record)), said)
                newest = since[-1].id if since else said
                if newest != known and made[newest].state != made[known].state:
                    self.problems.append(f"state is committed on {record.head} by who did not see {newest}")
            records[record.id] = record
            made[record.id] = apply_body(made.get(record.parent or ""), record, records.__getitem__)

    def _check_content(self, life: str, name: str) -> None:
        """Check that an acknowledged message is recorded under its id, or is erased there."""
        bodies = [bytes(decode_record(line).body) for line in self.logs[life] if self.id_of(line) == name]
        for body in bodies:
            for said in self.contents[life, name]:
                if not is_erased(body) and f'"{said}"'.encode() not in body:
                    self.problems.append(f"{name} was acknowledged as {said!r}, and is {body!r}")

    def _check_lives(self, current: str) -> None:
        for life in self.created - self.dead.keys() - {current}:
            self.problems.append(f"life {life} was created and is lost")
        if current in self.deleted:
            self.problems.append(f"life {current} was deleted and is back")
        for nonce, lives in self.fences.items():
            if len(lives) > 1:
                self.problems.append(f"one deletion put an end to {len(lives)} lives: {nonce}")


def lines_in(key: str, data: bytes, keys: SessionKeys) -> list[tuple[int, bytes]]:
    """Return the record lines of an object, with their positions."""
    if key == keys.tail:
        tail = parse_tail(data, key=key, appends=keys.appends)
        return list(enumerate(tail.lines, tail.header.base))
    if key == keys.latest:
        lines = [line for line in parse_latest(data, key=key).lines if line.startswith(b'{"at":')]
        return [(decode_record(line).at, line) for line in lines]
    name = _parse_segment(key) if "/segments/" in key else None
    return list(enumerate(parse_segment_lines(data, key=key), name.first)) if name is not None else []


def _writer_of(record: Record) -> str:
    return record.by.partition(".")[0]


_parse_segment = functools.lru_cache(parse_segment)


def segment_of(key: str, home: str) -> tuple[str, SegmentName] | None:
    """Return the life and the name in the key of a segment; None for other keys."""
    if "/segments/" not in key or not key.startswith(home) or (name := _parse_segment(key)) is None:
        return None
    return key.removeprefix(home).partition("/")[0], name


def segments_in(objects: Objects, prefix: str) -> tuple[Segment, ...]:
    """Return the segments below a prefix."""
    found = [
        Segment(key, len(objects[key][1]), name)
        for key in objects
        if key.startswith(prefix) and (name := _parse_segment(key)) is not None
    ]
    return tuple(sorted(found, key=lambda segment: (segment.name.first, -segment.name.end, segment.key)))
