"""The two ways in which one protocol is offered: blocking, and awaited."""

from __future__ import annotations

import re
from typing import NamedTuple


class Side(NamedTuple):
    """How one of them is written."""

    kind: str
    prefix: str
    """Of the names of classes."""
    awaits: str
    """In front of a call that runs a protocol."""
    defines: str
    """In front of the name of a method that does."""
    iterator: str

    def seen(self, annotation: str) -> str:
        """An annotation of a protocol, as callers of this side see it."""
        for word, handle in HANDLES.items():
            annotation = re.sub(rf"\b{re.escape(word)}", f"{self.prefix}{handle}", annotation)
        return annotation


VIEW, SESSION = "Opened[Reader]", "Opened[Writer]"
HANDLES = {"Place": "Store", SESSION: "Session", VIEW: "View", "Performer": "Session", "Reader": "View"}
"""What protocols know of a handle, and which one that is."""
BLOCKING = Side("blocking", "", "", "def", "Iterator")
AWAITED = Side("asynchronous", "Async", "await ", "async def", "AsyncIterator")
