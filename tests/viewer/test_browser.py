"""The browser of the tests leaves nothing running."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.storage.processes import wait_until
from tests.viewer.browser import browsing

PROCESSES = Path("/proc")


def running_with(word: str) -> list[str]:
    """The commands that run and have a word in them."""
    found = []
    for file in PROCESSES.glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if word in command:
            found.append(command)
    return found


@pytest.mark.skipif(not PROCESSES.is_dir(), reason="no list of processes here")
def test_a_browser_ends_with_its_block() -> None:
    """None of its processes outlives the tests: each run would leave one, which wakes up again and again."""
    with browsing() as browser:
        folder = browser.driver.capabilities["chrome"]["userDataDir"]
        assert running_with(folder)
    assert wait_until(lambda: running_with(folder) == [])
