"""Sessions of Strands Agents, in both of its layouts, of its Python and its TypeScript SDK.

What becomes of them stands in `docs/reference/import-strands.md`. An agent is a folder: a log of messages, or
snapshots. So is an orchestrator, which is a graph or a swarm. Each becomes a session, under the name by which
`treering.integrations.strands` goes on with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.importers.entry import Entry
from treering.importers.folder import folder_at, gather
from treering.importers.rules import Rules
from treering.importers.source import ClosingSource, find_files
from treering.importers.strands_log import LogSource
from treering.importers.strands_orchestrator import OrchestratorSource
from treering.importers.strands_snapshots import SnapshotSource
from treering.importers.strands_unit import FORMAT, unit_at, unit_of
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.importers.session_file import SessionFile

__all__ = ["unit_of"]

NAME: Final = FORMAT
POLICIES: Final = ("default@1",)
RULES: Final = Rules(moment=None, label=None, title=None)
ENDINGS: Final = (".json",)


def detect(head: bytes) -> bool:  # noqa: ARG001  # part of the protocol
    """Tell that no file alone is a session of Strands."""
    return False


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> ClosingSource:  # noqa: ARG001
    """Open the folder of an agent or an orchestrator. Strands keeps no parts elsewhere.

    Raises:
        UsageError: It is no such folder, by its name and that of the folders above.
        AccessError: A file may not be read.
        UnavailableError: The store does not answer.
    """
    folder = folder_at(path)
    unit = unit_at(folder.path) if folder is not None else None
    if folder is None or unit is None:
        raise UsageError(
            f"this is no folder of an agent of Strands. path={str(path)!r}",
            kind="format",
            remedy="name a folder like session_ID/agents/agent_ID or ID/scopes/agent/ID, or one above it",
        )
    if unit.orchestrates:
        return OrchestratorSource(folder, unit)
    return SnapshotSource(folder, unit) if unit.snapshots else LogSource(folder, unit)


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the folders of agents and orchestrators below `folder`, by their names."""
    return gather(find_files(Path(folder), ENDINGS), lambda path: unit_of(path) or "")


def folders(home: Path, environ: Mapping[str, str]) -> list[Path]:  # noqa: ARG001
    """Return where Strands keeps logs of messages for a user with this home; snapshots lie where a project is."""
    return [home / ".strands" / "sessions"]


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the last entry: all that was said, and how the agent stands, are one line."""
    return entries[-1].id if entries else None


def listing(file: SessionFile) -> dict[str, object]:
    """Return what tells a session from others; Strands has no list of its own."""
    return {"id": file.header.session_id, **file.header.extra, "entries": len(file.entries)}


def to_record(draft: Draft, parent: str | None) -> Fields:  # noqa: ARG001  # messages name no parent
    """Return the message of which a draft was made."""
    return fields_of(draft.payload)


def encode(record: Mapping[str, object]) -> bytes:
    """Return a message as Strands writes it."""
    return json.dumps(record, indent=2, ensure_ascii=False, default=repr).encode("utf-8", "surrogatepass")
