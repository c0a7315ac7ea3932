"""Calls of tools that wait for their results, as after a kill between the two."""

from __future__ import annotations

from typing import NamedTuple

from treering.calls import interrupted, pairing
from treering.errors import UsageError
from treering.session.basis import Wish
from treering.session.pairs import recorded, whole
from treering.session.reader import Reader
from treering.session.verbs import flush, record
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft


class OpenCall(NamedTuple):
    """A call of a tool that has no result yet."""

    id: str
    """By which its result names it; empty if it has none."""
    name: str
    """Of the tool."""
    arguments: object
    """As recorded: a JSON value, or the text of one."""
    node: str
    """Whose message makes the call."""


def open_calls(reader: Reader) -> Steps[tuple[OpenCall, ...]]:
    """The calls at the end of the context that have no result yet, in their order; the context leaves them out.

    A turn is going on, or an agent was killed in it. Calls behind which the conversation went on are not among them: no
    provider takes a result for them any more.
    """
    yield from ()
    items = whole(reader, recorded(reader), keep_open=True)
    found = pairing(item.message for item in items).open
    return tuple(OpenCall(each.call.id, each.call.name, each.call.arguments, items[each.at].node) for each in found)


def close_open_calls(writer: Writer, /, reason: str) -> Steps[tuple[str, ...]]:
    """Record a result for every open call, all in one append: an error that says why there is none.

    Each has the shape of its call, and `interrupted` in its brief. Without open calls nothing is written.

    Args:
        writer: The session.
        reason: What the model is told, such as `"the agent was stopped before this call returned"`.

    Returns:
        The nodes of the results; where an API answers all calls in one message, that is one node.

    Raises:
        UsageError: There is no reason.
        HeadMovedError: Others went on from here; refresh, and look again.
    """
    if not reason.strip():
        raise UsageError("say why the calls have no result: the model is told", kind="reason")
    yield from flush(writer)
    if writer.begun:
        yield from writer.anchor()
    items = whole(writer, recorded(writer), keep_open=True)
    found = pairing(item.message for item in items).open
    answers = interrupted([(items[each.at].message, each.call) for each in found], reason)
    if not answers:
        return ()
    brief: dict[str, object] = {"interrupted": True}
    drafts = [Draft(role=str(answer.get("role", "")), payload=answer, brief=brief) for answer in answers]
    return (yield from record(writer, drafts, wish=Wish(expect=writer.at_node))).nodes
