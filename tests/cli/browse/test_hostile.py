"""Recorded text stays text, whatever it is."""

from __future__ import annotations

import re

from tests.cli.browse.screens import LARGE, User, browsing, empty_store

import treering

HOSTILE = "\x1b[2J\x1b]0;title\x07[bold]not bold[/bold] [@click=app.quit]x[/] \u202eback\u202c \r\n\x9b31m\tend\x00"
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def nothing_but_text(user: User) -> bool:
    """Whether no character on the screen means anything to a terminal, and no line is too long."""
    return not any(FORBIDDEN.search(line) or len(line) > user.app.size.width for line in user.lines)


def nested(depth: int) -> object:
    """Lists in lists."""
    value: object = "deep"
    for _ in range(depth):
        value = [value]
    return value


async def test_text_that_means_something_to_terminals_and_to_markup() -> None:
    """In messages, titles, labels, names of sessions and heads, calls and results, on all screens."""
    store = empty_store()
    with store.session(f"a{HOSTILE}", title=HOSTILE, project=HOSTILE) as session:
        session.append(treering.user(HOSTILE))
        call = {"type": "tool_use", "id": "c", "name": HOSTILE, "input": {HOSTILE: HOSTILE}}
        session.append(treering.assistant([{"type": "thinking", "thinking": HOSTILE}, call]))
        node = session.append(treering.tool(HOSTILE, call="c")).node
        session.commit([treering.user("last")], state={HOSTILE: HOSTILE})
        session.label(node, HOSTILE)
        session.branch(f"b{HOSTILE}")
    async with browsing(store) as user:
        assert nothing_but_text(user)
        assert r"\x1b[2J" in user.screen
        assert "[bold]not bold[/bold]" in user.words
        await user.press("enter")
        assert nothing_but_text(user)
        assert "[bold]not bold[/bold]" in user.words
        for keys in (["up", "l"], ["enter"], ["home", "d"], ["y"]):
            await user.press(*keys)
            assert nothing_but_text(user), keys
            assert r"\x1b" in user.screen, keys
            await user.press("escape")
        await user.press("ctrl+f", *"bold")
        assert nothing_but_text(user)
        assert "[bold]not" in user.words
    async with browsing(store, size=LARGE, session=(store, f"a{HOSTILE}")) as user:
        assert nothing_but_text(user)


async def test_long_and_deep_messages() -> None:
    """A line of 10 MB, one that is just no blob, an image, and values as deep as they may be are cut, not refused."""
    store = empty_store()
    with store.session("s") as session:
        session.append(treering.user("x!" * 5_000_000))
        session.append(treering.user("y!" * 100_000))
        image = {"type": "base64", "media_type": "image/png", "data": "A" * 80_000}
        session.append(treering.user([{"type": "image", "source": image}, {"type": "text", "text": "see"}]))
        session.append(treering.assistant([{"type": "tool_use", "id": "c", "name": "deep", "input": nested(90)}]))
    async with browsing(store, session=(store, "s")) as user:
        assert "user: x!x!" in user.screen
        assert "user: see" in user.screen
        await user.press("home")
        assert "10.0 MB: `treering show` prints all" in user.words
        await user.press("down")
        assert nothing_but_text(user)
        await user.press("end", "enter", "home")
        assert "180002 more characters" in user.words or "y!y!" in user.screen
        await user.press("home", "home")
        assert nothing_but_text(user)
        assert "10.0 MB" in user.words
        await user.press("escape", "c", "home", "home")
        assert nothing_but_text(user)
        assert "x!x!" in user.screen


async def test_what_cannot_be_shown_by_its_kind_is_shown_all_the_same() -> None:
    """Erased messages, unknown kinds and messages without parts have their row."""
    store = empty_store()
    with store.session("s") as session:
        gone = session.append(treering.user("secret")).node
        session.append(treering.Draft(kind="future_thing", payload={"a": 1}))
        session.append(treering.user([]))
        session.commit([treering.user("end")], state={})
        session.erase(gone)
    async with browsing(store, session=(store, "s")) as user:
        await user.press("ctrl+a")
        assert "erased user:" in user.screen
        assert 'future_thing: {"a":1}' in user.screen
        assert "secret" not in user.screen
        await user.press("home")
        assert "erased" in user.screen
