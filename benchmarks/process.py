"""Measure in a process of its own: nothing is imported, cached or allocated beforehand."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """
import json, sys
from importlib import import_module
module, function, *arguments = sys.argv[1:]
print(json.dumps(getattr(import_module(module), function)(*arguments)))
"""


def fresh(module: str, function: str, *arguments: str) -> Any:
    """Call a function of ours in a new process and return its result, which must be plain JSON.

    Raises:
        subprocess.CalledProcessError: It failed; what it said is on our own standard error.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, module, function, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def peak_memory() -> int:
    """Return the most bytes this process ever had in memory."""
    status = Path("/proc/self/status")
    if status.exists():  # what `getrusage` tells on Linux includes the parent before it started us
        sizes = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(sizes["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
