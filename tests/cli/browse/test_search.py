"""Search, from the list and in a session."""

from __future__ import annotations

from tests.cli.browse.conftest import Tea
from tests.cli.browse.screens import browsing, empty_store


async def test_a_hit_leads_to_its_branch(tea: Tea) -> None:
    """The tree is opened with the cursor on the message that was found, also on a branch that was left."""
    async with browsing(tea.store) as user:
        await user.press("ctrl+f", *"one way")
        assert "search in all sessions" in user.lines[0]
        assert "one way" in user.lines[2]
        assert "Too much tea  text" in user.screen
        await user.press("enter")
        assert "on other" in user.lines[0]
        assert "→ edit" in user.screen
        await user.press("l")
        assert tea.first[-8:] not in user.screen
        await user.press("escape", "escape")
        assert "search one way" in user.screen


async def test_what_tools_said_is_found_after_tab(tea: Tea) -> None:
    """At first only prompts and texts are searched; without words the newest are shown."""
    async with browsing(tea.store) as user:
        await user.press("ctrl+f")
        assert "another way" in user.lines[2]
        await user.press(*"result")
        assert "nothing found for 'result'" in user.screen
        await user.press("tab")
        assert "line 0 of the result" in user.words


async def test_a_search_in_a_session_stays_there(tea: Tea) -> None:
    """With `/` in its tree."""
    with tea.store.session("coffee") as session:
        session.append("why is the total wrong here?")
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("slash", *"total")
        assert "search in tea" in user.lines[0]
        assert "here?" not in user.screen
        assert "why is the total wrong?" in user.lines[2]


async def test_all_namespaces_are_searched() -> None:
    """A hit is opened where it is."""
    store = empty_store()
    for name in ("north", "south"):
        with store.namespace(name).session("s") as session:
            session.append(f"wind from {name}")
    async with browsing(store) as user:
        await user.press("ctrl+f", *"wind")
        assert "wind from south" in user.screen
        assert "wind from north" in user.screen
        await user.press("ctrl+u", *"north", "enter")
        assert "user: wind from north" in user.screen
