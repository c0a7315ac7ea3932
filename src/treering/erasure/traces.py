"""Find all records that hold copies of given payloads, or values of given keys of the agent's state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from treering.errors import NotFoundError, UsageError
from treering.format.blobs import blob_refs_in
from treering.format.copies import inline_messages, state_values
from treering.format.erasure import erased_of, is_erased
from treering.format.patch import digest_of_value
from treering.format.record import Record, Skeleton, decode_record, read_brief, skeleton_of
from treering.journal.read import read_lines
from treering.kinds import Kind
from treering.session.payload import first_prompt
from treering.session.replica import Replica
from treering.session.state import CARD, EXTRA, FACTS
from treering.session.writer import Writer
from treering.storage.requests import Steps

_NOTHING = b"null"
RECORDS_AT_ONCE = 500  # lines in memory at a time


def rows_of(replica: Replica, names: Collection[str]) -> Steps[dict[str, Skeleton]]:
    """The nodes, notes and edits with these ids. Imported records may share an id; a node takes precedence."""
    return (yield from replica.ask(lambda lookup: lookup.records(names)))


def notes_of(replica: Replica, kind: str | None = None) -> Steps[list[Skeleton]]:
    """The notes of one kind, or of all kinds."""
    return (yield from replica.ask(lambda lookup: lookup.notes(kind)))


def edits_in_context(replica: Replica, names: Collection[str]) -> Steps[set[str]]:
    """Imported nodes that replace a part of one of these messages, and hold the rest of the message."""
    edits = yield from replica.ask(lambda lookup: lookup.context_edits())
    briefs = {row.id: read_brief(row) for row in edits}
    return {name for name, brief in briefs.items() if brief.get("target") in names and brief.get("edit") != "retract"}


def copies_in_notes(notes: Sequence[Skeleton], names: Collection[str]) -> set[str]:
    """Notes that repeat the payload of one of these records."""
    return {note.id for note in notes if (note.links or {}).get("copy_of") in names}


def require_erasable(replica: Replica, rows: Mapping[str, Skeleton], name: str) -> Steps[None]:
    """Raise NotFoundError or UsageError unless there is a node or note with this id."""
    row = rows.get(name)
    if row is None and (yield from replica.ask(lambda lookup: lookup.is_checkpoint(name))):
        raise UsageError(
            f"a checkpoint cannot be erased as a whole. id={name!r}",
            kind=Kind.ERASE,
            remedy="erase keys of its state, or the nodes it shows; a prune removes its label and metadata",
        )
    if row is None:
        raise NotFoundError(f"no such node or note. id={name!r}", kind=Kind.NODE)
    if row.type not in ("node", "note"):
        raise UsageError(
            f"only nodes and notes can be erased. id={name!r}, type={row.type!r}",
            kind=Kind.ERASE,
            remedy="erase the node that an edit is about",
        )


def _only_hides(record: Record) -> bool:
    return (record.type, record.kind) == ("edit", "retract") and bytes(record.body) == _NOTHING


class Search:
    """Searches a session for payloads and values of the state, while other writers may append to it."""

    def __init__(self, names: set[str], state: Collection[str | None], epoch: int) -> None:
        self.names = names
        self.state = state
        self.epoch = epoch
        """The number of erasures in the session when the search began."""
        self.records: list[tuple[int, str]] = []
        self.blobs: set[str] = set()
        self.held: set[str | None] = set()
        """Keys of the state in any checkpoint, including erased ones."""
        self.living: set[str] = set()
        """SHA-256 of the values of these keys that are not erased."""
        self.erased: set[str] = set()
        """SHA-256 of the erased values of these keys."""
        self._end = 0

    def go_on(self, writer: Writer) -> Steps[None]:
        """Search the new records: the index first, then only the records that may hold copies."""
        if not self._end:
            self._end = writer.replica.view.end
            places = yield from writer.replica.ask(lambda lookup: lookup.holders(self.names, state=bool(self.state)))
            for start in range(0, len(places), RECORDS_AT_ONCE):
                lines = yield from writer.replica.lines_at(places[start : start + RECORDS_AT_ONCE])
                for _, line in sorted(lines.items()):
                    self._take(line)
        while self._end < writer.replica.view.end:  # rule: fence-copies
            _, new = yield from read_lines(writer.keys, self._end, life=writer.replica.view.life)
            seen = new[: writer.replica.view.end - self._end]  # later records once the writer knows them
            for line in seen:
                if self._may_hold(skeleton_of(line)):
                    self._take(line)
            self._end += len(seen)

    def _may_hold(self, row: Skeleton) -> bool:
        if row.type in ("node", "note"):
            return row.id in self.names
        if row.type == "checkpoint":
            return bool(self.names or self.state)
        return row.type == "edit" and row.target in self.names

    def _take(self, line: bytes) -> None:
        record = decode_record(line)
        if record.type == "checkpoint":
            for node, message in inline_messages(record):
                if node in self.names:
                    self._add(record.at, node, message)
            if self.state:
                self._take_state(record)
        elif not is_erased(bytes(record.body)) and not _only_hides(record):
            name = record.target if record.type == "edit" else record.id
            self._add(record.at, name or "", bytes(record.body))

    def _take_state(self, record: Record) -> None:
        held = {key: value for key, value in state_values(record).items() if key in self.state}
        living = {digest_of_value(value) for value in held.values() if not is_erased(value)}
        self.held |= held.keys()
        self.living |= living
        self.erased |= {erased_of(value).sha256 for value in held.values() if is_erased(value)}
        if living:  # rule: every-value
            self._add(record.at, "", b"")

    def _add(self, at: int, name: str, body: bytes) -> None:
        if (at, name) not in self.records[-1:]:
            self.records.append((at, name))
        self.blobs |= blob_refs_in(body)


def facts_of(replica: Replica, notes: Sequence[Skeleton], names: set[str]) -> Steps[set[str]]:
    """Fields of the card that come from the records to erase."""
    facts = set[str]()
    for kind, fields in FACTS.items():
        of_kind = [note for note in notes if note.kind == kind]
        for field in fields:
            last = next((note for note in reversed(of_kind) if field in read_brief(note)), None)
            if last is not None and last.id in names:
                facts.add(field)
    if (yield from _gives_first_prompt(replica, names)):
        facts.add("first_prompt")
    return facts | _further_facts(notes, names)


def _further_facts(notes: Sequence[Skeleton], names: set[str]) -> set[str]:
    last: dict[str, str] = {}
    for note in notes:
        if note.kind != CARD:
            continue
        fields = read_brief(note).get("fields")
        last |= {str(field): note.id for field in fields} if isinstance(fields, list) else {}
    return {f"{EXTRA}{field}" for field, note in last.items() if note in names}


def _gives_first_prompt(replica: Replica, names: set[str]) -> Steps[bool]:
    """Whether one of these nodes is the user's first message with text, or an earlier message without text."""
    for start in range(0, replica.view.end, RECORDS_AT_ONCE):
        lines = yield from replica.lines_at(range(start, min(start + RECORDS_AT_ONCE, replica.view.end)))
        for _, line in sorted(lines.items()):
            record = decode_record(line)
            if (record.type, record.kind, record.role) != ("node", "message", "user"):
                continue
            if record.id in names or is_erased(bytes(record.body)):
                return record.id in names
            if first_prompt(bytes(record.body)):
                return False
    return False


def require_held(unknown: Collection[str | None]) -> None:
    """Raise NotFoundError if there are keys that no checkpoint has or had."""
    if unknown:
        key = min(unknown, key=by_name)
        what = "the state of a conversation manager" if key is None else f"such a key. key={key!r}"
        raise NotFoundError(f"no checkpoint holds {what}", kind=Kind.STATE_KEY)


def by_name(key: str | None) -> tuple[bool, str]:
    """A sort key for keys of the state; the conversation manager's comes last."""
    return key is None, key or ""
