"""What imported messages cost: the sums are those of the file, each answer counted once, and exports have them once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs.claude.sessions import Talk

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, read

PI_COST = {"input": 1, "output": 1, "cacheRead": 1, "cacheWrite": 0, "total": 0.25}
USAGE: dict[str, Any] = {
    "pi": {"input": 10, "output": 4, "cacheRead": 3, "cacheWrite": 1, "totalTokens": 18, "cost": PI_COST},
    "operator": {
        "input_tokens": 10, "output_tokens": 4, "cache_read_tokens": 3, "cache_write_tokens": 1,
        "cost": {"input": 0.1, "output": 0.1, "cache_read": 0.0, "cache_write": 0.05, "total": 0.25},
    },
}  # fmt: skip
ONE = {"input": 10, "output": 4, "cache_read": 3, "cache_write": 1, "cost": 0.25}


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """A store in memory."""
    with treering.open(f"memory://spending-{new_nonce()}") as store:
        yield store


def lines(*records: Any) -> bytes:
    """Return records as lines."""
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in records)


def of_pi(answers: int) -> list[Any]:
    """Return a session of pi with so many answers, and a summary that cost something, too."""
    found: list[Any] = [{"type": "session", "version": 3, "id": "p-1", "timestamp": STAMP, "cwd": "/repo"}]
    above = None
    for number in range(answers):
        said = {"role": "user", "content": f"q{number}", "timestamp": 1767600000000}
        reply = {
            "role": "assistant", "content": [{"type": "text", "text": f"a{number}"}], "api": "x", "provider": "p",
            "model": "m", "usage": USAGE["pi"], "stopReason": "stop", "timestamp": 1767600000000,
        }  # fmt: skip
        for name, message in ((f"q{number}", said), (f"a{number}", reply)):
            found.append({"type": "message", "id": name, "parentId": above, "timestamp": STAMP, "message": message})
            above = name
    compaction = {"summary": "s", "firstKeptEntryId": above, "tokensBefore": 9, "usage": {"input": 500, "output": 7}}
    return [*found, {"type": "compaction", "id": "c", "parentId": above, "timestamp": STAMP, **compaction}]


STAMP = "2026-01-05T08:00:00.000Z"


def test_an_imported_session_of_pi_tells_what_it_cost(store: treering.Store, tmp_path: Path) -> None:
    """Answers and the call for a summary are summed; the size of the context is that of the last answer."""
    (path := tmp_path / "x.jsonl").write_bytes(lines(*of_pi(2)))
    FileImporter(store).load(path)
    view = store.view("p-1")
    assert view.usage == {"input": 520, "output": 15, "cache_read": 6, "cache_write": 2, "total": 36, "cost": 0.5}
    assert view.last_usage == ONE | {"total": 18}
    assert [note.target for note in view.notes("usage")] == ["a0", "a1", "c"]
    assert (view.info.provider, view.info.model) == ("p", "m")
    export(view, tmp_path / "back.jsonl", format="pi")
    assert (tmp_path / "back.jsonl").read_bytes() == path.read_bytes()


def test_a_file_that_grew_adds_what_is_new(store: treering.Store, tmp_path: Path) -> None:
    """Each answer is counted once, however often the file was read."""
    records = of_pi(3)
    path = tmp_path / "x.jsonl"
    for end in (3, 4, 5, 8):
        path.write_bytes(lines(*records[:end]))
        FileImporter(store).load(path)
    view = store.view("p-1")
    assert (view.usage["cost"], view.usage["input"], len(view.notes("usage"))) == (0.75, 530, 4)


def test_records_of_operator_are_summed_under_the_same_names(store: treering.Store, tmp_path: Path) -> None:
    """The names are those of every other program, and an export to another program has the numbers in the messages."""
    message = {"contents": [{"type": "text", "content": "a"}], "id": "m", "timestamp": 1.5, "role": "assistant"}
    message |= {"usage": USAGE["operator"], "stop_reason": "stop", "error": ""}
    header = {"type": "session", "version": 3, "id": "o-1", "timestamp": 1767600000.0, "cwd": "/repo"}
    entry = {"id": "a", "timestamp": 1767600005.25, "type": "message", "message": message}
    (path := tmp_path / "x.jsonl").write_bytes(lines(header, entry))
    FileImporter(store).load(path)
    assert store.view("o-1").usage == store.view("o-1").last_usage == ONE
    done = export(store.view("o-1"), tmp_path / "pi.jsonl", format="pi")
    assert done.left_out == []
    (found,) = [each.record["message"]["usage"] for each in read(tmp_path / "pi.jsonl", format="pi").entries]
    assert (found["input"], found["cacheRead"], found["cost"]["total"]) == (10, 3, 0.25)


def test_an_answer_of_claude_code_is_counted_once(store: treering.Store, tmp_path: Path) -> None:
    """It is several entries with one usage, of which the last may know more; a subagent's is no turn."""
    made = Talk()
    made.user("q")
    made.answer("t", {"type": "text", "text": "let me see"}, response="msg_1")
    made.call("c1", response="msg_1")
    made.call("c2", response="msg_1")
    made.entries[-1]["message"]["usage"] = {"input_tokens": 5, "output_tokens": 40, "cache_read_input_tokens": 7}
    made.result("r1", of="c1")
    path = made.save(tmp_path)
    importer = FileImporter(store)
    session = importer.load(path).session
    expected = {"input": 5, "output": 40, "cache_read": 7}
    assert store.view(session).usage == store.view(session).last_usage == expected
    made.call("c3", response="msg_1", after="c2")
    made.entries[-1]["message"]["usage"] = {"input_tokens": 5, "output_tokens": 55, "cache_read_input_tokens": 7}
    importer.load(made.save(tmp_path))
    view, expected = store.view(session), expected | {"output": 55}
    assert view.usage == view.last_usage == expected
    notes = [note.id for note in view.notes("usage")]
    assert len(notes) == len({*notes}), "what is taken back is a note of its own"
    made.answer("end")
    made.answer("aside", isSidechain=True, after=None)
    importer.load(made.save(tmp_path))
    view = store.view(session)
    assert view.usage == {"input": 7, "output": 57, "cache_read": 7}
    assert view.last_usage == {"input": 1, "output": 1}
    assert view.info.model == "claude-opus-5"


def test_a_log_of_strands_tells_the_usage_in_its_metadata(store: treering.Store, tmp_path: Path) -> None:
    """Strands keeps it beside the content of a message."""
    agent = tmp_path / "session_x" / "agents" / "agent_default"
    (agent / "messages").mkdir(parents=True)
    times = {"created_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:00+00:00"}
    manager = {"__name__": "SlidingWindowConversationManager", "removed_message_count": 0}
    facts = {"agent_id": "default", "state": {}, "conversation_manager_state": manager}
    (agent / "agent.json").write_text(json.dumps(facts | times))
    usage = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18, "cacheReadInputTokens": 3}
    said: list[dict[str, Any]] = [{"role": "user"}, {"role": "assistant", "metadata": {"usage": usage}}]
    for number, more in enumerate(said):
        message = {"content": [{"text": "t"}], "tracking_id": f"id{number}", **more}
        document = {"message": message, "message_id": number, **times}
        (agent / "messages" / f"message_{number}.json").write_text(json.dumps(document))
    session = FileImporter(store).load(agent).session
    expected = {"input": 11, "output": 7, "total": 18, "cache_read": 3}
    assert store.view(session).usage == store.view(session).last_usage == expected


def test_the_large_session_of_pi_costs_what_its_messages_say(
    store: treering.Store, shared: Path, tmp_path: Path
) -> None:
    """453 answers for $30.33, as pi itself sums them up."""
    path = shared / "golden" / "fixtures" / "large-session.jsonl.gz"
    session = FileImporter(store).load(path).session
    view = store.view(session)
    assert round(view.usage["cost"], 2) == 30.33
    assert view.usage["cache_read"] > 43_000_000
    assert (view.info.provider, view.info.model) == ("anthropic", "claude-sonnet-4-5")
