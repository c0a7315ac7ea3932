"""Stands in for libraries that LangGraph's stores and savers import and that are not used, if they are not there."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from unittest.mock import MagicMock

for name in ("aiosqlite", "sqlite_vec"):
    if find_spec(name) is None:
        sys.modules[name] = MagicMock()
