"""The journal of one session: two swapped registers and immutable segments. No I/O, only protocols.

`register` compares and swaps one object, and bounds the number of attempts; all other modules use it. `view` holds the
registers as one process read them; `resume` reads it, `append` adds records, `cover` seals and closes, `read` walks all
records and `rows` looks at single ones, `watch` follows it, `merge` tidies segments, `life` creates and deletes,
`lease` gives one worker exclusive use of the session, `stream` stores the pieces of an answer while it is written. The
rules that they follow are in `docs/reference/journal.md`, each with the mutant that breaks it.

Resuming needs few of these modules. The others are imported when they are first used, as `journal.append`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.journal import (
        append as append,
        cover as cover,
        erase as erase,
        lease as lease,
        life as life,
        marker as marker,
        memory as memory,
        merge as merge,
        moment as moment,
        purge as purge,
        read as read,
        rows as rows,
        stream as stream,
        watch as watch,
    )

_MODULES = (
    "append", "cover", "erase", "lease", "life", "marker", "memory", "merge", "moment", "purge", "read", "rows",
    "stream", "watch",
)  # fmt: skip
__getattr__ = late(__name__, modules(__name__, *_MODULES))
