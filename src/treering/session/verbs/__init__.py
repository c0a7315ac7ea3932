"""The operations on an open session: each is a protocol without I/O, whose first argument is the reader or writer.

Its modules are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.session.verbs import (
        comparing as comparing,
        conversation as conversation,
        edits as edits,
        effects as effects,
        extending as extending,
        following as following,
        forking as forking,
        leasing as leasing,
        navigation as navigation,
        notes as notes,
        open_calls as open_calls,
        past as past,
        pruning as pruning,
        reading as reading,
        streaming as streaming,
    )

_MODULES = (
    "comparing", "conversation", "edits", "effects", "extending", "following", "forking", "leasing", "navigation",
    "notes", "open_calls", "past", "pruning", "reading", "streaming",
)  # fmt: skip
__getattr__ = late(__name__, modules(__name__, *_MODULES))
