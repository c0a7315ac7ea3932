"""How a session is opened for writing, and functions of the caller that run before and after its operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from treering.checkpoint.schedule import EVERY_TURN, Schedule

if TYPE_CHECKING:
    from treering.session.redaction import Redaction


class Hook(Protocol):
    """A function that receives facts about an event by name. If a `before` hook raises, nothing is recorded."""

    def __call__(self, facts: Mapping[str, object], /) -> None: ...


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """One optional function per event; each is called with the facts named here."""

    before_compaction: Hook | None = None
    """summary, kept"""
    after_compaction: Hook | None = None
    """summary, kept, node"""
    before_navigation: Hook | None = None
    """kind (checkout, switch, branch, rewind), head, node"""
    after_navigation: Hook | None = None
    """kind, head, node, checkpoint"""
    before_checkpoint: Hook | None = None
    """label, step; not called for automatic ones"""
    after_checkpoint: Hook | None = None
    """checkpoint, node, label, step"""
    before_fork: Hook | None = None
    """session, node"""
    after_fork: Hook | None = None
    """session, node"""

    def call(self, event: str, **facts: object) -> None:
        """Call the hook of `event`, if there is one."""
        hook: Hook | None = getattr(self, event)
        if hook is not None:
            hook(facts)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is opened."""

    shared: bool = False
    durability: str = "sync"
    schedule: Schedule = EVERY_TURN
    first_write: str = "record"
    hooks: Hooks = Hooks()
    create: bool = True
    redaction: Redaction | None = None
    """Applied to every text before it is stored; an option of the store, see `treering.store.place.Place`."""
