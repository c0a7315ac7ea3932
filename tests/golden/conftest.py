"""One test for each file and kind of answer, and at the end the numbers of what was compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import find_shared
from tests.golden.folder import KINDS, SYSTEMS, Golden, find_golden

COMPARED = pytest.StashKey[Counter[tuple[str, str]]]()
"""How many cases were compared, by system and kind."""
DONE = pytest.StashKey[set[tuple[Path, str]]]()


def golden_folder(config: pytest.Config) -> Path | None:
    """The folder named on the command line, else that of the shared data, if there is one."""
    named = config.getoption("--golden")
    if named:
        return Path(named)
    shared = find_shared()
    return shared / "golden" if shared is not None and (shared / "golden").is_dir() else None


def pytest_configure(config: pytest.Config) -> None:
    """Start counting."""
    config.stash[COMPARED] = Counter()
    config.stash[DONE] = set()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the files; without a folder it is skipped with a reason."""
    if "golden" not in metafunc.fixturenames:
        return
    folder = golden_folder(metafunc.config)
    if folder is None:
        reason = pytest.mark.skip(reason="no golden folder: name one with --golden, or set TREERING_SHARED")
        metafunc.parametrize("golden", [pytest.param(None, marks=reason)])
        return
    files = [golden for golden in find_golden(folder) if golden.system in SYSTEMS]
    if "kind" not in metafunc.fixturenames:
        metafunc.parametrize("golden", files, ids=_name)
        return
    every = [(golden, kind) for golden in files for kind in KINDS if golden.cases(kind)]
    metafunc.parametrize(("golden", "kind"), every, ids=[f"{_name(golden)}-{kind}" for golden, kind in every])


def _name(golden: Golden) -> str:
    return f"{golden.system}-{golden.stem}"


@pytest.fixture(scope="session")
def compared(request: pytest.FixtureRequest) -> Counter[tuple[str, str]]:
    """The numbers so far."""
    return request.config.stash[COMPARED]


@pytest.fixture(scope="session")
def done(request: pytest.FixtureRequest) -> set[tuple[Path, str]]:
    """Files and kinds whose tests ran."""
    return request.config.stash[DONE]


@pytest.fixture(scope="session")
def all_golden(request: pytest.FixtureRequest) -> list[Golden]:
    """All files of the folder."""
    folder = golden_folder(request.config)
    if folder is None:
        pytest.skip("no golden folder: name one with --golden, or set TREERING_SHARED")
    return find_golden(folder)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the numbers."""
    counts = config.stash[COMPARED]
    if not counts:
        return
    terminalreporter.section("golden cases compared")
    terminalreporter.write_line(f"{'':10}" + "".join(f"{kind:>11}" for kind in KINDS))
    for line in _rows(counts):
        terminalreporter.write_line(line)


def _rows(counts: Counter[tuple[str, str]]) -> Iterator[str]:
    for system in SYSTEMS:
        yield f"{system:10}" + "".join(f"{counts[system, kind]:>11}" for kind in KINDS)
    yield f"{'all':10}" + "".join(f"{sum(counts[system, kind] for system in SYSTEMS):>11}" for kind in KINDS)
