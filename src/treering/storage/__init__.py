"""Where the bytes go: requests, the drivers that run them, and wrappers that retry, count or fail on purpose.

`effects`, what jobs wait for besides requests, is imported when it is first used: a resume does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.storage import effects as effects

__getattr__ = late(__name__, modules(__name__, "effects"))
