"""Frameworks are extras: none is loaded unasked, and the error for a missing one names the package to install."""

from __future__ import annotations

import pytest
from tests.storage.processes import finish, start

FRAMEWORKS = {
    "adk": "google.adk",
    "agent_framework": "agent_framework",
    "claude": "claude_agent_sdk",
    "langgraph": "langgraph",
    "openai": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}
"""By integration: what it imports."""

LOADED = """
import sys
import treering, treering.integrations, treering.importers, treering.exporters, treering.cli
frameworks = {"agent_framework", "agents", "google.adk", "strands", "claude_agent_sdk", "langgraph", "langchain_core",
              "pydantic_ai", "pydantic_ai_harness"}
print(*sorted(frameworks & sys.modules.keys()))
"""

MISSING = """
import sys
sys.modules[sys.argv[2]] = None  # as if it were not installed
try:
    __import__(f"treering.integrations.{sys.argv[1]}")
except ImportError as error:
    print(error)
"""


def test_nothing_loads_a_framework() -> None:
    """Neither the library nor its command line imports a framework."""
    assert finish(start(LOADED, prelude="")).split() == []


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_framework_is_named(name: str) -> None:
    """Without its framework an integration says which extra to install."""
    extra = name.replace("_", "-")
    assert f"pip install 'treering[{extra}]'" in finish(start(MISSING, name, FRAMEWORKS[name], prelude=""))
