"""A graph or a swarm of Strands Agents: its progress, in either layout. The messages of its nodes are not stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from treering.format.values import Fields, fields_of
from treering.programs.common.folder import Folder
from treering.programs.common.source import Imported, Problem, ProblemLog
from treering.programs.common.times import read_time
from treering.programs.strands.keys import orchestrator_state
from treering.programs.strands.shapes import decode_bytes, is_typescript, read_snapshot
from treering.programs.strands.snapshots import LATEST
from treering.programs.strands.unit import Record, Unit, import_note, read_object
from treering.session.foreign import checkpoint_draft
from treering.transcript.node import Draft

FILE: Final = "multi_agent.json"


class OrchestratorSource:
    """An orchestrator. `treering.programs.common.source.ClosingSource` documents its members."""

    leaf: None = None

    def __init__(self, folder: Folder, unit: Unit) -> None:
        self._unit = unit
        self._name = LATEST if unit.snapshots else FILE
        files = folder.files()
        self._changed_ms = max((file.modified_ns for file in files), default=0) // 1_000_000
        there = any(file.name == self._name for file in files)
        self._raw = next(folder.read([self._name]), b"") if there else b"{}"
        self._log = ProblemLog()
        self._document = read_object(self._raw, self._name, self._log) or {}

    @property
    def header(self) -> Imported:
        """The facts of the file about the session."""
        return self._unit.header(self._snapshot.get("created_at"), {})

    @property
    def _snapshot(self) -> Fields:
        return read_snapshot(self._document) if self._unit.snapshots else {}

    @property
    def problems(self) -> list[Problem]:
        """The problems found."""
        return self._log.problems

    def records(self) -> Iterator[Record]:
        """Yield the import note; there are no records."""
        self._log = ProblemLog()
        read_object(self._raw, self._name, self._log)
        if is_typescript(self._document):
            self._log.report(0, 0, "typescript", "the state is for the TypeScript SDK; Python begins anew")
        yield None, [import_note(self.header)]

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the folder."""
        yield import_note(self.header)
        yield from self.closing()

    def closing(self) -> list[Draft]:
        """Return the checkpoint with the state."""
        time_ms = read_time(self._snapshot.get("created_at")) or self._changed_ms or 1
        name = self._unit.made_id("latest", self._raw.hex())
        return [checkpoint_draft(None, id=name, context=[], state=self._state(), time_ms=time_ms)]

    def _state(self) -> Fields:
        if not self._unit.snapshots:
            return orchestrator_state(fields_of(decode_bytes(self._document)))
        data = fields_of(self._snapshot.get("data"))
        if is_typescript(self._document):
            return {"typescript": data}
        return orchestrator_state(fields_of(data.get("state")))
