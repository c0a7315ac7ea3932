"""Sessions exported as files of oh-my-pi: unchanged ones to the byte, others with the session's head as the leaf."""

from __future__ import annotations

import base64
import json
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.programs.omp.sessions import assistant, entry, sessions, text, user, written
from tests.sampling import few

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.exporters import Exported, export
from treering.importers import SessionFile, read
from treering.programs.omp import read as omp
from treering.programs.omp.title_slot import TITLE_SLOT_BYTES, read_title_slot
from treering.programs.pi import read as pi

IMAGE = base64.b64encode(bytes(range(256)) * 4).decode()
DIGEST = sha256(bytes(range(256)) * 4).hexdigest()


def loaded(path: Path) -> Store:
    """Import a file as the session `s` of a new store."""
    source = omp.open_source(path)
    store = treering.open(f"memory://{uuid.uuid4()}")
    store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="omp")
    return store


def exported(store: Store, folder: Path, name: str = "s") -> tuple[SessionFile, Exported]:
    """Write a session to a file and read that."""
    done = export(store.view(name), folder / "out.jsonl", format="omp", overwrite=True)
    return read(folder / "out.jsonl"), done


def messages(file: SessionFile) -> list[Any]:
    """Return what goes to the model where the program goes on."""
    return [each.message for each in file.context(file.leaf).messages]


class TestUntouched:
    @given(sessions())
    @settings(max_examples=few(13, whole=40), suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_bytes(self, tmp_path: Path, entries: list[dict[str, Any]]) -> None:
        """A session in which nothing happened gives the very file it was made of."""
        path = written(tmp_path, *entries)
        done = export(loaded(path).view("s"), tmp_path / "out.jsonl", format="omp", overwrite=True)
        assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()
        assert (done.left_out, done.same_context) == ([], True)

    def test_without_slot(self, tmp_path: Path) -> None:
        """A file without a title slot gets none as long as nobody gives a title."""
        path = written(tmp_path, user("n0", None), entry("reset_boundary", "n1", "n0"), slot=b"")
        export(loaded(path).view("s"), tmp_path / "out.jsonl", format="omp")
        assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()

    def test_images(self, tmp_path: Path) -> None:
        """Images go to files of their own again, beside the new file if there is no folder for them yet."""
        image = {"type": "image", "data": f"blob:sha256:{DIGEST}", "mimeType": "image/png"}
        (tmp_path / "in" / "blobs").mkdir(parents=True)
        (tmp_path / "in" / "blobs" / DIGEST).write_bytes(base64.b64decode(IMAGE))
        path = written(tmp_path / "in", user("n0", None, [image]))
        (tmp_path / "out").mkdir()
        export(loaded(path).view("s"), tmp_path / "out" / "s.jsonl", format="omp")
        assert (tmp_path / "out" / "s.jsonl").read_bytes() == path.read_bytes()
        assert (tmp_path / "out" / "blobs" / DIGEST).read_bytes() == base64.b64decode(IMAGE)
        (tmp_path / "agent" / "blobs").mkdir(parents=True)
        (tmp_path / "agent" / "sessions").mkdir()
        export(loaded(path).view("s"), tmp_path / "agent" / "sessions" / "s.jsonl", format="omp")
        assert [each.name for each in (tmp_path / "agent" / "blobs").iterdir()] == [DIGEST]

    def test_missing_image(self, tmp_path: Path) -> None:
        """The reference to an image that was missing is written back as it was."""
        image = {"type": "image", "data": f"blob:sha256:{DIGEST}", "mimeType": "image/png"}
        path = written(tmp_path, user("n0", None, [image]))
        export(loaded(path).view("s"), tmp_path / "out.jsonl", format="omp")
        assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()
        assert not (tmp_path / "blobs").exists()

    def test_last_line_is_no_record(self, tmp_path: Path) -> None:
        """JSON that is no record stays among the entries; after the last one it would be the leaf."""
        path = written(tmp_path, user("n0", None), [1], user("n1", "n0"), 1.5, [])
        done = export(loaded(path).view("s"), tmp_path / "out.jsonl", format="omp")
        assert (tmp_path / "out.jsonl").read_bytes() == written(
            tmp_path, user("n0", None), [1], user("n1", "n0")
        ).read_bytes()
        assert [(left.kind, left.count) for left in done.left_out] == [("damage", 2)]


class TestContinued:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        rows = user("n0", None, "first"), assistant("n1", "n0", text("answer")), user("n2", "n1", "second")
        return loaded(written(tmp_path, *rows))

    @pytest.fixture
    def session(self, store: Store) -> Session:
        return store.session("s")

    def test_messages(self, session: Session, store: Store, tmp_path: Path) -> None:
        """Messages recorded here follow, in oh-my-pi's words, and go to the model as they did."""
        calls = [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"x":1}'}}]
        session.append({"role": "assistant", "content": None, "tool_calls": calls})
        session.append(treering.tool("done", call="c1"), "and now?")
        file, done = exported(store, tmp_path)
        answer, tool, question = messages(file)[-3:]
        assert answer["content"] == [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"x": 1}}]
        assert (tool["toolCallId"], tool["content"]) == ("c1", [text("done")])
        assert question["content"] == "and now?"
        assert (done.left_out, done.same_context) == ([], True)

    def test_call_without_result(self, session: Session, store: Store, tmp_path: Path) -> None:
        """That oh-my-pi will not send a call which has no result is said."""
        calls = [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]
        session.append({"role": "assistant", "content": None, "tool_calls": calls})
        file, done = exported(store, tmp_path)
        assert len(messages(file)) == 3
        assert [(left.kind, left.count, left.seen) for left in done.left_out] == [("message", 1, True)]
        assert not done.same_context

    def test_branch(self, session: Session, store: Store, tmp_path: Path) -> None:
        """After a step back the last entry of the file makes the program continue there."""
        session.checkout("n1")
        file, _ = exported(store, tmp_path)
        assert [each.source for each in file.context(file.leaf).messages] == ["n0", "n1"]
        assert file.entries[-1].type == "label"
        assert file.labels == {}

    def test_label(self, session: Session, store: Store, tmp_path: Path) -> None:
        """A label is an entry below where the session stands."""
        session.label("n0", "start")
        file, _ = exported(store, tmp_path)
        assert file.labels == {"n0": "start"}
        assert [each.source for each in file.context(file.leaf).messages] == ["n0", "n1", "n2"]

    def test_title(self, session: Session, store: Store, tmp_path: Path) -> None:
        """A new title is in the slot, whose width stays, and in an entry that tells of the change."""
        session.set_title("Better")
        file, _ = exported(store, tmp_path)
        line, *_ = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
        slot = read_title_slot(line)
        assert slot is not None
        assert (file.title, slot.title, slot.source) == ("Better", "Better", "user")
        assert len(line) == TITLE_SLOT_BYTES
        assert file.entries[-1].record["title"] == "Better"

    def test_settings(self, session: Session, store: Store, tmp_path: Path) -> None:
        """Changes of model, thinking and mode are those of oh-my-pi."""
        session.append(treering.change("model_change", model="gpt", provider="openai"))
        session.append(treering.change("thinking_change", thinking="high"))
        session.append(treering.change("mode_change", mode="plan", data={"planFile": "/p"}))
        file, _ = exported(store, tmp_path)
        assert file.context(file.leaf).state == {
            "thinkingLevel": "high", "configuredThinkingLevel": "high", "models": {"default": "openai/gpt"},
            "injectedTtsrRules": [], "mode": "plan", "modeData": {"planFile": "/p"},
        }  # fmt: skip

    def test_compaction(self, session: Session, store: Store, tmp_path: Path) -> None:
        """A compaction made here keeps what it kept."""
        session.compact("so far", kept="n2")
        session.append("more")
        file, _ = exported(store, tmp_path)
        shown = messages(file)
        assert (shown[0]["role"], shown[0]["summary"]) == ("compactionSummary", "so far")
        assert [message["content"] for message in shown[1:]] == ["second", "more"]

    def test_hidden_message(self, session: Session, store: Store, tmp_path: Path) -> None:
        """That oh-my-pi will send a message which was hidden here is said."""
        session.retract("n1")
        _, done = exported(store, tmp_path)
        assert [(left.kind, left.seen) for left in done.left_out] == [("retract", True)]

    def test_fork(self, tmp_path: Path) -> None:
        """A fork names the session it comes from, and has the whole path, with labels on it, and the title."""
        rows = (
            user("n0", None),
            entry("label", "n1", "n0", targetId="n0", label="x"),
            user("n2", "n1"),
            user("n3", "n0"),
        )
        store = loaded(written(tmp_path, *rows))
        with store.session("s") as session:
            session.fork("child", node="n2")
        done = export(store.view("child"), tmp_path / "child.jsonl", format="omp")
        file = read(tmp_path / "child.jsonl")
        assert file.header.parent_session == "s"
        assert [each.source for each in file.context(file.leaf).messages] == ["n0", "n2"]
        assert (file.labels, file.title, done.same_context) == ({"n0": "x"}, "A title", True)


class TestOwnSession:
    def test_from_scratch(self, tmp_path: Path) -> None:
        """A session that was never oh-my-pi's gets slot, header, and images in files of their own."""
        store = treering.open(f"memory://{uuid.uuid4()}")
        with store.session("mine") as session:
            session.append({"role": "user", "content": [{"type": "image", "data": IMAGE, "mimeType": "image/png"}]})
            session.append({"role": "assistant", "content": "nice"})
            session.set_title("Pictures")
        file, done = exported(store, tmp_path, "mine")
        assert file.format == "omp"
        assert (file.title, file.header.session_id) == ("Pictures", "mine")
        assert [message["role"] for message in messages(file)] == ["user", "assistant"]
        assert messages(file)[0]["content"][0]["data"] == IMAGE
        assert DIGEST in (tmp_path / "out.jsonl").read_text()
        assert done.same_context
        assert not file.problems
        assert json.loads((tmp_path / "out.jsonl").read_bytes().splitlines()[0])["type"] == "title"


class TestFromOthers:
    def test_from_pi(self, tmp_path: Path) -> None:
        """A session of pi becomes one of oh-my-pi: labels on the path cut nothing off, and the model sees the same."""
        label = entry("label", "n1", "n0", targetId="n0", label="x")
        empty = entry("custom_message", "n3", "n2", customType="e", display=True)
        path = written(tmp_path, user("n0", None), label, user("n2", "n1"), empty, user("n4", "n3"), slot=b"")
        source = pi.open_source(path)
        store = treering.open(f"memory://{uuid.uuid4()}")
        store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="pi-1.5")
        file, done = exported(store, tmp_path)
        assert [each.source for each in file.context(file.leaf).messages] == ["n0", "n2", None, "n4"]
        assert (file.labels, done.same_context) == ({"n0": "x"}, True)

    def test_to_pi(self, tmp_path: Path) -> None:
        """And the other way round; a message that was not shown becomes an entry that is not."""
        empty = entry("custom_message", "n1", "n0", customType="e", display=True)
        store = loaded(written(tmp_path, user("n0", None), empty, user("n2", "n1")))
        done = export(store.view("s"), tmp_path / "out.jsonl", format="pi")
        file = read(tmp_path / "out.jsonl")
        assert (file.format, done.same_context) == ("pi", True)
        assert [each.source for each in file.context(file.leaf).messages] == ["n0", "n2"]

    def test_reset(self, tmp_path: Path) -> None:
        """What oh-my-pi has a word for keeps it, wherever it comes from."""
        store = treering.open(f"memory://{uuid.uuid4()}")
        with store.session("s") as session:
            session.append("one")
            session.append(treering.Draft(kind="reset_boundary"))
            session.append("two")
        file, done = exported(store, tmp_path)
        assert [message["content"] for message in messages(file)] == ["two"]
        assert not done.same_context
        assert [(left.kind, left.count, left.seen) for left in done.left_out] == [("message", 1, True)]
