"""Types that bytes are decoded to are known to msgspec before a second thread can be there."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src/treering"
ONE_THREAD = {"cli"}
"""Folders that only ever run in one."""
LEARNING = re.compile(
    r"\bdecode\([^\n]*\btype=|\bconvert\((?![^\n]*[Dd]ecoder\.type\))|^ +[^#\n]*\bmsgspec\.\w+\.Decoder\(", re.MULTILINE
)
"""A type is named where it is used, or a decoder is made inside a function."""


def test_no_type_is_learned_while_threads_run() -> None:
    """Two threads that decode a type for the first time at once crash msgspec, so decoders are made at import."""
    files = [file for file in SOURCES.rglob("*.py") if file.relative_to(SOURCES).parts[0] not in ONE_THREAD]
    assert files
    assert [match[0] for file in files for match in LEARNING.finditer(file.read_text())] == []
