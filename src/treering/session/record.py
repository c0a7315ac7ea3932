"""Record drafts in one append, with a checkpoint if the caller asks for one or the schedule makes one due."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from treering.checkpoint.context import replace
from treering.checkpoint.delta import brief_of
from treering.errors import NotFoundError, UsageError
from treering.format import values
from treering.format.erasure import digest_of, erased_of, is_erased
from treering.format.record import Record, Skeleton, decode_record
from treering.kinds import Kind
from treering.session.appender import Buffered, BufferedCall
from treering.session.context_changes import chosen_context, compacted, edits_of_own, in_order, node_of, rebuilt
from treering.session.payload import blobs_in, encode_payload
from treering.session.position import ANYWHERE, Wish
from treering.session.recording import Change, Recording, encode_state_values, model_of_role, redacted, require_storable
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Draft

if TYPE_CHECKING:
    from treering.journal.view import View
    from treering.session.lookup import Lookup

_NONE: frozenset[str | None] = frozenset()
_NOTHING: Mapping[str, bool] = {}
_BUFFERED = "all that was buffered still is; take this one out with `discard`, and give it another id"


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and the checkpoint that one call added to the conversation."""

    nodes: tuple[str, ...]
    """Ids of the new nodes, in order, including nodes that an earlier call without an answer recorded."""
    head: str
    """The head that the last node is on: a new one, if another writer of a shared session was first."""
    checkpoint: str | None = None
    """The checkpoint made; None if none was due and the call had only messages."""

    @property
    def node(self) -> str:
        """The last node.

        Raises:
            IndexError: There are no nodes: a `commit` without messages, or no open call to close.
        """
        return self.nodes[-1]


class Rider(msgspec.Struct, frozen=True):
    """What a caller adds to the append of a verb: a condition, and notes that are recorded with it or not at all."""

    allowed: Callable[[], Steps[None]]
    """Raises if the append may not be made in the session as it is now; asked in each plan."""
    notes: Sequence[Draft] = ()

    def also(self, allowed: Callable[[], Steps[None]]) -> Rider:
        """The same, on one more condition."""

        def both() -> Steps[None]:
            yield from self.allowed()
            yield from allowed()

        return Rider(both, self.notes)


def record(
    writer: Writer,
    drafts: Sequence[Draft],
    changed: Change | None = None,
    wish: Wish = ANYWHERE,
    *,
    new_ids: bool = False,
    here: bool = False,
    rider: Rider | None = None,
) -> Steps[Appended]:
    """Record drafts, and a checkpoint if `changed` or the schedule asks for one.

    Args:
        writer: The session.
        drafts: The drafts to record.
        changed: The content of the checkpoint.
        wish: The place that the caller asked for.
        new_ids: As for `commit`.
        here: The drafts refer to the session's current node.
        rider: What the caller adds to the append. With it, drafts are not buffered.
    """
    if writer.appender.pending is not None:
        yield from writer.appender.settle()
    known = yield from _known(writer, drafts, new_ids=new_ids)
    seen = writer.replica.known_view
    if wish is not ANYWHERE and writer.appender.found:
        wish = _fulfilled(writer, drafts, wish)
    if wish.is_particular or (changed is not None and changed.context is not None):
        wish = yield from _behind_buffered(writer, wish)
    elif rider is None and writer.appender.holds_back(drafts, ends_turn=changed is not None):
        return (yield from _held_back(writer, drafts, known, changed, new_ids=new_ids, here=here))
    ends = changed is not None and (changed.says_something or writer.replica.state.nodes_since > 0)
    if len(known) == len(drafts) and not ends and (rider is not None or not writer.appender.buffered):
        return (yield from _added_before(writer, drafts))
    anew = partial(plan, writer, drafts, changed, wish, known=known, seen=seen, new_ids=new_ids, here=here)
    planned: Callable[[], Steps[Recording]] = anew if rider is None else with_rider(rider, anew)
    try:
        done = yield from writer.appender.write(planned)
    except UsageError as error:
        if error.kind != Kind.APPEND_TOO_LARGE or not writer.appender.buffered:
            raise
        yield from flush(writer)  # buffered drafts are recorded first
        done = yield from writer.appender.write(planned)
    heads, last = {each.id: each.head for each in done.records}, done.ids[-1] if done.ids else ""
    head = heads.get(last, "") if not last or last in heads else (yield from head_of(writer, last))
    checkpoint = done.made.id if done.made else None
    return Appended(nodes=tuple(done.ids), head=head or done.head, checkpoint=checkpoint)


def _behind_buffered(writer: Writer, wish: Wish) -> Steps[Wish]:
    """Record the buffered drafts first, at the current position; return what the caller wishes behind them.

    Who expects what this handle stands on expects its own drafts behind that. If another writer moved the head, they
    begin another one, and the expectation is what it was.
    """
    stood = writer.head, writer.node, writer.position.checkpoint_id
    yield from flush(writer)
    head, node, checkpoint = stood
    if writer.head != head or wish.head not in (None, head):
        return wish
    if wish.expect == node:
        wish = msgspec.structs.replace(wish, expect=writer.node)
    if wish.expect_checkpoint is not HERE and wish.expect_checkpoint == checkpoint:
        wish = msgspec.structs.replace(wish, expect_checkpoint=writer.position.checkpoint_id)
    return wish


def _fulfilled(writer: Writer, drafts: Sequence[Draft], wish: Wish) -> Wish:
    """What is left of a wish if the same call had no answer before, and was recorded: its place is where that is."""
    found, last = writer.appender.found, drafts[-1].id if drafts else None
    if last is None or last != writer.position.node or any(draft.id not in found for draft in drafts):
        return wish
    made = writer.position.checkpoint_id in found
    expected = HERE if made else wish.expect_checkpoint
    return msgspec.structs.replace(wish, expect=HERE, expect_checkpoint=expected)


def with_rider(rider: Rider, plan: Callable[[], Steps[Recording]]) -> Callable[[], Steps[Recording]]:
    """Return a plan with what a caller adds to its append."""

    def planned() -> Steps[Recording]:
        yield from rider.allowed()
        recording = yield from plan()
        for draft in rider.notes:
            recording.draft(draft)
        return recording

    return planned


def _held_back(
    writer: Writer,
    drafts: Sequence[Draft],
    known: Collection[str | None],
    changed: Change | None,
    *,
    new_ids: bool,
    here: bool,
) -> Steps[Appended]:
    """Buffer drafts, redacted, for a later append; a draft that it would refuse is refused now.

    Only a chosen id can still turn out to be taken, if another writer uses it before the append.
    """
    if writer.options.redaction is not None:
        drafts = [writer.options.redaction.draft(draft) for draft in drafts]
        changed = redacted(changed, writer.options.redaction) if changed is not None else None
    require_storable(drafts)
    drafts = [_kept(draft) for draft in drafts]
    if here:
        nodes = [draft.id for draft in writer.unrecorded_here if draft.type == "node"]
        drafts = [msgspec.structs.replace(draft, target=(nodes or [writer.position.node])[-1]) for draft in drafts]
    new_id, free_at = writer.replica.state.clock.new, None if new_ids else writer.replica.state.end
    held = [
        Buffered(draft, free_at) if draft.id else Buffered(msgspec.structs.replace(draft, id=new_id()))
        for draft in drafts
    ]
    call = _call_of(changed) if changed is not None and changed.says_something else None
    writer.appender.buffered += tuple([each for each in held if each.draft.id not in known])
    if call is not None:
        hold_back(writer, call)
    drafts = [each.draft for each in held]
    return (yield from _added_before(writer, drafts))


def _kept(draft: Draft) -> Draft:
    """A draft to keep: the caller may change the objects in it before a later append records it."""
    return msgspec.structs.replace(
        draft,
        payload=values.copied(draft.payload),
        brief=values.copied(draft.brief),
        links=values.copied(draft.links),
        source=values.copied(draft.source),
    )


def hold_back(writer: Writer, call: BufferedCall) -> None:
    """Buffer a call after the drafts that are buffered already."""
    stands_for_it = Draft(type="", id=writer.replica.state.clock.new())
    writer.appender.buffered += (Buffered(stands_for_it, call=call),)


def _call_of(changed: Change) -> BufferedCall:
    """The end of a turn, which makes its checkpoint when the drafts before it are recorded.

    Raises:
        UsageError: A value of the state, or the label, step or metadata, cannot be stored exactly or is too large.
    """
    manager = UNSET if changed.manager is UNSET else values.encode(changed.manager)
    state = encode_state_values(changed.state)
    brief_of(changed.label, changed.step, dict(changed.metadata))
    kept = msgspec.structs.replace(  # the caller may change its objects before this is recorded
        changed,
        state=values.copied(changed.state),
        manager=values.copied(changed.manager),
        metadata=values.copied(changed.metadata),
    )
    return BufferedCall(lambda recording: recording.end(kept), state=state, drop=tuple(changed.drop), manager=manager)


def _added_before(writer: Writer, drafts: Sequence[Draft]) -> Steps[Appended]:
    """The result of a call that records nothing: its drafts are buffered, or earlier calls recorded them."""
    ids = tuple([draft.id or "" for draft in drafts])
    return Appended(nodes=ids, head=(yield from head_of(writer, ids[-1] if ids else "")))


def head_of(writer: Writer, node: str) -> Steps[str]:
    """The head on which an earlier call recorded a node; the current head if the node is still buffered."""
    if writer.replica.exists and node and all(node != each.draft.id for each in writer.appender.buffered):
        found = yield from writer.replica.ask(lambda look: look.nodes([node]))
        if node in found:
            return found[node].head or writer.position.head
    return writer.position.head


def plan(  # noqa: PLR0913  # what one call records; most by keyword
    writer: Writer,
    drafts: Sequence[Draft] = (),
    changed: Change | None = None,
    wish: Wish = ANYWHERE,
    *,
    known: Collection[str | None] = _NONE,
    seen: View | None = None,
    new_ids: bool = False,
    here: bool = False,
    put_off: int | None = None,
) -> Steps[Recording]:
    """Build the records of one append at the current position.

    Buffered drafts come first: all of them, or the first `put_off`. The `drafts` in `known` were recorded already when
    the registers were `seen`.
    """
    if not writer.position.is_known:
        yield from writer.position.ensure_context()
    if drafts and writer.replica.known_view is not seen:
        known = yield from _known(writer, drafts, new_ids=new_ids)  # rule: given-id-anew
    buffered = writer.appender.buffered[:put_off]
    added = (yield from _added_meanwhile(writer, buffered)) if buffered else _NONE  # rule: put-off-id-anew
    due = [each for each in buffered if each.draft.id not in added]
    waiting = [each.draft for each in due if each.call is None]
    ends = changed is not None or writer.options.schedule.watches_appends
    place = yield from writer.position.find_place(
        wish,
        says_state=(changed is not None and changed.says_something) or len(due) > len(waiting),
        adds_nodes=any(draft.type == "node" for draft in (*waiting, *drafts) if draft.id not in known),
        ends=ends,
    )
    recording = Recording(writer, place)
    if recording.begins_head:
        recording.untold = yield from _is_untold(writer, recording)
    wanted, as_it_is = (changed.context, changed.as_it_is) if changed is not None else (None, False)
    own: dict[str | None, Draft] = {}
    if wanted is not None:
        named = set(map(node_of, wanted))
        own = {draft.id: draft for draft in drafts if draft.id in named and draft.id not in known}
        given = [item for item in wanted if node_of(item) not in own] if own else wanted
        recording.context = yield from chosen_context(writer, given, as_it_is=as_it_is)
    recording.buffered = buffered
    if due:
        yield from _take_up(writer, recording, due)
    for draft in drafts:
        recording.ids.append(recording.draft(draft, here=here) if draft.id not in known else draft.id or "")
    if wanted is not None and own and recording.context is not None:
        placed = in_order(recording.context, [node_of(item) for item in wanted], own)
        recording.context = replace(placed, edits_of_own(writer, wanted, own))
    if recording.compacts and recording.own_head and (yield from compacted(writer, recording, place)):
        changed, ends = msgspec.structs.replace(changed or Change(), navigated=True), True
    if ends:
        recording.end(changed)
    return recording


def _take_up(writer: Writer, recording: Recording, buffered: Sequence[Buffered]) -> Steps[None]:
    """Record buffered drafts and calls, in their order."""
    for each in buffered:
        if each.call is None:
            recording.draft(_as_of_now(each.draft, recording))
            continue
        if recording.compacts and recording.context is None:  # a turn that ends behind a compaction
            recording.context = yield from rebuilt(writer, recording)
        each.call.perform(recording)


def _as_of_now(draft: Draft, recording: Recording) -> Draft:
    """A buffered draft as it is recorded: a model for a role leaves other models as they are by then."""
    said = values.fields_of(draft.payload) if draft.kind == "model_change" else {}
    role, name = said.get("role"), said.get("model")
    if not isinstance(role, str) or not isinstance(name, str) or recording.context is None:
        return draft
    brief = model_of_role(role, name, recording.context.settings).brief
    return msgspec.structs.replace(draft, brief=brief)


def _is_untold(writer: Writer, recording: Recording) -> Steps[bool]:
    """Whether a head that begins here without a checkpoint would get the wrong state from the nearest checkpoint."""
    told = yield from writer.content.newest_checkpoint(recording.node, head=recording.head)
    return told != (recording.checkpoint.id if recording.checkpoint else None)


def flush(writer: Writer) -> Steps[None]:
    """Record the buffered drafts, durable when it returns: in one append, or in more if they are too large for one."""
    yield from writer.appender.settle()
    count = len(writer.appender.buffered)
    while writer.appender.buffered:
        try:
            yield from writer.appender.write(partial(plan, writer, put_off=count))
        except UsageError as error:
            if error.kind != Kind.APPEND_TOO_LARGE or count == 1:
                raise
            count //= 2


def discard(writer: Writer, ids: Collection[str]) -> Steps[tuple[Draft, ...]]:
    """Discard and return buffered drafts: those with `ids`, or all if there are no `ids`."""
    yield from writer.appender.settle()
    held = writer.appender.buffered
    if missing := sorted(set(ids) - {each.draft.id for each in held}):
        raise NotFoundError(f"no such draft is buffered. id={missing[0]!r}", kind=Kind.NODE)
    writer.appender.buffered = tuple([each for each in held if ids and each.draft.id not in ids])
    return tuple([each.draft for each in held if each.call is None and (not ids or each.draft.id in ids)])


def _known(writer: Writer, drafts: Sequence[Draft], *, new_ids: bool) -> Steps[Collection[str | None]]:
    """Ids of the drafts that are recorded or buffered already; `_require_sound` refuses bad ids."""
    lines = writer.replica.state.lines
    chosen = [draft for draft in drafts if draft.id is not None]
    ids = [draft.id for draft in chosen]
    if len(set(ids)) < len(ids):
        raise UsageError(f"an id is given twice. ids={ids!r}", kind=Kind.DUPLICATE_ID)
    if new_ids and chosen:  # they may still be sent again, after a call that had no answer
        again = (lines, writer.appender.found, {each.draft.id for each in writer.appender.buffered})
        chosen = [draft for draft in chosen if any(draft.id in each for each in again)]
    named = {draft.target: False for draft in drafts if draft.type == "note" and isinstance(draft.target, str)}
    for draft in drafts:
        kept = draft.brief.get("kept") if draft.kind == "compaction" and draft.brief else None
        nodes = (draft.parent, kept if kept is None else str(kept), None if draft.type == "note" else draft.target)
        named |= {name: True for name in nodes if isinstance(name, str)}
    if named:  # whether each must be the id of a node: a note may also be about a checkpoint
        here = lines.keys() | {writer.position.node, *(draft.id for draft in (*drafts, *writer.unrecorded))}
        named = {name: is_node for name, is_node in named.items() if name not in here}
    return (yield from _require_sound(writer, chosen, named)) if chosen or named else _NONE


def _require_sound(writer: Writer, chosen: Sequence[Draft], named: Mapping[str, bool]) -> Steps[set[str]]:
    """Refuse references to missing nodes, and ids that are taken; return the ids that are recorded already.

    A caller may pass a draft with a chosen id again, after a call with an unknown outcome: if the node of that id has
    the same payload, the draft counts as recorded. So does a note with the same content about the same node.
    """
    if writer.options.redaction is not None:  # compare drafts as they would be recorded
        chosen = [writer.options.redaction.draft(draft) for draft in chosen]
    waiting = {each.draft.id or "": each.draft for each in writer.appender.buffered}
    put_off = {draft.id or "" for draft in chosen if draft.id in waiting}
    for draft in chosen:
        if draft.id in put_off:
            put_off_there = waiting[draft.id or ""]
            _require_same(draft, _Said.by_draft(put_off_there), bytes(encode_payload(put_off_there)[0]))
    buffered = {*waiting, *(draft.id for draft in chosen)}
    named = {name: is_node for name, is_node in named.items() if name not in buffered}
    chosen = [draft for draft in chosen if draft.id not in put_off]
    if not writer.replica.exists:
        if named:
            raise NotFoundError(f"no such node. node={min(named)!r}", kind=Kind.NODE)
        return put_off
    return put_off | (yield from _added(writer, chosen, named))


def _added_meanwhile(writer: Writer, buffered: Sequence[Buffered]) -> Steps[Collection[str | None]]:
    """Ids of buffered drafts that are recorded by now, if callers chose the ids and the session has grown since.

    Raises:
        UsageError: Another writer recorded another node with such an id. All drafts stay buffered.
    """
    end = writer.replica.state.end
    doubtful = [each.draft for each in buffered if each.free_at not in (None, end)]
    if not doubtful:
        return _NONE
    return (yield from _added(writer, doubtful, remedy=_BUFFERED))


def _added(
    writer: Writer, chosen: Sequence[Draft], named: Mapping[str, bool] = _NOTHING, *, remedy: str = ""
) -> Steps[set[str]]:
    """Check that all of `named` exist, as it says; return the ids of the drafts that are recorded already."""
    ids = [draft.id or "" for draft in chosen]
    recorded = yield from writer.replica.ask(lambda look: _recorded(look, ids, named, remedy))
    lines = yield from writer.replica.lines_at(row.at for row in recorded.values())
    for draft in chosen:
        if draft.id in recorded:
            record = decode_record(lines[recorded[draft.id].at])
            _require_same(draft, _Said.by_record(record), bytes(record.body), remedy)
    return set(recorded)


def _recorded(look: Lookup, ids: Collection[str], named: Mapping[str, bool], remedy: str) -> Steps[dict[str, Skeleton]]:
    """Check that all of `named` exist, as nodes if it says so; return the nodes, notes and edits with some ids.

    Raises:
        NotFoundError: One of `named` does not exist.
        UsageError: A checkpoint has one of the ids.
    """
    found = yield from look.nodes([*ids, *named])
    others = [name for name in ids if name not in found]
    taken = (yield from look.records(others)) if others else {}  # rule: one-id-one-record
    found |= taken
    for name in ids:
        # A label and an edit name their target by its id alone, and so would apply to both.
        if name not in found and (yield from look.is_checkpoint(name)):
            raise UsageError(f"id is that of a checkpoint. id={name!r}", kind=Kind.DUPLICATE_ID, remedy=remedy)
    for name in sorted(name for name in named if name not in found or name in taken):
        if named[name] or not (yield from look.is_checkpoint(name)):
            yield from look.node(name)
    return {name: found[name] for name in ids if name in found}


class _Said(NamedTuple):
    """The facts that must be equal, in addition to the payload, for two notes or edits to be the same.

    For a node, only the payload counts.
    """

    type: str
    kind: str = ""
    target: str | None = None
    brief: bytes = b"{}"

    @classmethod
    def by_draft(cls, draft: Draft) -> _Said:
        if draft.type == "node":
            return cls(draft.type)
        return cls(draft.type, draft.kind, draft.target, values.encode(draft.brief) if draft.brief else b"{}")

    @classmethod
    def by_record(cls, record: Record) -> _Said:
        if record.type == "node":
            return cls(record.type)
        return cls(record.type, record.kind, record.target, bytes(record.brief))


def _require_same(draft: Draft, said: _Said, body: bytes, remedy: str = "") -> None:
    wanted = _Said.by_draft(draft)
    if is_erased(body):  # then a part of its brief is erased, too
        said, wanted = said._replace(brief=b""), wanted._replace(brief=b"")
    if said != wanted or not _says(body, draft):
        raise UsageError(
            f"{said.type} exists already and is another one. {said.type}={draft.id!r}",
            kind=Kind.DUPLICATE_ID,
            remedy=remedy or ("amend it, or leave the id open" if said.type == "node" else "leave the id open"),
        )


def _says(body: bytes, draft: Draft) -> bool:
    """Whether a body equals that of a draft, or did so before it was erased."""
    same = bytes(encode_payload(draft)[0])
    if is_erased(body):
        return erased_of(body).sha256 == digest_of(same)
    return body == same or body == bytes(encode_payload(draft, inside=blobs_in(same))[0])
