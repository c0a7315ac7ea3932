"""What the API answers beside the library's own results; `treering.to_json` writes all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.search.find import Hit
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
    """Of treering."""
    read_only: bool
    features: Mapping[str, bool]
    """What this server has of what not every one has, by name."""


class SessionRow(SessionInfo, frozen=True, kw_only=True):
    """The card of a session, as lists show it."""

    key: str
    """Stands for the session in URLs."""


class SessionRows(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, the most recently active first."""

    rows: tuple[SessionRow, ...]
    after: str | None
    """The cursor of the next page; None: this is the last."""
    complete: bool
    """False: a text was searched for, and older sessions were not looked through."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What counting takes the whole index of a session."""

    labels: int
    problems: int
    leaves: int
    stored: SessionSize


class SessionCard(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is now, without its nodes."""

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
    """The place where the journal ends: `events?after=` goes on behind what this card shows."""
    counts: Counts | None
    """Only if asked for."""


class OutlineWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the tree of a session."""

    rows: tuple[OutlineRow, ...]
    offset: int
    """The index of the first of them."""
    total: int
    """How many rows the tree has."""
    end: int
    """The number of records that the session has; a window of another number is of another tree."""


class OutlinePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node is in the tree."""

    offset: int
    """The index of the row that shows it."""


class NodeCard(Node, frozen=True, kw_only=True):
    """A node and what is around it."""

    siblings: Siblings
    children: tuple[str, ...]
    checkpoints: tuple[CheckpointInfo, ...]
    """Those made at this node, oldest first; at most 100."""
    leaf: str
    """The end of the branch to show, below this node."""
    original: Any = None
    """The payload as it was first recorded, if the node was amended."""


class Ids(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of nodes."""

    ids: tuple[str, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a path, one behind the other."""

    first: str
    last: str
    at: tuple[int, int]
    """Positions of both in the journal: those of the nodes between lie between."""
    count: int


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Messages on the way to a point that the model does not see there, as a compaction replaced them."""

    messages: int
    """How many there are."""
    runs: tuple[Run, ...]
    """Which, oldest first."""
    complete: bool
    """False: these are the last thousand runs."""


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """What a model sees at a point of a session, and the agent's state there."""

    items: tuple[ContextItem, ...]
    total: int
    """How many messages it sees; `items` may be a page of them."""
    before: int | None
    """Ask with this for the page before; None: there is none."""
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
    """The cursor of the page before, with older ones; None: this is the first."""


class Branches(msgspec.Struct, frozen=True, kw_only=True):
    """Two paths of a session, from where they part."""

    common: str | None
    """The last node that both have; None: they have none in common, or it is further up than was looked."""
    a: tuple[str, ...]
    b: tuple[str, ...]
    complete: bool
    """False: a path is longer than was looked; its last nodes are here."""


class SearchHit(Hit, frozen=True, kw_only=True):
    """A text that was found, and where."""

    key: str
    """Of the session."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    hits: tuple[SearchHit, ...]
    updating: bool
    """The index does not have all that the sessions have yet: ask again in a while."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """Where a conversation is."""

    nodes: tuple[str, ...]
    """Messages and results of tools in their order, recorded now or before."""
    head: str
    """The head that the last of them is on."""


class StreamPlace(msgspec.Struct, frozen=True, kw_only=True):
    """How far an answer is."""

    id: str
    """Of the stream, and of the node that it becomes."""
    offset: int
    """Where the next piece begins."""


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer ended."""

    outcome: str
    recorded: Appended | None
    """Its node; None: it failed, and is still open."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Where another answer goes, and what to give to the model for it."""

    head: str
    """Append the answer here, or begin a stream."""
    node: str
    """What it answers."""
    context: tuple[ContextItem, ...]


class ViewState(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer last showed of a session."""

    node: str | None
    """The end of the branch that was chosen; None: none was."""
