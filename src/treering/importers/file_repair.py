"""Diagnose a session file and write a repaired copy. `treering.importers.parsed_file` has the rules."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from functools import reduce
from hashlib import blake2b
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

import msgspec

from treering.errors import ConflictError, CorruptError, UsageError
from treering.format.values import Fields
from treering.importers.parsed_file import Diagnosis, Outline, ParsedFile, each_entry, examine, names_in, text_at
from treering.kinds import Kind
from treering.programs.common.entry import Encode, Entry
from treering.programs.common.lines import decode
from treering.programs.common.spool import settled
from treering.programs.common.tree_rules import TreeRules, whole_document

_GZIP: Final = 31
"""Makes zlib write a header and a trailer like gzip."""


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair."""

    diagnosis: Diagnosis
    path: str
    """The path of the copy."""
    entries: int
    bytes: int


class Plan:
    """The changes of records in the copy."""

    def __init__(self, parsed: ParsedFile, tree: _TreeRepair | None) -> None:
        self.parsed = parsed
        self._tree = tree

    def records(self) -> Iterator[tuple[Entry, Fields]]:
        """Read the file again; yield its entries with their records in the copy, one at a time."""
        for at, entry in enumerate(each_entry(self.parsed)):
            yield entry, entry.record if self._tree is None else self._tree.record(at, entry)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the copy: the original bytes of each record that is unchanged and valid UTF-8."""
        for entry, record in self.records():
            raw = entry.raw.strip()
            if record is not entry.record or not _is_text(raw):
                raw = self.parsed.format.encode(record)
            for character in self.parsed.tree.escaped if self.parsed.tree else ():
                raw = raw.replace(character.encode(), f"\\u{ord(character):04x}".encode())
            yield raw


def plan(parsed: ParsedFile) -> Plan:
    """Decide the contents of the copy, and report the problems of the tree."""
    return Plan(parsed, None if parsed.tree is None else _TreeRepair(parsed, parsed.tree))


class _TreeRepair:
    """Gives every entry a unique id and an existing parent."""

    def __init__(self, parsed: ParsedFile, tree: TreeRules) -> None:
        self._parsed = parsed
        self._rules = tree
        self._entries = parsed.entries
        self._unattachable = tree.asides | parsed.format.RULES.outside | {""}
        self._ids: list[str] = self._unique_ids()
        self._places = {name: at for at, name in enumerate(self._ids)}
        self._parents = self._resolved()
        self._lost = self._named_by_damage()
        self._attached: dict[str, str | None] = {}
        """By lost entry: the new parent of its children."""
        for at, named in enumerate([*self._parents]):
            if named is not None and named not in self._places:
                self._parents[at] = self._attach(at, named)
        self._break_cycles()
        for entry in self._entries:
            self._look_at_type(entry)

    # ids

    def _unique_ids(self) -> list[str]:
        taken = {entry.id for entry in self._entries}
        used: set[str] = set()
        names = []
        for entry in self._entries:
            name = entry.id
            if not name or name in used:
                name = self._new_id(taken)
            names.append(name)
            used.add(name)
            taken.add(name)
        return names

    def _new_id(self, taken: set[str]) -> str:
        number = 0
        while True:
            number += 1
            seed = f"{self._parsed.session}/{len(taken)}/{number}".encode("utf-8", "surrogatepass")
            name = blake2b(seed, digest_size=self._rules.id_bytes).hexdigest()
            if name not in taken:
                return name

    def _resolved(self) -> list[str | None]:
        """Return the parents by their new ids: after the second entry with an id, the id refers to that entry."""
        names: dict[str, str] = {}
        self._names = list[dict[str, str]]()
        """By entry: the new ids that replace repeated ids of the file in the other references of that entry."""
        parents: list[str | None] = []
        for at, entry in enumerate(self._entries):
            named = entry.parent or entry.above
            parents.append(names.get(named, named) or None)
            own = entry.id
            if own and own != self._ids[at]:
                names = {**names, own: self._ids[at]}
            self._names.append(names)
        return parents

    # parents

    def _named_by_damage(self) -> dict[str, str | None]:
        """Return the ids of lost entries with their parents, if the damaged bytes show them."""
        found = (names_in(raw, self._rules) for _, raw in self._parsed.lost)
        return {pair[0]: pair[1] for pair in found if pair is not None}

    def _attach(self, at: int, lost: str) -> str | None:
        """Report an entry with a lost parent, and return a new parent: the same for all children of the lost entry."""
        if lost not in self._attached:
            self._attached[lost] = self._above_damage(lost) or self._before(at)
        entry, parent = self._entries[at], self._attached[lost]
        if parent is not None and self._is_below(self._places[parent], at):
            parent = self._before(at)
        remedy = f"it is attached to {parent!r}" if parent is not None else "it begins a branch of its own"
        self._parsed.report(entry.line, entry.offset, "orphan", f"parent is not in the file. parent={lost!r}", remedy)
        return parent

    def _above_damage(self, lost: str) -> str | None:
        """Return the nearest existing ancestor of a lost entry, from ids in the damaged bytes."""
        seen: set[str] = set()
        name: str | None = lost
        while name is not None and name not in self._places and name not in seen:
            seen.add(name)
            name = self._lost.get(name)
        return name if name is not None and name in self._places else None

    def _before(self, at: int) -> str | None:
        """Return the last entry of the conversation before the nearest earlier damage, else before this entry."""
        cut = max((place for place, _ in self._parsed.lost if place <= at), default=at) or at
        for place in chain(range(cut - 1, -1, -1), range(at - 1, cut - 1, -1)):
            if self._is_attachable(place, at) and not self._is_below(place, at):
                return self._ids[place]
        return None

    def _is_attachable(self, place: int, at: int) -> bool:
        """Tell by their types whether an entry may be the parent of another entry."""
        entry, below = self._entries[place], self._entries[at]
        if entry.type in self._unattachable or (self._rules.loose and not entry.id):
            return False
        return entry.lane == below.lane

    def _is_below(self, place: int, top: int) -> bool:
        """Tell whether an entry is `top` or a descendant of it."""
        at: int | None = place
        seen: set[int] = set()
        while at is not None and at not in seen:
            if at == top:
                return True
            seen.add(at)
            at = self._places.get(self._parents[at] or "")
        return False

    def _break_cycles(self) -> None:
        """Attach the first entry of each cycle to the entry before it."""
        done: set[int] = set()
        for start in range(len(self._entries)):
            path: dict[int, None] = {}
            at: int | None = start
            while at is not None and at not in done and at not in path:
                path[at] = None
                at = self._places.get(self._parents[at] or "")
            if at is not None and at in path:
                self._break(min([*path][[*path].index(at) :]))
            done.update(path)  # `|=` with keys would copy the whole set

    def _break(self, at: int) -> None:
        entry = self._entries[at]
        alone = self._parents[at] == self._ids[at]
        parent = self._parents[at] = self._before(at)
        kind, message = ("self_parent", "entry is its own parent") if alone else ("cycle", "parents form a cycle")
        remedy = f"it is attached to {parent!r}" if parent is not None else "it begins a branch of its own"
        self._parsed.report(entry.line, entry.offset, kind, f"{message}. id={self._ids[at]!r}", remedy)

    # records

    def _look_at_type(self, entry: Outline) -> None:
        """Report an unknown type, and its replacement in the copy."""
        if entry.type in self._rules.types:
            return
        carrier = self._rules.carrier
        message = f"type of the entry is not known. type={entry.type!r}"
        if carrier is not None:
            remedy = f"it is kept in an entry of the type {carrier.type!r}"
            self._parsed.report(entry.line, entry.offset, "refused_type", message, remedy)
        elif entry.type:
            self._parsed.report(entry.line, entry.offset, "unknown_type", message)

    def record(self, at: int, entry: Entry) -> Fields:
        """Return the record for the copy; the entry's own record if nothing changes.

        Args:
            at: Its index among the entries.
            entry: The whole entry.
        """
        changed: Fields = {}
        own = text_at(entry.record, self._rules.id)
        if own != self._ids[at] and (own or not self._rules.loose):
            changed[self._rules.id] = self._ids[at]
        named = text_at(entry.record, self._rules.parent) or None
        if named != self._parents[at]:
            changed[self._rules.parent] = self._parents[at]
        names = self._names[at]
        for field in self._rules.pointers:
            target = entry.record.get(field)
            if isinstance(target, str) and target in names:
                changed[field] = names[target]
        record = _merged(entry.record, changed) if changed else entry.record
        return self._carried(entry, record)

    def _carried(self, entry: Entry, record: Fields) -> Fields:
        """Wrap a record of a type that the program refuses in a record that it accepts."""
        carrier = self._rules.carrier
        if carrier is None or entry.type in self._rules.types:
            return record
        envelope = (self._rules.id, self._rules.parent, self._parsed.format.RULES.time)
        kept = {"type": carrier.type} | {name: record[name] for name in envelope if name in record}
        data = self._parsed.format.encode(record).decode("utf-8", "replace") if carrier.as_text else dict(record)
        return kept | {carrier.name: f"unknown.{entry.type}", carrier.data: data}


def _merged(record: Fields, changed: Fields) -> Fields:
    """Change fields of a record; a new id or parent comes after the type. A missing parent is written as null."""
    missing = {name: value for name, value in changed.items() if name not in record}
    kept = {name: changed.get(name, value) for name, value in record.items()}
    if not missing:
        return kept
    first = {name: kept.pop(name) for name in ("type",) if name in kept}
    return {**first, **missing, **kept}


def diagnose(path: str | os.PathLike[str], *, format: str | None = None) -> Diagnosis:  # noqa: A002
    """Return the problems of a session file, which is not changed.

    Args:
        path: The file, compressed by gzip or not, or a pipe.
        format: Its format; by default it is detected from the content, even if the header is lost.

    Raises:
        UsageError: It is no session file of a known format.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    with settled(Path(path)) as place:
        parsed = examine(place, format)
    plan(parsed)
    return msgspec.structs.replace(parsed.diagnosis, path=str(path))


# the copy


def repair(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
) -> Repaired:
    """Write a repaired copy of a session file; the file itself is not changed.

    Args:
        path: The file.
        out: The copy, compressed if its name ends in `.gz`; it must not exist.
        format: The file's format; by default it is detected from the content, even if the header is lost.

    Raises:
        UsageError: It is no session file of a known format, or `out` exists.
        ConflictError: Nothing of the conversation is left.
        CorruptError: The copy failed its verification and was removed; please report this.
    """
    place, target = Path(path), Path(out)
    if target.exists():
        raise UsageError(f"file exists already. path={str(target)!r}", kind=Kind.FILE, remedy="name another one")
    with settled(place) as source:
        parsed = examine(source, format, place)
        made = plan(parsed)
        if not parsed.entries and not parsed.header:
            raise ConflictError(f"nothing is left to repair. path={str(place)!r}", kind=Kind.EMPTY)
        beside, size = _write_beside(target, _pieces(made))
        try:
            _check(beside, made, place)
            os.link(beside, target)  # fails if another process made the file
        except FileExistsError as error:
            raise UsageError(f"file exists already. path={str(target)!r}", kind=Kind.FILE) from error
        finally:
            beside.unlink()
    diagnosis = msgspec.structs.replace(parsed.diagnosis, path=str(place))
    return Repaired(diagnosis=diagnosis, path=str(target), entries=len(parsed.entries), bytes=size)


def _pieces(made: Plan) -> Iterator[bytes]:
    """Yield the copy in pieces: one whole document, or line by line."""
    records = (record for _, record in made.records())
    document = whole_document(made.parsed.format.NAME, made.parsed.header, records)
    yield from _lines(made) if document is None else [document]


def _lines(made: Plan) -> Iterator[bytes]:
    parsed = made.parsed
    header = parsed.header_raw
    mended: dict[str, Fields] = {
        "header_id": {"id": parsed.session},
        "header_name": {"type": parsed.format.RULES.header},
    }
    changes = [mended[kind] for kind in mended if kind in {finding.kind for finding in parsed.findings}]
    if changes:
        right: Fields = reduce(_merged, changes, parsed.header)
        header = parsed.format.encode(right)
    elif not _is_text(header):
        header = parsed.format.encode(parsed.header)
    # A title slot keeps its padding: its program rewrites it in place.
    front = (line for line in (parsed.slot, header) if line)
    yield from (line + b"\n" for line in chain(front, made.lines()))


def _write_beside(target: Path, data: Iterable[bytes]) -> tuple[Path, int]:
    """Write a temporary file next to the target, compressed if the target is; return it and its uncompressed size."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    packer, size = zlib.compressobj(level=9, wbits=_GZIP) if target.suffix == ".gz" else None, 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            for piece in data:
                size += len(piece)
                file.write(packer.compress(piece) if packer is not None else piece)
            file.write(packer.flush() if packer is not None else b"")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name), size


def _check(copy: Path, made: Plan, beside: Path) -> None:
    """Read the copy again and verify that it has every record, in order, and no damage."""
    parsed = examine(copy, made.parsed.format.NAME, beside)
    again = plan(parsed)
    left = [finding for finding in parsed.findings if finding.severity == "damage"]
    encode = made.parsed.format.encode
    pairs = zip_longest(made.records(), each_entry(again.parsed))
    same = all(pair is not None and entry is not None and _same(encode, pair[1], entry.record) for pair, entry in pairs)
    if left or not same:
        what = f"{left[0].kind} on line {left[0].line}" if left else "its records are not those of the file"
        raise CorruptError(
            f"the copy is not right, and was not kept: {what}. path={str(made.parsed.path)!r}",
            kind=Kind.COPY,
            remedy="please report this, if you can with the file",
        )


def _same(encode: Encode, expected: Fields, got: Fields) -> bool:
    written, read = encode(expected), encode(got)
    return written == read or decode(written)[0] == decode(read)[0]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
