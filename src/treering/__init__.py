"""Treering keeps everything an AI agent did in a folder or a bucket.

store = treering.open("~/agents")
with store.session("fix-login") as session:
    session.append(treering.user("the test fails on CI"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late as _lazily, later as _later
from treering.api.session import Session
from treering.api.store import Store, open  # noqa: A004  # `treering.open`, as in gzip and fsspec
from treering.api.view import View
from treering.checkpoint.policy import find_policies_with as _find_policies_with
from treering.errors import (
    AccessError,
    ConflictError,
    CorruptError,
    FormatVersionError,
    HeadMovedError,
    LeaseLostError,
    NotFoundError,
    PoisonedError,
    SessionDeletedError,
    SessionHeldError,
    StreamLostError,
    TreeringError,
    UnavailableError,
    UnresolvedEffectError,
    UnsafeStoreError,
    UsageError,
)
from treering.format.erasure import Erased
from treering.messages import find_shapes_with as _find_shapes_with
from treering.session.options import CompactionHook, Hook, Hooks, MessageHook, Schedule
from treering.transcript.node import (
    HERE,
    Draft,
    Here,
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

_PROGRAMS = "treering.programs"  # not imported before a policy or message of another program is met
_find_policies_with(_later(_PROGRAMS, "load_policies"))
_find_shapes_with(_later(_PROGRAMS, "load_messages"), _later(_PROGRAMS, "load_installed_messages"))

if TYPE_CHECKING:
    from treering._late import Kind
    from treering.api.async_session import AsyncSession
    from treering.api.async_store import AsyncStore, aopen
    from treering.api.async_streaming import AsyncStreamWriter
    from treering.api.async_view import AsyncView
    from treering.api.awaiting import AsyncOpening
    from treering.api.encoding import to_json
    from treering.api.streaming import StreamWriter
    from treering.checkpoint.checkpoint import CheckpointInfo
    from treering.checkpoint.prune import KeepCheckpoints, PrunePlan
    from treering.erasure.erasing import Receipt
    from treering.format.blobs import BlobRef
    from treering.journal.merge import Merged
    from treering.maintenance.backup import BackedUp, Backup
    from treering.maintenance.reindexing import Reindexed
    from treering.maintenance.repair import Repair
    from treering.maintenance.retention import Retained, RetainedRow, Retention
    from treering.maintenance.salvage import RepairLoss
    from treering.maintenance.verify import Finding
    from treering.session.content import ContextItem
    from treering.session.lease import Lease
    from treering.session.record import Appended
    from treering.session.recording import Message
    from treering.session.redaction import Redactor, redact_patterns
    from treering.session.streams import OpenStream, Piece, PieceKind, StreamStatus
    from treering.session.verbs.comparing import Changed, ContextChanges, Diff, ValueChanges
    from treering.session.verbs.effects import Effect
    from treering.session.verbs.following import Edit, ErasureInfo, Event, EventType, HeadMove
    from treering.session.verbs.open_calls import OpenCall
    from treering.session.verbs.pruning import Pruned
    from treering.session.verbs.reading import Blob, CheckpointView, History, HistoryRow, Note, SessionSize, Siblings
    from treering.storage.observing import Observer, RequestBatch, RequestInfo
    from treering.store.catalogue import Sessions
    from treering.store.info import SessionInfo
    from treering.store.loading import Progress
    from treering.store.options import LoadFacts, OpenOptions
    from treering.transcript.graph import GraphProblem
    from treering.transcript.nodes import Nodes
    from treering.transcript.tree import OutlineRow

# Names that most processes do not need. asyncio alone takes longer to import than all modules of this package.
_LATE = {
    "Appended": "treering.session.record",
    "AsyncOpening": "treering.api.awaiting",
    "AsyncSession": "treering.api.async_session",
    "AsyncStore": "treering.api.async_store",
    "AsyncStreamWriter": "treering.api.async_streaming",
    "AsyncView": "treering.api.async_view",
    "BackedUp": "treering.maintenance.backup",
    "Backup": "treering.maintenance.backup",
    "Blob": "treering.session.verbs.reading",
    "BlobRef": "treering.format.blobs",
    "Changed": "treering.session.verbs.comparing",
    "CheckpointInfo": "treering.checkpoint.checkpoint",
    "CheckpointView": "treering.session.verbs.reading",
    "ContextChanges": "treering.session.verbs.comparing",
    "ContextItem": "treering.session.content",
    "Diff": "treering.session.verbs.comparing",
    "Edit": "treering.session.verbs.following",
    "Effect": "treering.session.verbs.effects",
    "ErasureInfo": "treering.session.verbs.following",
    "Event": "treering.session.verbs.following",
    "EventType": "treering.session.verbs.following",
    "Finding": "treering.maintenance.verify",
    "GraphProblem": "treering.transcript.graph",
    "HeadMove": "treering.session.verbs.following",
    "History": "treering.session.verbs.reading",
    "HistoryRow": "treering.session.verbs.reading",
    "KeepCheckpoints": "treering.checkpoint.prune",
    "Kind": "treering.kinds",
    "Lease": "treering.session.lease",
    "LoadFacts": "treering.store.options",
    "Merged": "treering.journal.merge",
    "Message": "treering.session.recording",
    "Nodes": "treering.transcript.nodes",
    "Note": "treering.session.verbs.reading",
    "Observer": "treering.storage.observing",
    "OpenCall": "treering.session.verbs.open_calls",
    "OpenOptions": "treering.store.options",
    "OpenStream": "treering.session.streams",
    "OutlineRow": "treering.transcript.tree",
    "Piece": "treering.session.streams",
    "PieceKind": "treering.session.streams",
    "Progress": "treering.store.loading",
    "PrunePlan": "treering.checkpoint.prune",
    "Pruned": "treering.session.verbs.pruning",
    "Receipt": "treering.erasure.erasing",
    "Redactor": "treering.session.redaction",
    "Reindexed": "treering.maintenance.reindexing",
    "Repair": "treering.maintenance.repair",
    "RepairLoss": "treering.maintenance.salvage",
    "RequestBatch": "treering.storage.observing",
    "RequestInfo": "treering.storage.observing",
    "Retained": "treering.maintenance.retention",
    "RetainedRow": "treering.maintenance.retention",
    "Retention": "treering.maintenance.retention",
    "SessionInfo": "treering.store.info",
    "SessionSize": "treering.session.verbs.reading",
    "Sessions": "treering.store.catalogue",
    "Siblings": "treering.session.verbs.reading",
    "StreamStatus": "treering.session.streams",
    "StreamWriter": "treering.api.streaming",
    "ValueChanges": "treering.session.verbs.comparing",
    "aopen": "treering.api.async_store",
    "redact_patterns": "treering.session.redaction",
    "to_json": "treering.api.encoding",
}
__getattr__ = _lazily(__name__, _LATE)

__all__ = [
    "HERE",
    "AccessError",
    "Appended",
    "AsyncOpening",
    "AsyncSession",
    "AsyncStore",
    "AsyncStreamWriter",
    "AsyncView",
    "BackedUp",
    "Backup",
    "Blob",
    "BlobRef",
    "Changed",
    "CheckpointInfo",
    "CheckpointView",
    "CompactionHook",
    "ConflictError",
    "ContextChanges",
    "ContextItem",
    "CorruptError",
    "Diff",
    "Draft",
    "Edit",
    "Effect",
    "Erased",
    "ErasureInfo",
    "Event",
    "EventType",
    "Finding",
    "FormatVersionError",
    "GraphProblem",
    "HeadMove",
    "HeadMovedError",
    "Here",
    "History",
    "HistoryRow",
    "Hook",
    "Hooks",
    "KeepCheckpoints",
    "Kind",
    "Lease",
    "LeaseLostError",
    "LoadFacts",
    "Merged",
    "Message",
    "MessageHook",
    "Node",
    "Nodes",
    "NotFoundError",
    "Note",
    "Observer",
    "OpenCall",
    "OpenOptions",
    "OpenStream",
    "OutlineRow",
    "Piece",
    "PieceKind",
    "PoisonedError",
    "Progress",
    "PrunePlan",
    "Pruned",
    "Receipt",
    "Redactor",
    "Reindexed",
    "Repair",
    "RepairLoss",
    "RequestBatch",
    "RequestInfo",
    "Retained",
    "RetainedRow",
    "Retention",
    "Schedule",
    "Session",
    "SessionDeletedError",
    "SessionHeldError",
    "SessionInfo",
    "SessionSize",
    "Sessions",
    "Siblings",
    "Store",
    "StreamLostError",
    "StreamStatus",
    "StreamWriter",
    "TreeringError",
    "UnavailableError",
    "UnresolvedEffectError",
    "UnsafeStoreError",
    "UsageError",
    "ValueChanges",
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
    "to_json",
    "tool",
    "user",
]
