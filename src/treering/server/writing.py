"""Routes that record in a session over HTTP. Each function answers one route; its first line is its documentation.

A repeated request with the same `Idempotency-Key` gets the same answer, and nothing is recorded twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from treering.api.async_session import AsyncSession
from treering.errors import UsageError
from treering.kinds import Kind
from treering.server.answers import Prepared, SessionCard
from treering.server.call import Call
from treering.server.changing import Opened, ids_of, opened, request_key
from treering.server.limits import MESSAGES_MAX, NAME_CHARACTERS_MAX
from treering.server.marks import Mark, add, find, go, mark_of, marked, once, perform
from treering.server.reading import card_of
from treering.session import verbs
from treering.session.position import Wish
from treering.session.record import Appended
from treering.session.recording import draft_of
from treering.transcript.node import HERE, Draft, Here, Node

Messages = Annotated[list[Any], Meta(max_length=MESSAGES_MAX)]
"""Each message is a JSON object with a role, or text from the user."""
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
TRIES_MAX: Final = 8
"""How often a turn is ended again after another client recorded something first."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body; the base of all such types. Its digest stays the same if a later version has further fields."""


class AppendBody(Body, frozen=True, kw_only=True):
    """Messages to record."""

    messages: Annotated[Messages, Meta(min_length=1)]
    head: str | None = None
    """Append to this head instead of the current one."""
    parent: str | UnsetType | None = UNSET
    """Instead of a head: the node to continue from, on a new head; null begins a new root."""
    expect: str | UnsetType | None = UNSET
    """The node that the head has to point to; null: it has none yet."""


async def append(call: Call, body: AppendBody) -> Appended:
    """Record messages in order, all or nothing; durable when it is answered."""
    if body.parent is not UNSET and (body.head is not None or body.expect is not UNSET):
        raise UsageError("messages go below a parent, or on a head", kind=Kind.REQUEST)
    drafts = drafts_of(call, body.messages, HERE if body.parent is UNSET else body.parent)
    async with opened(call) as there:
        wish = Wish(body.head, HERE if isinstance(body.expect, UnsetType) else body.expect)
        return await add(call, there, drafts, mark_of(call, body), wish=wish)


def drafts_of(call: Call, messages: Sequence[Any], parent: str | Here | None = HERE) -> list[Draft]:
    """Return drafts of messages, with ids made from the request's key if it has one.

    Raises:
        UsageError: An item is not a message.
    """
    drafts: list[Draft] = []
    for message, name in zip(messages, ids_of(call, len(messages)), strict=True):
        below = parent if isinstance(parent, Here) or not drafts else drafts[-1].id
        drafts.append(msgspec.structs.replace(draft_of(message), id=name, parent=below))
    return drafts


class CommitBody(Body, frozen=True, kw_only=True):
    """The end of a turn."""

    messages: Messages = []
    state: dict[str, Any] = {}
    """Keys of the agent's state that changed, with their new values."""
    drop: Annotated[list[str], Meta(max_length=MESSAGES_MAX)] = []
    """Keys of the state to remove."""
    label: str | None = None
    step: int | None = None
    metadata: dict[str, Any] = {}
    expect: str | UnsetType | None = UNSET
    """The node that the head has to point to; null: it has none yet."""
    expect_checkpoint: str | UnsetType | None = UNSET
    """The checkpoint that has to be the newest of the head; null: there is none."""
    merge: bool = False
    """Set and drop these keys in the newest state, even if it has changed."""


async def commit(call: Call, body: CommitBody) -> Appended:
    """End a turn: record messages and a checkpoint, all or nothing; durable when it is answered."""
    mark, drafts = mark_of(call, body), drafts_of(call, body.messages)
    async with opened(call) as there:
        session, tries = there.session, iter(range(TRIES_MAX))

        async def look() -> Appended | None:
            return await find(session, mark)

        async def act() -> Appended:
            there.writable()
            return await _commit(call, there, body, drafts, mark)

        def again() -> bool:
            as_asked = body.expect in (UNSET, session.node) and body.expect_checkpoint in (UNSET, session.checkpoint_id)
            return as_asked and call.seen is None and next(tries, None) is not None

        return await once(call, session, look, act, again=again)


async def _commit(call: Call, there: Opened, body: CommitBody, drafts: Sequence[Draft], mark: Mark | None) -> Appended:
    """Commit. A request with a key or a condition expects the session to be where it was read.

    So of two runs of one request, or of two requests with one condition, the second is refused; it would commit beside
    the first one.
    """
    session = there.session
    expect: str | Here | None = HERE if isinstance(body.expect, UnsetType) else body.expect
    checkpoint: str | Here | None = HERE if isinstance(body.expect_checkpoint, UnsetType) else body.expect_checkpoint
    if mark is not None or call.seen is not None or checkpoint is not HERE:
        expect = session.node if expect is HERE else expect
        checkpoint = session.checkpoint_id if checkpoint is HERE else checkpoint
    done = await session.commit(
        marked(drafts, mark),
        state=body.state,
        drop=body.drop,
        label=body.label,
        step=body.step,
        metadata=body.metadata,
        expect=expect,
        expect_checkpoint=checkpoint,
        merge=body.merge,
        new_ids=bool(drafts),  # a mark alone moves no head, so two runs would both record it
    )
    return done if drafts else msgspec.structs.replace(done, nodes=())


class EditBody(Body, frozen=True, kw_only=True):
    """Another version of a message: a whole one, or its text."""

    message: Any = UNSET
    """A JSON object with a role, or text from the user."""
    text: str | UnsetType = UNSET
    """Instead of a message: its `content`. All other fields stay as they were recorded, also those that JSON lacks."""


async def edit(call: Call, body: EditBody) -> Appended:
    """Record another version of a message as its sibling, on a new head. No other head moves."""
    if (body.message is UNSET) == (body.text is UNSET):
        raise UsageError("a version has a message or a text", kind=Kind.REQUEST, remedy="send one of the two")
    async with opened(call) as there:
        node = await there.session.get(call.name("node"), blobs=body.message is UNSET)
        message = _with_text(node, body.text) if isinstance(body.text, str) else body.message
        return await add(call, there, drafts_of(call, [message], node.parent), mark_of(call, body))


def _with_text(node: Node, text: str) -> object:
    """Return the message of a node with another content; what has none, as in the form of some programs, is not kept.

    Raises:
        UsageError: The node is no message.
    """
    if node.kind != "message":
        raise UsageError(f"only a message has a text to replace. node={node.id!r}, kind={node.kind!r}", kind=Kind.NODE)
    fields = node.payload if isinstance(node.payload, Mapping) and "content" in node.payload else {}
    return {"role": node.role or "user", **fields, "content": text}


async def regenerate(call: Call) -> Prepared:
    """Prepare another answer: make a new head at the message to answer, and return the context there."""
    head = f"answer-{ids_of(call, 1, about=call.name('node'))[0][-12:]}"
    async with opened(call) as there:
        node = await there.session.get(call.name("node"), blobs=False)
        if node.parent is None:
            raise UsageError("nothing was asked before the first message", kind=Kind.NODE)
        below = node.parent

        async def look() -> bool | None:
            return head in there.session.heads or None

        async def act() -> bool:
            await perform(call, there, None, partial(verbs.navigation.branch, node=below), head)
            return True

        await once(call, there.session, look, act)
        return Prepared(head=head, node=below, context=await there.session.context_at(below))


class LabelBody(Body, frozen=True, kw_only=True):
    """A label."""

    label: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)] | None
    """null removes it."""


async def label(call: Call, body: LabelBody) -> SessionCard:
    """Label a node or a checkpoint, or remove its label."""
    async with opened(call) as there:
        name = call.name("node")
        if request_key(call) is not None or (await there.session.labels()).get(name) != (body.label or None):
            await add(call, there, [_note("label", body.label, target=name)], mark_of(call, body))
    return await card_of(call)


def _note(kind: str, value: str | None, *, target: str | None = None) -> Draft:
    return Draft(type="note", kind=kind, target=target, brief={kind: value})


async def retract(call: Call) -> SessionCard:
    """Hide a node from the context and from pages."""
    async with opened(call) as there:
        node = await there.session.get(call.name("node"), blobs=False)
        if request_key(call) is not None or not node.retracted:
            await add(call, there, [Draft(type="edit", kind="retract", target=node.id)], mark_of(call, "retract"))
    return await card_of(call)


async def unretract(call: Call) -> SessionCard:
    """Show a retracted node again."""
    async with opened(call) as there:
        name = call.name("node")

        async def is_shown() -> bool:
            return not (await there.session.get(name, blobs=False)).retracted

        await go(call, there, mark_of(call, "unretract"), verbs.edits.unretract, name, is_there=is_shown)
    return await card_of(call)


class SwitchBody(Body, frozen=True, kw_only=True):
    """A head."""

    head: str


async def switch(call: Call, body: SwitchBody) -> SessionCard:
    """Make another head the current one, at which the session opens."""
    async with opened(call) as there:

        async def is_there() -> bool:
            return there.session.head == body.head

        await go(call, there, mark_of(call, body), verbs.navigation.switch, body.head, is_there=is_there)
    return await card_of(call)


class RewindBody(Body, frozen=True, kw_only=True):
    """A checkpoint."""

    checkpoint: str


async def rewind(call: Call, body: RewindBody) -> SessionCard:
    """Go back to a checkpoint: its state, context and node together. Later nodes stay as a branch."""
    async with opened(call) as there:

        async def is_there() -> bool:
            return await _stands_at(there.session, body.checkpoint)

        await go(call, there, mark_of(call, body), verbs.navigation.rewind, body.checkpoint, is_there=is_there)
    return await card_of(call)


async def _stands_at(session: AsyncSession, checkpoint: str) -> bool:
    """Whether the session has a checkpoint's node, state, settings and context, so that a rewind changes nothing."""
    there = await session.checkpoint(checkpoint)
    if there.info.node != session.node or there.manager != session.manager:
        return False
    found = await session.diff(checkpoint)
    parts = (found.state, found.settings)
    same = not any(each.added or each.changed or each.removed for each in parts)
    return same and not (found.context.added or found.context.edited or found.context.removed)


class BranchBody(Body, frozen=True, kw_only=True):
    """A new head."""

    head: Name
    node: str | None = None
    """The node at which it begins; by default the session's current node."""


async def branch(call: Call, body: BranchBody) -> SessionCard:
    """Make a new head, and make it the current one; the previous head stays where it is."""
    begin = partial(verbs.navigation.branch, node=body.node)
    async with opened(call) as there:
        await go(call, there, mark_of(call, body), begin, body.head)
    return await card_of(call)


class ChangeBody(Body, frozen=True, kw_only=True):
    """Fields of the card to change; other fields stay the same."""

    title: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


async def change(call: Call, body: ChangeBody) -> SessionCard:
    """Set the title or the status of a session."""
    async with opened(call) as there:
        info = there.session.info
        now, wanted = {"title": info.title, "status": info.status}, {"title": body.title, "status": body.status}
        has_key = request_key(call) is not None
        drafts = [
            _note(kind, value)
            for kind, value in wanted.items()
            if not isinstance(value, UnsetType) and (has_key or value != now[kind])
        ]
        if drafts:
            await add(call, there, drafts, mark_of(call, body))
    return await card_of(call)
