"""Sessions of Strands Agents, in both of its layouts, of its Python and its TypeScript SDK.

`docs/reference/programs/strands.md` says which records they become. An agent is a folder: a log of messages, or
snapshots. An orchestrator (a graph or a swarm) is also a folder. Each becomes a session, with the name under which
`treering.integrations.strands` continues it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common.entry import Entry
from treering.programs.common.folder import folder_at
from treering.programs.common.read_file import ReadFile
from treering.programs.common.rules import Rules
from treering.programs.common.source import ClosingSource
from treering.programs.strands.log import LogSource
from treering.programs.strands.orchestrator import OrchestratorSource
from treering.programs.strands.snapshots import SnapshotSource
from treering.programs.strands.unit import FORMAT, unit_at
from treering.transcript.node import Draft

NAME: Final = FORMAT
POLICIES: Final = ("default@1",)
RULES: Final = Rules(moment=None, label=None, title=None)


def detect(head: bytes) -> bool:  # noqa: ARG001  # part of the protocol
    """Return False: a session of Strands is never a single file."""
    return False


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> ClosingSource:  # noqa: ARG001
    """Open the folder of an agent or an orchestrator. Strands keeps no parts elsewhere.

    Raises:
        UsageError: The path is no such folder.
        AccessError: A file may not be read.
        UnavailableError: The store does not answer.
    """
    folder = folder_at(path)
    unit = unit_at(folder.path) if folder is not None else None
    if folder is None or unit is None:
        raise UsageError(
            f"this is no folder of an agent of Strands. path={str(path)!r}",
            kind=Kind.FORMAT,
            remedy="name a folder like session_ID/agents/agent_ID or ID/scopes/agent/ID, or one above it",
        )
    if unit.orchestrates:
        return OrchestratorSource(folder, unit)
    return SnapshotSource(folder, unit) if unit.snapshots else LogSource(folder, unit)


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the last entry: messages and final state form one chain."""
    return entries[-1].id if entries else None


def listing(file: ReadFile) -> dict[str, object]:
    """Return facts that identify a session; Strands has no list of its own."""
    return {"id": file.header.session_id, **file.header.extra, "entries": len(file.entries)}


def to_record(draft: Draft, parent: str | None) -> Fields:  # noqa: ARG001  # messages name no parent
    """Return the message from which a draft was made."""
    return fields_of(draft.payload)


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that Strands writes for a message."""
    return json.dumps(record, indent=2, ensure_ascii=False, default=repr).encode("utf-8", "surrogatepass")
