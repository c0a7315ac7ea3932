"""Conversations over HTTP in the shapes of user interfaces and model APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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
from treering.server.changing import Opened, ids_of, opened
from treering.server.limits import ID_CHARACTERS_MAX, ROWS_MAX
from treering.server.marks import Mark, add, find, go, mark_of
from treering.server.reading import Limit
from treering.server.route import Query
from treering.server.shapes import anthropic, assistant_ui, openai, ui
from treering.server.shapes.merging import lacking, messages_in
from treering.server.shapes.parts import Result, Said, parts_of, role_of
from treering.server.writing import Body, Messages
from treering.session import verbs
from treering.session.position import Wish
from treering.session.reader import Readable
from treering.session.writer import Writer
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
    role = role_of(node.payload, node.role)
    return Said(id=node.id, parent=node.parent, role=role, time_ms=node.time_ms, payload=node.payload)


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
    """Record what the session lacks of the messages of a user interface; their ids become the nodes' ids.

    So an interface may send its whole conversation each time. A message that has grown since is amended.
    """
    if body.format == "ui":
        words, drafts, end = ui.WORDS, ui.drafts_of(body.messages), None
    else:
        words = assistant_ui.WORDS
        drafts, end = assistant_ui.drafts_of(body.messages, body.head_id)
    if any(len(draft.id or "") > ID_CHARACTERS_MAX for draft in drafts):
        raise UsageError(f"an id of a message or call is too long. most={ID_CHARACTERS_MAX}", kind=Kind.MESSAGE)
    mark = mark_of(call, body)
    # The mark of an import that shows a branch is in the last append, and that of its messages in the one before.
    begun = mark._replace(id=ids_of(call, 2)[1]) if mark is not None and end is not None else mark
    async with opened(call) as there:
        session = there.session
        is_done = await find(session, mark) is not None
        is_begun = is_done or await find(session, begun) is not None
        recorded = await _recorded(session, drafts)
        stored = await session.perform(_as_stored, drafts, recorded)
        found = lacking(words, stored, recorded, await _foreign_results(session, stored, recorded))
        last = recorded.get(found.ids[-1])
        head = (last.head if last is not None else "") or session.head
        if is_done:
            return Imported(nodes=tuple(found.ids), head=head)
        new = _on_head(drafts, found.new, session, body.head) if not is_begun else []
        shown = found.ends[end] if end is not None else None
        if shown is not None and not is_begun:
            _require_end(session, shown, new)
        adds = not is_begun and bool(new or found.edits)
        if adds:
            done = await add(call, there, [*found.edits, *new], begun, wish=Wish(body.head), new_ids=False)
            head = done.head if new else head
        if shown is not None:
            await _show(call, there, mark, shown, goes_on=adds or is_begun)
        elif not adds and mark is not None:
            await add(call, there, [], mark)
        return Imported(nodes=tuple(found.ids), head=head)


async def _recorded(session: AsyncSession, drafts: Sequence[Draft]) -> dict[str, Node]:
    """The nodes that have the ids of drafts."""
    known = await session.perform(_known, [draft.id or "" for draft in drafts])
    return {node.id: node async for node in session.each_node(known)}


def _as_stored(writer: Writer, drafts: Sequence[Draft], recorded: Mapping[str, Node]) -> Steps[list[Draft]]:
    """The drafts; those of recorded nodes as this store would record them, to compare and to amend these nodes."""
    yield from ()
    options = writer.options
    known = {draft.id: options.hooks.stored(draft) for draft in drafts if draft.id in recorded}
    if options.redaction is not None:
        known = {name: options.redaction.draft(draft) for name, draft in known.items()}
    return [known.get(draft.id, draft) for draft in drafts]


async def _foreign_results(
    session: AsyncSession, drafts: Sequence[Draft], recorded: Mapping[str, Node]
) -> dict[str, Node]:
    """The results of recorded messages that were not recorded by an import, by the ids that an import gives them."""
    missing = {
        message.id or "": {str(result.payload["tool_call_id"]): result.id or "" for result in results}
        for message, results in messages_in(drafts)
        if message.id in recorded and any(result.id not in recorded for result in results)
    }
    if not missing:
        return {}
    nodes = await session.nodes()
    below: dict[str | None, list[str]] = {}
    for name, parent in zip(nodes.ids, nodes.parents, strict=True):
        below.setdefault(parent, []).append(name)
    found: dict[str, Node] = {}
    for message, names in missing.items():
        async for call, node in _results_below(session, message, below):
            if call in names:
                found.setdefault(names[call], node)
    return found


async def _results_below(
    session: AsyncSession, message: str, below: Mapping[str | None, Sequence[str]]
) -> AsyncIterator[tuple[str, Node]]:
    """The messages behind a message that hold only results, each by the calls that it answers."""
    level = below.get(message, ())
    while level:
        deeper: list[str] = []
        async for node in session.each_node(level):
            parts = parts_of(node.payload)
            results = [part for part in parts if isinstance(part, Result)]
            if results and len(results) == len(parts):
                deeper += below.get(node.id, ())
                for result in results:
                    yield result.call, node
        level = deeper


def _on_head(drafts: Sequence[Draft], new: list[Draft], session: AsyncSession, head: str | None) -> list[Draft]:
    """Return the new drafts; if all messages are new, the first one continues from the head's node."""
    tip = session.node if head is None else session.heads.get(head)
    begins = bool(new) and new[0].id == drafts[0].id and new[0].parent is None and tip is not None
    return [msgspec.structs.replace(new[0], parent=tip), *new[1:]] if begins else new


def _require_end(session: AsyncSession, end: str, new: Sequence[Draft]) -> None:
    """Require that a branch ends at a message once the new ones are recorded.

    Raises:
        UsageError: None does.
    """
    goes_on = any(draft.parent == end for draft in new)
    is_tip = end in session.heads.values() and not (goes_on and end == session.node)
    if not is_tip and (goes_on or all(draft.id != end for draft in new)):
        raise UsageError(f"no branch ends there. headId={end!r}", kind=Kind.HEAD)


async def _show(call: Call, there: Opened, mark: Mark | None, end: str, *, goes_on: bool) -> None:
    """Switch to the head that points to a message; if another client went on from there since, to that client's."""
    session = there.session
    await session.refresh()
    found = next((name for name, node in session.heads.items() if node == end), None)
    head = found or (await session.get(end, blobs=False)).head

    async def is_there() -> bool:
        return head in {"", session.head}

    await go(call, there, mark, verbs.navigation.switch, head, is_there=is_there, goes_on=goes_on)


def _known(reader: Readable, ids: Sequence[str]) -> Steps[list[str]]:
    """The given ids that are nodes."""
    return list((yield from reader.replica.ask(lambda look: look.nodes(ids))))
