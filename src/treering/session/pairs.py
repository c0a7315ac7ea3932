"""A context that providers take: every call of a tool in it has its result, and every result its call.

What is recorded stays as it is. What providers would refuse is left out where a context is handed out, and a cut that
would part a result from its call is refused before anything is written. What belongs together says `treering.calls`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from treering.calls import pairing
from treering.checkpoint.policies.walk import Walk, sent
from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.session.reader import ContextItem, Reader
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Node

STEP_NODES_MAX = 64  # a call stands right in front of its results


def recorded(reader: Reader) -> tuple[ContextItem, ...]:
    """The context in hand as it was recorded, messages put off included."""
    items = reader.messages(reader.state.context, reader.state.lines)
    return items + _put_off(reader) if isinstance(reader, Writer) and reader.put_off else items


def _put_off(writer: Writer) -> tuple[ContextItem, ...]:
    """Messages that are not recorded yet, because the session was opened that way."""
    shown = [draft for draft in writer.put_off if draft.type == "node" and draft.kind == "message"]
    return tuple(ContextItem(draft.id or "", draft.payload) for draft in shown)


def whole(reader: Reader, items: Sequence[ContextItem], *, keep_open: bool = False) -> tuple[ContextItem, ...]:
    """Return a context without what providers refuse, in the order in which it is sent: the policy says how.

    Args:
        reader: The session.
        items: The context as it was recorded.
        keep_open: Leave in the calls that a next message can answer.
    """
    policy, messages = reader.policy, [item.message for item in items]
    found = (
        policy.sent(messages, keep_open=keep_open) if isinstance(policy, Walk) else sent(messages, keep_open=keep_open)
    )
    return tuple(
        items[at] if message is messages[at] else ContextItem(items[at].node, message) for at, message in found
    )


def require_calls(reader: Reader, new: Sequence[ContextItem], old: Sequence[ContextItem]) -> Steps[None]:
    """Refuse a context that shows a result and leaves out the node of its call.

    Args:
        reader: The session.
        new: What is to be shown.
        old: What is shown so far.

    Raises:
        UsageError: It names the node that has to be shown, too.
    """
    orphans = pairing(item.message for item in new).orphans
    alone = {(new[each.at].node, each.result.id) for each in orphans}
    if not alone:
        return
    shown = {item.node for item in new}
    _refuse_parted(shown, alone, old)
    for node in sorted({node for node, _ in alone} - {item.node for item in old}):
        index = yield from reader.index()
        rows = index.graph.path(node)[-STEP_NODES_MAX:]
        before = yield from reader.nodes(row for row in rows if row.id not in index.graph.annotations.retracted)
        _refuse_parted(shown, alone, [ContextItem(each.id, _message(each)) for each in before])


def _message(node: Node) -> object:
    return node.payload.message if isinstance(node.payload, Erased) else node.payload


def _refuse_parted(shown: Collection[str], alone: Collection[tuple[str, str]], old: Sequence[ContextItem]) -> None:
    """Refuse to show results without calls that `old` has, in nodes that are not shown.

    Args:
        shown: The nodes of the context to be.
        alone: Its results that have no call there: the node, and the id of the call.
        old: Where the calls may be.
    """
    pairs = pairing(item.message for item in old).pairs
    parted = [
        pair
        for pair in pairs
        if (old[pair.result_at].node, pair.result.id) in alone and old[pair.call_at].node not in shown
    ]
    if not parted:
        return  # it had no call before, either
    begin = min(pair.call_at for pair in parted)
    while (earlier := min((pair.call_at for pair in pairs if pair.result_at >= begin), default=begin)) < begin:
        begin = earlier
    first = parted[0]
    raise UsageError(
        f"a result would stand in the context without its call. call={first.call.id!r}, "
        f"result={old[first.result_at].node!r}",
        kind="parted",
        remedy=f"begin at node {old[begin].node!r}, which makes the call, or behind the results",
    )
