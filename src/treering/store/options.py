"""The keywords that a session is opened and loaded with, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from treering.session.options import Hooks, Schedule


class OpenOptions(TypedDict, total=False):
    """How to open a session. Options for a new session are ignored if it exists."""

    title: str
    """Title of a new session."""
    project: str
    """Project of a new session; any word to find it by."""
    cwd: str
    """Working directory of a new session."""
    extra: Mapping[str, object]
    """Further facts on the card of a new session."""
    shared: bool
    """Allow concurrent writers: one that appends second gets its own branch. By default it gets an error."""
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
    """Take a lease: have the session for this worker alone, also among computers, until `release` or `close`, or until
    it gave no sign of life for so many seconds. Exclusive sessions only; see `Session.claim`."""
    wait: float
    """With `claim`: wait at most so many seconds for another worker; by default not at all."""
    hold: bool
    """Lock the session against other processes while it is open, if the store has locks (the default). Otherwise only
    from `claim` to `release`, and the next append detects writers in between."""


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
