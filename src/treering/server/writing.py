"""Routes that record in a session over HTTP. Each function answers one route; its first line is its documentation.

A repeated request with the same `Idempotency-Key` gets the same answer, and nothing is recorded twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from treering.api.async_session import AsyncSession
from treering.digests import blake2b
from treering.errors import ConflictError, HeadMovedError, NotFoundError, UsageError
from treering.kinds import Kind
from treering.server.answers import Prepared, SessionCard
from treering.server.call import Call
from treering.server.changing import Opened, ids_of, opened, request_key
from treering.server.limits import MESSAGES_MAX, NAME_CHARACTERS_MAX
from treering.server.reading import card_of
from treering.session.reader import Readable
from treering.session.record import Appended
from treering.session.recording import draft_of
from treering.session.verbs.reading import Note
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Draft, Here, Node

T = TypeVar("T")

Messages = Annotated[list[Any], Meta(max_length=MESSAGES_MAX)]
"""Each message is a JSON object with a role, or text from the user."""
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
LOOKED_AT = 100
"""A repeated commit is looked for among this many of the newest checkpoints."""
TRIES_MAX: Final = 8
"""How often a turn is ended again after another client recorded something first."""
REQUEST = "request"
"""The field with the key of a request: in a checkpoint's metadata, or in the brief of a session's first record."""
REQUEST_BODY = "request_body"
"""The field beside it that holds a digest of the request's body."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body; the base of all such types. Its digest stays the same if a later version has further fields."""


class AppendBody(Body, frozen=True, kw_only=True):
    """Messages to record."""

    messages: Messages
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
        return await record(call, there, drafts, head=body.head, expect=body.expect)


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


async def record(
    call: Call,
    there: Opened,
    drafts: Sequence[Draft],
    *,
    head: str | None = None,
    expect: str | UnsetType | None = UNSET,
) -> Appended:
    """Record drafts. With `If-Match`, the head must not have moved when they are written."""
    wanted: str | Here | None = HERE if isinstance(expect, UnsetType) else expect
    if there.is_expected or not await holds(there.session, drafts):
        session = there.writable()
        if wanted is HERE and call.seen is not None and all(draft.parent is HERE for draft in drafts):
            wanted = session.heads.get(head) if head is not None else session.node
    fresh = request_key(call) is None  # then the ids were made just now
    return await there.session.append(*drafts, head=head, expect=wanted, new_ids=fresh)


async def holds(session: AsyncSession, drafts: Sequence[Draft]) -> bool:
    """Whether an earlier request recorded these drafts."""
    return bool(drafts) and bool(await session.perform(_recorded, [drafts[-1].id or ""]))


def _recorded(reader: Readable, names: Sequence[str]) -> Steps[Collection[str]]:
    """Those of the names that nodes, notes or edits have."""
    found = yield from reader.replica.ask(lambda look: look.nodes(names))
    return found or (yield from reader.replica.ask(lambda look: look.records(names)))


async def once(
    call: Call,
    session: AsyncSession,
    look: Callable[[], Awaitable[T | None]],
    act: Callable[[], Awaitable[T]],
    *,
    tries: int = 1,
) -> T:
    """Do what a request asks for, unless an earlier run of the same request did it.

    The earlier run may still be under way, at this worker or another one. Then this one is refused, since the session
    has changed, and looks once more.

    Args:
        call: The request.
        session: Its session; it is read again before another look.
        look: Returns the answer of an earlier run, or None.
        act: Does it, and returns the answer.
        tries: How often, if it is refused because of something else that was recorded first.
    """
    if (done := await look()) is not None:
        return done
    while True:
        tries -= 1
        try:
            return await act()
        except (ConflictError, NotFoundError, UsageError) as error:
            if request_key(call) is None:
                raise
            await session.refresh()
            if (done := await look()) is not None:
                return done
            if not tries or not isinstance(error, HeadMovedError):
                raise


async def recorded(session: AsyncSession, draft: Draft) -> Node | Note | None:
    """Return the node or note that an earlier request recorded for a draft; None if there is none."""
    if draft.type == "note":
        return next((note for note in await session.notes(draft.kind) if note.id == draft.id), None)
    try:
        return await session.get(draft.id or "", blobs=False)
    except NotFoundError:
        return None


def marks_of(call: Call, body: Body) -> dict[str, object]:
    """Return the fields to record, by which the same request is known if it is repeated; empty without a key."""
    key = request_key(call)
    return {} if key is None else {REQUEST: key, REQUEST_BODY: _digest(body)}


def require_same(marks: Mapping[str, object], body: Body) -> None:
    """Compare a request with the one that recorded `marks` with the same key; earlier versions recorded no digest.

    Raises:
        UsageError: It has another body.
    """
    if marks.get(REQUEST_BODY, _digest(body)) != _digest(body):
        raise key_is_used()


def key_is_used() -> UsageError:
    """Return the error for a request whose key another request had."""
    return UsageError(
        "another request had this key", kind=Kind.DUPLICATE_ID, remedy="send other content with a key of its own"
    )


def _digest(body: Body) -> str:
    return blake2b(msgspec.json.encode(body, order="deterministic"), 16)


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
    drafts = drafts_of(call, body.messages)
    is_free = (call.seen, body.expect, body.expect_checkpoint) == (None, UNSET, UNSET)
    async with opened(call) as there:
        look = partial(_committed, call, there.session, body, drafts)
        act = partial(_commit, call, there, body, drafts, is_free=is_free)
        return await once(call, there.session, look, act, tries=TRIES_MAX if is_free else 1)


async def _commit(call: Call, there: Opened, body: CommitBody, drafts: Sequence[Draft], *, is_free: bool) -> Appended:
    """Commit. If the session may be anywhere (`is_free`), but the request has a key, it must be where it was read.

    So of two runs of one request the second is refused; it would commit beside the first one.
    """
    session, has_key = there.writable(), request_key(call) is not None
    expect: str | Here | None = HERE if isinstance(body.expect, UnsetType) else body.expect
    checkpoint: str | Here | None = HERE if isinstance(body.expect_checkpoint, UnsetType) else body.expect_checkpoint
    if expect is HERE and (call.seen is not None or (is_free and has_key)):
        expect = session.node
    if is_free and has_key:
        checkpoint = session.checkpoint_id
    return await session.commit(
        drafts,
        state=body.state,
        drop=body.drop,
        label=body.label,
        step=body.step,
        metadata=body.metadata | marks_of(call, body),
        expect=expect,
        expect_checkpoint=checkpoint,
        merge=body.merge,
        new_ids=not has_key,
    )


async def _committed(call: Call, session: AsyncSession, body: CommitBody, drafts: Sequence[Draft]) -> Appended | None:
    """The result of an earlier request with this key; None if there was none.

    Raises:
        UsageError: The earlier request had another body.
    """
    key = request_key(call)
    for made in reversed(await session.checkpoints(limit=LOOKED_AT)) if key is not None else ():
        if made.metadata.get(REQUEST) == key:
            require_same(made.metadata, body)
            return Appended(nodes=tuple([draft.id or "" for draft in drafts]), head=made.head, checkpoint=made.id)
    return None


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
        return await record(call, there, drafts_of(call, [message], node.parent))


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
            await there.writable().branch(head, node=below)
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
        if (await there.session.labels()).get(name) != (body.label or None):
            await record(call, there, [_note(ids_of(call, 1)[0], "label", body.label, target=name)])
    return await card_of(call)


def _note(name: str, kind: str, value: str | None, *, target: str | None = None) -> Draft:
    return Draft(type="note", id=name, kind=kind, target=target, brief={kind: value})


async def retract(call: Call) -> SessionCard:
    """Hide a node from the context and from pages."""
    async with opened(call) as there:
        node = await there.session.get(call.name("node"), blobs=False)
        if not node.retracted:
            await record(call, there, [Draft(type="edit", id=ids_of(call, 1)[0], kind="retract", target=node.id)])
    return await card_of(call)


async def unretract(call: Call) -> SessionCard:
    """Show a retracted node again."""
    async with opened(call) as there:
        node = await there.session.get(call.name("node"), blobs=False)
        if node.retracted:
            await there.writable().unretract(node.id)
    return await card_of(call)


class SwitchBody(Body, frozen=True, kw_only=True):
    """A head."""

    head: str


async def switch(call: Call, body: SwitchBody) -> SessionCard:
    """Make another head the current one, at which the session opens."""
    async with opened(call) as there:
        if there.session.head != body.head:
            await there.writable().switch(body.head)
    return await card_of(call)


class RewindBody(Body, frozen=True, kw_only=True):
    """A checkpoint."""

    checkpoint: str


async def rewind(call: Call, body: RewindBody) -> SessionCard:
    """Go back to a checkpoint: its state, context and node together. Later nodes stay as a branch."""
    async with opened(call) as there:
        if not await _stands_at(there.session, body.checkpoint):
            await there.writable().rewind(body.checkpoint)
    return await card_of(call)


async def _stands_at(session: AsyncSession, checkpoint: str) -> bool:
    """Whether the session has a checkpoint's node, state, settings and context, so that a rewind changes nothing."""
    if (await session.checkpoint(checkpoint)).info.node != session.node:
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
    async with opened(call) as there:
        session = there.session

        async def look() -> bool | None:
            at = body.node or session.node
            return (request_key(call) is not None and session.heads.get(body.head, "") == at) or None

        async def act() -> bool:
            await there.writable().branch(body.head, node=body.node)
            return True

        await once(call, session, look, act)
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
        drafts = [
            _note(name, kind, value)
            for name, (kind, value) in zip(ids_of(call, len(wanted)), wanted.items(), strict=True)
            if not isinstance(value, UnsetType) and value != now[kind]
        ]
        if drafts:
            await record(call, there, drafts)
    return await card_of(call)
