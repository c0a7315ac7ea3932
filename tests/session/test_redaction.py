"""Redactors: whatever verb a text comes by, what is stored is what the redactor made of it; signed parts stay."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.session.at_rest import holding
from tests.session.backends import Backend

import treering
from treering import ContextItem, Draft, UsageError
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.importers import FileImporter
from treering.session.redaction import Redaction, Redactor
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

SECRET = "hunter2-swordfish"
SHOWN = "[gone]"
LARGE = f"{SECRET} and more. " * 20_000  # becomes a blob
READING = frozenset(
    {
        "at", "history", "get", "each_node", "blob", "original", "path", "children", "siblings", "newest_leaf",
        "leaves", "tree", "nodes", "problems", "labels", "checkpoints", "checkpoint", "checkpoints_at", "context_at",
        "diff", "notes", "open_calls", "extensions", "last_compaction", "stored", "refresh", "lines", "events",
        "follow", "perform", "open_streams", "follow_stream", "unresolved_effects", "find_effect",
    }
)  # fmt: skip
TEXTLESS = frozenset(
    {"record_usage"}  # its texts are names that the program chose
    | {"claim", "renew", "release", "flush", "discard", "seal", "optimize", "prune", "close"}
    | {"stream", "continue_stream"}  # they are refused, see `tests/session/test_streams.py`
)
NAMES_ONLY = frozenset(
    {"retract", "unretract", "checkout", "switch", "rewind", "drop_head", "keep_stream", "discard_stream"}
)
"""What they take are ids and names."""


def redact(text: str) -> str:
    """A redactor for tests."""
    return text.replace(SECRET, SHOWN)


def store_with(backend: Backend, redactor: Redactor | None = redact) -> Store:
    """A store as a new process opens it."""
    return Store(Place(backend.driver(), redaction=None if redactor is None else Redaction(redactor)))


def deep(text: str) -> dict[str, object]:
    """A text at all places that a value has."""
    return {"a": text, "b": [text, (text,)], "c": {text}, "d": {1: [{"e": text}]}, "f": f"x {text} y"}


def message(role: str, text: str) -> dict[str, object]:
    """A message with a text at all places, arguments of a tool among them."""
    call = {"type": "tool_use", "id": "c1", "name": "run", "input": {"id": text, "type": text, "cmd": deep(text)}}
    arguments = json.dumps({"key": text})
    openai = [{"id": "c2", "type": "function", "function": {"name": "run", "arguments": arguments}}]
    return {"role": role, "content": [{"type": "text", "text": text}, call], "tool_calls": openai, "more": deep(text)}


ASKED = treering.assistant([{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}])


def verbs(session: treering.Session, text: str) -> Mapping[str, Callable[[], object]]:
    """Every verb that takes texts, with a text wherever it takes one."""
    node = str(session.node)
    return {
        "append": lambda: session.append(text, message("user", text), treering.tool(text, call="c1", more=text), LARGE),
        "commit": lambda: session.commit(
            [message("assistant", text)],
            state={"k": deep(text), "l": text},
            manager=deep(text),
            context=[ContextItem(node=node, message=message("user", text)), ContextItem(node=node, message=text)][:1],
            label=text,
            metadata={"m": [text]},
        ),
        "compact": lambda: session.compact(text, kept=node, state={"s": text}, files_read=[text]),
        "close_open_calls": lambda: (session.append(ASKED).node, session.close_open_calls(text).nodes),
        "set_model": lambda: session.set_model(text, provider=text),
        "set_thinking": lambda: session.set_thinking(text),
        "set_mode": lambda: session.set_mode({"mode": text}),
        "set_title": lambda: session.set_title(text),
        "set_status": lambda: session.set_status(text),
        "move": lambda: session.move(project=text, cwd=text),
        "label": lambda: session.label(node, text),
        "note": lambda: session.note("todo", {"t": text}, target=node, payload=deep(text)),
        "record_system": lambda: session.record_system(text, [{"name": "run", "description": text}]),
        "record_extension": lambda: session.record_extension(text, deep(text)),
        "amend": lambda: session.amend(node, message("user", text)),
        "effect": lambda: session.effect("call", about=deep(text)),
        "describe_effect": partial(_describe_effect, session, text),
        "end_effect": partial(_end_effect, session, text),
        "branch": lambda: session.branch("other", summary=text),
        "fork": lambda: session.fork(f"fork of {session.id}", title=text, project=text, extra={"e": text}),
        "erase": lambda: session.erase(node, reason=text),
    }


def _describe_effect(session: treering.Session, text: str) -> None:
    session.effect("call")
    session.describe_effect("call", deep(text))


def _end_effect(session: treering.Session, text: str) -> None:
    session.effect("call")
    session.end_effect("call", deep(text))


EVERY = tuple(verbs(treering.open("memory://redaction").session("s"), ""))


def test_every_verb_is_looked_at() -> None:
    """A verb that is added must be added here: it reads, it takes no text, or it is tried below."""
    public = {name for name in dir(treering.Session) if callable(getattr(treering.Session, name)) and name[0] != "_"}
    assert public == {*EVERY} | READING | TEXTLESS | NAMES_ONLY


@pytest.mark.parametrize("durability", ["sync", "turn"])
@pytest.mark.parametrize("verb", EVERY)
def test_no_verb_stores_what_was_redacted(backend: Backend, verb: str, durability: str) -> None:
    """After a verb the secret is in no frame at rest, sealed or not; without a redactor it is found: it was stored."""
    for redactor, expected in ((redact, False), (None, True)):
        name = f"s {expected}"
        with store_with(backend, redactor).session(name, durability=durability) as session:  # type: ignore[arg-type]
            session.commit(["begin"])
            verbs(session, SECRET)[verb]()
            session.flush()
            assert bool(holding(backend.snapshot(), SECRET)) == expected
            session.seal()
            session.checkout(session.node)
        assert bool(holding(backend.snapshot(), SECRET)) == expected


def test_what_is_said_of_a_new_session_is_redacted(backend: Backend) -> None:
    """Title, project, folder, further facts and the first prompt are on the card; a subagent's task is, too."""
    store = store_with(backend).namespace("tenant")
    facts: dict[str, Any] = {
        "title": SECRET,
        "project": SECRET,
        "cwd": f"/{SECRET}",
        "extra": {"a": SECRET, "b": [SECRET, {"c": SECRET}]},
    }
    with store.session("s", **facts) as session:
        session.append(SECRET)
        cut = "x" * 195 + SECRET  # the link holds 200 characters of it
        with store.spawn(session, "child", task=cut) as child:
            child.append(SECRET)
            assert child.info.task == redact(cut)
    info = store.view("s").info
    assert (info.title, info.project, info.cwd, info.first_prompt) == (SHOWN, SHOWN, f"/{SHOWN}", SHOWN)
    assert not holding(backend.snapshot(), SECRET[:5])


def test_what_is_loaded_is_redacted(backend: Backend) -> None:
    """Drafts of importers, what they keep of foreign records, and the facts of the session."""
    raw = json.dumps({"content": SECRET, "signed": {"text": SECRET, "signature": "s"}})
    drafts = [
        Draft(role="user", payload=message("user", SECRET), id="a", source={"raw": raw, "order": ["raw"]}),
        Draft(
            type="note", kind="damage", payload=LARGE, source={"raw": f"\xff{SECRET}".encode("latin-1"), "x": SECRET}
        ),
    ]
    facts: treering.LoadFacts = {"title": SECRET, "task": SECRET, "status": SECRET, "extra": {"x": SECRET}}
    store_with(backend).load("s", drafts, leaf=lambda: "a", facts=facts, origin=lambda: {"session": "s", "x": SECRET})
    body = b"".join(store_with(backend).view("s").lines())
    kept = json.loads(json.loads(body.splitlines()[0])["body"]["$source"]["raw"])
    assert kept == {"content": SHOWN, "signed": {"text": SECRET, "signature": "s"}}
    assert body.count(SECRET.encode()) == 1
    assert base64.b64encode(b"\xff" + SHOWN.encode()) in body


def test_an_import_is_redacted_and_found_again(backend: Backend, tmp_path: Path) -> None:
    """A session file goes in without the secret; its path is remembered, so later only what is new is taken."""
    records: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "i", "timestamp": "2026-01-31T12:00:00.000Z", "cwd": f"/{SECRET}"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-31T12:00:01.000Z", "message":
            {"role": "user", "content": [{"type": "text", "text": SECRET}], "timestamp": 1769860801000}},
    ]  # fmt: skip
    path = tmp_path / "one.jsonl"
    store = store_with(backend, lambda text: redact(text).replace(str(tmp_path), "?"))
    for outcome in ("new", "updated"):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        assert FileImporter(store).load(path).outcome == outcome
        records.append({**records[1], "id": "b", "parentId": "a", "label": SECRET})
    assert not holding(backend.snapshot(), SECRET)


def test_signed_parts_and_data_stay() -> None:
    """What is signed or encrypted, base64, ids, roles and names of fields are not given to the redactor."""
    image = base64.b64encode(SECRET.encode() * 3).decode()
    payload = {
        "role": "role",
        "id": "id",
        "content": [
            {"type": "thinking", "thinking": SECRET, "signature": SECRET},
            {"type": "redacted_thinking", "data": SECRET},
            {"type": "reasoning", "encrypted_content": SECRET, "summary": [{"text": SECRET}]},
            {"functionCall": {"args": {"x": SECRET}}, "thoughtSignature": SECRET},
            {"type": "image", "mimeType": "image/png", "data": image},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
            {"type": "audio", "data": base64.b64encode(bytes(range(256)) * 4).decode()},
            {"type": "tool_result", "tool_use_id": "call", SECRET: b"bytes"},
        ],
        "tool_call_id": "call",
    }
    assert Redaction(lambda _: "changed").draft(Draft(payload=payload)).payload == payload
    evva = {"Role": "assistant", "Content": SECRET, "Thinking": SECRET, "ThinkingSignature": "s"}
    assert Redaction(redact).value(evva, "") == {**evva, "Content": SHOWN}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("link", ("fork", "child")),
        ("compaction", ("kept",)),
        ("context_edit", ("target",)),
        ("origin", ("path", "leaf")),
    ],
)
def test_what_a_session_is_found_by_stays(kind: str, names: tuple[str, ...]) -> None:
    """Some kinds name nodes, sessions and files; their other fields, and these names elsewhere, are texts."""
    facts: dict[str, object] = dict.fromkeys(names, "x")
    redaction = Redaction(lambda _: SHOWN)
    found = redaction.draft(Draft(kind=kind, brief={**facts, "note": "x"}, payload=facts))
    assert (found.brief, found.payload) == ({**facts, "note": SHOWN}, facts)
    nested = redaction.draft(Draft(kind=kind, payload=[facts])).payload
    assert nested == redaction.draft(Draft(payload=[facts])).payload == [dict.fromkeys(names, SHOWN)]


def test_a_signed_part_is_stored_to_the_byte(backend: Backend) -> None:
    """Beside a text that is redacted a signed part comes back as it was."""
    signed = {"type": "thinking", "thinking": f"{SECRET} \u00e9", "signature": "c2ln"}
    with store_with(backend).session("s") as session:
        session.append({"role": "assistant", "content": [signed, {"type": "text", "text": SECRET}]})
    (item,) = store_with(backend, None).view("s").context
    assert item.message == {"role": "assistant", "content": [signed, {"type": "text", "text": SHOWN}]}
    encoded = json.dumps(signed, ensure_ascii=False, separators=(",", ":"))
    assert holding(backend.snapshot(), encoded)


def failing(text: str) -> str:
    """A redactor that cannot stand a text."""
    if SECRET in text:
        raise KeyError(text)
    return text


@pytest.mark.parametrize("redactor", [failing, lambda text: None if SECRET in text else text], ids=["raises", "None"])
@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_nothing_is_written_if_a_redactor_fails(backend: Backend, redactor: Any, durability: Any) -> None:
    """The error names the place of the text and not the text; the session stays usable."""
    store = store_with(backend, redactor)
    with store.session("s", durability=durability) as session:
        with pytest.raises(UsageError, match=r"payload\.content\[1\]\.text") as caught:
            session.append("fine", {"role": "user", "content": ["x", {"type": "text", "text": SECRET}]})
        assert SECRET not in str(caught.value)
        assert caught.value.kind == "redactor"
        with pytest.raises(UsageError, match=r"state\['k'\]\.b"):
            session.commit(["fine"], state={"k": {"b": SECRET}})
        assert not [key for key in backend.snapshot() if "/s/" in key and not key.endswith("lock")]
        session.commit(["still fine"])
        assert [item.message["content"] for item in session.context] == ["still fine"]
    with pytest.raises(UsageError, match="'title'"):
        store.session("t", title=SECRET)
    store.session("t").close()


def test_a_message_may_be_repeated(backend: Backend) -> None:
    """The same message under the same id is recorded once, put off or not, though what is stored is another text."""
    for durability in ("sync", "turn"):
        with store_with(backend).session(durability, durability=durability) as session:
            for _ in range(2):
                session.append(treering.user(SECRET, id="mine"))
            session.commit()
            session.append(treering.user(SECRET, id="mine"))
            assert [item.message["content"] for item in session.context] == [SHOWN]


def test_what_is_stored_already_stays(backend: Backend) -> None:
    """Copies and forks are as they are; so is what others read."""
    with store_with(backend, None).session("s") as session:
        session.append(SECRET)
    store = store_with(backend)
    store.copy("s", name="copy")
    with store.session("s") as session:
        session.fork("fork")
        for name in ("s", "copy", "fork"):
            assert store.view(name).context[0].message["content"] == SECRET


def test_asynchronous_stores_redact() -> None:
    """Sessions, subagents, namespaces and loads of an asynchronous store go through the redactor."""
    driver = MemoryDriver()

    async def record() -> None:
        store = AsyncStore(Place(driver, redaction=Redaction(redact))).namespace("n")
        async with await store.session("s", title=SECRET) as session:
            await session.append(SECRET)
            async with await store.spawn(session, "child", task=SECRET) as child:
                await child.append(SECRET)
        await store.load("l", [treering.user(SECRET)], leaf=lambda: None)

    asyncio.run(record())
    assert not holding(driver.snapshot(), SECRET)


def test_a_store_is_opened_with_a_redactor(tmp_path: Path) -> None:
    """`open` and `aopen` take it; what is no function is refused."""
    with treering.open(tmp_path, redactor=redact).session("s") as session:
        session.append(SECRET)
        assert session.context[0].message["content"] == SHOWN

    async def first() -> object:
        async with await treering.aopen("memory://", redactor=redact).session("s") as session:
            await session.append(SECRET)
            return session.context[0].message

    assert asyncio.run(first()) == {"role": "user", "content": SHOWN}
    with pytest.raises(UsageError, match="from str to str"):
        treering.open(tmp_path, redactor="sk-.*")  # type: ignore[arg-type]


KEYS = (
    "sk-ant-api03-" + "aB3_" * 10,
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "xoxb-" + "1234567890-abc",
    "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: str(key)[:12])
def test_well_known_keys_are_found(key: str) -> None:
    """Keys of well-known shapes are replaced wherever they stand, also in JSON text; other words are not."""
    found = treering.redact_patterns()
    assert found(f"a={key} b") == "a=[redacted] b"
    assert SECRET in (text := found(json.dumps({"x": f"\n{key}\n{SECRET}"})))
    assert json.loads(text) == {"x": f"\n[redacted]\n{SECRET}"}
    assert found("task-force-and-risk-management-of-2026") == "task-force-and-risk-management-of-2026"
    assert treering.redact_patterns(keys=False)(key) == key


def patterns() -> Iterator[str]:
    """Patterns are read once."""
    yield r"\d{4}-\d{4}"
    yield "(?i)hunter2"


def test_patterns_of_ones_own() -> None:
    """All patterns are applied; the replacement stands as it is. One that matches it is refused, as is no pattern."""
    found = treering.redact_patterns(patterns(), replacement=r"\1")
    assert [found("call 1234-5678, Hunter2") for _ in range(2)] == [r"call \1, \1"] * 2
    for wrong in ("(", "red"):
        with pytest.raises(UsageError):
            treering.redact_patterns([wrong])


def test_a_buffered_state_is_redacted_or_refused_at_once() -> None:
    """As a message is; else each later answer would fail, with which it is recorded."""

    def redact_word(text: str) -> str:
        if "boom" in text:
            raise ValueError(text)
        return text.replace("swordfish", "[gone]")

    store = Store(Place(MemoryDriver(), redaction=Redaction(redact_word)))
    session = store.session("s", first_write="assistant")
    session.commit([{"role": "user", "content": "swordfish"}], state={"k": "swordfish"})
    assert session.state == {"k": "[gone]"}
    with pytest.raises(UsageError, match="state"):
        session.commit(["hi"], state={"k": "boom"})
    session.append({"role": "assistant", "content": "yes"})
    assert store.view("s").state == session.state == {"k": "[gone]"}
