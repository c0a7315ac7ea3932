"""The list of sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.browse.screens import LARGE, SMALL, browsing, empty_store

import treering


def made(*names: str, cwd: str = "") -> treering.Store:
    """A store in memory with some sessions."""
    store = empty_store()
    for name in names:
        with store.session(name, title=f"About {name}", cwd=cwd) as session:
            session.append(treering.user(f"please {name}"))
    return store


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_list_has_a_row_for_each_session_and_the_card_of_the_chosen_one(size: tuple[int, int]) -> None:
    """The one active last is the first and the chosen one; no line is longer than the screen is wide."""
    async with browsing(made("tea", "coffee"), size=size) as user:
        assert ["About coffee" in user.lines[2], "About tea" in user.lines[3]] == [True, True]
        assert "session   coffee" in user.screen
        await user.press("down")
        assert "session   tea" in user.screen
        assert "begins    please tea" in user.screen
        assert max(map(len, user.lines)) <= size[0]


async def test_typing_filters() -> None:
    """All words that are typed must occur; escape takes them back."""
    async with browsing(made("tea", "coffee", "green-tea")) as user:
        await user.type("tea green")
        assert "About green-tea" in user.screen
        assert "1 session" in user.lines[0]
        await user.press("backspace", "backspace", "backspace", "backspace", "backspace")
        assert "2 sessions" in user.lines[0]
        await user.press("escape")
        assert "3 sessions" in user.lines[0]


async def test_q_leaves_and_is_a_letter_behind_a_slash() -> None:
    """With `/` a filter begins that may begin with q."""
    async with browsing(made("quick", "slow")) as user:
        await user.press("slash", "q")
        assert "1 session " in user.lines[0]
        await user.press("escape", "q")
        assert not user.app.is_running


async def test_tab_changes_between_this_folder_and_all(tmp_path: Path) -> None:
    """The list begins with the sessions about this folder."""
    store = made("here", cwd=str(tmp_path))
    with store.session("elsewhere", cwd="/else/where") as session:
        session.append("x")
    async with browsing(store, cwd=str(tmp_path)) as user:
        assert "About here" in user.screen
        assert "elsewhere" not in user.screen
        await user.press("tab")
        assert "all folders" in user.lines[0]
        assert "/else/where" in user.screen
        await user.press("tab")
        assert "elsewhere" not in user.screen


async def test_a_folder_without_sessions_leads_to_all(tmp_path: Path) -> None:
    """Nobody has to know that there are others."""
    async with browsing(made("tea", cwd="/else/where"), cwd=str(tmp_path)) as user:
        assert "About tea" in user.screen
        assert "no session about" in user.screen


async def test_an_empty_store_is_an_empty_list() -> None:
    """Nothing can be opened there, and nothing fails."""
    async with browsing(empty_store()) as user:
        assert "0 sessions" in user.lines[0]
        await user.press("down", "enter", "ctrl+r", "ctrl+y", "x")
        assert user.app.is_running


async def test_named_only() -> None:
    """Ctrl-N, as in pi, leaves those with a title."""
    store = made("named")
    with store.session("plain") as session:
        session.append("without a title")
    async with browsing(store) as user:
        assert "without a title" in user.screen
        await user.press("ctrl+n")
        assert "without a title" not in user.screen
        assert "About named" in user.screen


async def test_rename() -> None:
    """Ctrl-R, as in pi, asks for the title of the session and records it."""
    store = made("tea")
    async with browsing(store) as user:
        await user.press("ctrl+r")
        assert "title; empty removes it" in user.screen
        await user.press(*["backspace"] * len("About tea"), *"Cup", "enter")
        assert "Cup" in user.lines[2]
        assert "named tea: Cup" in user.screen
    assert store.view("tea").info.title == "Cup"


async def test_more_sessions_are_read_when_the_cursor_comes_near_them() -> None:
    """A page is read at first, and the next one on the way down."""
    store = empty_store()
    for number in range(130):
        with store.session(f"s{number:03}") as session:
            session.append(f"prompt {number}")
    async with browsing(store) as user:
        assert "100 sessions and more" in user.lines[0]
        await user.press("end")
        assert "130 sessions " in user.lines[0]
        await user.press("end")
        assert "prompt 0" in user.screen


async def test_a_filter_reads_what_it_has_not_seen() -> None:
    """The oldest session of many is found, though it was not on the first page."""
    store = empty_store()
    for number in range(130):
        with store.session(f"s{number:03}") as session:
            session.append("the first one" if number == 0 else "another one")
    async with browsing(store) as user:
        await user.type("first")
        assert "the first one" in user.lines[2]


async def test_a_session_in_a_namespace_is_opened_there() -> None:
    """Sessions of all parts of the store are in the list."""
    store = empty_store()
    with store.namespace("shop").session("tea") as session:
        session.append("in the shop")
    async with browsing(store) as user:
        assert "namespace shop" in user.screen
        await user.press("enter")
        assert "user: in the shop" in user.screen


async def test_copying_names_what_is_copied_and_returns_it() -> None:
    """What was copied last is given to the command, which prints it where the terminal keeps it."""
    async with browsing(made("tea")) as user:
        await user.press("ctrl+y", "down", "enter")
        assert "printed again at the end: continue tea" in user.screen
        await user.press("q")
        assert user.app.return_value == "continue tea"
