"""What agents record in a conversation: messages, checkpoints, compactions, changes. Each is one durable append."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from treering.errors import NotFoundError, UsageError
from treering.format.erasure import digest_of, erased_of, is_erased
from treering.format.record import decode_record
from treering.session.basis import ANYWHERE, Wish, find_place
from treering.session.contexts import chosen_context, compacted, in_order, node_of
from treering.session.payload import blobs_in, encode_payload
from treering.session.reader import ContextItem, Reader
from treering.session.recording import Change, Message, Recording, draft_of, require_storable
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Draft, Here, change, compaction

_NONE: frozenset[str | None] = frozenset()


class Commit(NamedTuple):
    """What a commit recorded."""

    nodes: tuple[str, ...]
    checkpoint: str | None
    """None if the schedule did not want one and there was nothing to keep but messages."""


def append(
    writer: Writer, *messages: Message, head: str | None = None, expect: str | Here | None = HERE, new_ids: bool = False
) -> Steps[str]:
    """Record messages one behind the other; durable when it returns. Returns the id of the last one.

    Args:
        writer: The session.
        messages: Drafts, JSON objects with a role, or text from the user. A draft with a parent of its own is added
            below that node, on a new head, and does not move this session.
        head: Append to this head instead of where the session stands.
        expect: The node you believe the head stands on; None for the place before the first node.
        new_ids: You know that the session has no node with an id that you chose, as one that was drawn by lot. Else the
            first call that chooses one reads the ids of the session.

    Raises:
        HeadMovedError: The head does not stand on `expect`.
        ConflictError: Somebody else writes this exclusive session.
        NotFoundError: A draft names a parent that does not exist.
        UsageError: A value cannot be stored exactly, or there is nothing to record.
        UnavailableError: The store did not answer; the messages may be recorded. The next call finds out.
    """
    if not messages:
        raise UsageError("nothing to record: pass at least one message")
    drafts = [draft_of(message) for message in messages]
    done = yield from record(writer, drafts, wish=Wish(head, expect), new_ids=new_ids)
    return done.nodes[-1]


def commit(  # noqa: PLR0913  # what a turn may change; all by keyword
    writer: Writer,
    messages: Iterable[Message] = (),
    *,
    state: Mapping[str, object] | None = None,
    drop: Sequence[str] = (),
    manager: object = UNSET,
    context: Sequence[ContextItem | str] | UnsetType = UNSET,
    label: str | None = None,
    step: int | None = None,
    metadata: Mapping[str, object] | None = None,
    expect: str | Here | None = HERE,
    expect_checkpoint: str | Here | None = HERE,
    merge: bool = False,
    new_ids: bool = False,
) -> Steps[Commit]:
    """End a turn: record messages and a checkpoint in one append, all or nothing.

    Messages that were appended before belong to the turn. If nothing at all was recorded since the last checkpoint, and
    nothing is to be, nothing happens.

    Args:
        writer: The session.
        messages: As for `append`; may be empty.
        state: Keys of the agent's state that changed, with their new values.
        drop: Keys that are gone.
        manager: State of a conversation manager, replaced as a whole; None clears it.
        context: What the model sees in front of these messages, if it is not what it saw so far: nodes by id, or items
            whose message stands in for the node's own. One of these messages that chose an id can be named, too, and is
            then seen where it is named.
        label: A name to find the checkpoint by.
        step: The agent's own count.
        metadata: Small JSON values for lists of checkpoints.
        expect: As for `append`.
        expect_checkpoint: The checkpoint whose state you went by, and which you believe to be the newest of the head;
            None for none at all.
        merge: In a shared session, set and drop these keys in the newest state of the head, whatever it is by now: for
            keys that are independent of all others. Else a commit that says something of the state, while others
            committed since you looked, goes on a head of its own, with the state that you saw.
        new_ids: As for `append`.

    Raises:
        HeadMovedError: The head does not stand on `expect`, or its newest checkpoint is not `expect_checkpoint`, or it
            is not the one that you saw, and you gave `expect`. The other errors are those of `append`.
    """
    explicit = label is not None or step is not None
    if explicit:
        writer.options.hooks.call("before_checkpoint", label=label, step=step)
    changed = Change(
        state=dict(state or {}),
        drop=tuple(drop),
        manager=manager,
        context=None if isinstance(context, UnsetType) else tuple(context),
        label=label,
        step=step,
        metadata=dict(metadata or {}),
    )
    drafts = [draft_of(message) for message in messages]
    wish = Wish(expect=expect, expect_checkpoint=expect_checkpoint, merge=merge)
    done = yield from record(writer, drafts, changed, wish, new_ids=new_ids)
    if explicit:
        writer.options.hooks.call(
            "after_checkpoint", checkpoint=done.checkpoint, node=writer.at_node, label=label, step=step
        )
    return done


def record(
    writer: Writer,
    drafts: Sequence[Draft],
    changed: Change | None = None,
    wish: Wish = ANYWHERE,
    *,
    new_ids: bool = False,
    here: bool = False,
) -> Steps[Commit]:
    """Record drafts, and a checkpoint if `changed` or the schedule asks for one.

    Args:
        writer: The session.
        drafts: What to record.
        changed: What a checkpoint is to say.
        wish: Where to.
        new_ids: As for `commit`.
        here: The drafts are about the node where the session stands.
    """
    if writer.in_doubt:
        yield from writer.settle()
    known = yield from _known(writer, drafts, new_ids=new_ids)
    seen = writer.view if writer.begun else None
    if wish.is_particular or (changed is not None and changed.context is not None):
        yield from flush(writer)  # what was put off stands in front, where the session is now
    elif writer.puts_off(drafts, ends_turn=changed is not None):
        if writer.options.redaction is not None:
            drafts = [writer.options.redaction.draft(draft) for draft in drafts]
        require_storable(drafts)  # now, also what is redacted: nothing that is refused may wait for ever
        if here:
            drafts = [msgspec.structs.replace(draft, target=writer.at_node) for draft in drafts]
        new = [draft if draft.id else msgspec.structs.replace(draft, id=writer.state.new_id()) for draft in drafts]
        writer.waiting += tuple([draft for draft in new if draft.id not in known])
        return Commit(tuple([draft.id or "" for draft in new]), None)
    ends = changed is not None and (changed.says_something or writer.state.nodes_since > 0)
    asked = drafts or writer.options.durability == "turn"  # of a turn, some may have been put off as recorded already
    if len(known) == len(drafts) and not writer.waiting and not ends and not (asked and writer.unsure):
        return Commit(tuple([draft.id or "" for draft in drafts]), None)

    def plan() -> Steps[Recording]:
        nonlocal known
        if seen is not None and writer.view is not seen:  # what it showed may be gone, the node in hand, too
            yield from writer.anchor()
            known = yield from _known(writer, drafts, new_ids=new_ids)
        return (yield from _plan(writer, drafts, changed, known, wish, here=here))

    done = yield from _written(writer, plan)
    return Commit(tuple(done.ids), done.made.id if done.made else None)


def _written(writer: Writer, plan: Callable[[], Steps[Recording]]) -> Steps[Recording]:
    """Record what is planned, with what was put off; in front of it, where it is too much for one append."""
    try:
        return (yield from writer.write(plan))
    except UsageError as error:
        if error.kind != "append_too_large" or not writer.waiting:
            raise
    yield from flush(writer)
    return (yield from writer.write(plan))


def _plan(
    writer: Writer,
    drafts: Sequence[Draft] = (),
    changed: Change | None = None,
    known: Collection[str | None] = _NONE,
    wish: Wish = ANYWHERE,
    *,
    here: bool = False,
    put_off: int | None = None,
) -> Steps[Recording]:
    """What to record, seen from where the session stands now; of `drafts`, those in `known` are recorded already.

    In front of them stands what was put off: all of it, or the first few.
    """
    if not writer.anchored:
        yield from writer.anchor()
    place = yield from find_place(
        writer,
        wish,
        says_state=changed is not None and changed.says_something,
        adds_nodes=any(draft.type == "node" for draft in (*writer.waiting, *drafts) if draft.id not in known),
        ends=changed is not None or writer.options.schedule.watches_appends,
    )
    recording = Recording(writer, place)
    if recording.begins_head:
        recording.untold = yield from _is_untold(writer, recording)
    wanted, as_it_is = (changed.context, changed.as_it_is) if changed is not None else (None, False)
    own: set[str | None] = set()
    if wanted is not None:
        own = {draft.id for draft in drafts if draft.id not in known} & {node_of(item) for item in wanted}
        given = [item for item in wanted if node_of(item) not in own]
        recording.context = yield from chosen_context(writer, given, as_it_is=as_it_is)
    recording.put_off = writer.waiting[:put_off]
    for draft in recording.put_off:
        recording.draft(draft)
    for draft in drafts:
        recording.ids.append(recording.draft(draft, here=here) if draft.id not in known else draft.id or "")
    if wanted is not None and own and recording.context is not None:
        recording.context = in_order(recording.context, [node_of(item) for item in wanted], own)
    if recording.compacts and recording.own_head and (yield from compacted(writer, recording, place)):
        changed = msgspec.structs.replace(changed or Change(), navigated=True)
    recording.end(changed)
    if not recording.records:
        yield from writer.make_sure()  # of what the caller is told is recorded already
    return recording


def _is_untold(writer: Writer, recording: Recording) -> Steps[bool]:
    """Whether who finds a head that a node begins here, and no checkpoint, would take another state for its own."""
    index = yield from writer.index()
    told, _ = index.nearest_checkpoint(index.graph.path(recording.node), head=recording.head)
    return told != (recording.checkpoint.id if recording.checkpoint else None)


def flush(writer: Writer) -> Steps[None]:
    """Record what was put off: durable when it returns. In one append, or in several if it is too much for one."""
    yield from writer.settle()
    count = len(writer.waiting)
    while writer.waiting:
        try:
            yield from writer.write(partial(_plan, writer, put_off=count))
        except UsageError as error:
            if error.kind != "append_too_large" or count == 1:
                raise
            count //= 2


def _known(writer: Writer, drafts: Sequence[Draft], *, new_ids: bool) -> Steps[Collection[str | None]]:
    """Ids of the drafts that are recorded or put off already; see `_require_sound` for what is refused."""
    chosen, named = _mentioned(writer, drafts)
    if new_ids:  # one may have come again after a call that had no answer
        chosen = [draft for draft in chosen if draft.id in writer.state.lines]
    return (yield from _require_sound(writer, chosen, named)) if chosen or named else _NONE


def _mentioned(writer: Writer, drafts: Sequence[Draft]) -> tuple[list[Draft], set[str]]:
    """The drafts that choose an id, and what others refer to that is not known to exist."""
    chosen: list[Draft] = []
    named: set[str] = set()
    for draft in drafts:
        if draft.id is not None:
            chosen.append(draft)
        if isinstance(draft.parent, str):
            named.add(draft.parent)
        if draft.target is not None:
            named.add(draft.target)
        if draft.kind == "compaction" and draft.brief and draft.brief.get("kept") is not None:
            named.add(str(draft.brief["kept"]))
    if named:
        here = {writer.at_node, *(draft.id for draft in (*drafts, *writer.waiting))}
        named -= writer.state.lines.keys() | here
    return chosen, named


def _require_sound(writer: Writer, chosen: Sequence[Draft], named: set[str]) -> Steps[set[str]]:
    """Refuse to refer to what does not exist, and ids that do; return the ids that are recorded already.

    A draft with an id of its own may come a second time, after a call that had no answer: if its node has that very
    payload, it is recorded, and that is all that was asked.
    """
    if writer.options.redaction is not None:  # as it would be recorded
        chosen = [writer.options.redaction.draft(draft) for draft in chosen]
    ids = [draft.id or "" for draft in chosen]
    if len(set(ids)) < len(ids):
        raise UsageError(f"an id is given twice. ids={ids!r}", kind="duplicate_id")
    waiting = {draft.id or "": draft for draft in writer.waiting}
    put_off = {draft.id or "" for draft in chosen if draft.id in waiting}
    for draft in chosen:
        if draft.id in put_off:
            _require_same(draft, bytes(encode_payload(waiting[draft.id or ""])[0]))
    chosen = [draft for draft in chosen if draft.id not in put_off]
    named = named.difference(ids, waiting)
    if not writer.begun:
        if named:
            raise NotFoundError(f"no such node. node={min(named)!r}", kind="node")
        return put_off
    index = yield from writer.index()
    for name in sorted(named - index.all_checkpoints.keys()):
        index.graph.node(name)
    there = [draft for draft in chosen if draft.id in index.graph]
    lines = yield from writer.lines_at([index.graph.node(draft.id or "").at for draft in there])
    for draft in there:
        _require_same(draft, bytes(decode_record(lines[index.graph.node(draft.id or "").at]).body))
    return put_off | {draft.id or "" for draft in there}


def _require_same(draft: Draft, body: bytes) -> None:
    if not _says(body, draft):
        raise UsageError(
            f"node exists already and is another one. node={draft.id!r}",
            kind="duplicate_id",
            remedy="amend it, or leave the id open",
        )


def _says(body: bytes, draft: Draft) -> bool:
    """Whether a body is that of a draft, or was before it was erased."""
    same = bytes(encode_payload(draft)[0])
    if is_erased(body):
        return erased_of(body).sha256 == digest_of(same)
    return body == same or body == bytes(encode_payload(draft, inside=blobs_in(same))[0])


# what agents record besides messages


def compact(
    writer: Writer,
    /,
    summary: str,
    *,
    kept: str | None = None,
    tokens_before: int | None = None,
    tokens_after: int | None = None,
    state: Mapping[str, object] | None = None,
    **details: object,
) -> Steps[str]:
    """Replace what the model saw so far by a summary, and the messages from node `kept` on. Returns the new node's id.

    Args:
        writer: The session.
        summary: What the model sees instead.
        kept: The first message that stays; None keeps none.
        tokens_before: Size of the context before.
        tokens_after: Size of the context after.
        state: As for `commit`.
        details: Kept with the compaction, for example `files_read=[...]`, `files_changed=[...]`.

    Raises:
        NotFoundError: There is no node `kept`.
    """
    writer.options.hooks.call("before_compaction", summary=summary, kept=kept)
    draft = compaction(summary, kept=kept, tokens_before=tokens_before, tokens_after=tokens_after, **details)
    done = yield from record(writer, [draft], Change(state=dict(state or {})))
    writer.options.hooks.call("after_compaction", summary=summary, kept=kept, node=done.nodes[-1])
    return done.nodes[-1]


def set_model(writer: Writer, model: str, *, provider: str | None = None) -> Steps[str]:
    """Record that another model answers from here on."""
    facts = {"model": model} | ({"provider": provider} if provider is not None else {})
    return (yield from append(writer, change("model_change", **facts)))


def set_thinking(writer: Writer, thinking: object) -> Steps[str]:
    """Record another thinking level; None takes it back."""
    return (yield from append(writer, change("thinking_change", thinking=thinking)))


def set_mode(writer: Writer, mode: object) -> Steps[str]:
    """Record another mode of work, for example `plan`; None takes it back."""
    return (yield from append(writer, change("mode_change", mode=mode)))


def last_compaction(reader: Reader) -> Steps[str | None]:
    """The newest compaction on the path of the head."""
    index = yield from reader.index()
    path = index.graph.path(reader.state.tip)
    return next((row.id for row in reversed(path) if row.kind == "compaction"), None)
