"""Navigate in a session: to another node, another branch, an earlier checkpoint. Each move is durable.

Rule 1: the records that the new context needs are written to `latest` before the move is recorded, so two reads
resume it even after a kill at any moment.
Rule 2: a move is one append: the head record and a full checkpoint. The nodes left behind stay as a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from treering.checkpoint.policy import extend_all
from treering.errors import NotFoundError, UsageError
from treering.format.record import Skeleton, skeleton_of
from treering.kinds import Kind
from treering.session.appender import BufferedCall
from treering.session.content import Restored
from treering.session.record import Rider, flush, hold_back, with_rider
from treering.session.recording import Change, Recording
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import HERE, branch_summary


def checkout(writer: Writer, node: str | None, *, keep_state: bool = False) -> Steps[None]:
    """Move to `node`: the next append continues from there, and the model sees the context of that node.

    The current head moves. Nodes below `node` stay in the graph, as a branch.

    Args:
        writer: The session.
        node: Any node of the session; None is the place before the first one, to begin again with another first
            message.
        keep_state: Keep the agent's current state; else it is restored to that of `node`.

    Raises:
        NotFoundError: There is no such node.
        ConflictError: Another writer writes this exclusive session.
    """
    if node is None and writer.appender.waits_for_answer:
        _begin_again(writer, keep_state=keep_state)
        return
    yield from _navigate(writer, "checkout", None, lambda: node, keep_state=keep_state)


def _begin_again(writer: Writer, *, keep_state: bool) -> None:
    """Go back to the beginning of a session of which nothing is written before the model's first answer."""
    facts: Mapping[str, object] = {"kind": "checkout", "head": writer.position.head, "node": None}
    writer.options.hooks.call("before_navigation", **facts)
    last = writer.appender.buffered[-1:]
    if last and last[0].call is not None and last[0].call.starts_over:
        keep_state = True  # the session stands there already

    def perform(recording: Recording) -> None:
        recording.move("checkout", recording.head, None)
        recording.context = writer.replica.policy.build([])
        recording.checkpoint = recording.checkpoint if keep_state else None
        recording.keep(Change(navigated=True))

    if writer.unrecorded or writer.appender.calls:
        call = BufferedCall(perform, starts_over=True)
        if keep_state:
            call = msgspec.structs.replace(call, state=writer.state_values, manager=writer.manager_value)
        hold_back(writer, call)
    writer.options.hooks.call("after_navigation", **facts, checkpoint=None)


def switch(writer: Writer, head: str, *, keep_state: bool = False, rider: Rider | None = None) -> Steps[None]:
    """Continue on another head.

    Args:
        writer: The session.
        head: Its name.
        keep_state: As for `checkout`.
        rider: What the caller adds to the append.

    Raises:
        NotFoundError: There is no such head.
    """

    def tip() -> str | None:
        heads = writer.replica.state.heads.heads
        if head not in heads:
            raise NotFoundError(f"no such head. head={head!r}, known={sorted(heads)!r}", kind=Kind.HEAD)
        return heads[head]

    yield from flush(writer)
    yield from _navigate(writer, "switch", head, tip, keep_state=keep_state, rider=rider)


def branch(
    writer: Writer,
    head: str,
    *,
    node: str | None = None,
    summary: str | None = None,
    keep_state: bool = False,
    rider: Rider | None = None,
) -> Steps[None]:
    """Make a new head and continue on it; the old one stays where it is.

    Args:
        writer: The session.
        head: Its name, not in use yet.
        node: The node to branch from; None: the current node.
        summary: Describes the branch left behind to the model; recorded as the first node of the new branch.
        keep_state: Keep the agent's current state; else it is restored to that of `node`.
        rider: What the caller adds to the append.

    Raises:
        UsageError: There is a head of that name, or the name is empty. If an earlier call had no answer, it may have
            made the head: `flush` finds out, and `head` is that one then.
        NotFoundError: There is no such node.
    """

    def start() -> str | None:
        if not head or head in writer.replica.state.heads.heads:
            raise UsageError(f"head exists already, or the name is empty. head={head!r}", kind=Kind.HEAD)
        return writer.position.node if node is None else node

    start()
    yield from flush(writer)  # this may move the session's position
    yield from _navigate(writer, "branch", head, start, keep_state=keep_state, summary=summary, rider=rider)


def rewind(writer: Writer, checkpoint: str, *, rider: Rider | None = None) -> Steps[None]:
    """Go back to a checkpoint: its state, context and node together. Later nodes stay as a branch.

    Args:
        writer: The session.
        checkpoint: Its id.
        rider: What the caller adds to the append.

    Raises:
        NotFoundError: There is no such checkpoint, or it was pruned.
    """
    if writer.appender.waits_for_answer:  # no caller can know a checkpoint that is not made yet
        raise NotFoundError(f"checkpoint does not exist. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
    yield from flush(writer)
    node = (yield from writer.replica.ask(lambda look: look.checkpoint(checkpoint))).node
    yield from _navigate(writer, "rewind", None, lambda: node, checkpoint=checkpoint, rider=rider)


def drop_head(writer: Writer, head: str) -> Steps[None]:
    """Forget a head; its nodes stay.

    Raises:
        NotFoundError: There is no such head.
        UsageError: It is the current head.
    """
    yield from flush(writer)  # this may move the session's position

    def plan() -> Steps[Recording]:
        yield from ()
        if head not in writer.replica.state.heads.heads:
            raise NotFoundError(f"no such head. head={head!r}", kind=Kind.HEAD)
        if head == writer.position.head:
            raise UsageError(f"cannot drop the current head; switch to another first. head={head!r}", kind=Kind.HEAD)
        recording = Recording(writer)
        recording.forget(head)
        return recording

    yield from writer.appender.write(plan)


def _navigate(
    writer: Writer,
    kind: str,
    head: str | None,
    where: Callable[[], str | None],
    *,
    checkpoint: str | None = None,
    keep_state: bool = False,
    summary: str | None = None,
    rider: Rider | None = None,
) -> Steps[None]:
    """Move a head, and the handle with it.

    Args:
        writer: The session.
        kind: The verb, for the record and the hooks.
        head: The head to move; None: the current head, or a new head if another writer moved the current one.
        where: Returns the target node, or raises if the move is invalid; called again if the session may have changed.
        checkpoint: Restore this checkpoint, made at that node.
        keep_state: Keep the agent's current state.
        summary: Recorded as the first node there.
        rider: What the caller adds to the append.
    """
    facts: Mapping[str, object] = {"kind": kind, "head": head or writer.position.head, "node": where()}
    writer.options.hooks.call("before_navigation", **facts)
    yield from flush(writer)

    def plan() -> Steps[Recording]:
        yield from writer.position.ensure_context()
        if keep_state:
            yield from writer.position.require_basis()
        recording = Recording(writer, writer.position.in_hand(says_state=keep_state))
        name, node = head or recording.head, where()
        restored = yield from _target(writer, node, checkpoint, name)
        yield from writer.upkeep.pin(restored)  # rule: bring-before-move
        recording.move(kind, name, node)
        recording.context = restored.context
        recording.checkpoint = writer.replica.state.checkpoint if keep_state else restored.checkpoint
        if summary is not None:
            recording.draft(branch_summary(summary, source=writer.position.node))
        recording.keep(Change(navigated=True))
        return recording

    done = yield from writer.appender.write(plan if rider is None else with_rider(rider, plan))
    made = done.made.id if done.made else None
    writer.options.hooks.call("after_navigation", **facts, checkpoint=made)


def _target(writer: Writer, node: str | None, checkpoint: str | None, head: str) -> Steps[Restored]:
    """Context and state at the target; without a read if the session stands there already."""
    state, heads = writer.replica.state, writer.replica.state.heads.heads
    own = head not in heads or (head == writer.position.head and not writer.position.behind)
    here = node == writer.position.node and own
    if checkpoint is None and here and state.context_at == node:
        return Restored(node, state.context, dict(state.lines), state.checkpoint)
    if checkpoint is None and node is None and heads.get(head, "") is not None:
        return Restored(
            None, writer.replica.policy.build([]), {}, None
        )  # a fresh start; a handle that stands there already keeps its state
    if checkpoint is None and own and (restored := (yield from _ahead(writer, node))) is not None:
        return restored
    return (yield from writer.content.restore(node, checkpoint=HERE if checkpoint is None else checkpoint, head=head))


def _ahead(writer: Writer, node: str | None) -> Steps[Restored | None]:
    """Context and state at the current node or one below it, from the current context and the records in the tail.

    None if these do not suffice: then `Content.restore` reads further records.
    """
    state, found = writer.replica.state, writer.replica.state.checkpoint
    here = (writer.position.head, writer.position.node)
    if found is None or (found.head, found.node) != here or state.context != found.context:
        return None  # checkpoints of another head or edits may apply here
    rows = [skeleton_of(line) for line in writer.replica.view.tail.lines]
    path = _path_to(node, writer.position.node, rows)
    if path is None or any(row.type in ("checkpoint", "edit") and row.target in path for row in rows):
        return None
    context = extend_all(writer.replica.policy, state.context, path.values())
    if context is None or not path.keys() | state.lines.keys() >= {*context.nodes}:
        return None
    lines = yield from writer.replica.lines_at([path[name].at for name in context.nodes if name in path])
    new = {name: lines[path[name].at] for name in context.nodes if name in path}
    yield from writer.blobs.fetch(new.values(), context)
    return Restored(node, context, state.lines | new, found)


def _path_to(node: str | None, start: str | None, rows: Sequence[Skeleton]) -> dict[str, Skeleton] | None:
    """Return the nodes from `start` to `node`; None if `rows` lack one of them."""
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
