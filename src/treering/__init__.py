"""Treering keeps everything an AI agent did in a folder or a bucket.

store = treering.open("~/agents")
with store.session("fix-login") as session:
    session.append(treering.user("the test fails on CI"))
"""

from __future__ import annotations

from treering.checkpoint.prune import Keep
from treering.checkpoint.schedule import Schedule
from treering.errors import (
    AccessError,
    ConflictError,
    CorruptError,
    FormatVersionError,
    HeadMovedError,
    NotFoundError,
    PoisonedError,
    SessionDeletedError,
    SessionHeldError,
    TreeringError,
    UnavailableError,
    UnsafeStoreError,
    UsageError,
)
from treering.session.blocking import Session, View
from treering.session.hooks import Hooks
from treering.session.info import SessionInfo
from treering.session.reader import ContextItem
from treering.session.store import Store, open
from treering.transcript.node import (
    Draft,
    Node,
    assistant,
    branch_summary,
    change,
    compaction,
    custom_message,
    system,
    tool,
    user,
)

__version__ = "0.1.0"
