"""Our classes for Strands as a type checker sees them: they go wherever Strands takes its own. Never run."""

from __future__ import annotations

from strands import Agent
from strands.session import RepositorySessionManager, SessionRepository, SnapshotSessionManager
from strands.storage import Storage
from strands.storage.search import KeywordSearchStrategy

import treering
from treering.integrations.strands import TreeringSessionRepository, TreeringStorage

store = treering.open("agents")
storage: Storage = TreeringStorage(store, search_strategy=KeywordSearchStrategy())
scoped: Storage = TreeringStorage(store, overwrite=False).namespace("team")
agent = Agent(session_manager=SnapshotSessionManager("s", storage=storage), storage=TreeringStorage(store))
repository: SessionRepository = TreeringSessionRepository(store)
manager = RepositorySessionManager("s", session_repository=TreeringSessionRepository(store))


async def asynchronous() -> None:
    """A store that is awaited serves as well."""
    opened: Storage = TreeringStorage(treering.aopen("agents"))
    await opened.write("k", b"x")
    await opened.write("k", "x")  # type: ignore[arg-type]
    TreeringSessionRepository(treering.aopen("agents"))  # type: ignore[arg-type]
