"""Record the steps of a conversation: messages, checkpoints, compactions, changes. Each is one durable append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from treering.errors import UsageError
from treering.journal.merge import Merged
from treering.kinds import Kind
from treering.session.content import ContextItem
from treering.session.pairs import settled
from treering.session.position import Wish
from treering.session.reader import Readable
from treering.session.record import Appended, record
from treering.session.recording import Change, Message, draft_of, model_of_role
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Draft, Here, change, compaction


def append(
    writer: Writer, *messages: Message, head: str | None = None, expect: str | Here | None = HERE, new_ids: bool = False
) -> Steps[Appended]:
    """Record messages in order; durable when it returns.

    Args:
        writer: The session.
        messages: Drafts, JSON objects with a role, or text from the user. A draft with a parent of its own is added
            below that node, on a new head, and does not move this session.
        head: Append to this head instead of the current one.
        expect: The node that you expect the head to point to; None for the place before the first node.
        new_ids: You know that no node of the session has an id that you chose, and that no other writer chooses it, for
            example because it is random. Otherwise the first call with a chosen id reads the ids of the session.

    Raises:
        HeadMovedError: The head does not point to `expect`.
        ConflictError: Another writer writes this exclusive session.
        NotFoundError: A draft names a parent that does not exist.
        UsageError: A value cannot be stored exactly, or there is nothing to record; or an id that you chose, here or
            for a buffered draft, is the id of another node (`duplicate_id`): see `discard`.
        UnavailableError: The store did not answer; the messages may be recorded. The next call finds out.
    """
    if not messages:
        raise UsageError("nothing to record: pass at least one message")
    drafts = [draft_of(message) for message in messages]
    if writer.options.hooks.before_append is not None:
        drafts = [*map(writer.options.hooks.stored, drafts)]
    return (yield from record(writer, drafts, wish=Wish(head, expect), new_ids=new_ids))


def commit(  # noqa: PLR0913  # what a turn may change; all by keyword
    writer: Writer,
    messages: Message | Iterable[Message] = (),
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
) -> Steps[Appended]:
    """End a turn: record messages and a checkpoint in one append, all or nothing.

    Messages appended before belong to the turn. Without new records since the last checkpoint, and none to add, the
    call does nothing.

    Args:
        writer: The session.
        messages: As for `append`: one, or several, or none.
        state: Keys of the agent's state that changed, with their new values.
        drop: Keys to remove.
        manager: State of a conversation manager, replaced as a whole; None clears it.
        context: What the model sees in front of these messages, if that changes: nodes by id, or items whose message
            replaces the node's own. It may also name one of these messages by an id that you chose; the model then sees
            that message at this place.
        label: A name to find the checkpoint by.
        step: The agent's own count.
        metadata: Small JSON values for lists of checkpoints.
        expect: As for `append`.
        expect_checkpoint: The checkpoint whose state you used, and which you expect to be the newest of the head; None
            for no checkpoint at all.
        merge: In a shared session, set and drop these keys in the newest state of the head, even if another writer has
            changed it: for keys that are independent of all other keys. Otherwise, if another writer committed since
            you looked, a commit that changes the state goes on a new head, with the state that you saw.
        new_ids: As for `append`.

    Raises:
        HeadMovedError: The head does not point to `expect`, or its newest checkpoint is not `expect_checkpoint`, or you
            gave `expect` and its newest checkpoint is not the one that you saw. Further errors are those of `append`.
    """
    if isinstance(drop, str):  # its characters would be keys
        raise UsageError(f"keys to drop are a list. got={drop!r}", kind=Kind.STATE_KEY, remedy=f"pass [{drop!r}]")
    if isinstance(messages, Draft | Mapping | str):
        messages = (messages,)
    explicit = label is not None or step is not None
    name: object = label  # callers are not always type-checked
    if not isinstance(name, str | None) or not (step is None or type(step) is int):
        raise UsageError(f"a label is text, and a step a whole number. label={label!r}, step={step!r}", kind=Kind.VALUE)
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
    drafts = [draft_of(message) for message in writer.outside.each(messages)]
    if writer.options.hooks.before_append is not None:
        drafts = [*map(writer.options.hooks.stored, drafts)]
    wish = Wish(expect=expect, expect_checkpoint=expect_checkpoint, merge=merge)
    done = yield from record(writer, drafts, changed, wish, new_ids=new_ids)
    if explicit:
        writer.options.hooks.call(
            "after_checkpoint", checkpoint=done.checkpoint, node=writer.position.node, label=label, step=step
        )
    return done


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
) -> Steps[Appended]:
    """Replace the context by a summary and the messages from node `kept` on.

    Args:
        writer: The session.
        summary: The text that the model sees instead.
        kept: The first message that stays; None keeps none.
        tokens_before: Size of the context before.
        tokens_after: Size of the context after.
        state: As for `commit`.
        details: Kept with the compaction, for example `files_read=[...]`, `files_changed=[...]`.

    Returns:
        What was recorded: no nodes if a hook cancelled the compaction.

    Raises:
        NotFoundError: There is no node `kept`.
    """
    hooks = writer.options.hooks
    asked = compaction(summary, kept=kept, tokens_before=tokens_before, tokens_after=tokens_after, **details)
    draft = hooks.compaction(asked)
    if draft is None:
        return Appended(nodes=(), head=writer.position.head)
    done = yield from record(writer, [draft], Change(state=dict(state or {})))
    hooks.call(
        "after_compaction", summary=draft.payload["summary"], kept=(draft.brief or {}).get("kept"), node=done.node
    )
    return done


def set_model(writer: Writer, model: str, *, provider: str | None = None, role: str | None = None) -> Steps[Appended]:
    """Record that another model answers from here on.

    Args:
        writer: The session.
        model: Its name.
        provider: The service that runs it.
        role: The purpose of a model other than the one that answers, for example `smol` or `plan`. The answering model
            stays the same, and the setting `models` maps roles to `provider/model`.
    """
    if role is None or role == "default":
        facts = {"model": model} | ({"provider": provider} if provider is not None else {})
        return (yield from append(writer, change("model_change", **facts)))
    name = model if provider is None else f"{provider}/{model}"
    yield from writer.appender.settle()
    return (yield from append(writer, model_of_role(role, name, settled(writer))))


def set_thinking(writer: Writer, thinking: object) -> Steps[Appended]:
    """Record another thinking level; None clears it."""
    return (yield from append(writer, change("thinking_change", thinking=thinking)))


def set_mode(writer: Writer, mode: object) -> Steps[Appended]:
    """Record another mode of work, for example `plan`; None clears it."""
    return (yield from append(writer, change("mode_change", mode=mode)))


def seal(writer: Writer) -> Steps[None]:
    """Write the unsealed records to a segment, and a new `latest` that covers them."""
    yield from writer.upkeep.seal()


def optimize(writer: Writer, *, everything: bool = False) -> Steps[Merged]:
    """Merge small segments, and finish erasures that another process began.

    Args:
        writer: The session.
        everything: Merge all segments that can be merged, and remove leftovers of earlier lives and of ended streams.
    """
    return (yield from writer.upkeep.optimize(everything=everything))


def last_compaction(reader: Readable) -> Steps[str | None]:
    """The newest compaction on the path of the head; None if there is none."""
    return (yield from reader.replica.ask(lambda look: look.last_compaction(reader.replica.state.tip)))
