"""Who is measured: every contestant by the name it has in reports."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

OURS = "treering"
SHARED = "treering, shared"
FULL_TAIL = "treering, full tail"
PYTHON = "start Python"
DECODE = "decode the same files"
GET = "one GET"
BARE = "write + fdatasync"
SQLITE = "SQLite, own tables"
JSONL = "JSONL, rewritten"
OPENAI = "OpenAI SQLiteSession"
OPENAI_OURS = "OpenAI TreeringSession"
ADK = "ADK SqliteSessionService"
ADK_DATABASE = "ADK DatabaseSessionService"
ADK_OURS = "ADK TreeringSessionService"
LANGGRAPH = "LangGraph SqliteSaver"
LANGGRAPH_OBJECTS = "LangGraph objectstorage"
LANGGRAPH_OURS = "LangGraph TreeringSaver"
STRANDS_FILES = "Strands FileSessionManager"
STRANDS_S3 = "Strands S3SessionManager"
STRANDS_SNAPSHOTS = "Strands SnapshotSessionManager"
STRANDS_EACH = "Strands snapshots, each message"


class Entry(NamedTuple):
    """Where a contestant is found, and what it can be asked."""

    module: str
    kind: str
    largest: int = 100_000
    """The longest session it is asked to store; more would take hours, or gigabytes."""
    history: int = 100_000
    """The longest session of which it stores every turn; of longer ones only the newest state."""
    disk: bool = True
    s3: bool = False
    beside: str = ""
    """It uses the files of this contestant."""
    special: bool = False
    """It takes part only in tasks that name it."""

    def start(self, place: str, window: int) -> Any:
        """Import and make one."""
        return getattr(import_module(f"benchmarks.contestants.{self.module}"), self.kind)(place, window)


CONTESTANTS = {
    OURS: Entry("ours", "Treering", s3=True),
    FULL_TAIL: Entry("ours", "FullTail", special=True),
    SHARED: Entry("ours", "Shared", special=True),
    PYTHON: Entry("limits", "Nothing", special=True),
    BARE: Entry("limits", "WriteAndSync"),
    DECODE: Entry("limits", "Decode", beside=OURS),
    GET: Entry("limits", "BareGet", s3=True, disk=False, beside=OURS),
    SQLITE: Entry("plain", "Sqlite"),
    JSONL: Entry("plain", "Jsonl"),
    OPENAI: Entry("openai", "Items"),
    "OpenAI AdvancedSQLiteSession": Entry("openai", "Branching", largest=10_000),
    OPENAI_OURS: Entry("openai", "Treering", largest=10_000, s3=True),
    ADK: Entry("adk", "Sqlite", largest=10_000),
    ADK_DATABASE: Entry("adk_database", "Database", largest=10_000),
    ADK_OURS: Entry("adk", "Treering", largest=10_000, s3=True),
    "Agent Framework FileHistoryProvider": Entry("agent_framework", "Histories", largest=10_000),
    "Agent Framework TreeringHistoryProvider": Entry("agent_framework", "TreeringHistories", largest=10_000, s3=True),
    "Agent Framework FileCheckpointStorage": Entry("agent_framework", "Checkpoints", largest=1_000, history=200),
    "Agent Framework TreeringCheckpointStorage": Entry(
        "agent_framework", "TreeringCheckpoints", largest=10_000, history=1_000, s3=True
    ),
    "Agent Framework FileSessionStore": Entry("agent_framework", "Sessions", largest=10_000, history=1_000),
    "Agent Framework TreeringSessionStore": Entry(
        "agent_framework", "TreeringSessions", largest=10_000, history=1_000, s3=True
    ),
    "Pydantic AI FileStepStore": Entry("pydantic_ai", "Files", largest=1_000, history=200),
    "Pydantic AI SqliteStepStore": Entry("pydantic_ai", "Sqlite", largest=10_000, history=1_000),
    "Pydantic AI TreeringStepStore": Entry("pydantic_ai", "Treering", largest=10_000, history=1_000, s3=True),
    STRANDS_FILES: Entry("strands", "Files", largest=10_000),
    STRANDS_S3: Entry("strands", "S3Objects", largest=10_000, s3=True, disk=False),
    STRANDS_SNAPSHOTS: Entry("strands", "Snapshots", largest=10_000, history=1_000, s3=True),
    STRANDS_EACH: Entry("strands", "SnapshotEachMessage", largest=1_000, s3=True, special=True),
    LANGGRAPH: Entry("langgraph", "Sqlite", largest=1_000, history=200),
    LANGGRAPH_OBJECTS: Entry("langgraph", "Objects", largest=1_000, history=200, s3=True),
    LANGGRAPH_OURS: Entry("langgraph", "Treering", largest=10_000, history=1_000, s3=True),
}
