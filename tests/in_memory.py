"""Keep the folders of tests in memory, where that is a file system of its own, as on Linux.

Sessions on disk sync each append, and tests record many: 189 tests took 407 seconds on a busy disk, 60 of them of a
processor, and in memory 65 and 36. What is synced, and when, is asserted of the calls to the system, which are the
same; so is what a kill or a power cut leaves. What file systems do is tested on the disk, in `tests/storage`; with
`make whole` everything is. Where there is no such file system, or a small one, as in containers, the folders are on
the disk, too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sampling import WHOLE

IN_MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 4 * 1024**3
"""Far more than tests take at any time: the folder of a test that passed is removed behind it."""
PREFIX = "treering-tests-"
"""In front of the number of the process: runs beside each other have nothing in common."""


@pytest.hookimpl(tryfirst=True)  # before pytest looks where its folders are to be
def pytest_configure(config: pytest.Config) -> None:
    """Choose the place for the folders of this process and its workers, if nobody has."""
    if config.option.basetemp is None and not WHOLE and has_room():
        remove_left()
        config.option.basetemp = str(own())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove what is left of a run in which nothing failed; of another one it stays for the next run to remove."""
    if exitstatus == 0 and session.config.option.basetemp == str(own()):
        shutil.rmtree(own(), ignore_errors=True)


def has_room() -> bool:
    """Whether files can be in memory."""
    return os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= FREE_BYTES_MIN


def own() -> Path:
    """The folder of this process."""
    return IN_MEMORY / f"{PREFIX}{os.getpid()}"


def remove_left() -> None:
    """Remove what processes left that are no more."""
    for folder in IN_MEMORY.glob(f"{PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(PREFIX)).exists():
            shutil.rmtree(folder, ignore_errors=True)
