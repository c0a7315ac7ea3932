"""Erase payloads and state: from the session, from its forks, and from all other objects in the store that hold them.

Rule 1: copies are searched for before the tail is swapped, and again if another process wrote since. Copies are the
record itself, the edits that amend it, the checkpoints that hold a message of it inline, and imported context edits.
Rule 2: a fork records a link in its parent, then takes its name, and then reads the records it copies. An erasure finds
the fork by that link, or refuses the load that took the name. So a fork reads after the erasure, or is never created.
Rule 3: the receipt is returned when a listing shows no object that may still hold the payload.
Rule 4: all values that a key of the state ever had are erased, up to the current end of the journal: later values often
repeat earlier ones. A fork made before the erasure loses all its values of the key, too, but only once: values that an
agent stores there later are no copies. The fork records an erasure with the same time, even if it found nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from treering.checkpoint.policy import Policy
from treering.erasure.traces import (
    Search,
    by_name,
    copies_in_notes,
    edits_in_context,
    facts_of,
    notes_of,
    require_erasable,
    require_held,
    rows_of,
)
from treering.errors import NotFoundError, SessionDeletedError, TreeringError
from treering.format.erasure import SETTINGS, Erased, Erasure, digest_of, erased_of, is_erased
from treering.format.paths import SessionKeys
from treering.format.record import Skeleton, decode_record, read_brief
from treering.format.register import one_line
from treering.ids import new_nonce, now_ms
from treering.journal import life
from treering.journal.erase import fence
from treering.journal.purge import refuse_loads, sweep_folders
from treering.journal.register import Attempts
from treering.journal.resume import look
from treering.kinds import Kind
from treering.session.record import flush
from treering.session.verbs.streaming import discard_stream
from treering.session.writer import Writer
from treering.storage.effects import Job, ask_driver
from treering.storage.requests import Steps
from treering.store.catalogue import list_sessions
from treering.store.info import SessionInfo

REASON_BYTES_MAX = 200
_Parent: TypeAlias = Literal["this", "gone", "other", "none"]
"""The parent on a card: this session; one that does not exist, of which this one may be a copy; another one; none."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and from which sessions. A listing showed no object that may still hold the payloads."""

    session: str
    ids: tuple[str, ...]
    """The nodes and notes whose payloads are erased, including those erased before."""
    state: tuple[str | None, ...] = ()
    """The keys of the agent's state whose values are erased, including those erased before; None: the state of the
    conversation manager."""
    hashes: Mapping[str, str] = {}
    """SHA-256 of each payload as it was stored, by id."""
    time_ms: int
    """When they were erased, in milliseconds since 1970."""
    reason: str = ""
    epoch: int
    """The number of erasures in this session."""
    records: int = 0
    """The number of records that held a payload or a copy of one."""
    segments: int = 0
    """The number of segments that were rewritten."""
    blobs_deleted: tuple[str, ...] = ()
    blobs_shared: tuple[str, ...] = ()
    """Blobs that stay, because records that were not erased refer to them as well."""
    streams: tuple[str, ...] = ()
    """Answers that were being written: they are discarded, and their stored pieces are deleted."""
    forks: tuple[Receipt, ...] = ()
    """Receipts of the sessions that copied a payload, or have it on their card as the task of a subagent."""
    missing: tuple[str, ...] = ()
    """Forks and subagents' sessions that do not exist: deleted, or not created yet. The creation of such a fork is
    refused; for a subagent that starts later, erase the link again."""
    unreachable: Mapping[str, str] = {}
    """Forks that could not be read, and why. Erase again when they can."""
    warnings: tuple[str, ...] = ()
    """What erasing cannot reach: settings, and copies that the store keeps."""


def erase(
    writer: Writer, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = ""
) -> Steps[Receipt]:
    """Erase payloads and state from the session and its forks; see `Session.erase`, which then calls `finished`."""
    if reason and writer.options.redaction is not None:
        reason = writer.options.redaction.text(reason, "reason")
    yield from flush(writer)
    yield from writer.appender.begin()
    keys: set[str | None] = {state} if isinstance(state, str) else set(state)
    streams = [name for name in dict.fromkeys(ids) if name in writer.replica.state.streams]
    for name in tuple(streams):
        try:
            yield from discard_stream(writer, name)
        except NotFoundError as error:
            if error.kind != Kind.STREAM:
                raise
            streams.remove(name)  # it has just become a node
    names = tuple([name for name in ids if name not in streams])
    wanted = _Wanted(names, frozenset(keys | {None} if manager else keys))
    receipt = yield from _erase(writer, wanted, one_line(reason, REASON_BYTES_MAX), seen={writer.keys.session})
    return msgspec.structs.replace(receipt, streams=tuple(streams))


class _Wanted(NamedTuple):
    """The payloads and keys to erase."""

    ids: Sequence[str] = ()
    state: frozenset[str | None] = frozenset()


def erase_copies(keys: SessionKeys, policy: Policy, acts: Sequence[Erasure]) -> Steps[Receipt | None]:
    """Repeat the erasures of another session in a copy; None if the copy has none of the erased records.

    Raises:
        NotFoundError: There is no such session.
    """
    writer = Writer.visiting(keys, policy, shared=True)
    yield from writer.open()
    erased = dict.fromkeys(name for act in acts for _, name in act.records)
    there = yield from rows_of(writer.replica, erased.keys())
    copied = [name for name in erased if name in there]
    owed = [act for act in acts if act.state]
    if not copied and not owed:
        return None
    return (yield from _erase(writer, _Wanted(copied), acts[-1].reason, seen={keys.session}, owed=owed))


def _erase(
    writer: Writer, wanted: _Wanted, reason: str, seen: set[str], owed: Sequence[Erasure] = ()
) -> Steps[Receipt]:
    found = (yield from _fenced(writer, wanted, reason)) if any(wanted) else 0
    for act in owed:
        found += yield from _fenced(writer, _Wanted(state=frozenset(act.state)), act.reason, copied=act)
    segments, blobs = yield from writer.upkeep.finish_erasing()
    names, state = tuple(dict.fromkeys(wanted.ids)), wanted.state.union(*(act.state for act in owed))
    if not names and not state:
        names = tuple(sorted((yield from rows_of(writer.replica, writer.replica.burials.names))))
        state = state.union(*(act.state for act in writer.replica.burials.of_state()))
    receipt = msgspec.structs.replace(
        (yield from _receipt(writer, names, state)),
        records=found,
        segments=segments,
        blobs_deleted=blobs.deleted,
        blobs_shared=blobs.shared,
    )
    return (yield from _with_forks(writer, receipt, reason, seen))


def _receipt(writer: Writer, names: tuple[str, ...], state: frozenset[str | None]) -> Steps[Receipt]:
    """The receipt, from the tombstones of erased payloads and from the newest erasure of the payloads and values."""
    rows = yield from rows_of(writer.replica, names)
    left = yield from _left(writer, {name: rows[name].at for name in names})
    told = [(each.time_ms, each.reason) for each in left.values()]
    told += [(act.time, act.reason) for act in writer.replica.burials.of_state() if not state.isdisjoint(act.state)]
    time_ms, reason = max(told, default=(0, ""))
    return Receipt(
        session=writer.keys.session,
        ids=names,
        state=tuple(sorted(state, key=by_name)),
        hashes={name: each.sha256 for name, each in left.items()},
        time_ms=time_ms,
        reason=reason,
        epoch=writer.replica.epoch,
        warnings=tuple(_settings(rows[name] for name in names)),
    )


def _settings(rows: Iterable[Skeleton]) -> Iterator[str]:
    """A warning about nodes that are settings: these stay in force."""
    kept = [row.id for row in rows if row.type == "node" and row.kind in SETTINGS]
    if kept:
        yield f"settings stay, also in checkpoints; to be rid of them, fork from a node before. ids={kept!r}"


def _fenced(
    writer: Writer, wanted: _Wanted, reason: str, *, copied: Erasure | None = None, facts: Collection[str] = ()
) -> Steps[int]:
    """Swap the tail; return how many records held payloads, or 0 if all of them had been erased before.

    Args:
        writer: The session.
        wanted: The payloads and keys to erase.
        reason: The reason, shown in place of the payloads.
        copied: The erasure in another session that this one repeats; it is recorded even if nothing is found.
        facts: Fields of the card to empty, even if nothing is found.
    """
    names = set(wanted.ids)
    search: Search | None = None
    attempts = Attempts(writer.keys.tail)
    while attempts.another():
        notes = yield from notes_of(writer.replica)
        names |= (yield from edits_in_context(writer.replica, names)) | copies_in_notes(notes, names)
        if search is None or search.epoch != writer.replica.epoch:  # another process erased something
            search = Search(names, wanted.state, writer.replica.epoch)
        rows = yield from rows_of(writer.replica, frozenset(wanted.ids))
        for name in wanted.ids:
            yield from require_erasable(writer.replica, rows, name)
        yield from search.go_on(writer)
        if copied is None:
            require_held(wanted.state - search.held)
            if not search.records and not facts:
                return 0
        erasure = Erasure(
            epoch=0,
            time=now_ms() if copied is None else copied.time,
            reason=reason,
            records=tuple(search.records),
            blobs=tuple(sorted(search.blobs)),
            facts=tuple(sorted((yield from facts_of(writer.replica, notes, names)).union(facts))),
            state=tuple(sorted(wanted.state, key=by_name)),
            end=writer.replica.view.end if wanted.state else 0,
        )
        writer.replica.check()  # before the fence: a stopped handle could not finish the erasure
        view = yield from fence(writer.replica.view, erasure, nonce=new_nonce())
        if view is not None:
            writer.replica.absorb(view)
            writer.replica.check()
            return len(search.records)
        yield from writer.replica.catch_up()
        writer.replica.check()


def _left(writer: Writer, places: Mapping[str, int]) -> Steps[dict[str, Erased]]:
    """The tombstones in place of the payloads, by id; `places` has the positions."""
    lines = yield from writer.replica.lines_at(list(places.values()))
    return {name: erased_of(bytes(decode_record(lines[at]).body)) for name, at in places.items()}


def finished(receipt: Receipt, keys: SessionKeys) -> Job[Receipt]:
    """Remove leftovers that the driver keeps next to objects, and add warnings about copies that cannot be erased.

    Args:
        receipt: The receipt so far.
        keys: The session.
    """
    places = [place for name in _names_in(receipt) for place in msgspec.structs.replace(keys, session=name).places]
    yield from ask_driver(lambda driver: driver.scrub(*places))
    keeps_versions = yield from ask_driver(lambda driver: driver.keeps_versions())
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


def _with_forks(writer: Writer, receipt: Receipt, reason: str, seen: set[str]) -> Steps[Receipt]:
    """Repeat the erasure in all sessions copied from this one, and add the outcome to the receipt."""
    links = yield from _links(writer, "fork")
    receipt = yield from _follow(writer, links, receipt, reason, seen)
    if receipt.missing:  # their links are gone with them, so forks of theirs are found by the name of the parent
        orphans = yield from _orphans(writer.keys.prefix, set(receipt.missing))
        receipt = yield from _follow(writer, dict.fromkeys(orphans, ()), receipt, reason, seen)
    return (yield from _with_children(writer, receipt, reason, seen))


def _links(writer: Writer, field: str) -> Steps[dict[str, list[Skeleton]]]:
    """The links to other sessions by their names, oldest first; `field` has the name: `fork` or `child`."""
    links: dict[str, list[Skeleton]] = {}
    for note in (yield from notes_of(writer.replica, "link")):
        if isinstance(name := read_brief(note).get(field), str):
            links.setdefault(name, []).append(note)
    return links


def _with_children(writer: Writer, receipt: Receipt, reason: str, seen: set[str]) -> Steps[Receipt]:
    """Erase the task on the cards of subagents' sessions whose link was erased: it has the same text."""
    links = yield from _links(writer, "child")
    done, missing, unreachable = list(receipt.forks), list(receipt.missing), dict(receipt.unreachable)
    for child, notes in links.items():
        erased = [at for at, note in enumerate(notes) if note.id in receipt.ids]
        if not erased or child in seen:
            continue
        seen.add(child)
        try:
            found = yield from _without_task(writer, child, notes[erased[-1] + 1 :], reason)
            done += [found] if found is not None else []
        except NotFoundError:
            missing.append(child)
        except TreeringError as error:
            unreachable[child] = str(error)
    return msgspec.structs.replace(receipt, forks=tuple(done), missing=tuple(missing), unreachable=unreachable)


def _without_task(parent: Writer, session: str, later: Sequence[Skeleton], reason: str) -> Steps[Receipt | None]:
    """Erase the task on the card of a subagent's session, unless it belongs to one of the `later` links of that name.

    A session is created behind its link. So it has no earlier task if a later link is as old as the session.
    """
    child = Writer.visiting(msgspec.structs.replace(parent.keys, session=session), parent.replica.policy, shared=True)
    yield from child.open()
    if (yield from _parent_of(child, parent)) not in ("this", "gone") or any(
        link.time <= child.replica.state.card.created for link in later
    ):
        return None  # the name belongs to another session by now
    if child.replica.state.card.task:
        yield from _fenced(child, _Wanted(), reason, facts=("task",))
    segments, _ = yield from child.upkeep.finish_erasing()
    return Receipt(
        session=session, ids=(), time_ms=now_ms(), reason=reason, epoch=child.replica.epoch, segments=segments
    )


def _orphans(prefix: str, gone: Collection[str]) -> Steps[list[str]]:
    """Sessions whose parent is in `gone`, or does not exist: they may have been copied from a session in `gone`."""
    there = set[str]()

    def has_parent(row: SessionInfo) -> bool:
        there.add(row.id)
        return bool(row.parent_session)

    page = yield from list_sessions(prefix, appends=False, limit=sys.maxsize, after=None, wanted=has_parent)
    children = [row for row in page.rows if not row.warning]
    return [row.id for row in children if row.parent_session in gone or row.parent_session not in there]


def _follow(
    writer: Writer, forks: Mapping[str, Sequence[Skeleton]], receipt: Receipt, reason: str, seen: set[str]
) -> Steps[Receipt]:
    """Erase in forks, given by name with their links; none for sessions that may or may not be forks."""
    done, missing, unreachable = list(receipt.forks), list(receipt.missing), dict(receipt.unreachable)
    warnings = list(receipt.warnings)
    for fork, links in forks.items():
        if fork in seen:
            continue
        seen.add(fork)
        try:
            fork_writer = yield from _open_fork(writer, fork)
            if fork_writer is None:
                missing.append(fork)
                continue
            copies = yield from _copies(fork_writer, receipt.hashes)
            parent = (yield from _parent_of(fork_writer, writer)) if links else "gone"
            acts = yield from _acts_for(writer, fork_writer, links, parent)
            if copies or acts:
                known = {(act.time, act.state) for act in fork_writer.replica.burials.of_state()}
                owed = [act for act in acts if (act.time, act.state) not in known]
                done.append((yield from _erase(fork_writer, _Wanted(copies), reason, seen, owed=owed)))
            elif links and parent != "this":
                missing.append(fork)  # the name belongs to another session by now
            if receipt.state and parent == "other":
                warnings.append(f"{fork!r} is a fork of another session now: erase its state, too")
        except TreeringError as error:
            unreachable[fork] = str(error)
    return msgspec.structs.replace(
        receipt, forks=tuple(done), missing=tuple(missing), unreachable=unreachable, warnings=tuple(warnings)
    )


def _parent_of(other: Writer, writer: Writer) -> Steps[_Parent]:
    """Which session another one is a fork or a subagent's session of, by its card; 2 GET unless it is this one."""
    parent = other.replica.state.card.parent_session
    if parent == writer.keys.session or not parent:
        return "this" if parent else "none"
    there = yield from look(msgspec.structs.replace(other.keys, session=parent))
    return "gone" if there.absent or there.dead else "other"


def _acts_for(writer: Writer, fork: Writer, links: Sequence[Skeleton], parent: _Parent) -> Steps[list[Erasure]]:
    """The erasures of state that a fork has to repeat, whether or not it has done so.

    A fork is linked behind the time on its card. Earlier links of its name are those of forks that were deleted. If
    the clock was set back, the first link counts. If the parent of the fork is gone, this session may be a copy of it:
    values that both have tell whether it is a fork.
    """
    acts = writer.replica.burials.of_state()
    if parent == "gone":
        shares = yield from _shares_state(writer, fork)
        done = {(act.time, act.state) for act in fork.replica.burials.of_state()}
        return [act for act in acts if shares or (act.time, act.state) in done]
    created = fork.replica.state.card.created
    linked_at = next((link.at for link in links if link.time >= created), links[0].at)
    return [act for act in acts if linked_at < act.end and parent == "this"]  # rule: values-in-forks


def _shares_state(writer: Writer, other: Writer) -> Steps[bool]:
    """Whether another session has a value that was erased in this session."""
    keys = frozenset(key for act in writer.replica.burials.of_state() for key in act.state)
    if not keys:
        return False
    ours = Search(set(), keys, writer.replica.epoch)
    yield from ours.go_on(writer)
    theirs = Search(set(), keys, other.replica.epoch)
    yield from theirs.go_on(other)
    return not ours.erased.isdisjoint(theirs.living)


def _open_fork(parent: Writer, session: str) -> Steps[Writer | None]:
    """Resume a session; None if it does not exist and a concurrent creation of it was refused."""
    keys = msgspec.structs.replace(parent.keys, session=session)
    attempts = Attempts(keys.latest)
    while attempts.another():
        writer = Writer.visiting(keys, parent.replica.policy, shared=True)  # another process may have the fork open
        try:
            yield from writer.open()
        except SessionDeletedError:
            yield from life.delete(keys, nonce=new_nonce())  # an earlier deletion may have been interrupted
        except NotFoundError:
            pass
        else:
            # rule: sweep-forks
            yield from sweep_folders(keys, nonce=new_nonce())  # left by a killed fork of the same name
            return writer
        if (yield from refuse_loads(keys, nonce=new_nonce())):  # rule: refuse-forks
            return None


def _copies(writer: Writer, hashes: Mapping[str, str]) -> Steps[list[str]]:
    """The nodes and notes of a session with the erased payloads; hashes are compared, as ids of imports may recur."""
    rows = yield from rows_of(writer.replica, hashes.keys())
    places = {name: rows[name].at for name in hashes if name in rows}
    lines = yield from writer.replica.lines_at(list(places.values()))
    bodies = {name: bytes(decode_record(lines[at]).body) for name, at in places.items()}
    return [name for name, body in bodies.items() if _hash_of(body) == hashes[name]]


def _hash_of(body: bytes) -> str:
    """The hash of a body, also after it was erased."""
    return erased_of(body).sha256 if is_erased(body) else digest_of(body)
