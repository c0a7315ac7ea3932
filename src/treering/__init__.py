"""Treering keeps everything an AI agent did in a folder or a bucket.

store = treering.open("~/agents")
with store.session("fix-login") as session:
    session.append(treering.user("the test fails on CI"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.checkpoint.checkpoint import Entry
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
from treering.format.erasure import Erased
from treering.journal.merge import Merged
from treering.maintenance.backup import BackedUp, Backup
from treering.maintenance.repair import Repair
from treering.maintenance.retention import Retained, RetainedRow, Retention
from treering.maintenance.salvage import Loss
from treering.maintenance.verify import Finding
from treering.session.blocking import Session, View
from treering.session.catalogue import Sessions
from treering.session.erasing import Receipt
from treering.session.hooks import Hooks
from treering.session.info import SessionInfo
from treering.session.open_calls import OpenCall
from treering.session.pruning import Pruned
from treering.session.reader import ContextItem
from treering.session.reading import CheckpointView, History, HistoryRow, Note, Stored
from treering.session.redaction import redact_patterns
from treering.session.store import LoadFacts, OpenOptions, Store, open  # noqa: A004  # `treering.open`, as in gzip and fsspec
from treering.session.verbs import Commit
from treering.transcript.graph import Problem
from treering.transcript.node import (
    HERE,
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
from treering.transcript.tree import OutlineRow

__version__ = "0.1.0"

if TYPE_CHECKING:
    from treering.session.async_store import AsyncStore, aopen
    from treering.session.asynchronous import AsyncSession, AsyncView

# asyncio takes longer to import than all of ours; blocking code does without it.
_ASYNCHRONOUS = {
    "AsyncSession": "treering.session.asynchronous",
    "AsyncStore": "treering.session.async_store",
    "AsyncView": "treering.session.asynchronous",
    "aopen": "treering.session.async_store",
}


def __getattr__(name: str) -> Any:
    if name not in _ASYNCHRONOUS:
        raise AttributeError(f"module 'treering' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ASYNCHRONOUS[name]), name)


__all__ = [
    "HERE",
    "AccessError",
    "AsyncSession",
    "AsyncStore",
    "AsyncView",
    "BackedUp",
    "Backup",
    "CheckpointView",
    "Commit",
    "ConflictError",
    "ContextItem",
    "CorruptError",
    "Draft",
    "Entry",
    "Erased",
    "Finding",
    "FormatVersionError",
    "HeadMovedError",
    "History",
    "HistoryRow",
    "Hooks",
    "Keep",
    "LoadFacts",
    "Loss",
    "Merged",
    "Node",
    "NotFoundError",
    "Note",
    "OpenCall",
    "OpenOptions",
    "OutlineRow",
    "PoisonedError",
    "Problem",
    "Pruned",
    "Receipt",
    "Repair",
    "Retained",
    "RetainedRow",
    "Retention",
    "Schedule",
    "Session",
    "SessionDeletedError",
    "SessionHeldError",
    "SessionInfo",
    "Sessions",
    "Store",
    "Stored",
    "TreeringError",
    "UnavailableError",
    "UnsafeStoreError",
    "UsageError",
    "View",
    "aopen",
    "assistant",
    "branch_summary",
    "change",
    "compaction",
    "custom_message",
    "open",
    "redact_patterns",
    "system",
    "tool",
    "user",
]
