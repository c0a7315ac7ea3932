"""Real agents of Strands, to make the folders that tests import and to go on with what was imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strands import Agent, ToolContext, tool
from strands.session import FileSessionManager, SnapshotSessionManager
from strands.session.session_manager import SessionManager
from strands.storage import LocalFileStorage
from tests.integrations.strands.fake_model import FakeModel, Script

from treering import Store
from treering.integrations.strands.session_manager import TreeringSessionManager


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(context=True)
def ask(tool_context: ToolContext) -> str:
    """Ask the user."""
    return f"answer: {tool_context.interrupt('sure', reason='really?')}"


def make(manager: SessionManager[Any], script: Script = (), **options: Any) -> Agent:
    """An agent whose model follows a script."""
    return Agent(model=FakeModel(script), tools=[add, ask], session_manager=manager, callback_handler=None, **options)


def log(folder: Path, session: str = "s") -> SessionManager[Any]:
    """Keeps a log of messages."""
    return FileSessionManager(session, storage_dir=str(folder))


def snapshots(folder: Path, session: str = "s", **options: Any) -> SessionManager[Any]:
    """Keeps snapshots, one for every invocation."""
    options = {"snapshot_trigger": lambda **_: True, **options}
    return SnapshotSessionManager(session, storage=LocalFileStorage(str(folder)), **options)


LAYOUTS = {"log": log, "snapshots": snapshots}


def resumed(store: Store, session: str = "s", script: Script = (), **options: Any) -> Agent:
    """An agent that goes on with what was imported."""
    return make(TreeringSessionManager(store, session), script, **options)


def known(agent: Agent) -> dict[str, Any]:
    """All that an agent restores, but for its system prompt."""
    return agent.take_snapshot(preset="session").data
