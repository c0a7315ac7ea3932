"""The SDK at work, with its own mirror, resume, fork and import; only Claude Code itself is a stand-in."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    get_subagent_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
)
from tests.integrations.claude.conftest import S3_WHOLE, opened, s3_backend
from tests.integrations.claude.fake_claude import ROOT, install
from tests.integrations.claude.scribe import Scribe
from tests.session.backends import Backend, local_backend, memory_backend
from tests.storage.processes import start, wait_until


class Agent:
    """Runs prompts with the SDK, each as a program of its own would."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.cli = install(folder)
        self.project = project_key_for_directory(self.work)

    def options(self, **more: Any) -> ClaudeAgentOptions:
        """The options of a program that starts now."""
        env = {"CLAUDE_CONFIG_DIR": str(self.folder / "config"), "ANTHROPIC_API_KEY": "none", **more.pop("env", {})}
        store = more.pop("store", None) or opened(self.backend)
        return ClaudeAgentOptions(session_store=store, cwd=self.work, cli_path=self.cli, env=env, **more)

    async def ask(self, prompt: str, **more: Any) -> ResultMessage:
        """Ask, and return the result."""
        results = [m async for m in query(prompt=prompt, options=self.options(**more)) if isinstance(m, ResultMessage)]
        return results[-1]

    def key(self, session: str) -> Any:
        """The key of a conversation."""
        return {"project_key": self.project, "session_id": session}

    async def path(self, session: str) -> list[str]:
        """The conversation as the SDK shows it: text of prompts and answers."""
        found = await get_session_messages_from_store(opened(self.backend), session, str(self.work))
        return [text for message in found if (text := _text(message.message))]

    def forget_local_files(self) -> None:
        """Go to another computer: what Claude Code left on the disk is gone."""
        for path in (self.folder / "config").rglob("*.jsonl"):
            path.unlink()


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[0].get("text", "")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent on a store in memory."""
    return Agent(memory_backend(), tmp_path)


async def test_resume_on_another_computer(agent: Agent) -> None:
    """A conversation is resumed from the store alone, and goes on in the same session."""
    first = await agent.ask("one")
    agent.forget_local_files()
    second = await agent.ask("two", resume=first.session_id)
    assert second.session_id == first.session_id
    assert second.result == "you asked: one, two"
    agent.forget_local_files()
    third = await agent.ask("three", continue_conversation=True)
    assert third.result == "you asked: one, two, three"
    assert await agent.path(first.session_id) == [
        "one", "you asked: one", "two", "you asked: one, two", "three", "you asked: one, two, three",
    ]  # fmt: skip


async def test_go_back_with_the_sdk(agent: Agent) -> None:
    """Resuming at an earlier message goes on from there in the same session; what came after stays as a branch."""
    session = (await agent.ask("one")).session_id
    found = await get_session_messages_from_store(opened(agent.backend), session, str(agent.work))
    agent.forget_local_files()
    await agent.ask("two", resume=session)
    agent.forget_local_files()
    back = await agent.ask("other two", resume=session, resume_session_at=found[-1].uuid)
    assert back.result == "you asked: one, other two"
    view = agent.backend.store().namespace(agent.project).view(session)
    prompts = [(row.role, row.payload["content"]) for row in map(view.get, view.children(found[-1].uuid))]
    assert prompts == [("user", "two"), ("user", "other two")]
    assert [node for node in map(view.get, view.path()) if node.role == "user"][-1].payload["content"] == "other two"
    agent.forget_local_files()
    assert (await agent.ask("and", resume=session)).result == "you asked: one, other two, and"


async def test_go_back_with_treering(agent: Agent) -> None:
    """Going elsewhere with Treering decides where the SDK resumes, forth and back; the rest stays where it is."""
    session = (await agent.ask("one")).session_id
    store = agent.backend.store().namespace(agent.project)
    with store.session(session, shared=True) as opened_session:
        start_of = opened_session.node
    await agent.ask("two", resume=session)
    with store.session(session, shared=True) as opened_session:
        opened_session.branch("other", node=start_of)
    agent.forget_local_files()
    assert (await agent.ask("three", resume=session)).result == "you asked: one, three"
    with store.session(session, shared=True) as opened_session:
        assert opened_session.head == "other"
        opened_session.switch("main")
    agent.forget_local_files()
    assert (await agent.ask("four", resume=session)).result == "you asked: one, two, four"
    view = store.view(session)
    assert len(view.children(start_of)) == 2
    assert set(view.heads) == {"main", "other"}


async def test_fork(agent: Agent) -> None:
    """The SDK forks a session in the store, up to a message; the fork names its origin and goes its own way."""
    session = (await agent.ask("one")).session_id
    middle = (await get_session_messages_from_store(opened(agent.backend), session, str(agent.work)))[-1].uuid
    await agent.ask("two", resume=session)
    store = opened(agent.backend)
    forked = (await fork_session_via_store(store, session, str(agent.work), up_to_message_id=middle)).session_id
    agent.forget_local_files()
    assert (await agent.ask("three", resume=forked)).result == "you asked: one, three"
    assert await agent.path(session) == ["one", "you asked: one", "two", "you asked: one, two"]
    info = agent.backend.store().namespace(agent.project).view(forked).info
    assert info.parent_session == session
    assert info.parent_node == middle


async def test_fork_by_claude_code(agent: Agent) -> None:
    """Claude Code's own fork brings the same uuids into another session: they are recorded there as well."""
    session = (await agent.ask("one")).session_id
    agent.forget_local_files()
    forked = await agent.ask("two", resume=session, fork_session=True)
    assert forked.session_id != session
    assert await agent.path(forked.session_id) == ["one", "you asked: one", "two", "you asked: one, two"]
    assert await agent.path(session) == ["one", "you asked: one"]


async def test_import_and_catch_up(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's import of a local session fills what the mirror missed, and adds nothing twice, however often."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(agent.folder / "config"))
    session = (await agent.ask("count to 5")).session_id
    file = agent.folder / "config" / "projects" / agent.project / f"{session}.jsonl"
    subagent = Scribe(session, agent="a1")
    subagent.turn("look", "ls")
    with file.open("a") as lines:
        lines.write(json.dumps({"type": "custom-title", "customTitle": "Counting", "sessionId": session}) + "\n")
    folder = file.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in subagent.entries))
    (folder / "agent-a1.meta.json").write_text(json.dumps({"agentType": "explorer"}))
    for size in (500, 3, 500):
        await import_session_to_store(session, opened(agent.backend), directory=str(agent.work), batch_size=size)
    stored: Any = await opened(agent.backend).load(agent.key(session))
    assert stored == [json.loads(line) for line in file.read_text().splitlines()]
    found = await get_subagent_messages_from_store(opened(agent.backend), session, "a1", str(agent.work))
    assert [message.uuid for message in found] == [e["uuid"] for e in subagent.entries if e["type"] != "attachment"]
    agent.forget_local_files()
    assert (await agent.ask("go on", resume=session)).result == "you asked: count to 5, go on"


async def test_rename_and_delete(agent: Agent) -> None:
    """Titles given by the SDK are those of Treering; a deleted session is gone for both."""
    session = (await agent.ask("one")).session_id
    store = opened(agent.backend)
    await rename_session_via_store(store, session, "A better title", str(agent.work))
    (info,) = await list_sessions_from_store(opened(agent.backend), str(agent.work))
    assert info.summary == "A better title"
    assert agent.backend.store().namespace(agent.project).view(session).info.title == "A better title"
    await delete_session_via_store(store, session, str(agent.work))
    assert await list_sessions_from_store(opened(agent.backend), str(agent.work)) == []


PROGRAM = """
import asyncio, json
sys.path.insert(0, sys.argv[1])
from claude_agent_sdk import ClaudeAgentOptions, query
import treering
from treering.integrations.claude import TreeringSessionStore

async def main(target, options, work, cli, config):
    options = ClaudeAgentOptions(
        session_store=TreeringSessionStore(treering.open(target, storage_options=json.loads(options))),
        session_store_flush="eager", cwd=work, cli_path=cli,
        env={"CLAUDE_CONFIG_DIR": config, "ANTHROPIC_API_KEY": "none", "FAKE_CLAUDE_HANGS_AFTER": "2"},
    )
    async for message in query(prompt="count to 3", options=options):
        pass

asyncio.run(main(*sys.argv[2:]))
"""


@pytest.mark.tools
@pytest.mark.parametrize("kind", ["local", S3_WHOLE])
async def test_killed_in_the_middle_of_a_tool_loop(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A program that is killed between two tool calls is resumed elsewhere, behind the last result that was stored."""
    if kind == "local":
        backend, target, options = local_backend(tmp_path / "store"), str(tmp_path / "store"), None
    else:
        server = request.getfixturevalue("seaweedfs")
        place = f"{server.bucket}/claude-{os.urandom(6).hex()}"
        backend, target, options = s3_backend(server, place), f"s3://{place}", server.storage_options
    agent = Agent(backend, tmp_path)
    process = start(PROGRAM, ROOT, target, json.dumps(options), agent.work, agent.cli, tmp_path / "config")
    try:
        session = await asyncio.to_thread(_session_with, agent, 5, process)
    finally:
        process.kill()
        process.communicate()
    agent.forget_local_files()
    answer = await agent.ask("go on", resume=session)
    assert answer.result == "you asked: count to 3, go on"
    loaded: Any = await opened(agent.backend).load(agent.key(session))
    assert [entry["type"] for entry in loaded] == [
        "user", "assistant", "user", "assistant", "user",  # the prompt, and two calls with their results
        "user", "assistant",
    ]  # fmt: skip


def _session_with(agent: Agent, count: int, process: Any) -> str:
    """Wait for a session with so many entries; return its id."""
    found: list[str] = []

    async def look() -> bool:
        store = opened(agent.backend)
        for row in await store.list_sessions(agent.project):
            entries = await store.load(agent.key(row["session_id"])) or ()
            found.extend([row["session_id"]] if len(entries) == count else [])
        return bool(found)

    wait_until(lambda: asyncio.run(look()), is_running=lambda: process.poll() is None)
    return found[0]
