"""A store: the place of its sessions, and how they are opened, listed, loaded and deleted.

Its modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.store import (
        catalogue as catalogue,
        copying as copying,
        info as info,
        inventory as inventory,
        loading as loading,
        parcels as parcels,
        place as place,
        purging as purging,
        recent as recent,
    )

_MODULES = ("catalogue", "copying", "info", "inventory", "loading", "parcels", "place", "purging", "recent")
__getattr__ = late(__name__, modules(__name__, *_MODULES))
