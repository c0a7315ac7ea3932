"""Session files of Claude Code: what was said is a tree, and what is not said does not look like a branch."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.programs.claude.sessions import SESSION, Chance, Talk, call, uuid
from tests.sampling import few

import treering
from treering.api.store import Store
from treering.errors import UsageError
from treering.importers import FileImporter, detect_format, discover, find_format, read, recent
from treering.programs.claude.course import Course
from treering.programs.claude.entries import read_entry, write_entry
from treering.programs.claude.read import ClaudeSource
from treering.programs.common.source import open_stream
from treering.programs.formats import find_locator
from treering.storage.memory import MemoryDriver
from treering.store.place import Place
from treering.testing.importers import check_importer
from treering.transcript.node import Draft


class Tree:
    """What became of a file, with names in the place of ids."""

    def __init__(self, talk: Talk, path: Path | None = None) -> None:
        self.source = ClaudeSource(lambda: io.BytesIO(talk.data), path or Path(f"{talk.session}.jsonl"))
        _, *self.drafts = self.source.drafts()
        self.nodes = {draft.id: draft for draft in self.drafts if draft.type == "node"}
        self.notes = [draft for draft in self.drafts if draft.type == "note"]
        self.parents = {draft.id: draft.parent for draft in self.nodes.values()}

    def path(self) -> list[str]:
        """The nodes from a root to where Claude Code goes on."""
        found: list[Any] = []
        node: Any = self.source.leaf
        while node is not None:
            found.append(node)
            node = self.parents.get(node)
        return found[::-1]

    def branches(self) -> int:
        """How many ways there are besides the first, sidechains left out."""
        main = [draft for draft in self.nodes.values() if "side" not in (draft.brief or {})]
        return len(main) - len({draft.parent for draft in main})


def ids(*names: str) -> list[str]:
    """The ids that stand for names."""
    return [uuid(name) for name in names]


@pytest.fixture
def store() -> Store:
    """An empty store."""
    return Store(Place(MemoryDriver()))


def test_results_of_parallel_calls_are_one_way() -> None:
    """The parent of each result is its call, and the answer continues after one of them: here they form one chain."""
    talk = Talk()
    talk.user("u")
    for name in ("a1", "a2", "a3"):
        talk.call(name, "msg_1")
    for name in ("r3", "r1", "r2"):
        talk.result(name, f"a{name[1]}")
    talk.answer("end", after="r1")
    tree = Tree(talk)
    assert tree.path() == ids("u", "a1", "a2", "a3", "r3", "r1", "r2", "end")
    assert tree.branches() == 0


def test_blocks_of_an_answer_that_come_behind_results_go_on_its_way() -> None:
    """A tool may be done before the answer is: the next block names the one before, and the result stands between."""
    talk = Talk()
    talk.user("u")
    talk.call("a1", "msg_1")
    talk.result("r1", "a1", moves=False)
    talk.call("a2", "msg_1")
    talk.result("r2", "a2")
    talk.answer("end")
    tree = Tree(talk)
    assert tree.path() == ids("u", "a1", "r1", "a2", "r2", "end")
    assert tree.branches() == 0


def test_a_result_that_follows_something_else_goes_with_its_call() -> None:
    """It names the entry with the call beside its parent, which some versions lost."""
    talk = Talk()
    talk.user("u")
    talk.call("a1", "msg_1")
    talk.call("a2", "msg_1")
    talk.result("r1", "a1")
    talk.result("r2", "a2", after="u", moves=False)
    talk.answer("end")
    tree = Tree(talk)
    assert tree.path() == ids("u", "a1", "a2", "r1", "r2", "end")
    assert tree.branches() == 0


def test_a_sidechain_below_its_call_is_beside_the_answer() -> None:
    """A subagent's first entry may name the call that began it: the answer goes on with its result all the same."""
    talk = Talk()
    talk.user("u")
    talk.call("a1", "msg_1")
    talk.call("a2", "msg_1")
    talk.user("s1", after="a1", moves=False, isSidechain=True, agentId="x")
    talk.answer("s2", after="s1", moves=False, isSidechain=True, agentId="x")
    talk.result("r2", "a2")
    talk.result("r1", "a1")
    talk.answer("end")
    tree = Tree(talk)
    assert tree.path() == ids("u", "a1", "a2", "r2", "r1", "end")
    assert tree.parents[uuid("s1")] == uuid("a1")


def test_a_result_that_comes_too_late_is_a_branch() -> None:
    """What follows a run is not moved: a result that is written when it went on stands beside that."""
    talk = Talk()
    talk.user("u")
    talk.call("a1", "msg_1")
    talk.call("a2", "msg_1")
    talk.result("r1", "a1")
    talk.answer("end")
    talk.result("r2", "a2", moves=False)
    talk.user("u2")
    tree = Tree(talk)
    assert tree.path() == ids("u", "a1", "a2", "r1", "end", "u2")
    assert tree.parents[uuid("r2")] == uuid("r1")


@settings(max_examples=few(50, whole=150))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 8))
def test_only_going_back_makes_branches(random: Random, turns: int) -> None:
    """However tools, attachments, hooks and sidechains fork the chain: as many branches as the user made."""
    talk = Chance(random, turns)
    tree = Tree(talk)
    assert tree.branches() == talk.rewinds
    assert tree.source.problems == []


@settings(max_examples=few(16, whole=50))
@given(random=st.randoms(use_true_random=False), turns=st.integers(1, 8))
def test_entries_come_back_as_they_were(random: Random, turns: int) -> None:
    """Every entry is given back from its draft, with its fields in their order."""
    talk = Chance(random, turns)
    found = [write_entry(draft) for draft in Tree(talk).drafts]
    assert found == talk.entries
    assert [list(entry) for entry in found] == [list(entry) for entry in talk.entries]


def test_entries_that_look_like_our_marks_come_back() -> None:
    """A dollar in a field that the draft tells is no mark of ours."""
    talk = Talk()
    for value in ("$", "$$", "$x"):
        talk.user(value)
        talk.entries[-1] |= {"uuid": value, "parentUuid": f"{value}$", "timestamp": value, "cwd": value}
    course = Course(lambda: "made")
    assert [
        write_entry(read_entry(each, course.add(each, at), 0)) for at, each in enumerate(talk.entries)
    ] == talk.entries


def test_going_back_is_a_branch() -> None:
    """An edited prompt begins a branch as a sibling of the original."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1")
    talk.add("system", "n1", subtype="turn_duration", durationMs=1)
    talk.user("u2")
    talk.answer("a2")
    talk.user("u3", after="n1")
    tree = Tree(talk)
    assert [tree.parents[node] for node in ids("u2", "u3")] == ids("a1", "a1")
    assert tree.path() == ids("u1", "a1", "u3")
    assert tree.branches() == 1


def test_what_is_not_said_stands_beside_what_it_follows() -> None:
    """Attachments, progress and the program's notes are notes on the nearest message above, in the file's order."""
    talk = Talk()
    talk.user("u1")
    talk.add("attachment", "n1", attachment={"type": "file"})
    talk.add("progress", "n2", data={"type": "hook_progress"})
    talk.mark("file-history-snapshot", messageId=uuid("u1"), snapshot={})
    talk.mark("queue-operation", operation="enqueue")
    talk.add("system", "n3", subtype="api_error")
    talk.answer("a1")
    tree = Tree(talk)
    assert [(note.kind, note.target) for note in tree.notes] == [
        ("attachment", uuid("u1")),
        ("progress", uuid("u1")),
        ("file-history-snapshot", uuid("u1")),
        ("queue-operation", None),
        ("system", uuid("u1")),
    ]
    assert tree.parents == dict(zip(ids("u1", "a1"), [None, uuid("u1")], strict=True))
    assert [(note.brief or {}).get("subtype") for note in tree.notes][-1] == "api_error"


def test_a_prompt_that_was_queued_is_said_where_the_model_read_it() -> None:
    """Its only trace is an attachment; it goes with the results that the model read it with."""
    talk = Talk()
    talk.user("u1")
    talk.call("a1", "msg_1")
    talk.call("a2", "msg_1")
    talk.result("r1", "a1")
    prompt = {"type": "queued_command", "prompt": "and hurry", "commandMode": "prompt"}
    talk.add("attachment", "q1", moves=False, attachment=prompt)
    talk.result("r2", "a2")
    talk.answer("end")
    tree = Tree(talk)
    assert tree.path() == ids("u1", "a1", "a2", "r1", "q1", "r2", "end")
    assert tree.nodes[uuid("q1")].payload == {"role": "user", "content": "and hurry"}
    told = {"type": "queued_command", "prompt": "<task-notification>", "commandMode": "task-notification"}
    talk.add("attachment", "q2", attachment=told)
    assert Tree(talk).notes[-1].kind == "attachment"


def test_what_an_attachment_tells_the_model_is_a_message_of_the_program() -> None:
    """It goes with what it follows, and where that went on already it is a note: it never looks like a branch."""
    talk = Talk()
    talk.user("u1")
    talk.attach("x1", moves=False)
    talk.attach("x2", moves=False)
    talk.answer("a1")
    talk.attach("x3", after="u1", moves=False)
    file = {"type": "file", "filename": "/a.txt", "content": {"type": "text", "file": {"content": "words"}}}
    talk.add("attachment", "x4", attachment=file)
    talk.add("attachment", "x5", attachment={"type": "hook_additional_context", "content": ["from a", "hook"]})
    talk.add("attachment", "x6", attachment={"type": "edited_text_file", "filename": "/a.txt", "snippet": "1 word"})
    tree = Tree(talk)
    assert tree.path() == ids("u1", "x1", "x2", "a1", "x4", "x5", "x6")
    assert [(note.kind, note.target) for note in tree.notes] == [("attachment", uuid("u1"))]
    told = [tree.nodes[name].payload for name in ids("x1", "x4", "x5", "x6")]
    assert told == [
        {"custom_type": "date", "content": "x1"},
        {"custom_type": "file", "content": "Contents of /a.txt:\nwords"},
        {"custom_type": "hook_additional_context", "content": "from a\nhook"},
        {"custom_type": "edited_text_file", "content": "/a.txt was changed:\n1 word"},
    ]


def test_a_compaction_follows_what_it_replaces(tmp_path: Path) -> None:
    """A boundary is a root of the chain; it names what came before, which the tree shows and the model does not see."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1")
    talk.boundary("c")
    talk.user("u2")
    tree = Tree(talk)
    assert tree.path() == ids("u1", "a1", "c", "cs", "u2")
    assert tree.nodes[uuid("c")].links == {"logical_parent": uuid("a1")}
    assert shown(talk, tmp_path) == ["cs", "u2"]


def shown(talk: Talk, folder: Path) -> list[str]:
    """What a model sees where Claude Code goes on: texts, and calls and results by their names."""
    file = read(talk.save(folder))
    found: list[str] = []
    for message in file.context(file.leaf).messages:
        content: Any = message.message["content"]
        blocks = [content] if isinstance(content, str) else content
        found += [block if isinstance(block, str) else _block(block) for block in blocks]
    return found


def _block(block: dict[str, Any]) -> str:
    return str(block.get("text") or block.get("id") or block.get("content") or block["type"])


def branched() -> Talk:
    """A session with two branches; the second one is newer."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1")
    talk.user("u2")
    talk.answer("a2")
    talk.user("u2b", after="a1")
    talk.answer("a2b")
    return talk


NEWER = ["u1", "a1", "u2b", "a2b"]
OLDER = ["u1", "a1", "u2", "a2"]


def last_prompt(talk: Talk, leaf: str) -> None:
    """Write where Claude Code stood when it ended."""
    talk.mark("last-prompt", lastPrompt="u2", leafUuid=uuid(leaf))


def _left(talk: Talk) -> str | None:
    last_prompt(talk, "a2")
    return talk.cursor


def _kept(talk: Talk) -> None:
    segment = {"headUuid": uuid("u2b"), "anchorUuid": uuid("cs"), "tailUuid": uuid("a2b")}
    talk.boundary("c", preservedSegment=segment)
    talk.user("u3", after="cs")


def _kept_by_list(talk: Talk) -> None:
    listed = {"anchorUuid": uuid("cs"), "uuids": ids("u2b", "a2b"), "allUuids": ids("u2b", "a2b")}
    talk.boundary("c", preservedMessages=listed)
    talk.user("u3", after="cs")


def _synthetic(talk: Talk) -> None:
    talk.answer("e", isApiErrorMessage=True)
    talk.entries[-1]["message"]["model"] = "<synthetic>"


SEEN: dict[str, tuple[Any, list[str]]] = {
    "newest branch": (lambda _: None, NEWER),
    "last prompt": (lambda talk: last_prompt(talk, "a2"), OLDER),
    "last prompt, and newer entries": (lambda talk: talk.user("u3", after=_left(talk)), OLDER),
    "last prompt in the middle": (lambda talk: last_prompt(talk, "a1"), NEWER),
    "last prompt nowhere": (lambda talk: last_prompt(talk, "nowhere"), NEWER),
    "error of the API": (_synthetic, NEWER),
    "error with a model": (lambda talk: talk.answer("e", isApiErrorMessage=True), [*NEWER, "e"]),
    "text of the program last": (lambda talk: talk.user("m", isMeta=True), [*NEWER, "m"]),
    "parent never written": (lambda talk: talk.user("u3", after="lost"), [*NEWER, "u3"]),
    "boundary alone": (lambda talk: talk.boundary("c") and talk.entries.pop(), NEWER),
    "boundary": (lambda talk: talk.boundary("c") and talk.user("u3"), ["cs", "u3"]),
    "boundary that keeps": (_kept, ["cs", "u2b", "a2b", "u3"]),
    "boundary that keeps a list": (_kept_by_list, ["cs", "u2b", "a2b", "u3"]),
    "an attachment": (lambda talk: talk.attach("x") and talk.user("u3"), [*NEWER, "x", "u3"]),
    "an attachment that tells nothing": (lambda talk: talk.attach("x", told=False), NEWER),
    "sidechain last": (lambda talk: talk.user("s", after=None, isSidechain=True), NEWER),
}
"""What is done to the session with two branches, and what Claude Code 2.1.330 sent of it when it resumed it."""


@pytest.mark.parametrize(("change", "expected"), SEEN.values(), ids=SEEN.keys())
def test_the_context_is_what_claude_code_sends(change: Any, expected: list[str], tmp_path: Path) -> None:
    """As recorded from the program itself, which was given such files and a model that notes what it is sent."""
    talk = branched()
    change(talk)
    assert shown(talk, tmp_path) == expected


def test_the_store_shows_what_the_file_does(store: Store, tmp_path: Path) -> None:
    """Tree, place and context of an imported session are those of the file, also when it grew in between."""
    talk = branched()
    path = talk.save(tmp_path)
    assert FileImporter(store).load(path).outcome == "new"
    talk.call("a3", "msg_3")
    talk.call("a4", "msg_3")
    talk.save(tmp_path)
    assert FileImporter(store).load(path).records == 2
    talk.result("r3", "a3")
    talk.result("r4", "a4")
    last_prompt(talk, "a2")
    talk.save(tmp_path)
    assert FileImporter(store).load(path).outcome == "updated"
    view, file = store.view(SESSION), read(path)
    assert {node.id: node.parent for node in view.nodes()} == Tree(talk).parents
    assert view.node == file.leaf == uuid("a2")
    assert [item.message for item in view.context] == [each.message for each in file.context(file.leaf).messages]


def test_words_of_the_program_are_not_the_first_prompt(store: Store, tmp_path: Path) -> None:
    """Commands, their output and remarks of the program stand in the user's name; a list shows what was typed."""
    talk = Talk()
    talk.user("c", "Caveat: the messages below", isMeta=True)
    talk.user("x", "<command-name>/clear</command-name>")
    talk.user("y", "<local-command-stdout></local-command-stdout>")
    talk.user("u", "why is the build slow")
    talk.result("r", "nothing", after="u")
    FileImporter(store).load(talk.save(tmp_path))
    assert store.view(SESSION).info.first_prompt == "why is the build slow"
    assert [node.role for node in store.view(SESSION).nodes()] == ["system", "system", "system", "user", "tool"]


REMINDER = "<system-reminder>\nAs you answer, keep in mind ...\n</system-reminder>"


@pytest.mark.parametrize(
    "content",
    [
        f"{REMINDER}\n{REMINDER}\nlook at it",
        [{"type": "text", "text": REMINDER}, {"type": "text", "text": "look at it"}],
        [{"type": "text", "text": f"{REMINDER}look at it"}],
    ],
)
def test_what_the_program_reminds_of_is_no_prompt(content: Any, store: Store, tmp_path: Path) -> None:
    """Of a session and of a subagent that has no description: shown is the first text that was said to it."""
    talk = Talk()
    reminder: Any = [{"type": "text", "text": REMINDER}]
    talk.user("r", reminder, isSidechain=True)
    talk.user("s", content, isSidechain=True)
    talk.answer("a", isSidechain=True)
    for name in (None, "agent-a1"):
        info = store.view(FileImporter(store).load(talk.save(tmp_path, name)).session).info
        assert (info.first_prompt, info.task) == ("look at it", "")
    assert [node.role for node in store.view(SESSION).nodes()] == ["system", "user", "assistant"]


def test_a_reminder_that_was_cut_off_is_no_prompt(store: Store) -> None:
    """Lists know the beginning of a large text only. Who writes about the tag has said it."""
    long = f"<system-reminder>{'x' * 300_000}</system-reminder>look"
    with store.session("long") as session:
        session.append(long)
        session.append("what does <system-reminder> mean?")
    assert store.sessions().rows[0].first_prompt == "what does <system-reminder> mean?"


def test_titles(store: Store, tmp_path: Path) -> None:
    """A title that a model made up counts until the user gives one, wherever it stands then."""
    talk = branched()
    talk.mark("ai-title", aiTitle="made up")
    path = talk.save(tmp_path)
    FileImporter(store).load(path)
    assert store.view(SESSION).info.title == "made up"
    talk.mark("custom-title", customTitle="given")
    talk.mark("ai-title", aiTitle="made up again")
    talk.save(tmp_path)
    FileImporter(store).load(path)
    assert store.view(SESSION).info.title == "given"


def test_entries_without_ids_follow_each_other(store: Store, tmp_path: Path) -> None:
    """Old files have neither ids nor parents; they are read in their order."""
    path = tmp_path / "old.jsonl"
    path.write_text(
        '{"type":"user","timestamp":"2024-01-01T10:00:00Z","message":{"content":"hi"},"cwd":"/app"}\n'
        '{"type":"assistant","timestamp":"2024-01-01T10:00:05Z","message":{"content":[{"type":"text","text":"hello"}]}}\n'
    )
    taken = FileImporter(store).load(path)
    nodes = store.view(taken.session).nodes()
    assert [node.parent for node in nodes] == [None, nodes[0].id]
    assert taken.session == "old"


def test_an_id_that_is_used_twice() -> None:
    """The later entry gets another id and is reported; what names the id from there on means it."""
    talk = branched()
    talk.user("u2b", "once more", after="a2b")
    talk.answer("a3")
    tree = Tree(talk)
    again = tree.path()[-2]
    assert again != uuid("u2b")
    assert tree.parents[again] == uuid("a2b")
    assert [problem.kind for problem in tree.source.problems] == ["duplicate_id"]


@pytest.mark.parametrize("harm", [b"\x00" * 40, b'{"type":"user","uuid":', b"[1,2]"])
def test_damage_costs_itself(harm: bytes, store: Store, tmp_path: Path) -> None:
    """A line that is no entry is kept and reported, and the others are read."""
    talk = branched()
    rows = talk.data.splitlines(keepends=True)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b"".join([*rows[:3], harm, b"\n", *rows[3:]]))
    taken = FileImporter(store).load(path)
    assert len(taken.problems) == 1
    assert len(store.view(SESSION).nodes()) == len(rows)
    check_importer(find_format("claude"), [path])


def test_a_lost_parent_is_reported(tmp_path: Path) -> None:
    """The parent of an entry with a missing parent is the one before, as in Claude Code, and that is reported."""
    talk = branched()
    talk.user("u3", after="lost")
    tree = Tree(talk)
    assert tree.parents[uuid("u3")] == uuid("a2b")
    assert tree.nodes[uuid("u3")].links == {"source_parent": uuid("lost")}
    assert [problem.kind for problem in tree.source.problems] == ["orphan"]


# sessions that belong together


def test_subagents_are_sessions_of_their_own(store: Store, tmp_path: Path) -> None:
    """A subagent's file is linked with the session that started it, knows its task, and the result names it."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1", call("a1") | {"name": "Task", "input": {"prompt": "look"}})
    talk.result("r1", "a1", toolUseResult={"status": "completed", "agentId": "a0ad"})
    main = talk.save(tmp_path)
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    side = Talk()
    side.user("s1", "look", isSidechain=True, agentId="a0ad")
    side.answer("s2", isSidechain=True, agentId="a0ad")
    path = side.save(folder, "agent-a0ad")
    (folder / "agent-a0ad.meta.json").write_text('{"agentType":"Explore","description":"Look at it"}')
    importer = FileImporter(store)
    taken = importer.load(path)
    importer.load(main)
    assert importer.link_parents() == 1
    assert taken.session == f"{SESSION}/subagents/agent-a0ad"
    info = store.view(taken.session).info
    assert (info.parent_session, info.task) == (SESSION, "Look at it")
    assert [item.node for item in store.view(taken.session).context] == ids("s1", "s2")
    assert store.view(SESSION).nodes()[-1].links == {"subagent": "agent-a0ad"}
    flat = importer.load(side.save(tmp_path, "agent-a1"))  # as old versions had them
    assert (flat.session, store.view(flat.session).info.parent_session) == (f"{SESSION}/agent-a1", SESSION)


def test_a_sidechain_in_the_file_names_the_call_that_began_it() -> None:
    """Old versions wrote subagents into the session: they are trees of their own, with a link to the call."""
    talk = Talk()
    talk.user("u1")
    talk.answer("a1", call("a1") | {"name": "Task", "input": {"prompt": "look"}})
    talk.user("s1", "look", after=None, moves=False, isSidechain=True)
    talk.answer("s2", after="s1", moves=False, isSidechain=True)
    talk.result("r1", "a1")
    tree = Tree(talk)
    assert tree.nodes[uuid("s1")].links == {"spawned_by": uuid("a1")}
    assert (tree.parents[uuid("s1")], tree.parents[uuid("s2")]) == (None, uuid("s1"))
    assert tree.path() == ids("u1", "a1", "r1")


def _forked(talk: Talk, old: str) -> None:
    talk.user("u9", after=None, forkedFrom={"sessionId": old, "messageUuid": uuid("u1")})


def _copied(talk: Talk, old: str) -> None:
    talk.user("u1", after=None)
    talk.entries[-1]["sessionId"] = old
    talk.user("u9")


def _referring(talk: Talk, old: str) -> None:
    talk.user("u9", after="a1")


def _compacted(talk: Talk, old: str) -> None:
    talk.cursor = "a1"
    talk.boundary("c")


@pytest.mark.parametrize("begin", [_forked, _copied, _referring, _compacted])
def test_a_session_that_goes_on_in_another_file_is_linked(begin: Any, store: Store, tmp_path: Path) -> None:
    """By what it says, by entries copied from the old session, or by an entry of that one which it follows."""
    old = Talk(uuid("old"))
    old.user("u1")
    old.answer("a1")
    new = Talk(uuid("new"))
    begin(new, uuid("old"))
    new.answer("a9")
    importer = FileImporter(store)
    path = new.save(tmp_path)
    old.save(tmp_path)
    importer.load(path)
    importer.load(old.save(tmp_path))
    importer.link_parents()
    assert store.view(uuid("new")).info.parent_session == uuid("old")
    assert store.view(uuid("old")).info.parent_session is None


# the files


def test_samples(shared: Path) -> None:
    """Files of Claude Code from public test data keep the rules for importers; files of others are not taken."""
    folder = shared / "samples"
    if not folder.is_dir():
        pytest.skip("no samples of other agents in the shared test data")
    files = [path for path in sorted(folder.rglob("*.jsonl")) if "codex" not in path.parts]
    ours = [path for path in files if {"claude", "claude-code"} & {*path.parts}]
    assert len(ours) > 50
    check_importer(find_format("claude"), ours)
    for path in files:
        with open_stream(path) as stream:
            assert find_format("claude").detect(stream.read(64 * 1024)) == (path in ours), path


@settings(max_examples=few(2, whole=8))
@given(random=st.randoms(use_true_random=False))
def test_generated_sessions_keep_the_rules(random: Random, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever happened in a session, its file is one that treering can rely on."""
    check_importer(find_format("claude"), [Chance(random, 3).save(tmp_path_factory.mktemp("claude"))])


ODD = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.sampled_from([[], {}, [1], {"a": 1}])
NAMES = st.sampled_from(["a", "b", "c", "d"]) | ODD
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "new"]) | ODD},
    optional={
        "text": ODD,
        "id": ODD,
        "tool_use_id": NAMES,
        "input": ODD,
        "name": st.just("Task") | ODD,
        "content": ODD,
    },
)
MESSAGES = st.fixed_dictionaries(
    {"content": st.lists(BLOCKS | ODD, max_size=3) | ODD},
    optional={"id": NAMES, "role": ODD, "model": st.just("<synthetic>") | ODD},
)
KINDS = [
    "user",
    "assistant",
    "system",
    "attachment",
    "progress",
    "last-prompt",
    "custom-title",
    "ai-title",
    "tag",
    "title",
]
ENTRIES = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | ODD},
    optional={
        "uuid": NAMES,
        "parentUuid": NAMES,
        "logicalParentUuid": NAMES,
        "leafUuid": NAMES,
        "sourceToolAssistantUUID": NAMES,
        "timestamp": st.just("2026-01-05T08:00:00.000Z") | ODD,
        "isSidechain": ODD,
        "isMeta": ODD,
        "isCompactSummary": ODD,
        "agentId": ODD,
        "subtype": st.just("compact_boundary") | ODD,
        "compactMetadata": st.just({"preservedSegment": {"headUuid": "a", "anchorUuid": "b", "tailUuid": "c"}}) | ODD,
        "attachment": st.just({"type": "queued_command", "prompt": "go"}) | ODD,
        "message": MESSAGES | ODD,
        "toolUseResult": ODD,
        "customTitle": ODD,
        "aiTitle": ODD,
        "tag": ODD,
        "sessionId": ODD,
        "forkedFrom": ODD,
    },
)


@settings(max_examples=few(16, whole=50))
@given(entries=st.lists(ENTRIES, min_size=1, max_size=8))
def test_whatever_stands_in_entries(entries: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fields of any type, circles of parents, ids used again: nothing fails, nothing is lost, and nothing loops."""
    talk = Talk()
    talk.user("first")
    talk.entries += entries
    found = Tree(talk)
    assert [write_entry(draft) for draft in found.drafts] == talk.entries
    assert len({draft.id for draft in found.drafts}) == len(talk.entries)
    assert found.source.leaf is None or found.source.leaf in found.nodes
    assert all(parent is None or parent in found.nodes for parent in found.parents.values())
    check_importer(find_format("claude"), [talk.save(tmp_path_factory.mktemp("odd"))])


def test_a_carried_on_course_places_entries_as_before() -> None:
    """What was recorded is enough to go on: no entry needs to be read again for it."""
    talk = Chance(Random(7), 8)
    drafts = Tree(talk).drafts
    for cut in range(0, len(drafts), 5):
        course = Course(lambda: "made")
        for draft in drafts[:cut]:
            parent = draft.target if draft.type == "note" else draft.parent
            course.recall(
                str(draft.id), _named(parent), note=draft.type == "note", kind=draft.kind, role=draft.role,
                brief=draft.brief or {},
            )  # fmt: skip
        pairs = zip(drafts[cut : cut + 12], talk.entries[cut : cut + 12], strict=True)
        for at, (draft, entry) in enumerate(pairs, cut):
            spot = course.add(entry, at)
            assert _place(draft) == (spot.id, spot.parent) or draft.id != entry.get("uuid")


def _named(parent: Any) -> str | None:
    return parent if isinstance(parent, str) else None


def _place(draft: Draft) -> tuple[str | None, str | None]:
    return draft.id, draft.target if draft.type == "note" else _named(draft.parent)


def test_where_the_files_are(tmp_path: Path) -> None:
    """They are looked for where Claude Code keeps them, or where it was told to."""
    claude = find_locator("claude")
    assert claude.folders(tmp_path, {}) == [tmp_path / ".claude" / "projects"]
    assert claude.folders(tmp_path, {"CLAUDE_CONFIG_DIR": "/there"}) == [Path("/there/projects")]


def test_subagents_are_not_where_one_was(tmp_path: Path) -> None:
    """The last session about a folder is a main session, even if a subagent wrote last."""
    folder = tmp_path / ".claude" / "projects" / "-repo"
    (folder / SESSION / "subagents").mkdir(parents=True)
    main = branched().save(folder)
    side = branched().save(folder / SESSION / "subagents", "agent-a1")
    os.utime(main, (1, 1))
    os.utime(side, (2, 2))
    found = recent(Path("/repo"), tmp_path, {})
    assert found is not None
    assert (found.program, found.path, found.session) == ("claude", str(main), SESSION)
    assert [(each.program, each.sessions) for each in discover(tmp_path, {})] == [("claude", 2)]


def test_a_first_entry_larger_than_what_is_looked_at(tmp_path: Path) -> None:
    """An image in the first prompt does not hide whose file it is."""
    talk = Talk()
    talk.user("u1", "x" * 200_000)
    assert detect_format(talk.save(tmp_path)).NAME == "claude"


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """What holds no entry of Claude Code is no session of it."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","parts":[]}}\n')
    with pytest.raises(UsageError, match="no session file"):
        treering.importers.read(path)


def test_an_entry_below_half_of_an_emoji(tmp_path: Path) -> None:
    """No file beside this one has such an entry, so it continues none."""
    (tmp_path / "other.jsonl").write_text('{"type":"user","uuid":"1"}\n')
    entry = {"type": "user", "uuid": "2", "parentUuid": "\ud800", "message": {"role": "user", "content": "hello"}}
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(entry) + "\n")
    assert read(path).header.parent_session == ""


def test_a_folder_that_a_file_tells_later_is_on_the_card(tmp_path: Path) -> None:
    """A file may begin with a record that does not tell it, and be imported at that moment."""
    talk, path = Talk(), tmp_path / f"{SESSION}.jsonl"
    talk.user("u1")
    snapshot = {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False}
    store = Store(Place(MemoryDriver()))
    for entries in ([snapshot], [snapshot, *talk.entries]):
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        FileImporter(store).load(path)
    (row,) = store.sessions(cwd="/repo").rows
    assert (row.cwd, row.messages) == ("/repo", 1)
    with store.session(row.id) as session:
        session.move(cwd="/elsewhere")
    talk.user("u2")
    path.write_text("".join(json.dumps(entry) + "\n" for entry in [snapshot, *talk.entries]))
    FileImporter(store).load(path)
    assert store.view(row.id).info.cwd == "/elsewhere"
