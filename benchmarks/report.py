"""What was measured, as JSON and as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import msgspec
import zstandard

from benchmarks.measure import Table

# The tables of README.md stand behind this line; what stands before it is written by hand.
MARK = "<!-- From here on written by `python -m benchmarks --readme`. -->\n"


def machine() -> str:
    """Return what the figures depend on most."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"msgspec {msgspec.__version__}, zstandard {zstandard.__version__}"
    )


def store(path: Path, tables: Sequence[Table]) -> None:
    """Write tables as JSON, for programs."""
    path.write_text(json.dumps({"machine": machine(), "tables": [table._asdict() for table in tables]}, indent=1))


def markdown(name: str, about: str, tables: Sequence[Table]) -> str:
    """Return a section about one benchmark; `about` is the docstring of its module."""
    return f"## {name}\n\n{about.strip()}\n\n" + "\n".join(map(_table, tables))


def _table(table: Table) -> str:
    rows = [table.columns, tuple("---" for _ in table.columns), *table.rows]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    note = f"\n{table.note}\n" if table.note else ""
    return f"**{table.title}**\n\n" + "\n".join(lines) + f"\n{note}"


def renew(path: Path, benchmarks: Mapping[str, ModuleType], results: Mapping[str, Sequence[Table]]) -> None:
    """Put new tables into README.md, in place of all that were there."""
    head = path.read_text().partition(MARK)[0]
    sections = [markdown(name, benchmarks[name].__doc__ or "", tables) for name, tables in results.items()]
    path.write_text(head + MARK + f"\nMeasured on {machine()}.\n\n" + "\n".join(sections))
