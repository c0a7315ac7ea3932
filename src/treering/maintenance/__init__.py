"""Keep a store healthy: verify, repair, back up, and apply retention policies.

Its modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.maintenance import (
        backup as backup,
        mirror as mirror,
        parcels as parcels,
        reindexing as reindexing,
        repair as repair,
        retaining as retaining,
        retention as retention,
        salvage as salvage,
        verify as verify,
    )

_MODULES = ("backup", "mirror", "parcels", "reindexing", "repair", "retaining", "retention", "salvage", "verify")
__getattr__ = late(__name__, modules(__name__, *_MODULES))
