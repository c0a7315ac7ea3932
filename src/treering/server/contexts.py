"""The context at a point of a session, a page at a time, and the messages on the path that are not in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated

from msgspec import Meta

from treering.checkpoint.context import Context
from treering.errors import UsageError
from treering.format.record import Skeleton
from treering.kinds import Kind
from treering.server.answers import ContextView, LeftOut, Run
from treering.server.call import Call
from treering.server.limits import IDS_MAX, ROWS_MAX
from treering.server.route import Query
from treering.session.payload import decoded_state
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import MESSAGES


class PointQuery(Query, frozen=True, kw_only=True):
    """A point of a session, by default its current one; and which messages of the context to read, by default all."""

    node: str | None = None
    checkpoint: str | None = None
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX)] | None = None
    """Only the last `limit` messages."""
    before: Annotated[int, Meta(ge=1)] | None = None
    """`before` of the page that follows: only messages in front of that page."""


async def context(call: Call, asked: PointQuery) -> ContextView:
    """Read the context at a node or a checkpoint, the agent's state there, and which messages were left out."""
    if asked.node is not None and asked.checkpoint is not None:
        raise UsageError("a point is a node or a checkpoint, and not both", kind=Kind.REQUEST)
    return await (await call.view()).perform(_context, asked)


def _context(reader: Readable, asked: PointQuery) -> Steps[ContextView]:
    page = partial(_page, limit=asked.limit, before=asked.before)
    policy, content, now = reader.replica.policy.name, reader.content, reader.replica.state
    state: Mapping[str, bytes]
    if asked.checkpoint is not None:
        made = yield from content.load_checkpoint(asked.checkpoint)
        whole, node, state, policy = made.context, made.node, made.state, made.policy
        lines = yield from content.context_lines(page(whole))
        yield from reader.blobs.fetch(lines.values(), page(whole))
        name: str | None = made.id
    elif asked.node is not None:
        restored = yield from content.restore(asked.node, head=reader.head, part=page, state=False)
        whole, node, lines, newest = restored.context, asked.node, restored.lines, restored.checkpoint
        state, name = (newest.state, newest.id) if newest else ({}, None)
    else:
        whole, node, lines, state = now.context, now.tip, now.lines, reader.state_values
        name = reader.checkpoint.id if reader.checkpoint else None
    shown = page(whole)
    first = len(whole.items) if asked.before is None else min(asked.before - 1, len(whole.items))
    first -= len(shown.items)
    return ContextView(
        items=content.messages(shown, lines),
        total=len(whole.items),
        before=first + 1 if first > 0 else None,
        left_out=(yield from _left_out(reader, node, whole)),
        settings=whole.settings,
        state=decoded_state(state),
        checkpoint=name,
        policy=policy,
    )


def _page(context: Context, *, limit: int | None, before: int | None) -> Context:
    items = context.items if before is None else context.items[: before - 1]
    return context.with_items(items if limit is None else items[-limit:])


def _left_out(reader: Readable, node: str | None, context: Context) -> Steps[LeftOut]:
    """The messages on the path to a node that are not in its context."""
    graph = (yield from reader.replica.index()).graph
    runs = [*_runs(graph.path(node), frozenset(context.nodes))]
    return LeftOut(messages=sum(run.count for run in runs), runs=tuple(runs[-IDS_MAX:]), complete=len(runs) <= IDS_MAX)


def _runs(path: list[Skeleton], seen: frozenset[str]) -> Iterator[Run]:
    """Runs of messages that are not in the context. Nodes that are no messages do not interrupt a run."""
    run: list[Skeleton] = []
    for row in path:
        if row.id in seen and run:
            yield _run(run)
            run = []
        elif row.id not in seen and row.kind in MESSAGES:
            run.append(row)
    if run:
        yield _run(run)


def _run(rows: list[Skeleton]) -> Run:
    return Run(first=rows[0].id, last=rows[-1].id, at=(rows[0].at, rows[-1].at), count=len(rows))
