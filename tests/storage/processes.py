"""Run Python code that uses treering in processes of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import treering

PRELUDE = """
import os, sys
from treering.errors import *
from treering.storage.requests import *
from treering.storage.local import LocalDriver
def ask(driver, request):
    return driver.execute((request,))[0]
"""

_SOURCES = str(Path(treering.__file__).parents[1])


def start(code: str, *arguments: object, before: tuple[str, ...] = (), prelude: str = PRELUDE) -> subprocess.Popen[str]:
    """Start a fresh interpreter with `code`, connected by pipes; `before` goes in front of its command."""
    command = [*before, sys.executable, "-c", prelude + code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": _SOURCES}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for the end and return what was printed; the process must have succeeded."""
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone, so that a killed test run leaves nothing behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
