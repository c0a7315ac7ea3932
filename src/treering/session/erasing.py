"""Erase payloads: from the session, from its forks, from everything in the store that holds them.

Rule 1: copies are looked for before the tail is swapped, and again if somebody wrote since. They are the record itself,
the edits that amend it, the checkpoints that hold a message of it inline, and pi's own edits of what a model sees.
Rule 2: a fork tells its parent where it will be, then takes its name, and then reads what it copies. Whoever erases
finds it there, or refuses whatever took that name before. So a fork was read after that, or never comes to be.
Rule 3: the receipt is given when a listing shows nothing that may still hold the payload.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from treering.checkpoint.policy import Policy
from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnavailableError, UsageError
from treering.format.blobs import blob_refs_in
from treering.format.erasure import Erased, Erasure, digest_of, erased_of, inline_messages, is_erased
from treering.format.paths import SessionKeys
from treering.format.record import Skeleton, decode_record, read_brief, skeleton_of
from treering.format.register import one_line
from treering.ids import new_nonce
from treering.journal import life
from treering.journal.erase import fence
from treering.journal.purge import refuse_loads, sweep_folders
from treering.journal.read import read_lines, skeletons
from treering.session.catalogue import list_sessions
from treering.session.index import Index
from treering.session.info import SessionInfo
from treering.session.tally import FACTS, first_prompt
from treering.session.verbs import flush
from treering.session.writer import RACES_MAX, Writer, now_ms
from treering.storage.requests import Driver, Steps

REASON_BYTES_MAX = 200
RECORDS_AT_ONCE = 500  # whose lines are in memory at a time


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and from where. A listing showed nothing that may still hold it."""

    session: str
    ids: tuple[str, ...]
    """The nodes and notes whose payloads are gone; those that had been erased before are among them."""
    hashes: Mapping[str, str]
    """SHA-256 of each payload as it was stored, by id."""
    time_ms: int
    """When, in milliseconds since 1970."""
    reason: str = ""
    epoch: int
    """How many acts of erasing this session has seen."""
    records: int = 0
    """Records that held a payload or a copy of one."""
    segments: int = 0
    """Segments that were rewritten."""
    blobs_deleted: tuple[str, ...] = ()
    blobs_shared: tuple[str, ...] = ()
    """Large parts that stay: other records, which were not erased, have them as well."""
    forks: tuple[Receipt, ...] = ()
    """Of the sessions that copied it."""
    missing: tuple[str, ...] = ()
    """Forks that are not there: deleted, or not made yet. One that was being made is refused."""
    unreachable: Mapping[str, str] = {}
    """Forks that could not be read, and why. Erase again when they can."""
    warnings: tuple[str, ...] = ()


def erase(writer: Writer, *ids: str, reason: str = "") -> Steps[Receipt]:
    """Erase the payloads of nodes and notes for good, also from forks of this session. Their places stay.

    In place of a payload there is an `Erased`: its hash, when and why. A model is shown `[erased]`, with the ids of
    tool calls kept, so that calls and results still belong together. Labels, and notes about the node, stay.

    Args:
        writer: The session.
        ids: Nodes and notes. None at all finishes what was cut short: it looks again for all that was ever erased here.
        reason: For whoever finds the place empty; at most 200 bytes.

    Returns:
        The receipt; nothing of the payload is stored any more.

    Raises:
        NotFoundError: There is no such node or note; nothing was erased.
        UsageError: A checkpoint or an edit cannot be erased, or too much was erased already.
        ConflictError: Somebody else writes this exclusive session.
        UnavailableError: The store did not answer. Call again: what was begun is finished.
    """
    if reason and writer.options.redaction is not None:
        reason = writer.options.redaction.text(reason, "reason")
    yield from flush(writer)
    yield from writer.begin()
    return (yield from _erase(writer, ids, one_line(reason, REASON_BYTES_MAX), seen={writer.keys.session}))


def erase_copies(keys: SessionKeys, policy: Policy, ids: Collection[str], reason: str) -> Steps[Receipt | None]:
    """Erase in a copy what it has of some nodes and notes; None if it has none of them.

    Raises:
        NotFoundError: There is no such session.
    """
    writer = Writer.visiting(keys, policy, shared=True)
    yield from writer.open()
    there = _rows_by_id((yield from writer.index()))
    copied = [name for name in ids if name in there]
    return (yield from _erase(writer, copied, reason, seen={keys.session})) if copied else None


def _erase(writer: Writer, ids: Collection[str], reason: str, seen: set[str]) -> Steps[Receipt]:
    found = (yield from _fenced(writer, ids, reason)) if ids else 0
    segments, blobs = yield from writer.finish_erasing()
    index = yield from writer.index()
    names = tuple(dict.fromkeys(ids)) or tuple(sorted(writer.burials.names & _rows_by_id(index).keys()))
    left = yield from _left(writer, index, names)
    last = max(left.values(), key=lambda each: each.time_ms, default=Erased())
    receipt = Receipt(
        session=writer.keys.session,
        ids=names,
        hashes={name: each.sha256 for name, each in left.items()},
        time_ms=last.time_ms,
        reason=last.reason,
        epoch=writer.epoch,
        records=found,
        segments=segments,
        blobs_deleted=blobs.deleted,
        blobs_shared=blobs.shared,
    )
    return (yield from _with_forks(writer, index, receipt, reason, seen))


def _fenced(writer: Writer, ids: Collection[str], reason: str) -> Steps[int]:
    """Swap the tail; return in how many records payloads were, or 0 if all of them had been erased before."""
    names = set(ids)
    search: _Search | None = None
    for _ in range(RACES_MAX):
        index = yield from writer.index()
        names |= _edits_in_context(index, names)
        if search is None or search.index is not index:  # records that it saw may be gone, and others in their places
            search = _Search(names, index)
        rows = _rows_by_id(index)
        for name in ids:
            _require_erasable(rows, name)
        if not (yield from search.go_on(writer)):
            yield from writer.look_again()
            continue
        if not search.records:
            return 0
        erasure = Erasure(
            epoch=0,
            time=now_ms(),
            reason=reason,
            records=tuple(search.records),
            blobs=tuple(sorted(search.blobs)),
            facts=tuple(sorted((yield from _facts(writer, index, names)))),
        )
        view = yield from fence(writer.view, erasure, nonce=new_nonce())
        if view is not None:
            writer.look_on(view)
            return len(search.records)
        yield from writer.look_again()
    raise UnavailableError("others write faster than we can look", kind="busy", key=writer.keys.tail)


def _rows_by_id(index: Index) -> dict[str, Skeleton]:
    """Nodes, notes and edits. In an imported session several may share an id; the first one stands for all."""
    notes = {row.id: row for row in (*index.edits, *index.graph.annotations.notes()) if row.id}
    return notes | {row.id: row for row in index.graph if row.id}


def _edits_in_context(index: Index, names: Collection[str]) -> set[str]:
    """Nodes that show another content for one of these, and hold the rest of its message: imported from pi."""
    briefs = {row.id: read_brief(row) for row in index.graph if row.kind == "context_edit"}
    return {name for name, brief in briefs.items() if brief.get("target") in names and brief.get("edit") != "retract"}


def _require_erasable(rows: Mapping[str, Skeleton], name: str) -> None:
    row = rows.get(name)
    if row is None:
        raise NotFoundError(f"no such node or note. id={name!r}", kind="node")
    if row.type not in ("node", "note"):
        raise UsageError(
            f"only nodes and notes can be erased. id={name!r}, type={row.type!r}",
            kind="erase",
            remedy="erase the node that an edit is about",
        )


def _is_buried(row: Skeleton) -> bool:
    return read_brief(row).get("erased") is True


class _Search:
    """Looks for the payloads of some records, through a session that others may be adding to."""

    def __init__(self, names: set[str], index: Index) -> None:
        self.names = names
        self.index = index
        """What it is looked up in; another one once records that were seen before they were safe are gone."""
        self.records: list[tuple[int, str]] = []
        self.blobs: set[str] = set()
        self._end = 0

    def go_on(self, writer: Writer) -> Steps[bool]:
        """Look through what was added; at first through skeletons, and then only at records that may hold copies.

        Returns:
            False if some of what the writer saw is gone already: it was never safe.
        """
        if not self._end:
            _, rows = yield from skeletons(writer.keys, writer.view.life)
            self._end = min(len(rows), writer.view.end)
            places = [row.at for row in rows[: self._end] if self._may_hold(row)]
            for start in range(0, len(places), RECORDS_AT_ONCE):
                lines = yield from writer.lines_at(places[start : start + RECORDS_AT_ONCE])
                for _, line in sorted(lines.items()):
                    self._take(line)
        while self._end < writer.view.end:
            _, new = yield from read_lines(writer.keys, self._end, life=writer.view.life)
            seen = new[: writer.view.end - self._end]  # what comes behind may not stay, and is looked at if it does
            if not seen:
                return False
            for line in seen:
                if self._may_hold(skeleton_of(line)):
                    self._take(line)
            self._end += len(seen)
        return True

    def _may_hold(self, row: Skeleton) -> bool:
        if row.type in ("node", "note"):
            return row.id in self.names
        return row.type == "checkpoint" or (row.type == "edit" and row.target in self.names)

    def _take(self, line: bytes) -> None:
        record = decode_record(line)
        if record.type == "checkpoint":
            for node, message in inline_messages(record):
                if node in self.names:
                    self._add(record.at, node, message)
        elif not is_erased(bytes(record.body)):
            name = record.target if record.type == "edit" else record.id
            self._add(record.at, name or "", bytes(record.body))

    def _add(self, at: int, name: str, body: bytes) -> None:
        if (at, name) not in self.records[-1:]:
            self.records.append((at, name))
        self.blobs |= blob_refs_in(body)


def _facts(writer: Writer, index: Index, names: set[str]) -> Steps[set[str]]:
    """Fields of the card that come from what is to be erased."""
    facts = set[str]()
    for kind, fields in FACTS.items():
        notes = index.graph.annotations.notes(kind)
        for field in fields:
            last = next((note for note in reversed(notes) if field in read_brief(note)), None)
            if last is not None and last.id in names:
                facts.add(field)
    if (yield from _gives_first_prompt(writer, index, names)):
        facts.add("first_prompt")
    return facts


def _gives_first_prompt(writer: Writer, index: Index, names: set[str]) -> Steps[bool]:
    """Whether one of these is the user's first message, or one in front of it that had no text."""
    for row in index.graph:
        if row.kind != "message" or row.role != "user":
            continue
        if row.id in names or _is_buried(row):
            return row.id in names
        lines = yield from writer.lines_at([row.at])
        if first_prompt(bytes(decode_record(lines[row.at]).body)):
            return False
    return False


def _left(writer: Writer, index: Index, names: Iterable[str]) -> Steps[dict[str, Erased]]:
    """What stands in place of the payloads."""
    rows = _rows_by_id(index)
    places = {name: rows[name].at for name in names}
    lines = yield from writer.lines_at(list(places.values()))
    return {name: erased_of(bytes(decode_record(lines[at]).body)) for name, at in places.items()}


def finished(receipt: Receipt, keys: SessionKeys, driver: Driver) -> Receipt:
    """Remove what the driver keeps beside the objects, and say in the receipt what cannot be reached. It blocks.

    Args:
        receipt: What was done.
        keys: The session.
        driver: The store.
    """
    driver.scrub(*(place for name in _names_in(receipt) for place in keys._replace(session=name).places))
    keeps_versions = driver.keeps_versions()
    warnings = list(receipt.warnings)
    if keeps_versions:
        warnings.append("the bucket has versioning: old versions still hold the bytes until they expire or are deleted")
    elif keeps_versions is None:
        warnings.append("unknown whether the store keeps old versions")
    if receipt.unreachable:
        warnings.append("some forks could not be read: erase again when they can")
    return msgspec.structs.replace(receipt, warnings=tuple(warnings))


def _names_in(receipt: Receipt) -> Iterator[str]:
    yield receipt.session
    yield from receipt.missing
    for fork in receipt.forks:
        yield from _names_in(fork)


# forks


def _with_forks(writer: Writer, index: Index, receipt: Receipt, reason: str, seen: set[str]) -> Steps[Receipt]:
    """Erase the same in all that was copied from this session, and say what became of it."""
    links = (read_brief(note).get("fork") for note in index.graph.annotations.notes("link"))
    receipt = yield from _follow(writer, [name for name in links if isinstance(name, str)], receipt, reason, seen)
    if receipt.missing:  # their own links went with them, so those that they were copied to are looked for by name
        orphans = yield from _orphans(writer.keys.prefix, set(receipt.missing))
        receipt = yield from _follow(writer, orphans, receipt, reason, seen)
    return receipt


def _orphans(prefix: str, gone: Collection[str]) -> Steps[list[str]]:
    """Sessions whose parent is one of these, or not there: it may have been copied from one of these."""
    there = set[str]()

    def has_parent(row: SessionInfo) -> bool:
        there.add(row.id)
        return bool(row.parent_session)

    page = yield from list_sessions(prefix, limit=sys.maxsize, after=None, wanted=has_parent)
    children = [row for row in page.rows if not row.warning]
    return [row.id for row in children if row.parent_session in gone or row.parent_session not in there]


def _follow(writer: Writer, forks: Sequence[str], receipt: Receipt, reason: str, seen: set[str]) -> Steps[Receipt]:
    done, missing, unreachable = list(receipt.forks), list(receipt.missing), dict(receipt.unreachable)
    for fork in forks:
        if fork in seen:
            continue
        seen.add(fork)
        try:
            fork_writer = yield from _open_fork(writer, fork)
            copies = (yield from _copies(fork_writer, receipt.hashes)) if fork_writer is not None else []
            if fork_writer is not None and copies:
                done.append((yield from _erase(fork_writer, copies, reason, seen)))
            elif fork_writer is None or fork_writer.state.card.parent_session != receipt.session:
                missing.append(fork)  # or another session has its name by now
        except TreeringError as error:
            unreachable[fork] = str(error)
    return msgspec.structs.replace(receipt, forks=tuple(done), missing=tuple(missing), unreachable=unreachable)


def _open_fork(parent: Writer, session: str) -> Steps[Writer | None]:
    """Resume a session; None if there is none, and none that is being made by now will be."""
    keys = parent.keys._replace(session=session)
    for _ in range(RACES_MAX):
        writer = Writer.visiting(keys, parent.policy, shared=True)  # others may have it in hand
        try:
            yield from writer.open()
        except SessionDeletedError:
            yield from life.delete(keys, nonce=new_nonce())  # which may have been cut short
        except NotFoundError:
            pass
        else:
            yield from sweep_folders(keys, nonce=new_nonce())  # of a fork that was killed, under the name of this one
            return writer
        if (yield from refuse_loads(keys, nonce=new_nonce())):
            return None
    raise UnavailableError("others create and delete faster than we can look", kind="busy", key=keys.latest)


def _copies(writer: Writer, hashes: Mapping[str, str]) -> Steps[list[str]]:
    """Which of some nodes and notes a session holds, with the payload that they had; ids of imports are not unique."""
    rows = _rows_by_id((yield from writer.index()))
    places = {name: rows[name].at for name in hashes if name in rows}
    lines = yield from writer.lines_at(list(places.values()))
    bodies = {name: bytes(decode_record(lines[at]).body) for name, at in places.items()}
    return [name for name, body in bodies.items() if _hash_of(body) == hashes[name]]


def _hash_of(body: bytes) -> str:
    """Of a body, also after it was erased."""
    return erased_of(body).sha256 if is_erased(body) else digest_of(body)
