"""What is read from a store names no code: the three published advisories against savers of LangGraph, as tests."""

from __future__ import annotations

import dataclasses
import json
import pickle
import threading
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tests.integrations.langgraph.graphs import chat, config, say
from tests.session.backends import Backend

from treering import CorruptError, UsageError
from treering.format import values
from treering.integrations.langgraph import TreeringSaver, names

reached = threading.Event()


def reach(*_: object, **__: object) -> str:
    """What an attacker wants to have called."""
    reached.set()
    return "reached"


class Reaches:
    """Calls `reach` when it is loaded by pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return reach, ()


@dataclasses.dataclass
class Mine:
    """A type of a user's state."""

    text: str


def checkpoint(**channels: object) -> Checkpoint:
    """A checkpoint with these values."""
    made = empty_checkpoint()
    made["channel_values"] = dict(channels)
    made["channel_versions"] = dict.fromkeys(channels, "1")
    return made


def put(saver: TreeringSaver, **channels: object) -> None:
    """Store a checkpoint."""
    saver.put(config(checkpoint_ns=""), checkpoint(**channels), {"source": "input", "step": 0}, {})


def planted(backend: Backend, form: dict[str, object]) -> TreeringSaver:
    """A saver on a store in which somebody replaced the value of a channel."""
    with TreeringSaver(backend.store()) as saver:
        put(saver, channel="harmless")
    with backend.store().session("t", shared=True) as session:
        session.commit(state={names.channel_key("", "channel"): form})
    reached.clear()
    return TreeringSaver(backend.store())


NAMED = ormsgpack.packb((__name__, "reach", ["x"]))
CODES = range(6)
"""Extensions of msgpack that name a module and something in it to call."""


@pytest.mark.parametrize("code", CODES)
def test_msgpack_imports_nothing(backend: Backend, code: int) -> None:
    """CVE-2026-28277: an extension that names a module and a function is returned as data, or not at all."""
    body = ormsgpack.packb((__name__, "reach", {"x": 1} if code in (2, 4, 5) else ["x"], "reach"))
    data = ormsgpack.packb(ormsgpack.Ext(code, body))
    saver = planted(backend, {"type": "msgpack", "bytes": data})
    found = saver.get_tuple(config())
    assert found is not None
    assert not reached.is_set()


@pytest.mark.parametrize("kind", ["json", "pickle", "pickle+json", "constructor"])
def test_other_forms_are_refused(backend: Backend, kind: str) -> None:
    """CVE-2025-64439 and CVE-2026-27794: JSON that names a constructor, and pickles, are damage and not loaded."""
    named = {"lc": 2, "type": "constructor", "id": [*__name__.split("."), "reach"], "kwargs": {}}
    data = pickle.dumps(Reaches()) if "pickle" in kind else json.dumps(named).encode()
    saver = planted(backend, {"type": kind, "bytes": data})
    with pytest.raises(CorruptError):
        saver.get_tuple(config())
    assert not reached.is_set()


@pytest.mark.parametrize("fallback", [JsonPlusSerializer(pickle_fallback=True)])
def test_a_serializer_with_pickle_is_refused(backend: Backend, fallback: JsonPlusSerializer) -> None:
    """CVE-2026-27794: nothing that would load pickles is accepted, alone or inside one that encrypts."""
    with pytest.raises(UsageError, match="pickle"):
        TreeringSaver(backend.store(), serde=fallback)


def test_text_that_is_no_unicode_survives(backend: Backend) -> None:
    """Lone surrogates, which sent LangGraph's serializer to its JSON fallback, come back as they were."""
    saver = TreeringSaver(backend.store())
    put(saver, channel=["cut \ud800 here"])
    found = TreeringSaver(backend.store()).get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"channel": ["cut \ud800 here"]}


def test_a_type_comes_back_if_it_is_allowed(backend: Backend) -> None:
    """An object of the user's own type is made again only by a saver that was told so; else its data comes back."""
    with TreeringSaver(backend.store()) as saver:
        put(saver, channel=Mine("text"))
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"]["channel"] == {"text": "text"}
    found = TreeringSaver(backend.store(), allow=[Mine]).get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"]["channel"] == Mine("text")


NAMES = ["../../up", "a/b", "%2F", "\x00", "org", "org/42", "x" * 300, "üñí", "'; drop table", 42, " "]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_never_paths(backend: Backend, name: object) -> None:
    """Any thread, namespace, channel and task is kept under its own name, and deleting one leaves the others."""
    text = str(name)
    saver = TreeringSaver(backend.store())
    other = config(f"{text}/other", checkpoint_ns="")
    saver.put(other, checkpoint(), {}, {})
    given = config(name, checkpoint_ns=text)
    there = saver.put(given, checkpoint(**{text: 1}), {"source": "input", text: text.replace("\x00", "")}, {})  # type: ignore[misc]
    saver.put_writes(there, [(text, 2)], text, text)
    for filtered in ({}, {text: text.replace("\x00", "")}):
        [found] = saver.list(config(name), filter=filtered)
        assert found.config == there
        assert found.checkpoint["channel_values"] == {text: 1}
        assert found.pending_writes == [(text, text, 2)]
    saver.delete_thread(text)
    assert saver.get_tuple(there) is None
    assert saver.get_tuple(other) is not None


def test_values_are_plain_in_the_store(backend: Backend) -> None:
    """Messages and plain data are stored as JSON that people and programs read without LangGraph."""
    with TreeringSaver(backend.store()) as saver:
        say(chat(saver), "hello")
    view = backend.store().view("t")
    assert [item.message["content"] for item in view.context] == ["hello", "you said: hello"]
    assert b"$bytes" not in b"".join(values.encode(value) for value in view.state.values())
