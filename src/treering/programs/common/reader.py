"""Read a session file of lines: a header, then one entry per line, which names its parent.

pi, oh-my-pi, Operator-Use and kit write such files. A `Dialect` holds the differences between them: the names of the
fields, the format of times, and one function for each type of entry.

Rule 1: an entry gets its place before its draft is made. Only `Chain` decides ids and parents; the functions of a
dialect use its results.
Rule 2: a field that is used is removed from the entry. The remaining fields go to `Draft.source`, so no unknown field
is lost. If the original bytes cannot be reproduced from that, `Draft.source` holds the bytes.
Rule 3: the draft of an entry depends only on earlier entries of the file. So if a file has grown, its first drafts are
the same as before.

In these programs labels, names and usage are entries of the tree and move its leaf. In Treering they are notes outside
the tree. The parent of an entry below a note is the note's nearest ancestor that is a node.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from pathlib import Path

import msgspec

from treering.errors import UsageError
from treering.format import values
from treering.format.record import BRIEF_BYTES_MAX
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common.chain import Chain, Known, Place
from treering.programs.common.entry import AFTER, RAW, Encode, Entry, as_text, with_source
from treering.programs.common.growth import Growth, Knowledge
from treering.programs.common.lines import Value, read_values
from treering.programs.common.memo import Memo, Recalled, new_in
from treering.programs.common.recall import Recall
from treering.programs.common.source import (
    Imported,
    Problem,
    ProblemLog,
    damage_note,
    header_note,
    uncompressed,
    white_before,
)
from treering.transcript.node import Draft

Record = tuple[Entry | None, list[Draft]]
ReadEntry = Callable[[Fields, Place, "Reader"], Fields]
"""Removes fields from the rest of an entry, and returns fields of the draft."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The format of one program's files."""

    name: str
    version: int
    """The newest known version of the format; a newer version is read like this one, and reported."""
    id: str = "id"
    parent: str = "parentId"
    time: str = "timestamp"
    notes: frozenset[str]
    """Types of entries that become notes."""
    readers: Mapping[str, ReadEntry]
    """The function for each type of entry."""
    unknown: ReadEntry
    """The function for all other types."""
    recalled: frozenset[str] = frozenset()
    """Types of entries that the draft of a later entry may need, see `Reader.recall`."""
    joined: frozenset[str] = frozenset()
    """Types of entries that get the entry before them as their parent if they name none, though their program starts a
    new tree with them. The draft then has a link `logical_parent`."""
    outside: frozenset[str] = frozenset()
    """Types of entries that are not in the program's tree. They are notes, and their entries have empty ids."""
    linear_below: int = 2
    """Files of versions below this have neither ids nor parents."""
    is_header: Callable[[object], bool]
    header: str | None = None
    """The only type of header that the program opens, if `is_header` accepts other types; those are reported."""
    is_entry: Callable[[Fields], bool]
    """Tells whether an object in a damaged line is an entry, and not a part of an entry."""
    read_header: Callable[[Fields, Path], Imported]
    version_of: Callable[[object], int]
    read_time: Callable[[object], int | None]
    """Returns milliseconds since 1970, or None if the value is no time."""
    write_time: Callable[[int | None], object]
    write: Callable[[Draft, str | None], Fields]
    """Makes the record of a draft, with the given parent."""
    encode: Encode
    one_header: bool = True
    """Whether headers after the first one are no entries."""
    passed: frozenset[str] = frozenset()
    """Types of records that may come before the header and are no entries."""


class State(msgspec.Struct, frozen=True, array_like=True):
    """The state of a reader between two records."""

    chain: Known
    numbered: list[str]
    outside: set[str]
    headed: bool
    time: int | None
    before: str | None
    newest: str | None


_state_encoder = msgspec.msgpack.Encoder()
_state_decoder = msgspec.msgpack.Decoder(State)


_OFFSET = msgspec.json.Decoder(int)


class LinesSource:
    """A session file of lines. `GrowingSource` documents its members."""

    GROWS = True

    def __init__(self, dialect: Dialect, open_file: Callable[[], io.BufferedIOBase], path: Path) -> None:
        self.dialect = dialect
        self._open = open_file
        self._log = ProblemLog()
        self.leaf: str | None = None
        with open_file() as stream:
            first = first_object(stream, dialect)
        if first is None or not dialect.is_header(first.value):
            raise UsageError(
                f"this is no session file of {dialect.name}: {_describe(first)}. path={str(path)!r}",
                kind=Kind.FORMAT,
                remedy="name a file whose first line is a session header",
            )
        self.header = dialect.read_header(fields_of(first.value), path)
        self._header_raw = first.raw
        self._header_after = first.after
        self._begin = first.offset
        self._before = white_before(open_file, first.offset)

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self, growth: Growth | None = None) -> Iterator[Record]:
        """Yield the records of the file with their drafts, in its order."""
        self._log = ProblemLog()
        self.leaf = None
        growth = growth or Growth(self.dialect.name)
        with self._open() as stream, Recall(self._open, self.dialect.is_entry) as recall:
            reader = Reader(self.dialect, self.header, self._log, recall)
            growth.begin(stream, self._begin, reader.go_on)
            yield None, [header_note(self.header, self._header_raw, before=self._before, after=self._header_after)]
            for value in growth.values(self._log.report, self.dialect.is_entry, reader.known):
                yield from reader.read(value)
        self.leaf = reader.chain.leaf()

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the file, in its order."""
        for _, drafts in self.records():
            yield from drafts


def first_object(stream: io.BufferedIOBase, dialect: Dialect) -> Value | None:
    """Return the first JSON object of a file, without the types that may come before the header."""
    for value in read_values(stream, lambda *_: None, dialect.is_entry):
        if isinstance(value.value, dict) and text_of(value.value.get("type")) not in dialect.passed:
            return value
    return None


def first_records(head: bytes, dialect: Dialect) -> list[Fields]:
    """Return the JSON objects in the first bytes of a file, compressed or not."""
    found = read_values(io.BytesIO(uncompressed(head)), lambda *_: None, dialect.is_entry)
    return [value.value for value in found if isinstance(value.value, dict)]


def begins(head: bytes, dialect: Dialect) -> bool:
    """Tell whether a file that begins with `head`, compressed or not, has a dialect's format."""
    first = first_object(io.BytesIO(uncompressed(head)), dialect)
    return first is not None and dialect.is_header(first.value)


def _describe(first: Value | None) -> str:
    if first is None:
        return "it is empty or holds no JSON object"
    return f"its first JSON object is of the type {fields_of(first.value).get('type')!r} and not a header"


class Reader:
    """Makes the drafts of the records of one file, in order."""

    def __init__(
        self, dialect: Dialect, header: Imported, log: ProblemLog, recall: Callable[[int], Fields] | None = None
    ) -> None:
        self.dialect = dialect
        self.chain = Chain(header.session_id, linear=header.version < dialect.linear_below)
        self.version = header.version
        self.numbered: list[str] = []
        """Ids by the number that version 1 gives to entries: the header is 0; lines that pi cannot read have none."""
        self.outside: set[str] = set()
        """Ids of entries that are not in the program's tree, and so are no parents."""
        self.has_time = True
        """Whether the current entry has a valid time."""
        self.stamp: object = None
        """The time of the current entry, verbatim."""
        self._header = header
        self._headed = False
        self._log = log
        self._time = header.created_ms
        self._recall = recall
        self._offsets: MutableMapping[str, int] = {}
        self._before: str | None = None
        self._newest: str | None = None

    def known(self) -> Knowledge:
        """Return the state on which the next entry depends."""
        state = State(
            self.chain.known, self.numbered, self.outside, self._headed, self._time, self._before, self._newest
        )
        return Knowledge(_state_encoder.encode(state), {**self.chain.facts, "offsets": new_in(self._offsets)})

    def go_on(self, state: bytes, memo: Memo) -> None:
        """Continue from the state of another reader of the same file."""
        known = _state_decoder.decode(state)
        self.chain.go_on(known.chain, memo)
        self.numbered, self.outside, self._offsets = known.numbered, known.outside, Recalled(memo, "offsets", _OFFSET)
        self._headed, self._time, self._before, self._newest = known.headed, known.time, known.before, known.newest

    def read(self, value: Value) -> Iterator[Record]:
        """Yield the entry and drafts of a JSON value of the file: usually one of each."""
        record = value.value
        if value.damage:
            yield None, [self._damage(value, value.damage)]
        elif not isinstance(record, dict):
            yield from self._read_no_object(value)
        elif text_of(record.get("type")) in self.dialect.passed and not self._headed:
            return
        elif not self.dialect.is_header(record) or (self._headed and not self.dialect.one_header):
            yield self._read_entry(record, value)
        elif self._headed:
            self._count(value, "")
            self._report(value, "second_header", "another session header, kept as a note")
            name = self._aside()
            source = {RAW: as_text(value.raw)} | ({AFTER: as_text(value.after)} if value.after != b"\n" else {})
            note = Draft(type="note", kind="session", id=name, parent=None, payload=record, time_ms=self._time)
            yield None, [msgspec.structs.replace(note, source=source)]
        else:
            self._headed = True
            self._count(value, "")
            self._check_header(record, value)

    def recall(self, node: str | None) -> Fields:
        """Return the record of an earlier entry of a recalled type; empty for any other entry."""
        offset = self._offsets.get(node or "")
        return self._recall(offset) if offset is not None and self._recall is not None else {}

    def _aside(self) -> str:
        return self.chain.add("", None, note=True, moves=False).id

    def _count(self, value: Value, name: str) -> None:
        if value.intact and self.chain.linear:
            self.numbered.append(name)

    def _damage(self, value: Value, kind: str) -> Draft:
        return damage_note(self._aside(), kind, value.line, value.offset, value.raw, after=value.after)

    def _read_no_object(self, value: Value) -> Iterator[Record]:
        """Keep JSON that is no object. Programs treat it as an entry without a type, unless it counts as false."""
        kind = "null" if value.value is None else "no_object"
        self._report(value, kind, f"this is no record, skipped. text={str(value.value)[:60]!r}")
        entry = None
        if value.value is not None:
            self._count(value, "")
        if value.value or isinstance(value.value, list):
            entry = Entry(id=None, type="", record={}, raw=value.raw, line=value.line, offset=value.offset)
        yield entry, [self._damage(value, kind)]

    def _check_header(self, record: Fields, value: Value) -> None:
        version, newest = record.get("version"), self.dialect.version
        if self.dialect.header is not None and record["type"] != self.dialect.header:
            self._report(value, "header_name", f"header has another type. type={record['type']!r}")
        if not text_of(record.get(self.dialect.id)):
            self._report(value, "header_id", f"no id, took that in the file's name. id={self._header.session_id!r}")
        if self._header.version > newest or self._header.version != record.get("version", self._header.version):
            known = f"read as version {min(self._header.version, newest)}"
            self._report(value, "version", f"version is not known, {known}. version={version!r}")

    def _read_entry(self, record: Fields, value: Value) -> Record:
        names = self.dialect
        kind, own, parent = text_of(record.get("type")), text_of(record.get(names.id)), record.get(names.parent)
        note = kind in names.notes or not kind
        joined = kind in names.joined and not text_of(parent)
        above = self._newest if joined else None if kind in names.outside else parent
        place = self.chain.add(own, above, note=note, moves=bool(kind or own))
        self._count(value, place.id)
        if kind in names.outside:
            self.outside.add(own)
        if kind in names.recalled:
            self._offsets[place.id] = value.offset
        linear = self.chain.linear
        entry = Entry(
            id="" if kind in names.outside else place.id if linear else own or None,
            parent=self._before if linear else text_of(parent) or None,
            type=kind,
            record=record,
            raw=value.raw,
            line=value.line,
            offset=value.offset,
            intact=value.intact,
            after=value.after,
        )
        self._before = place.id
        self._newest = self._newest if kind in names.outside else place.id
        return entry, self._drafts(entry, value, place, note=note, joined=joined)

    def _drafts(self, entry: Entry, value: Value, place: Place, *, note: bool, joined: bool) -> list[Draft]:
        names, kind, record = self.dialect, entry.type, entry.record
        envelope = ("type", names.id, names.parent, names.time)
        rest = {name: part for name, part in record.items() if name not in envelope}
        time = self._read_time(record, value)
        if not kind:
            self._report(value, "no_type", "entry has no type, kept as a note")
            rest |= {name: record[name] for name in ("type",) if name in record}
        fields: Fields = {"type": "note" if note else "node", "kind": kind or "unknown"}
        fields |= names.readers.get(kind, names.unknown)(rest, place, self)
        if record.get(names.time) != names.write_time(time):
            rest[names.time] = record.get(names.time)
        self._check_place(record, rest, place, value)
        parent = None if note else place.parent
        links: dict[str, str] = fields.pop("links", {})
        named = text_of(record.get(names.parent)) or None
        if named and named != parent:
            links["source_parent"] = named
        if joined and parent is not None:
            links["logical_parent"] = parent
        fields["brief"] = self._shorten(fields.pop("brief", {}), record, rest, value) or None
        draft = Draft(**fields, id=place.id, parent=parent, time_ms=time, links=links or None, source=rest or None)
        optional = (names.id, names.parent)
        draft = with_source(draft, entry, lambda made: names.write(made, named), names.encode, optional=optional)
        if place.stand_in is None:
            return [draft]
        stand_in = Draft(kind=kind, id=place.stand_in, parent=place.parent, time_ms=time, brief={"stand_in": True})
        return [stand_in, draft]

    def _read_time(self, record: Fields, value: Value) -> int | None:
        """Return the time of an entry; if it has none, that of its message, else that of the entry before it."""
        stamp = record.get(self.dialect.time)
        time = self.dialect.read_time(stamp)
        self.stamp = stamp
        self.has_time = time is not None
        if time is None:
            time = self.dialect.read_time(fields_of(record.get("message")).get(self.dialect.time))
            self._report(value, "timestamp", f"time of the entry is not readable. timestamp={stamp!r}")
        self._time = self._time if time is None else time
        return self._time

    def _check_place(self, record: Fields, rest: Fields, place: Place, value: Value) -> None:
        """Keep the id and parent of the file if they differ from those in Treering, and report problems."""
        parent, own = record.get(self.dialect.parent), record.get(self.dialect.id)
        if parent is not None and not isinstance(parent, str):
            self._report(value, "parent", f"parent is no id, read as none. parent={parent!r}")
        if parent is not None and not text_of(parent):
            rest[self.dialect.parent] = parent
        if self.dialect.id in record and own != place.id:
            rest[self.dialect.id] = own
        if self.chain.linear or own == place.id:
            return
        if place.stand_in:
            self._report(value, "late_note", f"an entry further up is below it, a node stands in. id={own!r}")
        elif text_of(own):
            self._report(value, "duplicate_id", f"id was used before. id={own!r}, now={place.id!r}")
        else:
            self._report(value, "missing_id", f"entry has no id, made one. now={place.id!r}")

    def _shorten(self, brief: Fields, record: Fields, rest: Fields, value: Value) -> Fields:
        """Return a brief within its limit; `rest` gets the whole texts that were cut."""
        if not brief or len(values.encode(brief)) <= BRIEF_BYTES_MAX:
            return brief
        self._report(value, "too_long", f"texts are cut to what a brief may hold. bytes={BRIEF_BYTES_MAX}")
        envelope = ("type", self.dialect.id, self.dialect.parent, self.dialect.time)
        rest |= {name: text for name, text in record.items() if isinstance(text, str) and name not in envelope}
        size = BRIEF_BYTES_MAX
        while len(values.encode(brief)) > BRIEF_BYTES_MAX:
            if not size:
                return {}
            size //= 2
            brief = {name: part[:size] if isinstance(part, str) else part for name, part in brief.items()}
        return brief

    def _report(self, value: Value, kind: str, message: str) -> None:
        self._log.report(value.line, value.offset, kind, message)


# For the functions of a dialect: each removes its fields from `rest`.


def take(rest: Fields, *names: str) -> Fields:
    """Take the fields that exist, under their names."""
    return {name: rest.pop(name) for name in names if name in rest}


def take_small(rest: Fields, **names: str) -> Fields:
    """Take the fields that fit into a brief, under their names there."""
    small = str | int | float | None
    return {new: rest.pop(old) for old, new in names.items() if old in rest and isinstance(rest[old], small)}


def take_text(rest: Fields, name: str) -> str | None:
    """Take a text that is not empty, else leave it and return None."""
    return rest.pop(name) if text_of(rest.get(name)) else None


def take_target(rest: Fields, name: str, reader: Reader) -> str | None:
    """Take the id of another entry, and return its id in Treering; the field stays if they differ."""
    target = reader.chain.find(rest.get(name))
    if target == rest.get(name):
        rest.pop(name, None)
    return target


def told(draft: Draft, names: Collection[str] | None, briefs: Mapping[str, str]) -> Fields:
    """Return the fields of a record that a draft holds in its payload, brief and target.

    Args:
        draft: A draft from an importer.
        names: The fields of its type; None for an unknown type, whose payload has all fields.
        briefs: The fields that are in the brief, with their names there.
    """
    payload = fields_of(draft.payload)
    if names is None:
        return dict(payload)
    brief = draft.brief or {}
    found = {name: payload[name] for name in names if name in payload}
    found |= {name: brief[briefs[name]] for name in names if brief.get(briefs.get(name, "")) is not None}
    return found | ({"target_id": draft.target} if "target_id" in names and draft.target is not None else {})


def text_of(value: object) -> str:
    """Return a text unchanged, and an empty one for any other type."""
    return value if isinstance(value, str) else ""
