"""What Claude Code prints with `--output-format stream-json`, and other files whose entries name no parents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.programs.claude.sessions import SESSION, Talk, uuid

import treering
from treering import Store
from treering.exporters import export
from treering.format.record import decode_record
from treering.ids import new_nonce
from treering.importers import FileImporter, read
from treering.importers.file_repair import diagnose, repair
from treering.programs.common.writing import encode_javascript


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    with closing(treering.open(f"memory://stream-{new_nonce()}")) as opened:
        yield opened


class Capture:
    """What is printed while Claude Code works."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def put(self, kind: str, name: str, **fields: Any) -> None:
        """Print an entry."""
        self.entries.append({"type": kind, **fields, "session_id": SESSION, "uuid": uuid(name)})

    def say(self, kind: str, name: str, *content: dict[str, Any], by: str | None = None, **fields: Any) -> None:
        """Print a message; by default its text is the name of the entry."""
        blocks = list(content) or [{"type": "text", "text": name}]
        message = {"role": kind, "content": blocks} | ({"id": f"msg_{name}"} if kind == "assistant" else {})
        self.put(kind, name, message=message, parent_tool_use_id=by, **fields)

    def save(self, folder: Path) -> Path:
        """Write the file."""
        path = folder / "capture.jsonl"
        path.write_bytes(b"".join(encode_javascript(entry) + b"\n" for entry in self.entries))
        return path


def capture() -> Capture:
    """A prompt, an answer that starts two subagents, what these say, and the end."""
    found = Capture()
    found.put("system", "init", subtype="init", cwd="/repo", model="claude-opus-5", tools=["Task"])
    found.say("user", "u1")
    calls = [{"type": "tool_use", "id": f"t{at}", "name": "Task", "input": {"prompt": f"do {at}"}} for at in (1, 2)]
    found.say("assistant", "a1", *calls)
    found.say("user", "one 1", by="t1")
    found.say("assistant", "two 1", by="t2")
    found.say("assistant", "one 2", by="t1")
    for at in (1, 2):
        found.say("user", f"r{at}", {"type": "tool_result", "tool_use_id": f"t{at}", "content": "done"})
    found.put("rate_limit_event", "limits", rate_limit_info={"status": "allowed"})
    found.say("assistant", "a2")
    found.put("result", "result", subtype="success", is_error=False, result="a2")
    return found


def names(*of: str) -> list[str]:
    """The ids of entries."""
    return [uuid(name) for name in of]


def test_entries_of_a_capture_follow_each_other(store: Store, tmp_path: Path) -> None:
    """One conversation, in the order in which it was printed; that is told once, and nothing is lost."""
    found = capture()
    taken = FileImporter(store).load(found.save(tmp_path))
    view = store.view(taken.session)
    assert (taken.session, view.info.cwd, view.info.first_prompt) == (SESSION, "/repo", "u1")
    assert [*view.path()] == names("u1", "a1", "r1", "r2", "a2")
    assert [(each.line, each.kind) for each in taken.problems] == [(3, "no_parent")]
    recorded = {str(decode_record(line).id) for line in view.lines()}
    assert recorded >= {entry["uuid"] for entry in found.entries}


def test_subagents_of_a_capture_are_trees_of_their_own(store: Store, tmp_path: Path) -> None:
    """Each is below no other, and names the answer whose call began it."""
    view = store.view(FileImporter(store).load(capture().save(tmp_path)).session)
    nodes = {node.id: node for node in view.nodes()}
    one, two, last = (nodes[name] for name in names("one 1", "two 1", "one 2"))
    assert (one.parent, two.parent, last.parent) == (None, None, one.id)
    assert [(node.links or {}).get("spawned_by") for node in (one, two)] == names("a1", "a1")


def test_a_capture_that_grew_goes_on(store: Store, tmp_path: Path) -> None:
    """Also after a compaction; a text that the program wrote in the user's name is no prompt."""
    found = capture()
    importer = FileImporter(store)
    importer.load(found.save(tmp_path))
    found.put("system", "boundary", subtype="compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 9})
    found.say("user", "summary", isSynthetic=True)
    found.say("assistant", "a3")
    taken = importer.load(found.save(tmp_path))
    view = store.view(taken.session)
    assert [*view.path()] == names("u1", "a1", "r1", "r2", "a2", "boundary", "summary", "a3")
    assert [item.node for item in view.context] == names("summary", "a3")
    nodes = {node.id: node for node in view.nodes()}
    assert nodes[uuid("summary")].role == "system"
    assert (nodes[uuid("boundary")].brief or {})["tokens_before"] == 9


def test_a_prompt_that_is_printed_again_is_one(tmp_path: Path) -> None:
    """`--replay-user-messages` prints what came in; of a prompt without a `uuid` nothing can be told."""
    found = capture()
    found.say("user", "u1", isReplay=True)
    found.say("user", "u2")
    del found.entries[-1]["uuid"]
    found.say("assistant", "a3")
    file = read(found.save(tmp_path))
    path = file.path(file.leaf)
    assert [path[0], path[-3], path[-1]] == names("u1", "a2", "a3")
    assert len(path) == 7
    assert "duplicate_id" in {problem.kind for problem in file.problems}


def parentless() -> Talk:
    """A session file whose entries have ids and name no parents."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1")
    talk.user("side", isSidechain=True)
    talk.add("system", "note", subtype="informational")
    talk.user("u2")
    talk.answer("a2")
    talk.mark("last-prompt", lastPrompt="u1", leafUuid=uuid("a1"))
    for entry in talk.entries:
        entry.pop("parentUuid", None)
    return talk


def test_entries_with_ids_and_no_parents_follow_each_other(tmp_path: Path) -> None:
    """An entry with children is no leaf; an entry that names a parent among them becomes its child."""
    talk = parentless()
    talk.user("u3", after="a1")
    file = read(talk.save(tmp_path))
    assert file.path(uuid("a2")) == names("u1", "a1", "u2", "a2")
    assert file.path(file.leaf) == names("u1", "a1", "u3")
    talk.entries.pop()
    file = read(talk.save(tmp_path))
    assert file.path(file.leaf) == names("u1", "a1", "u2", "a2")


@pytest.mark.parametrize("make", [capture, parentless])
def test_the_copy_of_the_doctor_names_parents(make: Any, tmp_path: Path) -> None:
    """The same messages on the same way; then nothing is left to say."""
    path, copy = make().save(tmp_path), tmp_path / "copy.jsonl"
    assert [each.kind for each in diagnose(path).findings if each.severity == "damage"] == ["no_parent"]
    repair(path, copy)
    old, new = read(path), read(copy)
    assert new.problems == []
    assert new.path(new.leaf) == old.path(old.leaf)
    assert [entry.id for entry in new.entries] == [entry.id for entry in old.entries]
    on_the_way = [entry.record for entry in new.entries if entry.id in new.path(new.leaf)[1:]]
    assert all(entry["parentUuid"] for entry in on_the_way)


@pytest.mark.parametrize("make", [capture, parentless])
def test_an_export_comes_back_to_the_byte_and_says_what_claude_code_sees(
    make: Any, store: Store, tmp_path: Path
) -> None:
    """That is the last entry alone, and not the same context."""
    path = make().save(tmp_path)
    view = store.view(FileImporter(store).load(path).session)
    made = export(view, tmp_path / "out.jsonl", format="claude")
    assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()
    assert not made.same_context
    assert [(left.kind, left.seen) for left in made.left_out] == [("no_parent", True)]
