"""How a session is opened for writing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.checkpoint.schedule import EVERY_TURN, Schedule
from treering.session.hooks import Hooks

if TYPE_CHECKING:
    from treering.session.redaction import Redaction


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
