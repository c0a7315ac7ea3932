"""Answers of the API in addition to the library's own results; `treering.to_json` encodes all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.search.find import Hit
from treering.server.limits import ID_CHARACTERS_MAX
from treering.session.content import ContextItem
from treering.session.lease import Lease
from treering.session.record import Appended
from treering.session.streams import OpenStream
from treering.session.verbs.open_calls import OpenCall
from treering.session.verbs.reading import SessionSize, Siblings
from treering.store.info import SessionInfo
from treering.transcript.node import Node
from treering.transcript.tree import OutlineRow


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The server."""

    version: str
    """Version of treering."""
    read_only: bool
    features: Mapping[str, bool]
    """Optional features of servers, by name, and whether this server has them."""


class SessionRow(SessionInfo, frozen=True, kw_only=True):
    """The card of a session, as lists show it."""

    key: str
    """The session's key in URLs."""


class SessionRows(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, the most recently active first."""

    rows: tuple[SessionRow, ...]
    after: str | None
    """The cursor of the next page; None if this is the last page."""
    complete: bool
    """False if a text was searched for, and not in all sessions yet: continue with `after`."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts that read the whole index of a session."""

    labels: int
    problems: int
    leaves: int
    stored: SessionSize


class SessionCard(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a session, without its nodes."""

    key: str
    info: SessionInfo
    head: str
    node: str | None
    heads: Mapping[str, str | None]
    checkpoint: str | None
    state: Mapping[str, Any]
    settings: Mapping[str, Any]
    usage: Mapping[str, int | float]
    last_usage: Mapping[str, int | float]
    lease: Lease | None
    open_calls: tuple[OpenCall, ...]
    streams: tuple[OpenStream, ...]
    """Answers that are being written."""
    end: int
    """The number of records."""
    after: str
    """The place where the journal ends: `events?after=` continues behind the state that this card shows."""
    counts: Counts | None
    """Only if requested."""


class OutlineWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the tree of a session."""

    rows: tuple[OutlineRow, ...]
    offset: int
    """The index of the first row."""
    total: int
    """How many rows the tree has."""
    end: int
    """The number of records of the session; windows with different numbers are of different trees."""


class OutlinePlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a node in the tree."""

    offset: int
    """The index of the row that shows it."""


class NodeCard(Node, frozen=True, kw_only=True):
    """A node, with its siblings, children and checkpoints."""

    siblings: Siblings
    children: tuple[str, ...]
    checkpoints: tuple[CheckpointInfo, ...]
    """Checkpoints made at this node, oldest first; the last 100 at most."""
    leaf: str
    """The end of the branch to show, below this node."""
    original: Any = None
    """The payload as it was first recorded, if the node was amended."""


class Ids(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of nodes."""

    ids: tuple[str, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive messages of a path."""

    first: str
    last: str
    at: tuple[int, int]
    """Positions of both in the journal; the nodes between them have positions between these."""
    count: int


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Messages on the path to a point that are not in its context, for example since a compaction replaced them."""

    messages: int
    """How many messages were left out."""
    runs: tuple[Run, ...]
    """The messages, as runs, oldest first."""
    complete: bool
    """False if these are only the last thousand runs."""


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """What a model sees at a point of a session, and the agent's state there."""

    items: tuple[ContextItem, ...]
    total: int
    """How many messages the model sees; `items` may be a page of them."""
    before: int | None
    """`before` for the previous page; None if there is none."""
    left_out: LeftOut
    settings: Mapping[str, Any]
    state: Mapping[str, Any]
    checkpoint: str | None
    """The checkpoint that holds the state."""
    policy: str


class CheckpointRows(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints, oldest first."""

    rows: tuple[CheckpointInfo, ...]
    before: str | None
    """The cursor of the page with older checkpoints; None if this page has the oldest."""


class Branches(msgspec.Struct, frozen=True, kw_only=True):
    """Two paths of a session, from the point where they diverge."""

    common: str | None
    """The last common node; None if there is none, or if it is further up than the limit of the search."""
    a: tuple[str, ...]
    b: tuple[str, ...]
    complete: bool
    """False if a path is longer than the limit of the search; then these are its last nodes."""


class SearchHit(Hit, frozen=True, kw_only=True):
    """A text that was found, and its place."""

    key: str
    """The key of the session."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search."""

    hits: tuple[SearchHit, ...]
    updating: bool
    """The index does not have all texts of the sessions yet: search again later."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of an imported conversation."""

    nodes: tuple[str, ...]
    """Ids of messages and results of tools in their order, recorded now or before."""
    head: str
    """The head of the last node."""


class StreamPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The current end of an answer."""

    id: str
    """Id of the stream, and of the node that it becomes."""
    offset: int
    """The offset at which the next piece begins."""


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer ended."""

    outcome: str
    recorded: Appended | None
    """Its node; None if it failed and is still open."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The head for another answer, and the context to give to the model for it."""

    head: str
    """The head to append the answer to, or to begin a stream on."""
    node: str
    """The node to answer."""
    context: tuple[ContextItem, ...]


class ViewState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The branch of a session that a viewer chose last."""

    node: Annotated[str, Meta(max_length=ID_CHARACTERS_MAX)] | None
    """The end of the chosen branch; None if none was chosen."""
