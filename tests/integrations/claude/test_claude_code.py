"""Claude Code itself, the program that the SDK brings along, on a stand-in for its model: what no test may make up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    MirrorErrorMessage,
    ResultMessage,
    SessionKey,
    SessionStoreEntry,
    fold_session_summary,
    fork_session_via_store,
    project_key_for_directory,
    query,
)
from tests.integrations.claude import stand_in_model
from tests.integrations.claude.conftest import opened
from tests.session.backends import Backend, local_backend

from treering.integrations.claude import TreeringSessionStore

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
NOWHERE = "http://127.0.0.1:9"

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(not CLAUDE.exists(), reason="this wheel of the Claude Agent SDK brings no Claude Code along"),
]


class Kept(TreeringSessionStore):
    """Our store, and a copy of all that the SDK gave it."""

    def __init__(self, backend: Backend, given: dict[str, list[Any]]) -> None:
        super().__init__(backend.store())
        self._given = given

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep a copy first."""
        self._given.setdefault(json.dumps(key, sort_keys=True), []).extend(json.loads(json.dumps(entries)))
        await super().append(key, entries)


class Computer:
    """Asks Claude Code, on a computer that can be replaced by another one."""

    def __init__(self, folder: Path, model: str) -> None:
        self.backend = local_backend(folder / "store")
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.project = project_key_for_directory(self.work)
        self.given: dict[str, list[Any]] = {}
        self._env = {
            "HOME": str(folder), "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
            "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1",
        }  # fmt: skip

    async def ask(self, prompt: str, **more: Any) -> ResultMessage:
        """Ask, and return the result; each time as a program of its own, which is killed when it was answered."""
        options = ClaudeAgentOptions(
            session_store=Kept(self.backend, self.given),
            cwd=self.work,
            cli_path=CLAUDE,
            env=self._env,
            allowed_tools=["Read", "Agent", "Task"],
            setting_sources=[],
            **more,
        )
        messages = [message async for message in query(prompt=prompt, options=options)]
        assert not [message for message in messages if isinstance(message, MirrorErrorMessage)]
        return [message for message in messages if isinstance(message, ResultMessage)][-1]

    def replace(self) -> None:
        """Go to another computer: what Claude Code left on the disk is gone."""
        shutil.rmtree(self.folder / "config", ignore_errors=True)  # the SDK resumes in a folder of its own


@pytest.fixture
def computer(tmp_path: Path) -> Iterator[Computer]:
    """A computer with a stand-in for the model."""
    file = tmp_path / "read-me.txt"
    file.write_text("nothing to see\n")
    with stand_in_model.serving(file) as url:
        yield Computer(tmp_path, url)


async def test_what_claude_code_writes(computer: Computer) -> None:
    """Conversations and subagents come back as the SDK gave them, go on on other computers, and are listed at once."""
    first = await computer.ask("read 2")
    session = first.session_id
    project = computer.backend.store().namespace(computer.project)
    (row,) = project.each_session()
    assert (row.id, row.first_prompt) == (session, "read 2")
    assert row.messages >= 6
    computer.replace()
    second = await computer.ask("delegate", resume=session)
    assert (second.session_id, second.result) == (session, "you asked: read 2, delegate")
    store = opened(computer.backend)
    (subpath,) = await store.list_subkeys({"project_key": computer.project, "session_id": session})
    fork = (await fork_session_via_store(store, session, str(computer.work))).session_id
    computer.replace()
    third = await computer.ask("read 2 at once", continue_conversation=True)
    assert (third.session_id, third.result) == (fork, "you asked: read 2, delegate, read 2 at once")

    assert len(computer.given) == 3
    summaries = {row["session_id"]: row["data"] for row in await store.list_session_summaries(computer.project)}
    for text, entries in computer.given.items():
        key: SessionKey = json.loads(text)
        reference = InMemorySessionStore()
        await reference.append(key, entries)
        stored: Any = await store.load(key)
        assert stored[-len(entries) :] == entries
        if key["session_id"] == session:
            assert stored == entries
            if "subpath" not in key:
                assert summaries[session] == fold_session_summary(None, key, entries)["data"]
    assert project.view(f"{session}/{subpath}").info.parent_session == session
    assert {row.level for row in project.view(fork).tree()} == {0}  # parallel calls and attachments are no branches
    assert not [found for found in project.verify(session) if found.severity == "error"]
