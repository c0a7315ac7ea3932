"""Erase payloads and state permanently, also from copies.

Its modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.erasure import erasing as erasing, traces as traces

__getattr__ = late(__name__, modules(__name__, "erasing", "traces"))
