"""Compute the context after records that do not determine it: the caller chose a context, or a record compacts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from treering.checkpoint.context import Context, Item
from treering.errors import UsageError
from treering.format import values
from treering.format.erasure import is_erased
from treering.format.record import Skeleton, decode_record, encode_record, has_body, skeleton_of_record
from treering.kinds import Kind
from treering.session.content import ContextItem, Restored
from treering.session.pairs import require_calls, whole
from treering.session.position import Place
from treering.session.recording import Recording
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.node import Draft


def chosen_context(writer: Writer, context: Sequence[ContextItem | str], *, as_it_is: bool = False) -> Steps[Context]:
    """Return the context that a caller chose; the records that it needs are pinned in `latest`."""
    state, names = writer.replica.state, [node_of(wanted) for wanted in context]
    seen, lines = state.context, state.lines
    shown = {item.node: item for item in seen.items}
    others = yield from _shown_alone(writer, [name for name in names if name not in shown])
    there = shown | {item.node: item for item in others.context.items}
    if not as_it_is:
        named = seen.with_items([there[name] for name in context if isinstance(name, str)])
        read = iter(writer.content.messages(named, lines | others.lines if others.lines else lines))
        given = [next(read) if isinstance(wanted, str) else wanted for wanted in context]
        yield from require_calls(writer, given, lambda: writer.content.messages(seen, lines))
    if others.lines:
        yield from writer.upkeep.pin(others)
    items: list[Item] = []
    messages: tuple[dict[str, Any], ...] = ()
    for wanted, node in zip(context, names, strict=True):
        item = there[node]
        if not isinstance(wanted, str):
            message = _redacted(writer, wanted.message, len(items))
            if node not in shown or not _is_as_recorded(message, item, lines.get(node)):
                messages = messages or _shown_and_sent(writer, writer.content.messages(seen, lines))
                line = lines.get(node) or others.lines.get(node)
                # rule: no-copies-after
                is_gone = line is not None and is_erased(bytes(decode_record(line).body))
                if not is_gone and not any(node in each and values.alike(message, each[node]) for each in messages):
                    item = Item(node, item.view, values.encode(message))
        items.append(item)
    return seen.with_items(items)


def _is_as_recorded(message: object, item: Item, line: bytes | None) -> bool:
    """Whether a message equals that of an item, by its bytes: most do, and then nothing has to be decoded."""
    if item.view or line is None:
        return False
    try:
        encoded = values.encode(message)
    except UsageError:  # the caller compares it by value, and refuses it if it differs
        return False
    return has_body(line, encoded) if item.message is None else item.message == encoded


def _shown_and_sent(writer: Writer, items: Sequence[ContextItem]) -> tuple[dict[str, Any], ...]:
    """The messages of a context by node: as they were recorded, and as the policy sends them."""
    return tuple([{each.node: each.message for each in shown} for shown in (items, whole(writer, items))])


def node_of(wanted: ContextItem | str) -> str:
    """The node that an item of a chosen context names."""
    return wanted if isinstance(wanted, str) else wanted.node


def _redacted(writer: Writer, message: object, at: int) -> object:
    """A message as it may be stored, at some place of a chosen context."""
    redaction = writer.options.redaction
    return message if redaction is None else redaction.value(message, f"context[{at}]")


def in_order(context: Context, wanted: Sequence[str], own: Collection[str | None]) -> Context:
    """Return `context` with its last items, those in `own`, moved to the places that `wanted` gives them."""
    new = {item.node: item for item in context.items if item.node in own}
    hidden = [name for name in wanted if name in own and name not in new]
    if hidden:
        raise UsageError(
            f"the policy does not show this message, so no context can. node={hidden[0]!r}", kind=Kind.NODE
        )
    rest = iter([item for item in context.items if item.node not in own])
    placed = [new[name] if name in own else next(rest) for name in wanted]
    return context.with_items([*placed, *rest])


def edits_of_own(
    writer: Writer, context: Sequence[ContextItem | str], own: Mapping[str | None, Draft]
) -> dict[str, bytes]:
    """The messages, encoded, that a chosen context shows in place of those of the drafts in `own`, by node."""
    return {
        each.node: values.encode(_redacted(writer, each.message, at))
        for at, each in enumerate(context)
        if not isinstance(each, str) and each.node in own and not values.alike(each.message, own[each.node].payload)
    }


def _shown_alone(writer: Writer, nodes: Sequence[str]) -> Steps[Restored]:
    """The items by which the policy shows nodes outside the context, later edits applied, with their records."""
    if not nodes:
        return Restored(writer.position.node, Context(), {}, None)
    index = yield from writer.replica.index()
    items = []
    for node in nodes:
        alone = writer.replica.policy.extend(Context(), index.graph.node(node)) or Context()
        items.append(next((item for item in alone.items if item.node == node), Item(node)))
    context = yield from writer.content.edited(Context(tuple(items)))
    lines = yield from writer.content.context_lines(context)
    yield from writer.blobs.fetch(lines.values(), context)
    missing = [node for node in nodes if node not in set(context.nodes)]
    if missing:
        raise UsageError(f"node is retracted and cannot be shown. node={missing[0]!r}", kind=Kind.NODE)
    return Restored(writer.position.node, context, lines, None)


class _Recorded(NamedTuple):
    """The nodes of a session, followed by those that are about to be recorded."""

    graph: Graph
    new: list[Skeleton]

    def between(self, first: str, last: str) -> list[Skeleton]:
        """See `treering.checkpoint.policy.Recorded`."""
        names = [row.id for row in self.new]
        if last not in names:
            return self.graph.between(first, last)
        before = self.new[: names.index(last)]
        if first in self.graph:
            return [*self.graph.since(first), *before]
        return before[names.index(first) :] if first in names else []


def compacted(writer: Writer, recording: Recording, place: Place) -> Steps[bool]:
    """Compute the context after a compaction, or refuse the compaction; return whether the whole path was needed.

    Raises:
        UsageError: The context would show the result of a tool call without the call.
    """
    if recording.context is None:
        recording.context = yield from rebuilt(writer, recording)
        return True
    seen = place.newest or writer.replica.state
    new = [record for record in recording.records if record.type == "node"]
    lines = seen.lines | {record.id: encode_record(record) for record in new}
    before = Context((*seen.context.items, *(Item(record.id) for record in new)))
    yield from require_calls(
        writer, writer.content.messages(recording.context, lines), lambda: writer.content.messages(before, lines)
    )
    return False


def rebuilt(writer: Writer, recording: Recording, *, as_it_is: bool = False) -> Steps[Context | None]:
    """The context after new nodes, computed from the whole path: a compaction keeps nodes that the context lacks.

    Args:
        writer: The session.
        recording: The records to be appended.
        as_it_is: Allow results without their calls.
    """
    index = yield from writer.replica.index()
    new = [skeleton_of_record(record, 0) for record in recording.records if record.type == "node" and record.head]
    rows, below, node = {row.id: row for row in new}, list[Skeleton](), recording.node
    while node is not None and node in rows:
        below.append(rows[node])
        node = rows[node].parent
    path = [*index.graph.path(node), *reversed(below)]
    context = yield from writer.content.edited(writer.replica.policy.build(path, _Recorded(index.graph, new)))
    old = context.with_items([item for item in context.items if item.node in index.graph])
    lines = yield from writer.content.context_lines(old)
    yield from writer.blobs.fetch(lines.values(), old)
    if not as_it_is:
        yield from require_calls(writer, writer.content.messages(old, lines), tuple)
    yield from writer.upkeep.pin(Restored(writer.position.node, old, lines, None))
    return context
