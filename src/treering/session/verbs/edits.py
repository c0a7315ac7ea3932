"""Change how a node is seen from now on; the original record stays in the journal."""

from __future__ import annotations

from functools import partial
from typing import Final

from treering.checkpoint.context import Context
from treering.errors import UsageError
from treering.format.record import read_brief
from treering.kinds import Kind
from treering.session.content import Restored
from treering.session.position import ANYWHERE
from treering.session.record import Rider, flush, record, with_rider
from treering.session.recording import Change, Recording
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.node import Draft

HEADS_TOLD_MAX: Final = 16


def amend(writer: Writer, node: str, payload: object) -> Steps[None]:
    """Show another payload for a node from now on; the original stays readable in the journal.

    The model sees this payload as a message, also in place of a summary and of an entry of another program.

    Raises:
        UsageError: The node was erased.
    """
    if node in writer.replica.burials.names or (yield from _is_tombstone(writer, node)):
        raise UsageError(f"node was erased and cannot be amended. node={node!r}", kind=Kind.ERASED)
    yield from record(writer, [Draft(type="edit", kind="amend", target=node, payload=payload)])


def _is_tombstone(writer: Writer, node: str) -> Steps[bool]:
    """Whether a node was erased where this session was copied from: its own list of erasures does not name it."""
    found = yield from writer.replica.ask(lambda look: look.nodes([node]))
    return node in found and read_brief(found[node]).get("erased") is True


def retract(writer: Writer, node: str) -> Steps[None]:
    """Hide a node from the context and from pages; `unretract` shows it again."""
    yield from record(writer, [Draft(type="edit", kind="retract", target=node)])


def unretract(writer: Writer, node: str, *, rider: Rider | None = None) -> Steps[None]:
    """Show a retracted node again: in pages, and at its former place in the context.

    Args:
        writer: The session.
        node: Its id.
        rider: What the caller adds to the append.

    Raises:
        UsageError: It is not retracted.
    """
    yield from flush(writer)
    plan = partial(_unretracted, writer, node)
    yield from writer.appender.write(plan if rider is None else with_rider(rider, plan))


def _unretracted(writer: Writer, node: str) -> Steps[Recording]:
    yield from writer.position.ensure_context()
    index = yield from writer.replica.index()
    hidden_at = index.retracted_at(node)
    if hidden_at is None:
        raise UsageError(f"node is not retracted. node={node!r}", kind=Kind.NODE)
    earlier = yield from writer.content.restore(writer.position.node, before=hidden_at)
    place = yield from writer.position.find_place(ANYWHERE, says_state=False, adds_nodes=True, ends=True)
    recording = Recording(writer, place)
    now = recording.context or writer.replica.state.context
    context = _put_back(index.graph, now, earlier.context, node)
    if context is None:
        whole = writer.replica.policy.build(index.graph.path(writer.position.node), index.graph)
        context = _inserted(index.graph, now, whole, node) if node in whole.nodes else now
    brief: dict[str, object] = {
        "undo": True,
        **_told_heads(writer, index.graph, node, unseen=node not in context.nodes),
    }
    recording.draft(Draft(type="edit", kind="retract", target=node, brief=brief))
    if node in context.nodes:
        lines = {name: line for name, line in earlier.lines.items() if name == node}
        yield from writer.upkeep.pin(Restored(writer.position.node, context, lines, None))
        recording.context = context
        recording.keep(Change(navigated=True))
    return recording


def _told_heads(writer: Writer, graph: Graph, node: str, *, unseen: bool) -> dict[str, list[str]]:
    """The heads whose context an undone retraction may change: they have the node on their path.

    A reader of another head need not read the graph then. Of many heads none are named.

    Args:
        writer: The session.
        graph: Its graph.
        node: The node.
        unseen: The context at the handle's place does not show the node, although it is not hidden any more.
    """
    heads, here = writer.replica.state.heads.heads, (writer.head, writer.node)
    if len(heads) > HEADS_TOLD_MAX:
        return {}
    found = [name for name, tip in heads.items() if any(row.id == node for row in graph.path(tip))]
    return {"heads": [name for name in found if not (unseen and (name, heads[name]) == here)]}


def _put_back(graph: Graph, context: Context, earlier: Context, node: str) -> Context | None:
    """Return `context` with `node` inserted after the node that it followed in `earlier`; later changes are kept.

    It stays out if all nodes before it in `earlier` were left out since then, or all nodes, not counting retracted
    ones. None if `earlier` has no other node to tell.
    """
    if node not in earlier.nodes:
        return context
    place, there = earlier.nodes.index(node), set(context.nodes)
    above, below = (
        [name for name in names if name not in graph.annotations.retracted]
        for names in (earlier.nodes[:place], earlier.nodes[place + 1 :])
    )
    if not above and not below:
        return None
    if there.isdisjoint(above or below):
        return context if there else context.with_items([earlier.items[place]])
    return _inserted(graph, context, earlier, node)


def _inserted(graph: Graph, context: Context, other: Context, node: str) -> Context:
    """Return `context` with the item of `node` in another context, after the last node that is before it there.

    Several nodes that are put back at one place are ordered by position.
    """
    shown, known, place = context.nodes, set(other.nodes), other.nodes.index(node)
    before = next((name for name in reversed(other.nodes[:place]) if name in shown), None)
    index = 0 if before is None else shown.index(before) + 1
    while index < len(shown) and shown[index] not in known and graph.node(shown[index]).at < graph.node(node).at:
        index += 1
    return context.with_items([*context.items[:index], other.items[place], *context.items[index:]])
