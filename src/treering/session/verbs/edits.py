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
    context = _put_back(index.graph, recording.context or writer.replica.state.context, earlier.context, node)
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


def _put_back(graph: Graph, context: Context, earlier: Context, node: str) -> Context:
    """Return `context` with `node` inserted after the node that it followed in `earlier`; later changes are kept.

    It stays out if all nodes before it in `earlier` were left out since then, not counting retracted nodes. Several
    nodes put back at one place are ordered by position.
    """
    order, shown = earlier.nodes, context.nodes
    if node not in order:
        return context
    place = order.index(node)
    there = set(shown)
    above = [name for name in order[:place] if name not in graph.annotations.retracted]
    before = next((name for name in reversed(above) if name in there), None)
    if before is None and (above or there.isdisjoint(order[place + 1 :])):
        return context if shown else context.with_items([earlier.items[place]])
    index, known = 0 if before is None else shown.index(before) + 1, set(order)
    while index < len(shown) and shown[index] not in known and graph.node(shown[index]).at < graph.node(node).at:
        index += 1
    return context.with_items([*context.items[:index], earlier.items[place], *context.items[index:]])
