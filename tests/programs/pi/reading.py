"""Makes small session files of pi and reads them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

from treering.programs.common.reader import LinesSource
from treering.programs.common.source import Imported, Problem
from treering.programs.common.writing import encode_javascript
from treering.programs.pi.read import DIALECT
from treering.transcript.node import Draft

HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-05T08:00:00.000Z", "cwd": "/repo"}
TIME = "2026-01-05T08:00:01.000Z"


class Read(NamedTuple):
    header: Imported
    drafts: list[Draft]
    leaf: str | None
    problems: list[Problem]

    @property
    def nodes(self) -> list[Draft]:
        return [draft for draft in self.drafts if draft.type == "node"]

    @property
    def notes(self) -> list[Draft]:
        return [draft for draft in self.drafts if draft.type == "note"]

    @property
    def parents(self) -> dict[str, str | None]:
        return {draft.id or "": draft.parent if isinstance(draft.parent, str) else None for draft in self.nodes}

    @property
    def kinds(self) -> list[str]:
        """Kinds of the problems."""
        return [problem.kind for problem in self.problems]


def read(data: bytes, name: str = "session.jsonl") -> Read:
    """Read a file with these bytes to its end."""
    return collect(LinesSource(DIALECT, lambda: io.BytesIO(data), Path(name)))


def collect(source: LinesSource) -> Read:
    """Read a source to its end; the note with its header is left out."""
    _, *drafts = source.drafts()
    return Read(source.header, drafts, source.leaf, source.problems)


def entry(kind: str, identifier: str | None, parent: str | None, /, **fields: Any) -> dict[str, Any]:
    """Return an entry of a file, of the type `kind`."""
    return {"type": kind, "id": identifier, "parentId": parent, "timestamp": TIME, **fields}


def message(identifier: str | None, parent: str | None, text: str = "hello", role: str = "user") -> dict[str, Any]:
    """Return a message entry."""
    return entry("message", identifier, parent, message={"role": role, "content": text, "timestamp": 1767600000001})


def lines(*entries: Any, header: Any = HEADER) -> bytes:
    """Return a file of these records, behind a header."""
    return b"".join(line(record) for record in (header, *entries))


def line(record: Any) -> bytes:
    """Return a record as a line, as JavaScript writes it."""
    return encode_javascript(record) + b"\n"
