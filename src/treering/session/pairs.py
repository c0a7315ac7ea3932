"""Make a context that providers accept: every tool call in it has its result, and every result its call.

Records do not change. Messages that providers would refuse are left out when a context is returned. A new context that
would separate a result from its call is refused before anything is written. `treering.calls` pairs calls and results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Raw

from treering._late import Kind
from treering.calls import pairing
from treering.checkpoint.context import Context
from treering.checkpoint.policies import Walk, sent
from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.format.record import EMPTY, Record, skeleton_of_record
from treering.format.values import copied, encode
from treering.session.content import ContextItem
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import Node

STEP_NODES_MAX = 64  # a call comes right before its results


def recorded(reader: Readable) -> tuple[ContextItem, ...]:
    """The current context as it was recorded, buffered messages included.

    Raises:
        UnavailableError: The context or a record of it could not be read when it was looked for.
    """
    reader.content.require_at(reader.node)
    items = reader.content.messages(reader.replica.state.context, reader.replica.state.lines)
    drafts = [draft for draft in reader.unrecorded_here if draft.type == "node" and draft.kind == "message"]
    return (*items, *(ContextItem(node=draft.id or "", message=copied(draft.payload)) for draft in drafts))


def settled(reader: Readable) -> dict[str, object]:
    """The settings at the node of the session, with the changes in buffered drafts."""
    context, policy = Context((), reader.replica.state.context.settings), reader.replica.policy
    for draft in reader.unrecorded_here:
        if draft.type == "node" and draft.kind not in ("message", "compaction"):
            brief = Raw(encode(draft.brief)) if draft.brief else EMPTY
            node = Record(at=0, by="", type="node", kind=draft.kind, id=draft.id or "", brief=brief)
            context = Context((), (policy.extend(context, skeleton_of_record(node, 0)) or context).settings)
    return context.settings


def whole(reader: Readable, items: Sequence[ContextItem], *, keep_open: bool = False) -> tuple[ContextItem, ...]:
    """Return a context without messages that providers refuse, in the order the policy sends them.

    Args:
        reader: The session.
        items: The context as it was recorded.
        keep_open: Keep the calls that the next message can answer.
    """
    policy, messages = reader.replica.policy, [item.message for item in items]
    found = (
        policy.sent(messages, keep_open=keep_open) if isinstance(policy, Walk) else sent(messages, keep_open=keep_open)
    )
    return tuple(
        items[each.at]
        if each.message is messages[each.at]
        else ContextItem(node=items[each.at].node, message=each.message)
        for each in found
    )


def require_calls(
    reader: Readable, new: Sequence[ContextItem], current: Callable[[], Sequence[ContextItem]]
) -> Steps[None]:
    """Refuse a context that shows the result of a tool call but not the call's node.

    Args:
        reader: The session.
        new: The new context.
        current: Returns the current context, which is needed only if a result has no call.

    Raises:
        UsageError: The call's node is missing; the message names it.
    """
    orphans = pairing(item.message for item in new).orphans
    alone = {(new[each.at].node, each.result.id) for each in orphans}
    if not alone:
        return
    shown, old = {item.node for item in new}, current()
    _refuse_parted(shown, alone, old)
    for node in sorted({node for node, _ in alone} - {item.node for item in old}):
        index = yield from reader.replica.index()
        rows = index.graph.path(node)[-STEP_NODES_MAX:]
        before = yield from reader.content.nodes(row for row in rows if row.id not in index.graph.annotations.retracted)
        _refuse_parted(shown, alone, [ContextItem(node=each.id, message=_message(each)) for each in before])


def _message(node: Node) -> object:
    return node.payload.message if isinstance(node.payload, Erased) else node.payload


def _refuse_parted(shown: Collection[str], alone: Collection[tuple[str, str]], old: Sequence[ContextItem]) -> None:
    """Refuse to show results whose calls are in `old`, in nodes that are not shown.

    Args:
        shown: The nodes of the new context.
        alone: The results in it without a call: the node, and the id of the call.
        old: The current context, which may have the calls.
    """
    pairs = pairing(item.message for item in old).pairs
    parted = [
        pair
        for pair in pairs
        if (old[pair.result_at].node, pair.result.id) in alone and old[pair.call_at].node not in shown
    ]
    if not parted:
        return  # it had no call in the old context, either
    begin = min(pair.call_at for pair in parted)
    while (earlier := min((pair.call_at for pair in pairs if pair.result_at >= begin), default=begin)) < begin:
        begin = earlier
    first = parted[0]
    raise UsageError(
        f"a result would stand in the context without its call. call={first.call.id!r}, "
        f"result={old[first.result_at].node!r}",
        kind=Kind.PARTED,
        remedy=f"begin at node {old[begin].node!r}, which makes the call, or behind the results",
    )
