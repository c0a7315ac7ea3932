"""Erased payloads: which records held them, and the tombstones that replace them.

The tail's header lists the positions of erased records, each with the epoch of its erasure. A segment whose name has an
older epoch is dirty: it may still hold the payload. Readers replace such a payload by its tombstone whatever the
segment holds, and a merge writes the tombstone into the new segment.

A tombstone in place of a payload is

    {"$erased":{"sha256":"...","time":1739000000000,"reason":"...","message":{"role":"user","content":"[erased]"}}}

with the SHA-256 of the erased body. The brief of the record keeps the fields that other records depend on. A checkpoint
that holds a copy of the payload, as a message edited inline, loses that copy and nothing else. An erased value of an
agent's state is replaced by a tombstone without a message, so that references to the value stay valid.
"""

import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from treering.digests import sha256
from treering.format.line import encode_object
from treering.format.paths import SegmentName
from treering.format.pieces import UNKNOWN, Unknown, entries_in, join_entries, unknown_in, with_fields
from treering.format.record import Record, Skeleton, decode_record, encode_record
from treering.format.values import decode, encode

NOTE: Final = "[erased]"
"""Shown in place of erased text."""

_MARK: Final = b'{"$erased":'
_NO_BRIEF: Final = b"{}"
# Keys of a brief that other records depend on, by type and kind of the record. Those of every kind of node come first:
# they are kept if they are no text.
_KEPT_NODE: Final = frozenset({"context", "empty", "tokens_before", "tokens_after"})
_KEPT_FLAGS: Final = frozenset({"bare", "blank", "failed", "meta", "queued", "request", "retried", "summary"})
_KEPT_KIND: Final = {
    "compaction": frozenset(
        {
            "boundary",
            "kept",
            "kept_after",
            "kept_all",
            "kept_last",
            "kept_time",
            "pictures",
            "replay",
            "rollover",
            "through",
        }
    ),
    "context_edit": frozenset({"edit", "target"}),
    "custom_message": frozenset({"custom_type"}),
}
SETTINGS: Final = frozenset({"model_change", "thinking_change", "mode_change"})
"""Kinds of nodes whose brief is a setting. It is kept: checkpoints have the same value."""
_KEPT_NOTE: Final = {
    "link": frozenset({"fork", "child"}),
    "extension": frozenset({"extension"}),
    "card": frozenset({"fields"}),
    "effect": frozenset({"call"}),
}
_KEPT_USAGE: Final = frozenset({"copied", "reset", "turn"})
# An erased label or title no longer applies to the session or to its target.
_TAKEN_BACK: Final = frozenset({"label", "title", "project", "cwd", "status"})


class Erasure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act of erasing."""

    epoch: int
    time: int = 0
    """Milliseconds since 1970."""
    reason: str = ""
    records: tuple[tuple[int, str], ...] = ()
    """Positions, each with the id of the record whose payload was erased. That is the record at the position, or one
    whose payload it held a copy of. The id is empty for a value of the state, since every append sends this list."""
    blobs: tuple[str, ...] = ()
    """SHA-256 of the payload's blobs. Only records written before the erasure may refer to them."""
    facts: tuple[str, ...] = ()
    """Fields of the card whose values came from the payload."""
    state: tuple[str | None, ...] = ()
    """Keys of the agent's state whose values were erased from the checkpoints in `records`; None is the state of the
    conversation manager."""
    end: int = 0
    """For state: the journal's end when this act was recorded. Records from this position on, and forks linked there,
    hold none of the values."""
    unknown: Unknown = msgspec.field(default=(), name=UNKNOWN)
    """Fields of a later version; kept when the list of acts is written again."""

    def tombstone(self, value: bytes) -> bytes:
        """Return the tombstone of a value of the state; idempotent."""
        if is_erased(value):
            return value
        from treering.format.patch import digest_of_value  # resuming a session does not need it

        return mark_of(Erased(sha256=digest_of_value(value), time_ms=self.time, reason=self.reason))


def encode_erasures(acts: Iterable[Erasure]) -> bytes:
    """Return a list of acts as JSON, with their fields of later versions."""
    return join_entries(
        with_fields(encode_object(msgspec.structs.replace(act, unknown=())), act.unknown) for act in acts
    )


def with_unknown(acts: Iterable[Erasure], data: bytes) -> tuple[Erasure, ...]:
    """Return acts with their unknown fields, read from the JSON that the acts were decoded from."""
    found = (unknown_in(entry, Erasure) for entry in entries_in(data))
    return tuple(msgspec.structs.replace(act, unknown=unknown) for act, unknown in zip(acts, found, strict=True))


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """A tombstone in place of an erased payload."""

    sha256: str = ""
    """SHA-256 of the record's body before the erasure: the payload as JSON."""
    time_ms: int = msgspec.field(default=0, name="time")
    """When it was erased, in milliseconds since 1970."""
    reason: str = ""
    message: dict[str, Any] = {}
    """The message that a model sees in its place."""


class _Tombstone(msgspec.Struct):
    erased: Erased = msgspec.field(name="$erased")


class Burials:
    """An index of erasures by the position of the records."""

    def __init__(self, erased: Iterable[tuple[int, int]], erasures: Iterable[Erasure]) -> None:
        self.erasures = tuple(erasures)
        self.names = frozenset(name for act in self.erasures for _, name in act.records if name)
        """Ids of the erased records."""
        self.blobs = frozenset(digest for act in self.erasures for digest in act.blobs)
        self._epochs: dict[int, int] = {}
        for at, epoch in erased:
            self._epochs[at] = max(epoch, self._epochs.get(at, 0))
        self._acts: dict[int, dict[str, Erasure]] = {}
        for act in self.erasures:
            for at, name in act.records:
                self._acts.setdefault(at, {}).setdefault(name, act)
        self._state_acts: dict[int, list[Erasure]] = {}
        for act in self.of_state():
            for at in [at for at, name in act.records if not name]:
                self._state_acts.setdefault(at, []).append(act)
        self._places = sorted(self._epochs)

    def __bool__(self) -> bool:
        return bool(self._epochs)

    def is_dirty(self, name: SegmentName) -> bool:
        """Return whether a segment of this name may hold a payload that was erased after the segment was written."""
        return any(self._epochs[at] > name.epoch for at in self.places(name.first, name.end))

    def facts_since(self, epoch: int) -> frozenset[str]:
        """Return the fields of the card that were erased after that epoch."""
        return frozenset(fact for act in self.erasures if act.epoch > epoch for fact in act.facts)

    def of_state(self, since: int = 0) -> tuple[Erasure, ...]:
        """Return the acts after that epoch that erased values of the state, in order."""
        return tuple(act for act in self.erasures if act.epoch > since and act.state)

    def bury(self, line: bytes, at: int) -> bytes:
        """Return the line of the record at a position, with its erased parts replaced by tombstones; idempotent."""
        if at not in self._epochs:
            return line
        record, acts = decode_record(line), self._acts.get(at, {})
        if record.type == "checkpoint":
            from treering.format.copies import with_values, without_messages  # sessions without erasures do not need it

            line = without_messages(line, record, acts.keys())
            for act in self._state_acts.get(at, ()):
                line = with_values(line, decode_record(line), act.state, act.tombstone)
            return line
        return _tombstone(line, record, next(iter(acts.values()), Erasure(epoch=0)))

    def places(self, first: int, end: int) -> list[int]:
        """Return the positions from `first` up to `end` of records with an erased part, in order."""
        if not self._places:
            return []
        from bisect import bisect_left  # sessions without erasures do not need it

        return self._places[bisect_left(self._places, first) : bisect_left(self._places, end)]

    def bury_all(self, lines: Iterable[bytes], first: int) -> list[bytes]:
        """Apply `bury` to lines at consecutive positions."""
        return [self.bury(line, at) for at, line in enumerate(lines, first)] if self else list(lines)

    def bury_rows(self, rows: list[Skeleton]) -> list[Skeleton]:
        """Return the skeletons of records at positions from 0 on as `bury` changes them; their lengths stay."""
        for at in self.places(0, len(rows)):
            rows[at] = self.bury_row(rows[at])
        return rows

    def bury_row(self, row: Skeleton) -> Skeleton:
        """Return the skeleton of a record as `bury` changes it; its length stays the same."""
        if row.at not in self._epochs or row.type == "checkpoint":
            return row
        return msgspec.structs.replace(row, brief=_kept_brief(row.type, row.kind, row.brief))


NONE: Final = Burials((), ())


@lru_cache(maxsize=64)  # called by each read of a session, mostly with the same header
def _burials(erased: tuple[tuple[int, int], ...], erasures: tuple[Erasure, ...]) -> Burials:
    return Burials(erased, erasures)


def burials(erased: tuple[tuple[int, int], ...], erasures: tuple[Erasure, ...]) -> Burials:
    """Return the index of the erasures that a header lists."""
    return _burials(erased, erasures) if erased or erasures else NONE


def erased_mark(erased: Iterable[tuple[int, int]], erasures: Iterable[Erasure], epoch: int) -> str:
    """Return 8 hex digits, a checksum of which records were erased up to an epoch, and when; empty if none were.

    Acts without records do not count, since only the tail lists them.
    """
    said = [(at, since) for at, since in erased if since <= epoch]
    acts = [(act.epoch, act.time) for act in erasures if act.epoch <= epoch]
    return f"{zlib.crc32(msgspec.json.encode((said, acts))):08x}" if said else ""


def is_erased(body: bytes) -> bool:
    """Return whether a body is a tombstone."""
    return body.startswith(_MARK)


def erased_of(body: bytes) -> Erased:
    """Return the contents of a tombstone."""
    return _tombstone_decoder.decode(body).erased


def digest_of(body: bytes) -> str:
    """Return the digest by which a tombstone names the body that was erased."""
    return sha256(body)


def _tombstone(line: bytes, record: Record, act: Erasure) -> bytes:
    from treering.format.stub import stub_of  # sessions without erasures do not need it

    body = bytes(record.body)
    if is_erased(body):
        return line
    message = stub_of(body, record.role)
    left = Erased(sha256=digest_of(body), time_ms=act.time, reason=act.reason, message=message)
    brief = _kept_brief(record.type, record.kind, bytes(record.brief))
    return encode_record(msgspec.structs.replace(record, brief=Raw(brief), body=Raw(mark_of(left))))


def mark_of(left: Erased) -> bytes:
    """Return a tombstone as it is stored: JSON."""
    import json  # slow to import, and resuming a session does not need it

    try:
        encoded = msgspec.json.encode(left)
    except UnicodeEncodeError:  # a lone surrogate in the reason
        encoded = json.dumps(msgspec.to_builtins(left), separators=(",", ":")).encode()
    return b"%b%b}" % (_MARK, encoded)


def _kept_brief(record_type: str, kind: str, brief: bytes) -> bytes:
    value = decode(brief) if brief != _NO_BRIEF else {}
    fields: Mapping[Any, object] = value if isinstance(value, dict) else {}
    if record_type == "node":
        kept = dict(fields) if kind in SETTINGS else _kept_of_node(kind, fields)
    elif record_type == "note":
        kept = {key: fields[key] for key in _KEPT_NOTE.get(kind, frozenset()) & fields.keys()}
        if kind == "usage":
            kept |= {key: value for key, value in fields.items() if _is_number(value)} | _plain(fields, _KEPT_USAGE)
        kept |= dict.fromkeys(sorted(_TAKEN_BACK & fields.keys()))
    else:
        kept = {"undo": fields["undo"]} if "undo" in fields else {}
    kept.pop("erased", None)  # it is a tombstone already
    return encode(dict(sorted(kept.items())) | {"erased": True})


def _kept_of_node(kind: str, fields: Mapping[Any, object]) -> dict[Any, object]:
    """The fields that decide which nodes are shown: without them, hidden nodes would be shown again."""
    names = _KEPT_KIND.get(kind, frozenset()) | {name for name in _KEPT_FLAGS if fields.get(name) is True}
    return _plain(fields, _KEPT_NODE) | {name: fields[name] for name in names & fields.keys()}


def _plain(fields: Mapping[Any, object], names: frozenset[str]) -> dict[Any, object]:
    """Some fields, of those that hold no text."""
    found = {name: fields[name] for name in names & fields.keys()}
    return {name: value for name, value in found.items() if value is None or isinstance(value, bool | int | float)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_tombstone_decoder = msgspec.json.Decoder(_Tombstone)
