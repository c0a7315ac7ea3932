"""What the TypeScript SDK of Strands writes, in the words of the Python SDK."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.programs.strands.agents import LAYOUTS, make, resumed

from treering.api.store import Store
from treering.format.nesting import LEVELS_MAX
from treering.importers import FileImporter, find_sessions
from treering.integrations.strands.agent_state import application_state, stash_of
from treering.programs.strands.keys import orchestrator_state, serialized_state, unkept
from treering.programs.strands.shapes import agent_state, decode_bytes, read_snapshot
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

PNG = b"\x89PNG\x00\xff"
TEXT = base64.b64encode(PNG).decode()
S3 = {"type": "s3", "uri": "s3://b/k", "bucketOwner": "1"}


def snapshot(*content: Any, **data: Any) -> dict[str, Any]:
    """A snapshot of TypeScript with one message."""
    message = {"role": "user", "content": list(content), "trackingId": "m1"}
    return {
        "scope": "agent",
        "schemaVersion": "1.0",
        "createdAt": "2026-03-01T08:00:00.000Z",
        "data": {
            "messages": [message],
            "state": {},
            "systemPrompt": None,
            "modelState": {},
            "interrupts": None,
            **data,
        },
        "appData": {},
    }


BLOCKS: dict[str, tuple[Any, Any]] = {
    "text": ({"text": "hi"}, {"text": "hi"}),
    "image": (
        {"image": {"format": "png", "source": {"bytes": TEXT}}},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
    ),
    "stored": ({"video": {"format": "mp4", "source": {"location": S3}}},) * 2,
    "linked": ({"image": {"format": "png", "source": {"url": "https://x.example/a.png"}}},) * 2,
    "document": (
        {"document": {"name": "d", "format": "pdf", "source": {"bytes": TEXT}, "citations": {"enabled": True}}},
        {"document": {"name": "d", "format": "pdf", "source": {"bytes": PNG}, "citations": {"enabled": True}}},
    ),
    "no_base64": ({"audio": {"format": "mp3", "source": {"bytes": "not base64!"}}},) * 2,
    "reasoning": (
        {"reasoning": {"text": "hm", "signature": "s"}},
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
    ),
    "redacted": ({"reasoning": {"redactedContent": TEXT}}, {"reasoningContent": {"redactedContent": PNG}}),
    "cache_point": (
        {"cachePoint": {"cacheType": "default", "ttl": "5m"}},
        {"cachePoint": {"type": "default", "ttl": "5m"}},
    ),
    "guard": (
        {"guardContent": {"image": {"format": "png", "source": {"bytes": TEXT}}}},
        {"guardContent": {"image": {"format": "png", "source": {"bytes": PNG}}}},
    ),
    "guarded_text": ({"guardContent": {"text": {"text": "t", "qualifiers": ["query"]}}},) * 2,
    "tool_use": ({"toolUse": {"name": "t", "toolUseId": "c1", "input": {"image": {"source": {"bytes": "AAAA"}}}}},) * 2,
    "tool_result": (
        {"toolResult": {"toolUseId": "c1", "content": [{"json": {"a": 1}}, {"image": {"source": {"bytes": TEXT}}}]}},
        {"toolResult": {"toolUseId": "c1", "content": [{"json": {"a": 1}}, {"image": {"source": {"bytes": PNG}}}]}},
    ),
    "citations": (
        {"citations": {"content": [{"text": "t"}], "citations": [
            {"title": "a", "location": {"type": "documentChar", "documentIndex": 0, "start": 1, "end": 2}},
            {"title": "b", "location": {"type": "searchResult", "searchResultIndex": 3, "start": 1, "end": 2}},
        ]}},
        {"citationsContent": {"content": [{"text": "t"}], "citations": [
            {"title": "a", "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 2}}},
            {"title": "b", "location": {"searchResultLocation": {"searchResultIndex": 3, "start": 1, "end": 2}}},
        ]}},
    ),
    "unknown": ({"hologram": {"source": {"bytes": TEXT}}},) * 2,
    "odd": ("text", "text"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_blocks(name: str) -> None:
    """Each kind of block has the name, the fields and the bytes that Python gives it; what is unknown stays."""
    theirs, ours = BLOCKS[name]
    assert read_snapshot(snapshot(theirs))["data"]["messages"] == [
        {"role": "user", "content": [ours], "tracking_id": "m1"}
    ]


def test_a_snapshot_of_python_keeps_its_words() -> None:
    """Only bytes are decoded; what merely looks like TypeScript inside of it is left alone."""
    data = {"messages": [{"role": "user", "content": [{"reasoning": {"text": "x"}}]}], "state": {"trackingId": 1}}
    document = {"scope": "agent", "schema_version": "1.0", "created_at": "", "data": data, "app_data": {}}
    assert read_snapshot(document) == document
    assert decode_bytes({"a": [{"__bytes_encoded__": True, "data": TEXT}]}) == {"a": [PNG]}
    assert decode_bytes({"__bytes_encoded__": True, "data": "no!"}) == "no!"


def test_keys_of_the_application_and_of_strands_are_told_apart() -> None:
    """What Strands keeps has keys of its own; those of the application stay, unless they look like these."""
    state = agent_state(
        {
            "state": {"mood": 1, "strands:x": 2, "": 3},
            "interrupt_state": {"interrupts": {}, "context": {}, "activated": False},
            "model_state": {"id": "r1"},
            "stash": {"location": "inline", "entries": {"c1_0": "long"}},
        }
    )
    assert state == {
        "mood": 1,
        "strands:state:strands:x": 2,
        "strands:state:": 3,
        "strands:model_state": {"id": "r1"},
        "strands:stash:c1_0": "long",
    }
    assert agent_state({"stash": {"location": "external", "storage_type": "S3Storage"}}) == {
        "strands:stash:": "S3Storage"
    }


def test_values_are_stored_as_the_session_manager_stores_them() -> None:
    """An agent that loads an imported session gets back what was deep, and what looks like the stored form of that."""
    deep: Any = 1
    for _ in range(2 * LEVELS_MAX):
        deep = [deep]
    given = {"deep": deep, "alike": {"strands:json": "[]"}, "plain": {"a": [1]}}
    state = agent_state({"state": given, "model_state": {"strands:json": "1"}})
    assert application_state(state) == given
    assert state["plain"] == {"a": [1]}
    assert unkept(state["strands:model_state"]) == {"strands:json": "1"}
    elsewhere = {"stash": {"location": "external", "storage_type": "S3Storage"}}
    assert stash_of(agent_state(elsewhere)).elsewhere == "S3Storage"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_agent_has_back_what_is_too_deep_to_be_stored(tmp_path: Path, layout: str) -> None:
    """Its state was imported from the files of Strands' own managers."""
    state: dict[str, Any] = {"deep": 1, "alike": {"strands:json": "[]"}}
    for _ in range(2 * LEVELS_MAX):
        state["deep"] = [state["deep"]]
    make(LAYOUTS[layout](tmp_path), ["hello"], state=state)("hi")
    store = Store(Place(MemoryDriver()))
    (place,) = find_sessions(tmp_path)
    FileImporter(store).load(place)
    assert resumed(store).state.get() == state


def test_results_of_nodes_have_keys_of_their_own() -> None:
    """So that an orchestrator writes only the result of the node that ended; and it all comes back."""
    state = {"id": "g", "status": "executing", "node_results": {"a": {"x": 1}, "b:c": {}}, "next_nodes_to_execute": []}
    kept = orchestrator_state(state)
    assert kept["node_results:b:c"] == {}
    assert serialized_state(kept) == state
    assert serialized_state(orchestrator_state({"id": "g"})) == {"id": "g", "node_results": {}}


PENDING: dict[str, Any] = {
    "interrupts": {
        "tool:c2:sure": {"id": "tool:c2:sure", "name": "sure", "reason": "really?", "source": "tool"},
        "hook:beforeToolCall:c2:a:b": {"id": "hook:beforeToolCall:c2:a:b", "name": "a:b", "source": "hook"},
        "else": {"id": "else", "name": "x"},
    },
    "activated": True,
    "pendingToolExecution": {
        "assistantMessageData": {
            "role": "assistant",
            "content": [{"toolUse": {"name": "ask", "toolUseId": "c2", "input": {}}}],
            "trackingId": "m2",
        },
        "completedToolResults": {
            "c1": {"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "done"}]}}
        },
    },
}


def test_interrupts() -> None:
    """Their ids are those that Python asks again under, and the message that waits is in the conversation."""
    data = read_snapshot(snapshot({"text": "ask me"}, interrupts=PENDING))["data"]
    state = data["interrupt_state"]
    assert [name.rpartition(":")[0] or name for name in state["interrupts"]] == [
        "v1:tool_call:c2",
        "v1:before_tool_call:c2",
        "else",
    ]
    assert all(set(each) == {"id", "name", "reason", "response"} for each in state["interrupts"].values())
    assert state["pending_tool_execution"] == {
        "assistant_message": data["messages"][-1],
        "completed_tool_results": [{"toolUseId": "c1", "status": "success", "content": [{"text": "done"}]}],
    }
    assert [message["tracking_id"] for message in data["messages"]] == ["m1", "m2"]


def test_a_session_of_typescript_goes_on_in_python(tmp_path: Path) -> None:
    """An agent of Python has its messages and state, and the answer to its question lets the tool go on."""
    folder = tmp_path / "ts/scopes/agent/helper/snapshots"
    folder.mkdir(parents=True)
    document = snapshot({"text": "ask me"}, {"image": {"format": "png", "source": {"bytes": TEXT}}}, state={"n": 1})
    waiting: dict[str, Any] = {**PENDING, "interrupts": {"tool:c2:sure": PENDING["interrupts"]["tool:c2:sure"]}}
    waiting["pendingToolExecution"] = {**PENDING["pendingToolExecution"], "completedToolResults": {}}
    document["data"] |= {"interrupts": waiting, "systemPrompt": [{"text": "be kind"}]}
    (folder / "snapshot_latest.json").write_text(json.dumps(document, indent=2))
    store = Store(Place(MemoryDriver()))
    (place,) = find_sessions(tmp_path)
    assert FileImporter(store).load(place).session == "ts/helper"
    agent = resumed(store, "ts", ["thanks"], agent_id="helper")
    assert agent.messages[0]["content"][1] == {"image": {"format": "png", "source": {"bytes": PNG}}}
    assert (agent.state.get(), agent.system_prompt) == ({"n": 1}, None)
    (question,) = agent._interrupt_state.interrupts
    answer: Any = [{"interruptResponse": {"interruptId": question, "response": "yes"}}]
    result = agent(answer)
    assert result.stop_reason == "end_turn"
    assert agent.messages[2]["content"][0]["toolResult"]["content"] == [{"text": "answer: yes"}]
    (prompt,) = [note for note in store.view("ts/helper").notes() if note.kind == "system"][:1]
    assert prompt.payload == {"prompt": [{"text": "be kind"}], "tools": []}
