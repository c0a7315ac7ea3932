"""Go elsewhere in a session: another node, another branch, an earlier checkpoint. Durable like everything else.

Rule 1: the records that the new context needs are brought into `latest` before the move is recorded, so two reads
resume it even after a kill at any moment.
Rule 2: a move is one append: the head record and a full checkpoint. What was left behind stays as a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treering.checkpoint.context import Context
from treering.errors import NotFoundError, UsageError
from treering.format.record import Skeleton, skeleton_of
from treering.session.basis import in_hand
from treering.session.reader import Restored
from treering.session.recording import Change, Recording
from treering.session.verbs import flush
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import HERE, branch_summary


def checkout(writer: Writer, node: str | None, *, keep_state: bool = False) -> Steps[None]:
    """Stand at `node`: what is appended next continues from there, and the model sees what it saw there.

    The head in hand moves. Nodes behind `node` stay in the graph, as a branch.

    Args:
        writer: The session.
        node: Any node of the session; None is the place before the first one, to begin again with another first
            message.
        keep_state: Keep the agent's present state; else it becomes what it was at `node`.

    Raises:
        NotFoundError: There is no such node.
        ConflictError: Somebody else writes this exclusive session.
    """
    yield from _navigate(writer, "checkout", None, lambda: node, keep_state=keep_state)


def switch(writer: Writer, head: str, *, keep_state: bool = False) -> Steps[None]:
    """Go on with another head.

    Raises:
        NotFoundError: There is no such head.
    """

    def tip() -> str | None:
        heads = writer.state.heads.heads
        if head not in heads:
            raise NotFoundError(f"no such head. head={head!r}, known={sorted(heads)!r}", kind="head")
        return heads[head]

    yield from flush(writer)
    yield from _navigate(writer, "switch", head, tip, keep_state=keep_state)


def branch(
    writer: Writer, head: str, *, at: str | None = None, summary: str | None = None, keep_state: bool = False
) -> Steps[None]:
    """Make a new head and go on with it; the old one stays where it is.

    Args:
        writer: The session.
        head: Its name, not taken yet.
        at: The node to branch from; None: where the session stands.
        summary: What the model is told of the branch left behind; recorded as the first node of the new one.
        keep_state: Keep the agent's present state; else it becomes what it was at `at`.

    Raises:
        UsageError: There is a head of that name.
        NotFoundError: There is no such node.
    """

    def start() -> str | None:
        if not head or head in writer.state.heads.heads:
            raise UsageError(f"head exists already, or the name is empty. head={head!r}", kind="head")
        return writer.at_node if at is None else at

    start()
    yield from flush(writer)  # it decides where the session stands
    yield from _navigate(writer, "branch", head, start, keep_state=keep_state, summary=summary)


def rewind(writer: Writer, checkpoint: str) -> Steps[None]:
    """Go back to a checkpoint: its state, context and node together. What came after stays as a branch.

    Raises:
        NotFoundError: There is no such checkpoint, or it was pruned.
    """
    yield from flush(writer)
    index = yield from writer.index()
    node = index.checkpoint(checkpoint).node
    yield from _navigate(writer, "rewind", None, lambda: node, checkpoint=checkpoint)


def drop_head(writer: Writer, head: str) -> Steps[None]:
    """Forget a head; its nodes stay.

    Raises:
        NotFoundError: There is no such head.
        UsageError: It is the one in hand.
    """
    if head not in writer.state.heads.heads:
        raise NotFoundError(f"no such head. head={head!r}", kind="head")
    if head == writer.at_head:
        raise UsageError(f"cannot drop the head in hand; switch to another one first. head={head!r}", kind="head")

    def plan() -> Steps[Recording]:
        yield from ()
        recording = Recording(writer)
        recording.forget(head)
        return recording

    yield from flush(writer)
    yield from writer.write(plan)


def _navigate(
    writer: Writer,
    kind: str,
    head: str | None,
    where: Callable[[], str | None],
    *,
    checkpoint: str | None = None,
    keep_state: bool = False,
    summary: str | None = None,
) -> Steps[None]:
    """Move a head and stand there.

    Args:
        writer: The session.
        kind: The verb, for the record and the hooks.
        head: The head to move; None: the one in hand, or one beside it if others moved that on.
        where: The node to stand at, asked whenever the session may have moved on; refuses if it cannot be done now.
        checkpoint: Restore this one, made at that node.
        keep_state: Keep the agent's present state.
        summary: Recorded as the first node there.
    """
    facts: Mapping[str, object] = {"kind": kind, "head": head or writer.at_head, "node": where()}
    writer.options.hooks.call("before_navigation", **facts)
    yield from flush(writer)

    def plan() -> Steps[Recording]:
        yield from writer.anchor()
        recording = Recording(writer, in_hand(writer, says_state=keep_state))
        name, node = head or recording.head, where()
        restored = yield from _target(writer, node, checkpoint, name)
        yield from writer.bring(restored)
        recording.move(kind, name, node)
        recording.context = restored.context
        recording.checkpoint = writer.state.checkpoint if keep_state else restored.checkpoint
        if summary is not None:
            recording.draft(branch_summary(summary, source=writer.at_node))
        recording.keep(Change(navigated=True))
        return recording

    done = yield from writer.write(plan)
    made = done.made.id if done.made else None
    writer.options.hooks.call("after_navigation", **facts, checkpoint=made)


def _target(writer: Writer, node: str | None, checkpoint: str | None, head: str) -> Steps[Restored]:
    """What the session will be like; without a read if it stands there already."""
    state, heads = writer.state, writer.state.heads.heads
    own = head not in heads or (head == writer.at_head and not writer.behind)
    here = node == writer.at_node and own
    if checkpoint is None and here and state.context_at == node:
        return Restored(node, state.context, dict(state.lines), state.checkpoint)
    if checkpoint is None and node is None and heads.get(head, "") is not None:
        return Restored(None, writer.policy.build([]), {}, None)  # a fresh start; who stands there keeps its state
    if checkpoint is None and own and (restored := (yield from _ahead(writer, node))) is not None:
        return restored
    return (yield from writer.restore(node, checkpoint=HERE if checkpoint is None else checkpoint, head=head))


def _ahead(writer: Writer, node: str | None) -> Steps[Restored | None]:
    """What the session will be like at a node that was recorded just now behind the one in hand.

    The context in hand and the new nodes tell it then. None where they do not: the index of the whole session does.
    """
    state, found = writer.state, writer.state.checkpoint
    here = (writer.at_head, writer.at_node)
    if found is None or (found.head, found.node) != here or state.parent_gone or state.context != found.context:
        return None  # what another head or an edit left here may count
    rows = [skeleton_of(line) for line in writer.view.tail.lines]
    path = _path_to(node, writer.at_node, rows)
    if path is None or any(row.type in ("checkpoint", "edit") and row.target in path for row in rows):
        return None
    context: Context | None = state.context
    for row in path.values():
        context = writer.policy.extend(context, row) if context is not None else None
    if context is None or not path.keys() | state.lines.keys() >= {*context.nodes}:
        return None
    lines = yield from writer.lines_at([path[name].at for name in context.nodes if name in path])
    new = {name: lines[path[name].at] for name in context.nodes if name in path}
    yield from writer.fetch_blobs(new.values(), context)
    return Restored(node, context, state.lines | new, found)


def _path_to(node: str | None, start: str | None, rows: Sequence[Skeleton]) -> dict[str, Skeleton] | None:
    """Return the nodes that lead from one to another; None if not all of them are among some records."""
    nodes: dict[str | None, Skeleton] = {}
    for row in rows:
        if row.type == "node":
            nodes.setdefault(row.id, row)
    path: list[Skeleton] = []
    while node != start:
        if node not in nodes:
            return None
        row = nodes.pop(node)
        path.append(row)
        node = row.parent
    return {row.id: row for row in reversed(path)}
