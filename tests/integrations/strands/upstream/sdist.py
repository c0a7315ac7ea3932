"""Strands' own tests: the sources of the installed version."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from tests.integrations import sdist


def installed() -> str:
    """The version of Strands whose tests are wanted."""
    return importlib.metadata.version("strands-agents")


def unpacked(cache: Path) -> Path:
    """The folder with the sources of the installed version; a test is skipped if they cannot be had."""
    return sdist.unpacked(cache, "strands-agents", installed())
