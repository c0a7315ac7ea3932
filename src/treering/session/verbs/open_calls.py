"""Tool calls without a result, as after a kill between a call and its result."""

from __future__ import annotations

import msgspec

from treering.calls import interrupted, pairing
from treering.errors import UsageError
from treering.kinds import Kind
from treering.session.pairs import recorded, whole
from treering.session.position import Wish
from treering.session.reader import Readable
from treering.session.record import Appended, flush, record
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool that has no result yet."""

    id: str
    """The call's id, which its result names; empty if it has none."""
    name: str
    """The name of the tool."""
    arguments: object
    """The arguments as recorded: a JSON value, or the text of one."""
    node: str
    """The node whose message makes the call."""


def open_calls(reader: Readable) -> Steps[tuple[OpenCall, ...]]:
    """The tool calls at the end of the context that have no result yet, in order; the context leaves them out.

    There are such calls while a turn is running, or after an agent was killed in one. A call after which the
    conversation continued is not among them: no provider accepts a result for it any more.
    """
    yield from ()
    items = whole(reader, recorded(reader), keep_open=True)
    found = pairing(item.message for item in items).open
    return tuple(
        OpenCall(id=each.call.id, name=each.call.name, arguments=each.call.arguments, node=items[each.at].node)
        for each in found
    )


def close_open_calls(writer: Writer, /, reason: str) -> Steps[Appended]:
    """Record an error result with the reason for every open call, all in one append.

    Each has the shape of its call, and `interrupted` in its brief. Without open calls nothing is written.

    Args:
        writer: The session.
        reason: The text for the model, such as `"the agent was stopped before this call returned"`.

    Returns:
        The nodes of the results; one node if the API answers all calls in one message.

    Raises:
        UsageError: `reason` is empty.
        HeadMovedError: Another writer moved the head; refresh, and look again.
    """
    if not reason.strip():
        raise UsageError("say why the calls have no result: the model gets the reason", kind=Kind.REASON)
    yield from flush(writer)
    if writer.replica.exists:
        yield from writer.position.ensure_context()
    items = whole(writer, recorded(writer), keep_open=True)
    found = pairing(item.message for item in items).open
    answers = interrupted([(items[each.at].message, each.call) for each in found], reason)
    if not answers:
        return Appended(nodes=(), head=writer.position.head)
    brief: dict[str, object] = {"interrupted": True}
    drafts = [Draft(role=str(answer.get("role", "")), payload=answer, brief=brief) for answer in answers]
    return (yield from record(writer, drafts, wish=Wish(expect=writer.position.node)))
