"""Session files of evva: what is peculiar to them, rule by rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import treering
from treering.errors import UsageError
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import FileImporter, SessionFile, read
from treering.importers.file_repair import repair
from treering.programs.common.writing import encode_go
from treering.programs.evva import read as evva

USER: dict[str, Any] = {
    "Role": "user", "Content": "hello", "Thinking": "", "ThinkingSignature": "", "ToolCalls": None, "ToolResults": None,
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "session_id": "s-1",
    "workdir": "/repo",
    "workdir_slug": "repo",
    "profile": "main",
    "provider": "anthropic",
    "model": "m",
    "created_at": "2026-03-01T01:02:03.000456789Z",
    "updated_at": "2026-03-02T01:02:03+08:00",
    "first_user_prompt": "hello",
    "session": {
        "messages": [USER, USER | {"Role": "assistant", "Content": "<hi>"}],
        "usage": evva.USAGE | {"InputTokens": 10},
        "last_turn_input_tokens": 10,
        "micro_compacted": True,
        "full_compact_count": 2,
    },
}


def write(path: Path, document: Any) -> bytes:
    """Write a document as evva does, or bytes; return what was written."""
    data = document if isinstance(document, bytes) else evva.indent(encode_go(document))
    path.write_bytes(data)
    return data


def shown(file: SessionFile) -> list[Any]:
    """Return the messages where the file goes on."""
    return [each.message for each in file.context(file.leaf).messages]


def loaded(path: Path) -> treering.Store:
    """Return a store with the document as session `s`."""
    source = evva.open_source(path)
    store = treering.open(f"memory://evva-{new_nonce()}")
    store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="evva")
    return store


def test_messages_are_a_chain_below_the_model(tmp_path: Path) -> None:
    """Each follows the one before; provider and model are settings."""
    write(path := tmp_path / "x.json", DOCUMENT)
    file = read(path)
    assert (file.format, file.header.session_id, file.header.cwd) == ("evva", "s-1", "/repo")
    assert (len(file.entry_ids), file.path(file.leaf)) == (2, file.entry_ids)
    assert file.context(file.leaf).state == {"provider": "anthropic", "model": "m"}
    assert shown(file) == DOCUMENT["session"]["messages"]


def test_keys_are_found_whatever_their_case(tmp_path: Path) -> None:
    """As Go does it: the later of two counts, null changes nothing, unknown ones are not sent."""
    message = {"role": "user", "CONTENT": "a", "content": "b", "Content": None, "Thinking": None, "x": 1}
    calls = {"Role": "assistant", "toolcalls": [{"id": "c1", "name": "ls", "input": {}}]}
    document = {name.upper(): value for name, value in DOCUMENT.items()}
    document["SESSION"] = {"Messages": [message, calls]}
    write(path := tmp_path / "x.json", document)
    first, second = shown(read(path))
    assert first == USER | {"Content": "b"}
    assert second["ToolCalls"] == [{"ID": "c1", "Name": "ls", "Input": {}}]


def test_results_are_sent_with_the_fields_that_evva_knows(tmp_path: Path) -> None:
    """Down to the blocks and images in them; a call that is null stays null, as Go has pointers there."""
    image = {"MIMEType": "image/png", "Base64Data": "aGk=", "OriginalSize": 2}
    lower = {name.lower(): value for name, value in image.items()}
    results = [{"ID": "c1", "ContentBlocks": [{"type": "image", "Image": lower | {"x": 1}}, {"x": 1}]}]
    message = USER | {"Role": "tool", "ToolCalls": [None], "ToolResults": results}
    write(path := tmp_path / "x.json", DOCUMENT | {"session": {"messages": [message]}})
    sent = shown(read(path))[0]
    assert sent["ToolCalls"] == [None]
    assert sent["ToolResults"] == [
        {
            "ID": "c1",
            "Content": "",
            "IsError": False,
            "ContentBlocks": [{"Type": "image", "Text": "", "Image": image}, {"Type": "", "Text": "", "Image": None}],
        }
    ]


def test_a_null_takes_back_what_may_be_null(tmp_path: Path) -> None:
    """Of two keys that Go takes for one; elsewhere a null leaves what was there."""
    message = {
        "Role": "user",
        "role": None,
        "ToolCalls": [{"ID": "c1"}],
        "toolCalls": None,
        "Content": "a",
        "content": None,
    }
    write(path := tmp_path / "x.json", DOCUMENT | {"session": {"messages": [message]}})
    sent = shown(read(path))[0]
    assert (sent["Role"], sent["ToolCalls"], sent["Content"]) == ("user", None, "a")


def test_times_are_listed_as_go_writes_them(tmp_path: Path) -> None:
    """Nine digits at most, and no offset of nothing; what is no time stays as it is."""
    write(
        path := tmp_path / "x.json",
        DOCUMENT | {"created_at": "2026-03-01T01:02:03.1234567891-00:00", "updated_at": "x"},
    )
    listed = read(path).listing()
    assert (listed["created_at"], listed["updated_at"]) == ("2026-03-01T01:02:03.123456789Z", "x")


@pytest.mark.parametrize("version", [0, 1, None])
def test_versions_up_to_one_are_read(version: int | None, tmp_path: Path) -> None:
    """The program takes 0, and a document without a version, for its own."""
    document = {name: value for name, value in (DOCUMENT | {"version": version}).items() if value is not None}
    write(path := tmp_path / "x.json", document)
    assert len(read(path).entries) == 2


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    """The error says which version the file has and which is known."""
    write(path := tmp_path / "x.json", DOCUMENT | {"version": 2})
    with pytest.raises(UsageError, match=r"newer version.*version=2, max=1"):
        read(path)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"version": 1, "session_id": "s", "workdir": "/r", "f', b"[]", b'{"a": 1}']
)
def test_a_document_without_a_session_is_refused(data: bytes, tmp_path: Path) -> None:
    """An empty file, another document, and one that was cut before its session hold nothing to read."""
    write(path := tmp_path / "x.json", data)
    with pytest.raises(UsageError):
        read(path, format="evva")


def test_of_a_cut_document_the_complete_messages_are_read(tmp_path: Path) -> None:
    """The program skips such a session; here the rest is kept as a note, and reported with its place."""
    data = write(path := tmp_path / "x.json", DOCUMENT)
    cut = data[: data.index(b"assistant")]
    path.write_bytes(cut)
    file = read(path)
    assert [message["Content"] for message in shown(file)] == ["hello"]
    assert [(problem.kind, problem.line) for problem in file.problems] == [("torn", 21)]
    left = [draft for draft in evva.open_source(path).drafts() if draft.kind == "damage"]
    assert cut.endswith(left[0].payload["bytes"])


@pytest.mark.parametrize("behind", ["session", "hello", "assistant", "usage", "full_compact_count"])
@pytest.mark.parametrize("more", [3, 6])
def test_a_cut_document_is_listed_and_exported_as_a_whole_one(behind: str, more: int, tmp_path: Path) -> None:
    """Wherever it was cut, evva can read what is written of it, with all complete messages."""
    data = write(path := tmp_path / "x.json", DOCUMENT)
    path.write_bytes(data[: data.rindex(behind.encode()) + len(behind) + more])
    file = read(path, format="evva")
    assert file.listing()["session_id"] == "s-1"
    export(loaded(path).view("s"), tmp_path / "out.json", format="evva")
    whole = json.loads((tmp_path / "out.json").read_bytes())
    assert whole["session"]["messages"] == shown(file)
    assert (whole["version"], whole["workdir"]) == (1, "/repo")


def test_what_is_no_message_is_kept_as_a_note(tmp_path: Path) -> None:
    """Also bytes after the document."""
    session = DOCUMENT["session"] | {"messages": [7, USER]}
    write(path := tmp_path / "x.json", evva.indent(encode_go(DOCUMENT | {"session": session})) + b"\n{}")
    file = read(path)
    assert ([problem.kind for problem in file.problems], len(shown(file))) == (["no_object", "garbage"], 1)


@pytest.mark.parametrize("messages", [[7, USER], [USER, None, "x", [USER]], [[]]])
def test_what_is_no_message_goes_back_until_the_session_goes_on(messages: list[object], tmp_path: Path) -> None:
    """Such a document is refused by evva; so one with more in it has messages only."""
    data = write(path := tmp_path / "x.json", DOCUMENT | {"session": DOCUMENT["session"] | {"messages": messages}})
    store = loaded(path)
    assert export(store.view("s"), tmp_path / "same.json", format="evva").left_out == []
    assert (tmp_path / "same.json").read_bytes() == data
    with store.session("s") as session:
        session.append("more")
    left = export(store.view("s"), tmp_path / "more.json", format="evva").left_out
    written = json.loads((tmp_path / "more.json").read_bytes())["session"]["messages"]
    assert [message["Role"] for message in written] == ["user"] * (messages.count(USER) + 1)
    assert [(each.kind, each.count) for each in left] == [("damage", len(messages) - messages.count(USER))]


def test_a_fork_of_an_untouched_session_is_another_one(tmp_path: Path) -> None:
    """By the id evva tells documents: with that of the first one, this would write over it."""
    write(path := tmp_path / "x.json", DOCUMENT | {"session": DOCUMENT["session"] | {"messages": [USER]}})
    store = loaded(path)
    with store.session("s") as session:
        session.fork("mine")
    export(store.view("mine"), tmp_path / "mine.json", format="evva")
    document = json.loads((tmp_path / "mine.json").read_bytes())
    assert (document["session_id"], document["session"]["messages"]) == ("mine", [USER])


@pytest.mark.parametrize("form", ["indented", "one line", "odd"])
def test_an_untouched_document_comes_back_to_the_byte(form: str, tmp_path: Path) -> None:
    """However it was written, with fields that nobody knows."""
    document = DOCUMENT | {
        "extra": {"a": 1},
        "session": DOCUMENT["session"] | {"todo": [], "messages": [USER, USER | {"x": 1.50}]},
    }
    forms = {
        "indented": evva.indent(encode_go(document)),
        "one line": json.dumps(document).encode() + b"\n",
        "odd": json.dumps(document, indent=7, separators=(" ,", " : ")).encode(),
    }
    write(path := tmp_path / "x.json", forms[form])
    export(loaded(path).view("s"), tmp_path / "back.json", format="evva")
    assert (tmp_path / "back.json").read_bytes() == forms[form]


def test_a_continued_session_is_the_context_with_counters_that_go_on(tmp_path: Path) -> None:
    """Messages follow, usage is added, unknown fields stay, and the prompt is made anew."""
    write(path := tmp_path / "x.json", DOCUMENT | {"extra": {"a": 1}})
    store = loaded(path)
    with store.session("s") as session:
        session.append("and now?")
        session.append(treering.assistant("so"))
        session.record_usage(input=30, output=4)
    done = export(store.view("s"), tmp_path / "more.json", format="evva")
    made = msgspec.json.decode((tmp_path / "more.json").read_bytes())
    assert [message["Content"] for message in made["session"]["messages"]] == ["hello", "<hi>", "and now?", "so"]
    assert made["session"]["usage"] == evva.USAGE | {"InputTokens": 40, "OutputTokens": 4}
    assert (made["session"]["last_turn_input_tokens"], made["session"]["full_compact_count"]) == (30, 2)
    assert (made["extra"], made["created_at"]) == ({"a": 1}, DOCUMENT["created_at"])
    assert done.left_out == []
    store.close()


def test_an_imported_document_has_its_counters(tmp_path: Path) -> None:
    """Sums and size of the context go on from those of the file; lists show the profile and the compactions."""
    usage = evva.USAGE | {"InputTokens": 30, "OutputTokens": 5}
    write(path := tmp_path / "x.json", DOCUMENT | {"session": DOCUMENT["session"] | {"usage": usage}})
    with treering.open(f"memory://evva-{new_nonce()}") as store:
        FileImporter(store).load(path)
        view = store.view("s-1")
        assert (view.usage, view.last_usage) == ({"input": 30, "output": 5}, {"input": 10})
        facts = {"profile": "main", "last_turn_input_tokens": 10, "micro_compacted": True, "full_compact_count": 2}
        assert view.info.extra["evva"] == facts
        export(view, tmp_path / "back.json", format="evva")
        assert (tmp_path / "back.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("behind", [b'"usage": {', b'"InputTokens": 3', b'"last_turn_input_tokens": ', b'tokens": 1'])
def test_counters_of_a_cut_document_are_completed(behind: bytes, tmp_path: Path) -> None:
    """Wherever it was cut, sums and size of the context are those of the whole document afterwards."""
    usage = evva.USAGE | {"InputTokens": 30, "OutputTokens": 5}
    data = write(path := tmp_path / "x.json", DOCUMENT | {"session": DOCUMENT["session"] | {"usage": usage}})
    path.write_bytes(data[: data.index(behind) + len(behind)])
    with treering.open(f"memory://evva-{new_nonce()}") as store:
        FileImporter(store).load(path)
        path.write_bytes(data)
        FileImporter(store).load(path)
        view = store.view("s-1")
        assert (view.usage, view.last_usage) == ({"input": 30, "output": 5}, {"input": 10})


def test_counters_go_on_in_turns_with_evva(tmp_path: Path) -> None:
    """What is recorded here is in the document, and what evva adds to it is added here; nothing is counted twice."""
    write(path := tmp_path / "x.json", DOCUMENT)
    with treering.open(f"memory://evva-{new_nonce()}") as store:
        FileImporter(store).load(path)
        with store.session("s-1") as session:
            session.append(treering.user("and now?"))
            session.append(treering.assistant("so"))
            session.record_usage(input=25, output=4)
            session.record_usage(input=20, output=9, turn=False)
        export(store.view("s-1"), path, format="evva", overwrite=True)
        document = msgspec.json.decode(path.read_bytes())
        counted = document["session"]
        assert counted["usage"] == evva.USAGE | {"InputTokens": 55, "OutputTokens": 13}
        assert counted["last_turn_input_tokens"] == 25
        counted["messages"].append(USER | {"Content": "more"})
        counted["usage"]["InputTokens"] += 70
        counted["last_turn_input_tokens"] = 60
        write(path, document)
        FileImporter(store).load(path)
        view = store.view("s-1")
        assert (view.usage, view.last_usage) == ({"input": 125, "output": 13}, {"input": 60})
        assert view.info.extra["evva"]["last_turn_input_tokens"] == 60  # type: ignore[index]  # a JSON object


def test_messages_of_another_program_are_counted(tmp_path: Path) -> None:
    """What the messages of a session of pi cost is in the counters of the document."""
    reply = {"role": "assistant", "content": [], "usage": {"input": 10, "output": 4, "cacheRead": 3}}
    records = [
        {"type": "session", "version": 3, "id": "p", "timestamp": "2026-01-05T08:00:00.000Z", "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-05T08:00:00.000Z", "message": reply},
    ]
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, records)) + b"\n")
    with treering.open(f"memory://evva-{new_nonce()}") as store:
        FileImporter(store).load(tmp_path / "x.jsonl")
        export(store.view("p"), tmp_path / "x.json", format="evva")
    counted = msgspec.json.decode((tmp_path / "x.json").read_bytes())["session"]
    assert counted["usage"] == evva.USAGE | {"InputTokens": 10, "OutputTokens": 4, "CacheReadTokens": 3}
    assert counted["last_turn_input_tokens"] == 10


def test_a_compaction_is_a_brief_and_usage_begins_anew(tmp_path: Path) -> None:
    """What it replaced is gone in evva, and the export says so."""
    write(path := tmp_path / "x.json", DOCUMENT)
    store = loaded(path)
    with store.session("s") as session:
        session.compact("in short", tokens_after=25)
        session.append("more")
    done = export(store.view("s"), tmp_path / "more.json", format="evva")
    made = msgspec.json.decode((tmp_path / "more.json").read_bytes())["session"]
    assert [(each["Role"], each["Content"]) for each in made["messages"]] == [("user", "in short"), ("user", "more")]
    assert made["usage"] == evva.USAGE | {"InputTokens": 25}
    assert (made["last_turn_input_tokens"], made["micro_compacted"], made["full_compact_count"]) == (25, False, 3)
    assert [(left.kind, left.count) for left in done.left_out] == [("message", 2)]
    store.close()


def test_counters_are_those_of_evva(shared: Path) -> None:
    """After each of its operations they are what evva itself counted."""
    folder = shared / "golden" / "evva" / "random"
    files = sorted(folder.glob("*.ops.json"))
    assert files
    for path in files:
        counters = evva.Counters()
        for step in msgspec.json.decode(path.read_bytes())["ops"]:
            counters = _counted(counters, step["op"], step["arg"])
            expected = {name: value for name, value in step["after"].items() if name != "messages"}
            assert msgspec.to_builtins(counters) == expected, path.name


def _counted(counters: evva.Counters, name: str, argument: Any) -> evva.Counters:
    if name == "append":
        return counters
    return counters.micro_compact() if name == "micro_compact" else getattr(counters, name)(argument)


def test_the_prompt_is_cut_as_go_cuts_it() -> None:
    """On one line, runs of blanks as one, 200 bytes at most; each byte of a cut character is shown."""

    def prompt(text: str) -> str:
        return evva.first_user_prompt(
            [USER | {"Role": "assistant"}, USER | {"Content": " \n"}, USER | {"Content": text}]
        )

    assert prompt("  a\r\n\tb  c\rd \u3000") == "a b c d"
    assert prompt("x" * 199 + "\u65e5") == "x" * 199 + "\ufffd"
    assert prompt("x" * 198 + "\U0001f680") == "x" * 198 + "\ufffd\ufffd"
    assert prompt("\x1c") == "\x1c"
    assert evva.first_user_prompt([]) == ""


def test_prompts_are_those_of_evva(shared: Path) -> None:
    """For every document that evva reads, the prompt is what evva itself makes of its messages."""
    answers = sorted((shared / "golden" / "evva").glob("*/*.expect.json"))
    assert answers
    for answer in answers:
        loaded_ = msgspec.json.decode(answer.read_bytes())["load"]
        if loaded_["ok"]:
            file = read(answer.with_name(answer.name.replace(".expect.json", ".json")), format="evva")
            assert evva.first_user_prompt(shown(file)) == loaded_["first_user_prompt_recomputed"], answer.name


@pytest.mark.parametrize("name", ["first_user_prompt", "FIRST_USER_PROMPT"])
@pytest.mark.parametrize("prompt", ["hello", "something else", "", "a <b>"])
@pytest.mark.parametrize("behind", [False, True])
def test_the_first_prompt_is_not_kept_twice(tmp_path: Path, name: str, prompt: str, *, behind: bool) -> None:
    """It follows from the messages, and is written back where it stood; lists show it, and another text stays."""
    rest = {key: value for key, value in DOCUMENT.items() if key != "first_user_prompt"}
    said = [USER | {"Content": "a <b>" if prompt == "a <b>" else "hello"}]
    rest["session"] = DOCUMENT["session"] | {"messages": said}
    data = write(path := tmp_path / "x.json", {**rest, name: prompt} if behind else {name: prompt, **rest})
    store = loaded(path)
    kept = next(line for line in store.view("s").lines() if b'"kind":"import"' in line)
    assert (encode_go(said[0]["Content"])[1:-1] in kept, b"something else" in kept) == (False, "some" in prompt)
    assert evva.listing(read(path))["first_user_prompt"] == prompt
    export(store.view("s"), tmp_path / "out.json", format="evva")
    assert (tmp_path / "out.json").read_bytes() == data


def test_a_repaired_document_has_its_first_prompt(tmp_path: Path) -> None:
    """What is kept of a document has none."""
    data = write(path := tmp_path / "x.json", DOCUMENT)
    path.write_bytes(data[:-40])
    repair(path, tmp_path / "copy.json")
    assert json.loads((tmp_path / "copy.json").read_bytes())["first_user_prompt"] == "hello"


def test_half_of_an_emoji_does_not_end_the_updates(tmp_path: Path) -> None:
    """A document with a text that was cut inside a character grows like any other."""
    messages = [USER, USER | {"Role": "assistant", "Content": "cut \ud83d"}]
    path, store = tmp_path / "x.json", treering.open(f"memory://evva-{new_nonce()}")
    for more in ([], [USER | {"Content": "more"}], [USER | {"Role": "assistant", "Content": "\udc80"}]):
        messages += more
        write(path, DOCUMENT | {"session": DOCUMENT["session"] | {"messages": messages}})
        result = FileImporter(store).load(path)
        assert result.outcome == ("updated" if more else "new")
    said = [each.message["Content"] for each in store.view("s-1").context]
    assert said == ["hello", "cut \ud83d", "more", "\udc80"]
    assert FileImporter(store).load(path).outcome == "unchanged"


@pytest.mark.parametrize("every_turn", [True, False])
def test_a_compaction_keeps_summaries_of_branches(*, every_turn: bool) -> None:
    """Those that were made here behind the first message that is kept, however the context is computed."""
    store = treering.open(f"memory://evva-{new_nonce()}")
    session = store.session("s", policy="evva", checkpoints=treering.Schedule(every_turn=every_turn))
    first = session.append(treering.custom_message("x", "one")).node
    session.append(treering.branch_summary("two"))
    session.append("three")
    session.compact("gist", kept=first)
    expected = ["gist", "one", "two", "three"]
    for items in (session.recorded_context, session.context_at(session.node, recorded=True)):
        assert [item.message["Content"] for item in items] == expected
    session.compact("gist of gist", kept=first)
    assert [item.message["Content"] for item in session.recorded_context] == ["gist of gist", *expected[1:]]


def test_an_erased_message_does_not_come_back_with_the_next_import(tmp_path: Path) -> None:
    """The session stands at an earlier message; what the program added is on a head of its own, and nothing twice."""
    path = tmp_path / "s1.json"
    said = [("user", "hello"), ("assistant", "hi"), ("user", "S3CRET"), ("assistant", "ok")]

    def written() -> None:
        messages = [USER | {"Role": role, "Content": text} for role, text in said]
        write(path, DOCUMENT | {"session": DOCUMENT["session"] | {"messages": messages}})

    with treering.open(tmp_path / "store") as store:
        importer = FileImporter(store)
        written()
        name = importer.load(path).session
        with store.session(name) as session:
            ids = session.path()
            session.erase(ids[-2])
            session.checkout(ids[-3])
        said.append(("assistant", "more"))
        written()
        assert importer.load(path).outcome == "updated"
        view = store.view(name)
        assert [item.message["Content"] for item in view.context] == ["hello", "hi"]
        assert [node.kind for node in view.each_node()].count("message") == len(said)
        assert not any(b"S3CRET" in line for line in view.lines())
