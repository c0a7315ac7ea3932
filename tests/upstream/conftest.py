"""The programs, if they are installed, and at the end the numbers of what was compared with them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.upstream.claude_code import ClaudeCode
from tests.upstream.install import is_installed, runner
from tests.upstream.programs import Program
from tests.upstream.sessions import BLOB, PICTURE

PROGRAMS: Final = ("pi073", "pi152", "omp")
INSTALLED: Final = Path(os.environ.get("TREERING_UPSTREAM") or Path(__file__).parents[2] / ".upstream").absolute()
COMPARED = pytest.StashKey[Counter[tuple[str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Start counting."""
    config.stash[COMPARED] = Counter()


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A program, which runs until the last file; its home has one picture of oh-my-pi."""
    _need_programs()
    home = tmp_path_factory.mktemp(request.param)
    (home / "agent" / "blobs").mkdir(parents=True)
    (home / "agent" / "blobs" / BLOB).write_bytes(PICTURE)
    with Program(request.param, INSTALLED, home) as program:
        yield program


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaudeCode]:
    """Claude Code and a model for it, with a home of its own."""
    _need_programs()
    with ClaudeCode(runner(INSTALLED, "claude"), tmp_path_factory.mktemp("claude")) as claude:
        yield claude


def _need_programs() -> None:
    if not is_installed(INSTALLED):
        pytest.skip(f"the programs are not installed, run `make upstream`. folder={INSTALLED.name!r}")


@pytest.fixture
def count(request: pytest.FixtureRequest, program: Program) -> Iterator[Counter[str]]:
    """Counts what is compared, by its name."""
    counts: Counter[str] = Counter()
    yield counts
    request.config.stash[COMPARED].update({(program.name, what): number for what, number in counts.items()})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the numbers."""
    counts = config.stash[COMPARED]
    if counts:
        terminalreporter.section("compared with the programs themselves")
    for what in dict.fromkeys(what for _, what in counts):
        numbers = "".join(f"{name:>8}{counts[name, what]:>8}" for name in PROGRAMS)
        terminalreporter.write_line(f"{what:36}{numbers}")
