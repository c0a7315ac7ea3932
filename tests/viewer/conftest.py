"""One browser and one server for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.clients import Serving
from tests.server.forked import serving
from tests.viewer.browser import Browser, browsing
from tests.viewer.conversations import Own
from tests.viewer.sample import Sample, record

import treering


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser, which tests use one after the other."""
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A browser in which no test saw anything that its page must not do."""
    chromium.problems()
    yield chromium
    assert chromium.problems() == []


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a session that has everything, for tests that change nothing."""
    return tmp_path_factory.mktemp("viewer") / "store"


@pytest.fixture(scope="session")
def sample(shop: Path) -> Sample:
    """The nodes of that session."""
    with treering.open(shop) as store:
        record(store, "hostile", hostile=True)
        return record(store)


@pytest.fixture(scope="session")
def server(shop: Path, sample: Sample) -> Iterator[Serving]:
    """A server of that store, on which nothing can be changed."""
    with serving(shop, "--read-only") as found:
        yield found


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Where a test has a store for itself."""
    return str(tmp_path / "store")


@pytest.fixture
def own(browser: Browser, place: str) -> Iterator[Own]:
    """An empty store, and a server on which everything can be changed. The page is left before the server stops."""
    with treering.open(place) as store, serving(place) as found:
        yield store, found
        browser.driver.get("about:blank")
