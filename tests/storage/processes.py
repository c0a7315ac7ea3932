"""Run Python code that uses treering in processes of its own, and wait for what other processes do."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import treering
from treering.ids import now_ms

PRELUDE = """
import os, sys
from treering.errors import *
from treering.storage.requests import *
from treering.storage.local import LocalDriver
def ask(driver, request):
    return driver.execute((request,))[0]
"""

WAIT_SECONDS_MAX = 60  # for what usually takes one or two; a busy machine may need more
PAUSE_SECONDS = 0.02
TICK_MS_MAX = 20  # of the clocks that time files

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


def wait_until(
    condition: Callable[[], bool],
    *,
    is_running: Callable[[], bool] = lambda: True,
    seconds: float = WAIT_SECONDS_MAX,
    pause_seconds: float = PAUSE_SECONDS,
) -> bool:
    """Look again and again until something holds, where nothing tells when it does.

    Args:
        condition: What is waited for.
        is_running: Whether those who are to bring it about still can.
        seconds: How long to wait at most.
        pause_seconds: Between two looks.

    Returns:
        Whether it came to hold.
    """
    deadline = time.monotonic() + seconds
    while is_running() and time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause_seconds)
    return False


def await_tick() -> None:
    """Wait until what is written now has a later time than what was written before; clocks of disks tick slowly."""
    before_ms = now_ms()
    wait_until(lambda: now_ms() > before_ms + TICK_MS_MAX)


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone, so that a killed test run leaves nothing behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
