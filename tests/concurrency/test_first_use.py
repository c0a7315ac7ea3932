"""Types that bytes are decoded to are known to msgspec before a second thread can be there."""

from __future__ import annotations

import re
from pathlib import Path

import treering

SOURCES = Path(treering.__file__).parent
ONE_THREAD = {"cli"}
"""Folders that only ever run in one."""


def test_no_type_is_learned_while_threads_run() -> None:
    """Two threads that decode a type for the first time at once crash msgspec, so decoders are made at import."""
    learned = re.compile(r"\bdecode\([^\n]*\btype=")
    files = [file for file in SOURCES.rglob("*.py") if file.relative_to(SOURCES).parts[0] not in ONE_THREAD]
    assert [str(file) for file in files if learned.search(file.read_text())] == []
    made = re.compile(r"^ +[^#\n]*\bmsgspec\.(json\.)?Decoder\(", re.MULTILINE)
    assert [str(file) for file in files if made.search(file.read_text())] == []
