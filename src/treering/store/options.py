"""The keyword options for opening and loading sessions, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from treering.session.options import Hooks, Schedule


class OpenOptions(TypedDict, total=False):
    """How to open a session. Options for a new session are ignored if it exists."""

    title: str
    """Title of a new session."""
    project: str
    """Project of a new session; any word by which lists can filter."""
    cwd: str
    """Working directory of a new session."""
    extra: Mapping[str, object]
    """Further facts on the card of a new session."""
    shared: bool
    """Allow concurrent writers: a writer that appends second gets its own branch. By default it gets an error."""
    create: bool
    """Create the session if it does not exist (the default); otherwise that is an error."""
    durability: Literal["sync", "turn"]
    """`sync` (the default): every append is durable when it returns. `turn`: messages wait in memory for the next
    `commit`, `flush` or `close`; a kill loses them."""
    checkpoints: Schedule
    """When to make automatic checkpoints; by default at the end of every turn."""
    first_write: Literal["record", "assistant"]
    """`record` (the default), or `assistant`: nothing is stored before the first answer of the model."""
    policy: str
    """The policy that chooses what the model sees; by default that of the newest checkpoint, `default@1` if new."""
    hooks: Hooks
    """Functions to call before and after events."""
    claim: float
    """Take a lease: no other worker on any computer can use the session until `release` or `close`, or until this
    worker gave no sign of life for this many seconds. Exclusive sessions only; see `Session.claim`."""
    wait: float
    """With `claim`: the maximum number of seconds to wait for another worker; by default 0."""
    hold: bool
    """Lock the session against other processes while it is open, if the store has locks (the default). If false, it is
    locked only from `claim` to `release`; the next append detects records that other writers made in between."""


class LoadFacts(TypedDict, total=False):
    """Facts about a loaded session; the rest is computed from its records."""

    title: str
    project: str
    cwd: str
    created_ms: int
    """Milliseconds since 1970; by default now."""
    parent_session: str
    parent_node: str
    task: str
    status: str
    extra: Mapping[str, object]
