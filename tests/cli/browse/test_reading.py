"""Stores that answer slowly, wrongly or not at all, and sessions that are long."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.browse.screens import browsing, empty_store

import treering
from treering.transcript.nodes import Nodes


class Gate:
    """Holds up whoever reads from a store, until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def __call__(self, _: treering.RequestBatch) -> None:
        self.open.wait(60)


async def test_keys_are_answered_while_the_store_is_silent(tmp_path: Path) -> None:
    """The list moves, questions are asked and left, a filter filters; what was asked for comes when it comes."""
    gate = Gate()
    store = treering.open(tmp_path, observer=gate)
    for name in ("tea", "coffee"):
        with store.session(name, title=f"About {name}") as session:
            session.append("x")
    async with browsing(store) as user:
        gate.open.clear()
        await user.press("enter", "escape", "down", "enter", wait=False)
        assert "reading the session ..." in user.screen
        await user.press("question_mark", wait=False)
        assert "Rewind" in user.screen
        await user.press("escape", "escape", "c", "o", "f", wait=False)
        assert "1 session " in user.lines[0]
        await user.press("enter", wait=False)
        gate.open.set()
        await user.settle()
        assert "user: x" in user.screen
        assert "About coffee" in user.lines[0]


async def test_who_leaves_does_not_wait_for_the_store(tmp_path: Path) -> None:
    """The program ends while a read hangs."""
    gate = Gate()
    store = treering.open(tmp_path, observer=gate)
    with store.session("tea") as session:
        session.append("x")
    async with browsing(store) as user:
        gate.open.clear()
        await user.press("enter", "q", wait=False)
        assert not user.app.is_running
    gate.open.set()


async def test_damage_is_a_line_that_says_where_and_what_to_do(tmp_path: Path) -> None:
    """The list stays; other sessions open."""
    store = treering.open(tmp_path)
    for name in ("good", "bad"):
        with store.session(name, title=f"About {name}") as session:
            session.append("x")
    for tail in (tmp_path / "sessions" / "bad").glob("tail*"):
        tail.unlink()
    async with browsing(store) as user:
        await user.press("enter")
        assert "key='" in user.words
        assert "`treering repair SESSION --into NEW`" in user.words
        await user.press("c", "l", "escape", "down", "enter")
        assert "About good" in user.lines[0]


async def test_a_store_that_does_not_answer_is_told_and_asked_again_by_f5(tmp_path: Path) -> None:
    """It is no empty list without a word."""
    silent = [True]

    def answer(_: treering.RequestBatch) -> None:
        if silent:
            raise treering.UnavailableError("the store did not answer", remedy="look at the network")

    with treering.open(tmp_path).session("tea") as session:
        session.append("x")
    async with browsing(treering.open(tmp_path, observer=answer)) as user:
        assert "the store did not answer; look at the network" in user.screen
        silent.clear()
        await user.press("f5")
        assert "1 session " in user.lines[0]
        assert "did not answer" not in user.screen
        silent.append(True)
        await user.press("enter")
        assert "the store did not answer; look at the network" in user.screen
        silent.clear()
        await user.press("f5")
        assert "user: x" in user.screen


async def test_a_page_that_could_not_be_read_is_asked_for_again_at_the_top(tmp_path: Path) -> None:
    """What was read before stays, and nothing is left out."""
    silent: list[bool] = []

    def answer(_: treering.RequestBatch) -> None:
        if silent:
            raise treering.UnavailableError("the store did not answer")

    with treering.open(tmp_path).session("s") as session:
        session.append(*(treering.user(f"message {number}. {os.urandom(20_000).hex()}") for number in range(79)))
        session.compact("all of it")
        session.seal()
    store = treering.open(tmp_path, observer=answer)
    async with browsing(store, session=(store, "s")) as user:
        await user.press("enter")
        assert "30 shown, more above" in user.lines[0]
        silent.append(True)
        await user.press("home")
        assert "the store did not answer" in user.screen
        assert "message 50." in user.lines[2]
        assert "30 shown, more above" in user.lines[0]
        silent.clear()
        await user.press("home", "home", "home")
        assert "80 shown" in user.lines[0]
        assert "message 0." in user.lines[2]


async def test_of_a_long_session_only_what_is_shown_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 messages a screen of nodes is made and read; the conversation is read by pages."""
    store, made, read = empty_store(), list[int](), list[str]()
    drafts = [treering.user(f"message {number}") for number in range(5_000)]
    with store.session("long") as session:
        session.append(*drafts)
    make, each_node = Nodes._make, treering.View.each_node

    def counted_make(nodes: Nodes, index: int) -> treering.Node:
        made.append(index)
        return make(nodes, index)

    def counted_each_node(view: treering.View, names: list[str], *, blobs: bool) -> Iterator[treering.Node]:
        read.extend(names)
        return each_node(view, names, blobs=blobs)

    monkeypatch.setattr(Nodes, "_make", counted_make)
    monkeypatch.setattr(treering.View, "each_node", counted_each_node)
    async with browsing(store, session=(store, "long")) as user:
        assert "5,000 nodes" in user.lines[0]
        assert "user: message 4999" in user.screen
        await user.press("pageup", "home", "end")
        assert len(set(made)) < 100
        assert len(read) < 100
        await user.press("enter")
        assert "30 shown, more above" in user.lines[0]
        await user.press("home", "home")
        assert "90 shown, more above" in user.lines[0]
        assert "message 4940" in user.lines[2]


async def test_a_page_is_read_when_the_top_is_reached_and_the_text_stays(tmp_path: Path) -> None:
    """What was on the screen before is on it afterwards; at the beginning nothing more is read."""
    store = empty_store()
    with store.session("s") as session:
        session.append(*(treering.user(f"message {number}.") for number in range(45)))
    async with browsing(store, session=(store, "s")) as user:
        await user.press("enter")
        assert "message 44." in user.screen
        await user.press("home")
        assert "45 shown" in user.lines[0]
        assert "more above" not in user.lines[0]
        assert "message 15." in user.screen
        await user.press("home", "home")
        assert "message 0." in user.screen
        assert "45 shown" in user.lines[0]
        await user.press("end")
        assert "message 44." in user.screen


async def test_the_size_of_the_terminal_may_change() -> None:
    """The pane goes beside the list, and text is wrapped anew."""
    store = empty_store()
    with store.session("s") as session:
        session.append("word " * 100)
    async with browsing(store, session=(store, "s")) as user:
        for width, height in ((120, 40), (30, 10), (80, 24)):
            await user.pilot.resize_terminal(width, height)
            await user.settle()
            assert max(map(len, user.lines)) <= width
        await user.press("enter")
        await user.pilot.resize_terminal(40, 24)
        await user.settle()
        assert all(len(line) <= 40 for line in user.lines)
        assert user.words.count("word") == 100


async def test_the_mouse_chooses_and_opens() -> None:
    """A click moves the cursor, one on the cursor opens; there are no rows below the last."""
    store = empty_store()
    for name in ("tea", "coffee"):
        with store.session(name) as session:
            session.append(f"please {name}")
    async with browsing(store) as user:
        await user.pilot.click("Rows", offset=(5, 1))
        await user.settle()
        assert "session   tea" in user.screen
        await user.pilot.click("Rows", offset=(5, 8))
        await user.pilot.click("Rows", offset=(5, 1))
        await user.settle()
        assert "user: please tea" in user.screen
