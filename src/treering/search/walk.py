"""Read searchable texts from sessions: which sessions changed, and the texts of their records from a position on.

Rule 1: a session is unchanged if its tail has the version that was read, since every append, erasure and deletion
changes the tail. Only a bulk-loaded life has no tail; then its card must be unchanged.
Rule 2: positions only grow within one life and epoch, so reading continues after the last record that was read.
An older copy of the store may have been restored since; so if the tail still holds that record, it is compared.
Rule 3: amended and retracted nodes, and erased positions, are left out. If an edit of an earlier record is found, some
indexed texts should be left out, so the session is read again with all its edits known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from treering.errors import NotFoundError, UnavailableError
from treering.format.blobs import blob_refs_in, text_refs_in
from treering.format.paths import SessionKeys
from treering.format.record import Record, Skeleton, decode_record, skeleton_of_record
from treering.format.register import Card
from treering.journal.read import Survey, read_lines, skeletons
from treering.journal.resume import Registers, look, resume
from treering.journal.view import View
from treering.kinds import Kind
from treering.search.texts import SAID_CHARACTERS_MAX, texts_of
from treering.session.payload import decode_payload
from treering.session.state import Tally
from treering.storage.requests import ABSENT, Answer, Get, Steps, Unchanged, Version
from treering.storage.run import found_in
from treering.transcript.graph import Graph
from treering.transcript.heads import Heads

CHECKS_AT_ONCE_MAX = 64  # about the number of connections of S3 clients
BLOBS_AT_ONCE_MAX = 16
BLOB_BYTES = 4 * SAID_CHARACTERS_MAX  # bytes of a large text, enough for its indexed characters
LOOKS_AT_ONCE_MAX = 16  # both registers of each of these sessions are in memory
EDITS = frozenset({"amend", "retract"})

Looked: TypeAlias = tuple[Answer, Answer]
"""The answers for the two registers of a session: card and tail."""


class Row(NamedTuple):
    """One text of one node."""

    at: int
    """Position of the record that holds it."""
    node: str
    kind: str
    role: str
    time_ms: int
    text: str


class Edits(NamedTuple):
    """The amended and retracted nodes of a session."""

    amended: Mapping[str, int]
    """Position of the edit that holds the new payload, by node."""
    retracted: frozenset[str]
    targets: Mapping[str, Skeleton]
    """The amended nodes."""


class StaleError(Exception):
    """An earlier record changed since it was read: read the session again with all its edits."""


def unchanged(seen: Sequence[tuple[SessionKeys, Version]]) -> Steps[list[bool]]:
    """Tell for each session whether its tail still has a version: one conditional GET each, in parallel."""
    found: list[bool] = []
    for start in range(0, len(seen), CHECKS_AT_ONCE_MAX):
        part = seen[start : start + CHECKS_AT_ONCE_MAX]
        answers = yield tuple(Get(keys.tail, unless=version or None, register=True) for keys, version in part)
        for (_, version), answer in zip(part, answers, strict=True):
            none_still = version == ABSENT and isinstance(answer, NotFoundError)
            found.append(none_still or isinstance(answer, Unchanged))
    return found


def see(keys: SessionKeys, looked: Looked | None = None) -> Steps[tuple[View | None, Version]]:
    """Read the registers of a session; return its view, None if it was deleted, and the version of its tail.

    Args:
        keys: The session.
        looked: The registers, if they were read already.
    """
    seen = (yield from look(keys)) if looked is None else Registers(keys, *looked)
    if seen.dead or seen.absent:
        return None, seen.tail_version
    view = None if seen.torn else seen.view()
    if view is None:
        view = yield from resume(keys)
    return view, view.tail_version


def card_of(view: View) -> Card:
    """The card with title, project and folder updated from the tail."""
    tally = Tally(view.latest.card)
    for line in view.fresh_lines:
        record = decode_record(line)
        tally.add(skeleton_of_record(record, len(line)), record)
    return tally.card(Heads())


def edits_of(view: View) -> Steps[Edits]:
    """Read all edits of a session, from skeletons."""
    _, rows = yield from skeletons(view.keys, view.life, end=view.end)
    graph = Graph(rows)
    amended, retracted = graph.marks.amended, graph.marks.retracted
    return Edits(amended, frozenset(retracted), {name: graph.node(name) for name in amended if name in graph})


class Walk:
    """Reads the texts of a session, a segment in memory at a time.

    Args:
        view: The session; records added later are read by the next update.
        first: The position to begin at.
        last: The append that wrote the record before `first`, if known; compared if that record is in the tail.
        edits: The edits of the whole session; None if none are known.
    """

    def __init__(self, view: View, first: int = 0, last: str = "", edits: Edits | None = None) -> None:
        in_tail = first > view.tail.header.base
        self.at = first - 1 if last and in_tail else first
        """The next position. The record before the first one is read again to compare its append."""
        self.last = ""
        """The append that wrote the record before `at`."""
        self._view = view
        self._expected = last if in_tail else ""
        self._edits = edits
        self._knows_all = edits is not None and first == 0
        self._known: Survey | None = None
        self._erased = {at for at, _ in (*view.tail.header.erased, *view.latest.card.erased)}

    @property
    def done(self) -> bool:
        return self.at >= self._view.end

    def step(self) -> Steps[list[Row]]:
        """Read the next texts, and advance.

        Raises:
            StaleError: An earlier record was replaced or edited since it was read.
            UnavailableError: The records of the view were removed during the read.
        """
        records = [decode_record(line) for line in (yield from self._lines())]
        self.at, self.last = self.at + len(records), records[-1].by
        if self._expected and records.pop(0).by != self._expected:
            raise StaleError
        self._expected = ""
        shown = [each for record in records if (each := self._shown(record)) is not None]
        rows: list[Row] = []
        for start in range(0, len(shown), BLOBS_AT_ONCE_MAX):
            part = shown[start : start + BLOBS_AT_ONCE_MAX]
            blobs = yield from self._blobs(part)
            rows += [row for each in part for row in _rows(*each, blobs)]
        return rows

    def _lines(self) -> Steps[list[bytes]]:
        base = self._view.tail.header.base
        if self.at >= base:
            return list(self._view.tail.lines[self.at - base :])
        self._known, lines = yield from read_lines(self._view.keys, self.at, self._known, life=self._view.life)
        if not lines:
            raise UnavailableError("records vanished while they were read", kind=Kind.BUSY, key=self._view.keys.tail)
        return lines[: self._view.end - self.at]

    def _shown(self, record: Record) -> tuple[Record, Skeleton] | None:
        """A record with a visible payload, and its node; None for other records."""
        edits = self._edits
        if record.type == "edit" and record.kind in EDITS and not self._knows_all:
            raise StaleError
        if record.at in self._erased:
            return None
        if record.type == "node":
            hidden = edits is not None and (record.id in edits.retracted or record.id in edits.amended)
            return None if hidden else (record, skeleton_of_record(record, 0))
        target = record.target
        if edits is None or target is None or edits.amended.get(target) != record.at or target in edits.retracted:
            return None
        return (record, edits.targets[target]) if target in edits.targets else None

    def _blobs(self, shown: Sequence[tuple[Record, Skeleton]]) -> Steps[dict[str, bytes]]:
        """The beginnings of large texts by digest; empty for other blobs."""
        bodies = [bytes(record.body) for record, _ in shown if b'"$blob"' in bytes(record.body)]
        found = {digest: b"" for body in bodies for digest in blob_refs_in(body)}
        texts = sorted({digest for body in bodies for digest in text_refs_in(body)})
        for start in range(0, len(texts), BLOBS_AT_ONCE_MAX):
            part = texts[start : start + BLOBS_AT_ONCE_MAX]
            keys = [self._view.keys.blob(self._view.life, digest) for digest in part]
            answers = yield tuple(Get(key, start=0, end=BLOB_BYTES) for key in keys)
            for digest, answer in zip(part, answers, strict=True):
                if (blob := found_in(answer)) is not None:
                    found[digest] = blob.data
        return found


def _rows(record: Record, node: Skeleton, blobs: Mapping[str, bytes]) -> Iterator[Row]:
    payload = decode_payload(bytes(record.body), blobs)
    role = node.role if node.kind == "message" and node.role else node.kind
    for kind, text in texts_of(node.kind, node.role, payload):
        yield Row(record.at, node.id, kind, role, node.time, text)
