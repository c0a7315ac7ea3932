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

from tests.sampling import WHOLE

IN_MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 4 * 1024**3
"""Far more than tests take at any time: the folder of a test that passed is removed behind it."""


def pytest_configure() -> None:
    """Choose the place for the folders of this process and its workers, if nobody has."""
    if not WHOLE and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= FREE_BYTES_MIN:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
