"""Folders of Strands agents: what real agents left, imported, is what they would restore themselves."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from tests.integrations.strands.fake_model import Call, Calls, Redacted
from tests.programs.strands.agents import LAYOUTS, ask, known, log, make, resumed, snapshots

import treering
from treering.api.store import Store
from treering.errors import ConflictError, UsageError
from treering.format.record import decode_record
from treering.importers import FileImporter, ImportResult, detect_format, find_format, find_sessions, read
from treering.programs.formats import find_locator
from treering.storage.memory import MemoryDriver
from treering.store.place import Place
from treering.testing.importers import check_importer

IMAGE = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\x00\xff"}}}


@pytest.fixture
def store() -> Store:
    """A store in memory."""
    return Store(Place(MemoryDriver()))


@pytest.fixture(params=sorted(LAYOUTS))
def layout(request: pytest.FixtureRequest) -> Any:
    """Makes a manager of each layout for a folder."""
    return LAYOUTS[request.param]


def take(store: Store, folder: Path) -> list[ImportResult]:
    """Import all that is below a folder, as a program that was just started does."""
    importer = FileImporter(store)
    return [importer.load(place) for place in find_sessions(folder)]


def talk(manager: Any, turns: int = 4, **options: Any) -> Any:
    """An agent that called a tool, saw an image, and learned something."""
    script: list[Any] = [Calls(Call("add", {"a": 1, "b": 2})), "3", *(f"reply {number}" for number in range(turns + 1))]
    agent = make(manager, script, **options)
    agent("what is 1 + 2?")
    shown: Any = [{"text": "and this?"}, IMAGE]
    agent(shown)
    agent.state.set("mood", {"calm": True, "": [1.5, None]})
    for number in range(turns):
        agent(f"question {number}")
    return agent


# what comes back


def test_an_agent_goes_on_with_what_was_imported(layout: Any, store: Store, tmp_path: Path) -> None:
    """Messages with their bytes and ids, state, and the window's own state are those that Strands would restore."""
    window: dict[str, Any] = {"conversation_manager": SlidingWindowConversationManager(6)}
    talk(layout(tmp_path), **window)
    theirs = known(make(layout(tmp_path), conversation_manager=SlidingWindowConversationManager(6)))
    (taken,) = take(store, tmp_path)
    assert (taken.session, taken.outcome, taken.problems) == ("s", "new", [])
    agent = resumed(store, script=["on we go"], conversation_manager=SlidingWindowConversationManager(6))
    assert known(agent) == theirs
    assert agent.state.get("mood") == {"calm": True, "": [1.5, None]}
    agent("go on")
    assert agent.messages[-2]["content"] == [{"text": "go on"}]
    assert store.verify("s") == []


def test_the_transcript_has_what_the_window_dropped(layout: Any, store: Store, tmp_path: Path) -> None:
    """Every message that some file has is a node under its own id, in one chain."""
    agent = talk(layout(tmp_path), conversation_manager=SlidingWindowConversationManager(4))
    take(store, tmp_path)
    view = store.view("s")
    assert len(view.path()) == len(view.nodes()) == 14
    assert len(view.context) == len(agent.messages) == 4
    assert [item.node for item in view.context] == [message["tracking_id"] for message in agent.messages]
    assert view.get(view.path()[4]).payload["content"][1] == IMAGE
    assert view.info.first_prompt == "what is 1 + 2?"


def test_a_summary_is_seen_in_front(layout: Any, store: Store, tmp_path: Path) -> None:
    """A summary is an injected node; the messages it replaces stay in the transcript."""
    manager = SummarizingConversationManager(summary_ratio=0.5, preserve_recent_messages=2)
    agent = talk(layout(tmp_path), conversation_manager=manager)
    manager.reduce_context(agent)
    agent("after the summary")
    theirs = known(make(layout(tmp_path), conversation_manager=SummarizingConversationManager()))
    take(store, tmp_path)
    again = resumed(store, conversation_manager=SummarizingConversationManager())
    assert known(again) == theirs
    view = store.view("s")
    first = view.get(view.context[0].node)
    assert first.brief == {"injected": True}
    assert len(view.nodes()) == 14 + 1 + 2
    assert view.node == view.path()[-1]


def test_a_question_that_waits_is_answered_after_the_import(layout: Any, store: Store, tmp_path: Path) -> None:
    """An interrupt waits in the imported session, and the answer lets the tool go on."""
    agent = make(layout(tmp_path), [Calls(Call("ask"))])
    (question,) = agent("ask me").interrupts or ()
    take(store, tmp_path)
    again = resumed(store, script=["thanks"])
    answer: Any = [{"interruptResponse": {"interruptId": question.id, "response": "yes"}}]
    result = again(answer)
    assert result.stop_reason == "end_turn"
    assert again.messages[-2]["content"][0]["toolResult"]["content"] == [{"text": "answer: yes"}]


def test_agents_of_one_session_have_sessions_of_their_own(layout: Any, store: Store, tmp_path: Path) -> None:
    """They are named as the session manager of treering names them, also where an id looks like something else."""
    for name in ("default", "helper", "message_7.json", "scopes"):
        make(layout(tmp_path), [f"I am {name}"], agent_id=name)("who?")
    assert {taken.session for taken in take(store, tmp_path)} == {"s", "s/helper", "s/message_7.json", "s/scopes"}
    agent = resumed(store, agent_id="helper")
    assert agent.messages[-1]["content"] == [{"text": "I am helper"}]


def test_what_a_guardrail_took_back_is_not_imported(store: Store, tmp_path: Path) -> None:
    """Older releases keep both versions of a message; only what replaced it comes along, and that is reported."""
    make(log(tmp_path), [Redacted("[taken back]")])("the secret word")
    path = tmp_path / "session_s/agents/agent_default/messages/message_0.json"
    record = json.loads(path.read_bytes())
    assert record["redact_message"]["content"] == [{"text": "[taken back]"}]
    record["message"]["content"] = [{"text": "the secret word"}]
    path.write_text(json.dumps(record))
    (taken,) = take(store, tmp_path)
    assert [problem.kind for problem in taken.problems] == ["redacted"]
    view = store.view("s")
    assert view.context[0].message["content"] == [{"text": "[taken back]"}]
    assert not any(b"the secret word" in line for line in view.lines())


# snapshots as checkpoints


def test_every_snapshot_is_a_checkpoint_under_its_own_id(store: Store, tmp_path: Path) -> None:
    """Going back to one gives what Strands gives for it, and a new message begins a branch there."""
    manager: Any = snapshots(tmp_path)
    agent = talk(manager, conversation_manager=SlidingWindowConversationManager(4))
    take(store, tmp_path)
    kept = sorted(path.stem.removeprefix("snapshot_") for path in tmp_path.rglob("immutable_history/*.json"))
    assert [entry.id for entry in store.view("s").checkpoints()][:-1] == kept
    ours = resumed(store, script=["another way"], conversation_manager=SlidingWindowConversationManager(4))
    for name in (kept[1], kept[3]):
        asyncio_run(manager.restore_snapshot(agent, snapshot_id=name))
        ours.__dict__["_session_manager"].restore_checkpoint(ours, name)
        assert known(ours) == known(agent)
    ours("and now?")
    assert len(store.view("s").leaves()) == 2


def asyncio_run(awaited: Any) -> None:
    """Wait for what Strands offers only to event loops."""
    import asyncio

    asyncio.run(awaited)


def test_snapshots_after_going_back_are_a_branch(store: Store, tmp_path: Path) -> None:
    """Where an agent of Strands was taken back and went on, the transcript forks; no message is there twice."""
    manager: Any = snapshots(tmp_path)
    agent = make(manager, ["one", "two", "other two"])
    agent("first")
    agent("second")
    first, _ = sorted(path.stem.removeprefix("snapshot_") for path in tmp_path.rglob("immutable_history/*.json"))
    asyncio_run(manager.restore_snapshot(agent, snapshot_id=first))
    agent("second, otherwise")
    take(store, tmp_path)
    view = store.view("s")
    assert len(view.nodes()) == 6
    assert [node.payload["content"][0]["text"] for node in map(view.get, view.path())] == [
        "first", "one", "second, otherwise", "other two",
    ]  # fmt: skip
    assert len(view.leaves()) == 2


def test_messages_without_ids_are_found_again(store: Store, tmp_path: Path) -> None:
    """Older releases gave none: a message is the one that stood in its place in the snapshot before."""
    talk(snapshots(tmp_path), turns=6, conversation_manager=SlidingWindowConversationManager(4))
    same = {"role": "user", "content": [{"text": "yes"}]}
    for number, path in enumerate(sorted(tmp_path.rglob("snapshot_*.json"))):
        document = json.loads(path.read_bytes())
        document["data"]["messages"] = [same] * 2 + document["data"]["messages"]
        document["data"]["messages"] = [
            {name: part for name, part in message.items() if name != "tracking_id"}
            for message in document["data"]["messages"]
        ]
        path.write_text(json.dumps(document))
        assert number < 9
    take(store, tmp_path)
    view = store.view("s")
    assert len(view.nodes()) == 2 + 18
    assert len({item.node for item in view.context}) == len(view.context)
    assert resumed(store).messages[-1]["content"] == [{"text": "reply 6"}]


# again


def test_a_session_that_went_on_in_strands(layout: Any, store: Store, tmp_path: Path) -> None:
    """Only new messages are added, and the session has the agent's current node and state."""
    talk(layout(tmp_path), conversation_manager=SlidingWindowConversationManager(6))
    take(store, tmp_path)
    before = {node.id for node in store.view("s").nodes()}
    agent = make(layout(tmp_path), ["more"], conversation_manager=SlidingWindowConversationManager(6))
    agent.state.set("mood", "brisk")
    agent("more?")
    (taken,) = take(store, tmp_path)
    assert (taken.outcome, taken.branch) == ("updated", "")
    view = store.view("s")
    assert len({node.id for node in view.nodes()} - before) == 2
    assert len(view.nodes()) == len(before) + 2
    assert known(resumed(store, conversation_manager=SlidingWindowConversationManager(6))) == known(agent)
    assert [each.outcome for each in take(store, tmp_path)] == ["unchanged"]
    assert store.verify("s") == []


def test_a_snapshot_that_is_kept_later(store: Store, tmp_path: Path) -> None:
    """Messages that came with the latest snapshot are not recorded again when one that is kept has them, too."""
    make(snapshots(tmp_path, snapshot_trigger=None), ["one"])("first")
    take(store, tmp_path)
    make(snapshots(tmp_path), ["two"])("second")
    assert [each.outcome for each in take(store, tmp_path)] == ["updated"]
    view = store.view("s")
    ids = [record.id for record in map(decode_record, view.lines()) if record.type == "node"]
    assert len(ids) == len(set(ids)) == 4
    assert len(view.context) == 4
    assert store.verify("s") == []


def test_a_state_that_changed_alone(layout: Any, store: Store, tmp_path: Path) -> None:
    """The session gets it though nobody said anything."""
    agent = talk(layout(tmp_path))
    take(store, tmp_path)
    agent.state.set("mood", "changed")
    agent._session_manager.sync_agent(agent)
    (taken,) = take(store, tmp_path)
    assert taken.outcome == "updated"
    assert store.view("s").state["mood"] == "changed"


def test_a_session_that_went_on_in_both_places(layout: Any, store: Store, tmp_path: Path) -> None:
    """What Strands added comes as a branch; the session stays where treering's agent left it."""
    talk(layout(tmp_path))
    take(store, tmp_path)
    with TreeringClosing(resumed(store, script=["here"])) as ours:
        ours("here?")
        shown = [message["tracking_id"] for message in ours.messages]
    make(layout(tmp_path), ["there"])("there?")
    (taken,) = take(store, tmp_path)
    assert (taken.outcome, taken.branch) == ("updated", "strands")
    view = store.view("s")
    assert [item.node for item in view.context] == shown
    assert view.get(view.heads["strands"] or "").payload["content"] == [{"text": "there"}]
    assert store.verify("s") == []


class TreeringClosing:
    """An agent whose session is closed at the end, so that others can have it."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent

    def __enter__(self) -> Any:
        return self._agent

    def __exit__(self, *_: object) -> None:
        self._agent._session_manager.close()


def test_a_message_that_was_taken_back_later(store: Store, tmp_path: Path) -> None:
    """The log no longer begins with what was imported: that is said, and nothing is mixed up."""
    talk(log(tmp_path))
    take(store, tmp_path)
    path = tmp_path / "session_s/agents/agent_default/messages/message_0.json"
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps(record | {"redact_message": {"role": "user", "content": [{"text": "gone"}]}}))
    with pytest.raises(ConflictError, match="rewritten"):
        take(store, tmp_path)
    folder = tmp_path / "session_s/agents/agent_default"
    assert FileImporter(store).load(folder, again=True).session == "s-2"


# folders


def test_the_importer_keeps_the_rules(layout: Any, tmp_path: Path) -> None:
    """It is held to what every importer must do, whole and with a damaged file."""
    talk(layout(tmp_path), conversation_manager=SlidingWindowConversationManager(4))
    folders = [Path(place) for place in find_sessions(tmp_path)]
    check_importer(find_format("strands"), folders)
    sorted(tmp_path.rglob("*_*.json"))[1].write_bytes(b"{")
    check_importer(find_format("strands"), folders)


def test_folders_are_found_beside_other_sessions(store: Store, tmp_path: Path) -> None:
    """A walk yields agents and no file of theirs, whatever else is there; links are not followed."""
    talk(log(tmp_path / "x"))
    talk(snapshots(tmp_path / "y"))
    (tmp_path / "other.jsonl").write_text(
        '{"type":"session","version":3,"id":"p","timestamp":"2026-01-05T08:00:00Z"}\n'
    )
    os.symlink(tmp_path / "x", tmp_path / "z")
    found = [str(place.relative_to(tmp_path)) for place in map(Path, find_sessions(tmp_path))]
    assert found == ["other.jsonl", "x/session_s/agents/agent_default", "y/session/s/scopes/agent/default"]
    assert list(find_locator("strands").find(tmp_path)) == [tmp_path / name for name in found[1:]]
    assert detect_format(tmp_path / found[1]).NAME == "strands"
    inside = tmp_path / found[2] / "snapshots/snapshot_latest.json"
    assert [*find_sessions(inside)] == [tmp_path / found[2]]


def test_a_folder_that_was_moved_is_the_same_session(store: Store, tmp_path: Path) -> None:
    """A copy adds nothing; when the first place is gone, the copy takes its place."""
    talk(log(tmp_path / "x"))
    take(store, tmp_path / "x")
    shutil.copytree(tmp_path / "x", tmp_path / "y")
    assert [each.outcome for each in take(store, tmp_path / "y")] == ["copy"]
    shutil.rmtree(tmp_path / "x")
    make(log(tmp_path / "y"), ["more"])("more?")
    assert [(each.outcome, each.session) for each in take(store, tmp_path / "y")] == [("updated", "s")]


@pytest.mark.parametrize("name", ["", "agents", "session_s", "agents/agent_x"])
def test_what_is_no_folder_of_an_agent(store: Store, tmp_path: Path, name: str) -> None:
    """It is refused by its name, with a word on what to name instead."""
    place = tmp_path / name
    place.mkdir(parents=True, exist_ok=True)
    with pytest.raises(UsageError, match="no session folder that is known"):
        FileImporter(store).load(place)
    with pytest.raises(UsageError, match="no folder of an agent"):
        FileImporter(store).load(place, format="strands")


# damage


def test_a_damaged_message_costs_itself(store: Store, tmp_path: Path) -> None:
    """It is reported and kept as it is; the messages around it are one chain."""
    talk(log(tmp_path))
    messages = tmp_path / "session_s/agents/agent_default/messages"
    (messages / "message_3.json").write_bytes(b'{"message": {"role"')
    (messages / "message_5.json").write_bytes(b"[]")
    (messages / "message_6.json").write_bytes(b'{"message": null, "message_id": 6}')
    (messages / "message_7.json").unlink()
    (taken,) = take(store, tmp_path)
    assert [(each.line, each.kind) for each in taken.problems] == [(0, "json"), (0, "no_object"), (7, "no_message")]
    view = store.view("s")
    assert len(view.path()) == len(view.nodes()) == 10
    assert view.notes(kind="damage")[0].payload["bytes"] == b'{"message": {"role"'


def test_a_link_is_not_followed(store: Store, tmp_path: Path) -> None:
    """Strands refuses links, since somebody may have put one there; here they are no files of the session."""
    talk(log(tmp_path / "x"))
    messages = tmp_path / "x/session_s/agents/agent_default/messages"
    (tmp_path / "elsewhere.json").write_bytes((messages / "message_13.json").read_bytes())
    (messages / "message_13.json").unlink()
    os.symlink(tmp_path / "elsewhere.json", messages / "message_13.json")
    take(store, tmp_path / "x")
    assert len(store.view("s").context) == 13


def test_an_agent_whose_own_file_is_damaged(store: Store, tmp_path: Path) -> None:
    """Its messages come without state, and that is said."""
    talk(log(tmp_path))
    path = tmp_path / "session_s/agents/agent_default/agent.json"
    for damage, kind in ((b"{", "json"), (None, "agent")):
        path.write_bytes(damage) if damage else path.unlink()
        found = Store(Place(MemoryDriver()))
        (taken,) = take(found, tmp_path)
        assert [each.kind for each in taken.problems] == [kind]
        assert (len(found.view("s").context), found.view("s").state) == (14, {})


def test_damaged_snapshots(store: Store, tmp_path: Path) -> None:
    """One that was kept costs its checkpoint; without a readable latest one the last that was kept counts."""
    talk(snapshots(tmp_path))
    kept = sorted(tmp_path.rglob("immutable_history/*.json"))
    kept[2].write_bytes(b"\x00")
    next(tmp_path.rglob("snapshot_latest.json")).write_bytes(b'{"scope":')
    (taken,) = take(store, tmp_path)
    assert [each.kind for each in taken.problems] == ["json", "json"]
    view = store.view("s")
    assert [entry.id for entry in view.checkpoints()] == [
        path.stem.removeprefix("snapshot_") for path in kept if path != kept[2]
    ]
    assert len(view.context) == 14


def test_a_message_that_was_stored_twice(store: Store, tmp_path: Path) -> None:
    """A reply that was continued is in the log under one id twice: one node, and what it says now."""
    talk(log(tmp_path))
    messages = tmp_path / "session_s/agents/agent_default/messages"
    last = json.loads((messages / "message_13.json").read_bytes())
    last["message"]["content"] = [{"text": "reply 4, continued"}]
    (messages / "message_14.json").write_text(json.dumps(last | {"message_id": 14}))
    (taken,) = take(store, tmp_path)
    assert [each.kind for each in taken.problems] == ["duplicate_id"]
    agent = resumed(store)
    assert len(agent.messages) == 14
    assert agent.messages[-1]["content"] == [{"text": "reply 4, continued"}]
    assert store.view("s").original(agent.messages[-1]["tracking_id"])["content"] == [{"text": "reply 4"}]


# without a store


def test_reading_a_folder_without_a_store(layout: Any, tmp_path: Path) -> None:
    """A folder is read as any session file: entries, problems, and what goes to the model at its end."""
    agent = talk(layout(tmp_path), conversation_manager=SlidingWindowConversationManager(4))
    (place,) = find_sessions(tmp_path)
    file = read(place)
    assert (file.format, file.problems) == ("strands", [])
    assert [each.message for each in file.context(file.leaf).messages] == agent.messages


def test_the_command_imports_a_folder(tmp_path: Path) -> None:
    """`treering import` names the sessions, and has nothing to do the second time."""
    from click.testing import CliRunner

    from treering.cli.app import main

    talk(log(tmp_path / "x"))
    talk(snapshots(tmp_path / "x", "t"))
    command = ["import", str(tmp_path / "x"), "--store", str(tmp_path / "store"), "--json"]
    first = CliRunner().invoke(main, command)
    files = json.loads(first.stdout)["files"]
    assert [(each["session"], each["outcome"]) for each in files if each["session"]] == [("s", "new"), ("t", "new")]
    again = CliRunner().invoke(main, command)
    assert [each["outcome"] for each in json.loads(again.stdout)["files"]] == ["unchanged"] * 2
    assert len(treering.open(tmp_path / "store").view("t").context) == 14
    assert ask.tool_name == "ask"
