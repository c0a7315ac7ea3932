"""Sessions: the transcript and the checkpoints of one conversation, over one journal.

`state` folds the records into the current state of a session. `reader` and `writer` put together the parts of a session
opened for reading or writing; `verbs` holds the operations on them. All are protocols without I/O: the facades in
`treering.api` run them, blocking or asynchronously. Modules that a resume does not need are imported when they are
first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late, modules

if TYPE_CHECKING:
    from treering.session import (
        burial as burial,
        index as index,
        index_lookup as index_lookup,
        lease as lease,
        record as record,
        row_lookup as row_lookup,
        streams as streams,
    )

_MODULES = ("burial", "index", "index_lookup", "lease", "record", "row_lookup", "streams")
__getattr__ = late(__name__, modules(__name__, *_MODULES))
