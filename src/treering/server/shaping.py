"""Conversations over HTTP in the shapes of user interfaces and model APIs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from treering.api.async_session import AsyncSession
from treering.api.async_view import AsyncView
from treering.errors import UsageError
from treering.kinds import Kind
from treering.server.answers import Imported
from treering.server.call import Call
from treering.server.changing import opened
from treering.server.limits import ROWS_MAX
from treering.server.reading import Limit
from treering.server.route import Query
from treering.server.shapes import anthropic, assistant_ui, openai, ui
from treering.server.shapes.parts import Said, role_of
from treering.server.writing import Body, Messages
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import Draft, Node

Format = Literal["ui", "assistant-ui", "anthropic", "openai"]


class MessagesQuery(Query, frozen=True, kw_only=True):
    """Which messages to read, and in which shape."""

    format: Format = "ui"
    """`ui`: `UIMessage[]` of the AI SDK. `assistant-ui`: all branches, in its export format. `anthropic`, `openai`:
    messages for these APIs."""
    head: str | None = None
    """The head of the branch; by default the current head."""
    node: str | None = None
    """The end of the branch, instead of a head."""
    limit: Limit = ROWS_MAX
    """At most this many messages, the last ones; for `assistant-ui` the last recorded ones."""


async def messages(call: Call, asked: MessagesQuery) -> Any:
    """Read a conversation in the shape of a user interface or of a model API; retracted messages are left out."""
    view = await call.view()
    if asked.format == "assistant-ui":
        return await _repository(view, asked)
    page = await view.history(head=asked.head, node=asked.node, limit=asked.limit)
    said = [said_of(row.node) for row in reversed(page.rows) if row.node.kind == "message"]
    if asked.format == "anthropic":
        return anthropic.messages_of(said)
    return ui.messages_of(said) if asked.format == "ui" else openai.messages_of(said)


async def _repository(view: AsyncView, asked: MessagesQuery) -> dict[str, Any]:
    nodes = await view.nodes()
    parents = dict(zip(nodes.ids, nodes.parents, strict=True))
    recorded = zip(reversed(nodes.ids), reversed(nodes.kinds), strict=True)
    wanted = [name for name, kind in islice(((n, k) for n, k in recorded if k == "message"), asked.limit)]
    said = [said_of(node) async for node in view.each_node(wanted[::-1]) if not node.retracted]
    end = asked.node or (view.node if asked.head is None else view.heads.get(asked.head))
    return assistant_ui.repository_of(said, parents, end)


def said_of(node: Node) -> Said:
    """Return the message of a node."""
    payload = node.payload
    return Said(
        id=node.id, parent=node.parent, role=role_of(payload) or node.role, time_ms=node.time_ms, payload=payload
    )


class ImportBody(Body, frozen=True, kw_only=True):
    """A conversation in the shape of a user interface."""

    format: Literal["ui", "assistant-ui"] = "ui"
    messages: Annotated[Messages, Meta(min_length=1)]
    """For `ui`: UI messages, each the child of the previous one. For `assistant-ui`: `{parentId, message}`."""
    head_id: str | None = msgspec.field(default=None, name="headId")
    """For `assistant-ui`: the message whose branch becomes the current one."""
    head: str | None = None
    """For `ui`: the head to continue; by default the current one."""


async def import_messages(call: Call, body: ImportBody) -> Imported:
    """Record the messages of a user interface that the session does not have; their ids become the nodes' ids.

    So an interface may send its whole conversation each time.
    """
    if body.format == "ui":
        drafts, end = ui.drafts_of(body.messages), None
    else:
        drafts, end = assistant_ui.drafts_of(body.messages, body.head_id)
    async with opened(call) as there:
        ids = tuple([draft.id or "" for draft in drafts])
        known = await there.session.perform(_known, ids)
        new = [draft for draft in drafts if draft.id not in known]
        head = known.get(ids[-1]) or there.session.head
        if new:
            first = _on_head(drafts, new, there.session, body.head)
            head = (await there.writable().append(first, *new[1:], head=body.head)).head
        if end is not None and there.session.heads.get(there.session.head) != end:
            await _show(there.writable(), end)
        return Imported(nodes=ids, head=head)


def _on_head(drafts: Sequence[Draft], new: Sequence[Draft], session: AsyncSession, head: str | None) -> Draft:
    """Return the first new draft; if all messages are new, it continues from the head's node."""
    tip = session.node if head is None else session.heads.get(head)
    begins = new[0] is drafts[0] and new[0].parent is None and tip is not None
    return msgspec.structs.replace(new[0], parent=tip) if begins else new[0]


async def _show(session: AsyncSession, end: str) -> None:
    await session.refresh()
    head = next((name for name, node in session.heads.items() if node == end), None)
    if head is None:
        raise UsageError(f"no branch ends there. headId={end!r}", kind=Kind.HEAD)
    if head != session.head:
        await session.switch(head)


def _known(reader: Readable, ids: Sequence[str]) -> Steps[dict[str, str]]:
    """The given ids that are nodes, each with the head on which it was recorded."""
    found = yield from reader.replica.ask(lambda look: look.nodes(ids))
    return {name: row.head for name, row in found.items()}
