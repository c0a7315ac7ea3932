"""Reading of Claude Code's files beside that of its own SDK, on the same files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.programs.claude.sessions import SESSION, Chance, Talk, uuid
from tests.sampling import few

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, SessionFile, read
from treering.programs.claude.entries import is_unlinked

sdk = pytest.importorskip("claude_agent_sdk")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the SDK looks for the sessions of a project."""
    home = tmp_path_factory.mktemp("claude")
    folder = home / "projects" / "-repo"
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_CONFIG_DIR", str(home))
        yield folder


def ours(file: SessionFile) -> list[dict[str, Any]]:
    """The entries on our way to where Claude Code goes on that the SDK would show."""
    entries = {entry.id: entry.record for entry in file.entries}
    path = [entries[name] for name in file.path(file.leaf)]
    starts = [at for at, entry in enumerate(path) if entry.get("subtype") == "compact_boundary"]
    path = path[starts[-1] if starts else 0 :]
    return [entry for entry in path if entry["type"] in ("user", "assistant") and not entry.get("isMeta")]


def steps(entries: list[dict[str, Any]]) -> list[str]:
    """What follows what: an answer and the results of its calls are one step, in whatever order they stand."""
    answers = {
        block["id"]: _answer(entry)
        for entry in entries
        for block in entry["message"]["content"]
        if isinstance(block, dict) and block.get("type") == "tool_use" and "id" in block
    }
    names = [_step(entry, answers) for entry in entries]
    return [name for name, _ in groupby(names)]


def _step(entry: dict[str, Any], answers: dict[str, str]) -> str:
    content = entry["message"]["content"]
    if entry["type"] == "assistant":
        return _answer(entry)
    results = [block for block in content if isinstance(block, dict) and "tool_use_id" in block]
    return answers.get(results[0]["tool_use_id"], entry["uuid"]) if results else str(entry["uuid"])


def _answer(entry: dict[str, Any]) -> str:
    return str(entry["message"].get("id", entry["uuid"]))


def _compare(path: Path) -> None:
    """Hold our reading against theirs, but for what stands above an entry that names no parent: they stop there."""
    theirs = [message.uuid for message in sdk.get_session_messages(path.stem)]
    file = read(path)
    found = ours(file)
    found = found[max((at for at, entry in enumerate(found) if is_unlinked(entry)), default=0) :]
    assert sorted(entry["uuid"] for entry in found) == sorted(theirs)
    by_uuid = {entry["uuid"]: entry for entry in found}
    assert steps(found) == steps([by_uuid[name] for name in theirs])


@settings(max_examples=few(33, whole=100))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 8))
def test_the_same_messages_in_the_same_order(project: Path, random: Random, turns: int) -> None:
    """Whatever forks the chain: the messages are those of the SDK, every answer and its results in one piece."""
    _compare(Chance(random, turns).save(project))


@pytest.mark.parametrize("name", ["large.jsonl", "schema_drift.jsonl", "subagent"])
def test_samples(shared: Path, project: Path, name: str) -> None:
    """The same holds for public test data."""
    samples = shared / "samples" / "agent-sessions" / "Resources" / "Fixtures" / "stage0" / "agents" / "claude"
    if not samples.is_dir():
        pytest.skip("no samples of other agents in the shared test data")
    found = samples / name if name.endswith(".jsonl") else next((samples / name).glob("*.jsonl"))
    _compare(Path(shutil.copy(found, project / f"{uuid(name)}.jsonl")))


def test_an_entry_that_was_written_twice(project: Path) -> None:
    """The later one counts, and where it stands: it may be the last end in the file."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1")
    talk.user("u2")
    talk.answer("a2")
    talk.user("u3", after="a1")
    talk.answer("a3")
    talk.entries.append(talk.entries[3])
    _compare(talk.save(project))


def test_subagents(project: Path) -> None:
    """A subagent's file, found by the SDK below its session, has the same messages."""
    main = Talk()
    main.user("u1")
    main.save(project)
    side = Talk()
    side.user("s1", isSidechain=True, agentId="a1")
    side.call("s2", "msg_s", isSidechain=True, agentId="a1")
    side.result("s3", "s2", isSidechain=True, agentId="a1")
    folder = project / SESSION / "subagents"
    folder.mkdir(parents=True)
    side.save(folder, "agent-a1")
    file = read(folder / "agent-a1.jsonl")
    theirs = sdk.get_subagent_messages(SESSION, "a1")
    assert [message.uuid for message in theirs] == file.path(file.leaf)


@settings(max_examples=few(2, whole=10))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 5))
def test_a_fork_made_by_the_sdk(project: Path, random: Random, turns: int) -> None:
    """It is linked with the session that it was made of, says the same, and is written as Python writes it."""
    talk = Chance(random, turns)
    path = talk.save(project)
    forked = project / f"{sdk.fork_session(SESSION).session_id}.jsonl"
    _compare(forked)
    with closing(treering.open(f"memory://claude-{new_nonce()}")) as store:
        importer = FileImporter(store)
        importer.load(path)
        importer.load(forked)
        view = store.view(forked.stem)
        assert view.info.parent_session == SESSION
        export(view, project / "out.jsonl", format="claude", overwrite=True)
        assert (project / "out.jsonl").read_bytes() == forked.read_bytes()
    forked.unlink()


def _titled(talk: Talk) -> None:
    talk.mark("custom-title", customTitle="given")
    talk.mark("tag", tag="old")
    talk.mark("tag", tag="urgent")


def _commanded(talk: Talk) -> None:
    talk.entries[0]["message"]["content"] = "<command-name>/review</command-name>"


def _long(talk: Talk) -> None:
    talk.entries[0]["message"]["content"] = "x " * 300


def _branch(talk: Talk) -> None:
    talk.entries[-1]["gitBranch"] = "other"


def _side(talk: Talk) -> None:
    talk.entries[0]["isSidechain"] = True


def _untitled(talk: Talk) -> None:
    talk.mark("tag", tag="")
    talk.mark("ai-title", aiTitle="made up")


@pytest.mark.parametrize("change", [lambda _: None, _titled, _commanded, _long, _branch, _side, _untitled])
def test_the_list_says_the_same(project: Path, change: Any) -> None:
    """Title, first prompt, branch, folder and tag are those in the SDK's own list of sessions."""
    talk = Talk()
    talk.user("u1", "<local-command-stdout>old output</local-command-stdout>")
    talk.user("u2", "why is the build slow")
    talk.answer("a1")
    change(talk)
    path = talk.save(project)
    info = sdk.get_session_info(SESSION)
    listed = read(path).listing()
    names = ("session_id", "summary", "custom_title", "first_prompt", "git_branch", "cwd", "tag", "created_at")
    assert listed == ({name: getattr(info, name) for name in names} if info is not None else {})
