"""A pytest plugin for Strands' own tests: they get our classes under the names of theirs; see `stand_ins`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stand_ins import GROUND, put_in_place  # type: ignore[import-not-found]  # a plugin of the same run
from strands.session import RepositorySessionManager
from strands.storage.storage import _EPHEMERAL

from treering.integrations.strands.repository import TreeringSessionRepository
from treering.integrations.strands.storage import TreeringStorage


class InMemoryStorage(TreeringStorage):
    """Ours in place of the one in memory: a store that nobody else has, and that is said not to last."""

    _ephemeral = _EPHEMERAL

    def __init__(self, *, search_strategy: Any = None) -> None:
        super().__init__(GROUND.store(), search_strategy=search_strategy)


class LocalFileStorage(TreeringStorage):
    """Ours in place of the one in files: the store is named by the folder."""

    def __init__(self, base_dir: str = "./.strands/", *, search_strategy: Any = None) -> None:
        super().__init__(GROUND.store(str(Path(base_dir).resolve())), search_strategy=search_strategy)


class S3Storage(TreeringStorage):
    """Ours in place of the one on S3: the store is named by bucket and prefix."""

    def __init__(self, bucket: str, *, prefix: str = "", search_strategy: Any = None, **_: Any) -> None:
        super().__init__(GROUND.store(f"{bucket}/{prefix.strip('/')}"), search_strategy=search_strategy)


class MockedSessionRepository(TreeringSessionRepository):
    """Ours in place of the repository in dicts that Strands tests its manager with."""

    def __init__(self) -> None:
        super().__init__(GROUND.store())


class FileSessionManager(RepositorySessionManager, TreeringSessionRepository):
    """Ours in place of manager and repository in files."""

    def __init__(self, session_id: str, storage_dir: str | None = None, **_: Any) -> None:
        TreeringSessionRepository.__init__(self, GROUND.store(storage_dir or "default"))
        RepositorySessionManager.__init__(self, session_id=session_id, session_repository=self)


class S3SessionManager(RepositorySessionManager, TreeringSessionRepository):
    """Ours in place of manager and repository on S3."""

    def __init__(self, session_id: str, bucket: str, prefix: str = "", **_: Any) -> None:
        TreeringSessionRepository.__init__(self, GROUND.store(f"{bucket}/{prefix}"))
        RepositorySessionManager.__init__(self, session_id=session_id, session_repository=self)


OURS = {
    "strands.storage.in_memory_storage": InMemoryStorage,
    "strands.storage.local_file_storage": LocalFileStorage,
    "strands.storage.s3_storage": S3Storage,
    "strands.session.file_session_manager": FileSessionManager,
    "strands.session.s3_session_manager": S3SessionManager,
    "tests.fixtures.mock_session_repository": MockedSessionRepository,
}
# These start a simulated AWS in the process, which ours do without.
FIXTURES = {"s3_bucket": "a-bucket", "mocked_aws": None}


def pytest_configure() -> None:
    """Put our classes in place of theirs, wherever Strands has them."""
    put_in_place(OURS)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Any:
    """Give fixtures that would start a simulated AWS a value instead."""
    if fixturedef.argname not in FIXTURES:
        return None
    value = FIXTURES[fixturedef.argname]
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)  # type: ignore[arg-type]
    return value or ""
