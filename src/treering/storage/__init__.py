"""Storage: requests, the drivers that run them, and wrappers that retry, count or fail on purpose.

`effects`, the things other than requests that jobs wait for, and `refusals`, the conditions that a store refused, are
imported on first use, since a resume does not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.storage import effects as effects, refusals as refusals

__getattr__ = late(__name__, modules(__name__, "effects", "refusals"))
