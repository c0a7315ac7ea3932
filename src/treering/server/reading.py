"""Routes that read from a store over HTTP. Each function answers one route; its first line is its documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

import treering
from treering.api.async_view import AsyncView
from treering.errors import NotFoundError
from treering.kinds import Kind
from treering.server.answers import (
    About,
    Branches,
    CheckpointRows,
    Counts,
    Ids,
    NodeCard,
    OutlinePlace,
    OutlineWindow,
    SessionCard,
    SessionRow,
    SessionRows,
)
from treering.server.call import Call
from treering.server.limits import CARDS_SEARCHED_MAX, IDS_MAX, OUTLINE_ROWS_MAX, ROWS_MAX
from treering.server.route import Query
from treering.session.reader import Readable
from treering.session.verbs.comparing import Diff
from treering.session.verbs.reading import CheckpointView, History, Note, note_of, payload_in
from treering.storage.requests import Steps
from treering.store.catalogue import Sessions
from treering.store.info import SessionInfo
from treering.transcript.graph import GraphProblem

Limit = Annotated[int, Meta(ge=1, le=ROWS_MAX)]

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""Media types that a browser may show: unlike SVG, none of these can contain a script."""


async def about(call: Call) -> About:
    """Describe this server: its version and features."""
    return About(
        version=treering.__version__,
        read_only=call.service.read_only,
        features={"search": call.service.searches is not None, "streams": True},
    )


class SessionsQuery(Query, frozen=True, kw_only=True):
    """Which sessions to list."""

    limit: Limit = 20
    after: str | None = None
    """`after` of the previous page."""
    project: str | None = None
    cwd: str | None = None
    status: str | None = None
    """If empty: sessions without a status."""
    below: bool = False
    """Include sessions of the namespaces in the store, at any depth."""
    q: str | None = None
    """Only sessions with these words in title, first prompt, project, folder, task or name.

    A request looks at 500 cards at most; `after` continues behind them."""


async def sessions(call: Call, asked: SessionsQuery) -> SessionRows:
    """List sessions, the most recently active first, from their cards alone."""

    async def page_of(limit: int, after: str | None) -> Sessions:
        return await call.store.sessions(
            project=asked.project, cwd=asked.cwd, status=asked.status, below=asked.below, limit=limit, after=after
        )

    if asked.q is None:
        page = await page_of(asked.limit, asked.after)
        return SessionRows(rows=_rows_of(call, page.rows), after=page.after, complete=True)
    found: list[SessionInfo] = []
    after, looked = asked.after, 0
    while looked < CARDS_SEARCHED_MAX and len(found) < asked.limit:
        page = await page_of(ROWS_MAX, after)
        looked += len(page.rows)
        places = [place for place, row in enumerate(page.rows) if _mentions(row, asked.q)][: asked.limit - len(found)]
        found += [page.rows[place] for place in places]
        if len(found) == asked.limit and places[-1] + 1 < len(page.rows):
            page = await page_of(places[-1] + 1, after)  # its cursor is behind the last row that is shown
        after = page.after
        if after is None:
            break
    return SessionRows(rows=_rows_of(call, found), after=after, complete=after is None)


def _rows_of(call: Call, found: Iterable[SessionInfo]) -> tuple[SessionRow, ...]:
    return tuple([row_of(call, row) for row in found])


def row_of(call: Call, info: SessionInfo) -> SessionRow:
    """Return the row of a session with its key."""
    return SessionRow(key=call.key_of(info), **msgspec.structs.asdict(info))


def _mentions(row: SessionInfo, text: str) -> bool:
    said = f"{row.title}\n{row.first_prompt}\n{row.project}\n{row.cwd}\n{row.id}\n{row.task}".casefold()
    return all(word in said for word in text.casefold().split())


class CardQuery(Query, frozen=True, kw_only=True):
    """What to return of a session."""

    counts: bool = False
    """Also count labels, oddities, branches and stored bytes, which reads the whole index of the session."""


async def session(call: Call, asked: CardQuery) -> SessionCard:
    """Read the current state of a session: its card, heads, state, settings, usage, and open calls."""
    return await card_of(call, counts=asked.counts)


async def card_of(call: Call, *, counts: bool = False) -> SessionCard:
    """Return the card of the session in a call's URL."""
    kept = await call.kept()
    view = kept.view
    counted = None
    if counts:
        counted = Counts(
            labels=len(await view.labels()),
            problems=len(await view.problems()),
            leaves=len(await view.leaves()),
            stored=await view.stored(),
        )
    return SessionCard(
        key=call.name("key"),
        info=view.info,
        head=view.head,
        node=view.node,
        heads=view.heads,
        checkpoint=view.checkpoint_id,
        state=view.state,
        settings=view.settings,
        usage=view.usage,
        last_usage=view.last_usage,
        lease=view.lease,
        open_calls=await kept.open_calls(),
        streams=await view.open_streams(),
        end=kept.end,
        after=kept.place,
        counts=counted,
    )


class HistoryQuery(Query, frozen=True, kw_only=True):
    """Which page of a branch to read."""

    head: str | None = None
    """The head to start from; by default the current one."""
    node: str | None = None
    """Start from this node instead."""
    before: str | None = None
    """`before` of the previous page, which has newer nodes."""
    limit: Limit = 50
    retracted: bool = False
    """Show retracted nodes, too."""
    blobs: bool = False
    """Large images and texts inline; otherwise `{"$blob": sha256, ...}` replaces each; read it at `blobs/{sha256}`."""


async def history(call: Call, asked: HistoryQuery) -> History:
    """Read a page of a branch, newest first, each node with its place among its siblings."""
    view = await call.view()
    return await view.history(
        head=asked.head,
        node=asked.node,
        before=asked.before,
        limit=asked.limit,
        retracted=asked.retracted,
        blobs=asked.blobs,
    )


class TreeQuery(Query, frozen=True, kw_only=True):
    """Which rows of the tree to read."""

    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=OUTLINE_ROWS_MAX)] = 200


async def tree(call: Call, asked: TreeQuery) -> OutlineWindow:
    """Read rows of the outline of all branches, with straight runs folded."""
    kept = await call.kept()
    outline = await kept.outline()
    rows = outline[asked.offset : asked.offset + asked.limit]
    return OutlineWindow(rows=rows, offset=asked.offset, total=len(outline), end=kept.end)


class NodeQuery(Query, frozen=True, kw_only=True):
    """A node."""

    node: str


async def locate(call: Call, asked: NodeQuery) -> OutlinePlace:
    """Find the row of the tree that shows a node."""
    kept = await call.kept()
    offset = (await kept.outline()).row_of(asked.node)
    if offset is None:
        raise NotFoundError(f"no such node. node={asked.node!r}", kind=Kind.NODE)
    return OutlinePlace(offset=offset)


class PayloadQuery(Query, frozen=True, kw_only=True):
    """How to read a node."""

    blobs: bool = False
    """Large images and texts inline."""
    toward: str | None = None
    """Another node: if it is below this one, `leaf` is the newest end of that branch."""


async def node(call: Call, asked: PayloadQuery) -> NodeCard:
    """Read a node, with its siblings, children and checkpoints."""
    view = await call.view()
    name = call.name("node")
    found = await view.get(name, blobs=asked.blobs)
    made = [each for each in await view.checkpoints() if each.node == name]
    return NodeCard(
        **msgspec.structs.asdict(found),
        siblings=await view.siblings(name),
        children=await view.children(name),
        checkpoints=tuple(made[-100:]),
        leaf=await view.newest_leaf(name if asked.toward is None else await _toward(view, name, asked.toward)),
        original=await view.original(name) if found.amended else None,
    )


async def _toward(view: AsyncView, node: str, other: str) -> str:
    """The other node if it exists and is below the first one, otherwise the first one."""
    try:
        return other if node in await view.path(other) else node
    except NotFoundError:
        return node


class PathQuery(Query, frozen=True, kw_only=True):
    """Which path to read."""

    node: str | None = None
    """The last node; by default the current head's node."""
    below: str | None = None
    """Only nodes after this node of the path, the first ones, to continue downward. By default the last ones."""
    limit: Annotated[int, Meta(ge=1, le=IDS_MAX)] = IDS_MAX


async def path(call: Call, asked: PathQuery) -> Ids:
    """Read ids of a path, from the root down to a node: the last ones, or the first ones below another node."""
    view = await call.view()
    if asked.below is None:
        return Ids(ids=await view.path(asked.node, limit=asked.limit))
    ids = await view.path(asked.node)
    if asked.below not in ids:
        raise NotFoundError(f"the path does not have this node. below={asked.below!r}", kind=Kind.NODE)
    first = ids.index(asked.below) + 1
    return Ids(ids=ids[first : first + asked.limit])


class CheckpointsQuery(Query, frozen=True, kw_only=True):
    """Which page of checkpoints to read."""

    before: str | None = None
    """`before` of the previous page."""
    limit: Limit = 50


async def checkpoints(call: Call, asked: CheckpointsQuery) -> CheckpointRows:
    """List checkpoints, oldest first; the newest page by default."""
    rows = await (await call.view()).checkpoints(before=asked.before, limit=asked.limit + 1)
    more, rows = len(rows) > asked.limit, rows[-asked.limit :]
    return CheckpointRows(rows=rows, before=rows[0].id if more else None)


async def checkpoint(call: Call) -> CheckpointView:
    """Read a checkpoint: the context and the agent's state."""
    return await (await call.view()).checkpoint(call.name("checkpoint"))


class DiffQuery(Query, frozen=True, kw_only=True):
    """Two points of a session: checkpoints or nodes."""

    a: str
    b: str | None = None
    """By default the session's current point."""


async def diff(call: Call, asked: DiffQuery) -> Diff:
    """Compare two points: state, settings, and context."""
    return await (await call.view()).diff(asked.a, asked.b)


class BranchesQuery(Query, frozen=True, kw_only=True):
    """Two nodes."""

    a: str
    b: str


async def branches(call: Call, asked: BranchesQuery) -> Branches:
    """Read the ids of two paths from the point where they diverge."""
    view = await call.view()
    limit = IDS_MAX + 1
    one, two = await view.path(asked.a, limit=limit), await view.path(asked.b, limit=limit)
    on_two = {name: place for place, name in enumerate(two)}
    at = next((place for place in range(len(one) - 1, -1, -1) if one[place] in on_two), None)
    if at is not None:
        common = one[at]
        return Branches(common=common, a=one[at + 1 :], b=two[on_two[common] + 1 :], complete=True)
    whole = len(one) < limit and len(two) < limit
    return Branches(common=None, a=one[-IDS_MAX:], b=two[-IDS_MAX:], complete=whole)


async def labels(call: Call) -> Mapping[str, str]:
    """Read the labels, by node or checkpoint."""
    return await (await call.view()).labels()


class NotesQuery(Query, frozen=True, kw_only=True):
    """Which notes to read."""

    kind: str | None = None
    """For example `usage`, `system` or `link`; by default all."""
    on_path: bool = False
    """Only notes about nodes on the path of the head, and about the session."""
    targets: tuple[str, ...] = ()
    """Only notes about these nodes."""
    limit: Limit = ROWS_MAX


async def notes(call: Call, asked: NotesQuery) -> tuple[Note, ...]:
    """Read the newest notes, oldest first."""
    view = await call.view()
    if asked.targets:
        return (await view.perform(_notes_about, asked.kind, frozenset(asked.targets)))[-asked.limit :]
    return (await view.notes(asked.kind, on_path=asked.on_path))[-asked.limit :]


def _notes_about(reader: Readable, kind: str | None, targets: frozenset[str]) -> Steps[tuple[Note, ...]]:
    """The notes about some nodes; reads no other notes."""
    rows = [row for row in (yield from reader.replica.ask(lambda look: look.notes(kind))) if row.target in targets]
    lines = yield from reader.replica.lines_at([row.at for row in rows])
    yield from reader.blobs.fetch(lines.values())
    return tuple([note_of(row, payload_in(lines[row.at], reader)) for row in rows])


async def problems(call: Call) -> tuple[GraphProblem, ...]:
    """Read the first oddities of the graph."""
    return (await (await call.view()).problems())[:ROWS_MAX]


async def blob(call: Call) -> Response:
    """Read a large image or text by its digest."""
    found = await (await call.view()).blob(call.name("sha256"))
    shown = found.media_type in IMAGES
    headers = {
        "cache-control": "private, max-age=31536000, immutable",
        "content-security-policy": "default-src 'none'; sandbox",
        "etag": f'"{found.sha256}"',
    }
    if not shown:
        headers["content-disposition"] = "attachment"
    return Response(found.data, headers=headers, media_type=found.media_type if shown else "application/octet-stream")
