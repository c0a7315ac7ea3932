"""The tree of a session, and what can be done at its nodes."""

from __future__ import annotations

import pytest
from tests.cli.browse.conftest import Tea
from tests.cli.browse.screens import LARGE, SMALL, User, browsing


def rows(user: User) -> list[str]:
    """The rows of the tree, as far as they are on the screen."""
    width = 60 if user.app.size.width > 100 else 80
    lines = [line[:width].rstrip("▁▂▃▄▅▆▇█│ ") for line in user.lines[1:]]
    end = next(number for number, line in enumerate(lines) if not line or line.startswith("──"))
    return [line.strip() for line in lines[:end]]


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_tree_has_a_row_for_each_message(tea: Tea, size: tuple[int, int]) -> None:
    """The line to where the session stands is straight, and the cursor is there; other branches stand beside it."""
    async with browsing(tea.store, size=size, session=(tea.store, "tea")) as user:
        shown = rows(user)
        assert shown.pop(4).startswith("│ (main) tool: line 0 of the result line 1 of the re")
        assert shown == [
            "user: why is the total wrong?",
            "assistant: it rounds twice",
            "user: fix it",
            '├─assistant: one way → edit {"path":"a.py"}',
            "(other) assistant: another way",
        ]
        assert "Too much tea  on other  default  7 nodes" in user.lines[0]
        assert f"assistant  …{tea.second[-8:]}" in user.screen
        assert max(map(len, user.lines)) <= size[0]


FILTERS = {
    "user-only": ("ctrl+u", "alt+u", ["user: why", "user: fix", "(other)"]),
    "no-tools": ("ctrl+t", "alt+t", ["user: why", "assistant: it", "user: fix", "├─assistant: one", "(other)"]),
    "labeled-only": ("ctrl+l", "alt+l", ["(other)"]),
    "all": (
        "ctrl+a",
        "alt+a",
        ["user: why", "assistant: it", "model_change: model", "user: fix", "├─assistant: one", "│ (main)", "(other)"],
    ),
}
"""The key of pi and that of oh-my-pi, and how the rows that are left begin."""


async def test_the_filters_have_the_keys_of_pi_and_of_omp(tea: Tea) -> None:
    """Where the session stands is always shown; the same key again takes a filter back."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        for mode, (pi, omp, expected) in FILTERS.items():
            await user.press(pi)
            assert f"  {mode}  " in user.lines[0]
            assert [row[: len(begin)] for row, begin in zip(rows(user), expected, strict=True)] == expected
            await user.press(omp)
            assert "  default  " in user.lines[0]


async def test_ctrl_o_goes_through_the_filters(tea: Tea) -> None:
    """In the order of pi, and back."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        for mode in ("no-tools", "user-only", "labeled-only", "all", "default"):
            await user.press("ctrl+o")
            assert f"  {mode}  " in user.lines[0]
        await user.press("ctrl+shift+o")
        assert "  all  " in user.lines[0]


async def test_a_branch_is_folded_into_its_first_row(tea: Tea) -> None:
    """The row says how many are hidden; the keys are those of pi."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("up", "ctrl+left")
        assert rows(user)[3:] == ['├─+1 assistant: one way → edit {"path":"a.py"}', "(other) assistant: another way"]
        await user.press("ctrl+right")
        assert len(rows(user)) == 6
        await user.press("home", "alt+right", "alt+left")
        assert len(rows(user)) == 5  # the cursor went to the branch, which is folded again
        await user.press("alt+left", "alt+left")
        assert rows(user) == ["+6 user: why is the total wrong?"]


async def test_the_cursor_moves_by_rows_screens_and_turns(tea: Tea) -> None:
    """With arrows, with `j` and `k`, and as in oh-my-pi past what tools said."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:

        async def at(*keys: str) -> str:
            await user.press(*keys)
            return next(line.split()[1] for line in user.lines[13:] if "2026-" in line or "…" in line)

        short = {name: f"…{getattr(tea, name)[-8:]}" for name in ("question", "answer", "again", "first", "second")}
        assert await at("k") == short["first"]
        assert await at("k", "alt+down") == short["second"]
        assert await at("alt+up", "alt+up") == short["again"]
        assert await at("left") == short["question"]
        assert await at("j") == short["answer"]
        assert await at("right") == short["second"]
        assert await at("home", "up") == short["question"]


async def test_enter_shows_the_conversation_down_to_the_node(tea: Tea) -> None:
    """Calls and results are folded until Ctrl-O; escape leads back."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("up", "enter")
        assert "conversation down to" in user.lines[0]
        assert "1/2" in user.screen  # the first of two ways
        assert "another way" not in user.screen
        assert "... 14 more lines" in user.screen
        await user.press("ctrl+o", "end")
        assert "line 19 of the result" in user.screen
        await user.press("escape")
        assert "(main) tool" in user.screen


async def test_c_shows_what_the_model_sees_at_the_node(tea: Tea) -> None:
    """Only that, and not what came later."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "down", "c")
        assert "what the model sees at" in user.lines[0]
        assert "it rounds twice" in user.screen
        assert "fix it" not in user.screen


async def test_d_compares_the_mark_with_the_node(tea: Tea) -> None:
    """Without a mark the node is compared with where the session stands."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "down", "d")
        assert f"from …{tea.answer[-8:]} to where the session stands" in user.screen
        assert "~ state step = 1 -> 2" in user.screen
        await user.press("escape", "m", "end", "d")
        assert f"from …{tea.answer[-8:]} to …{tea.second[-8:]}" in user.screen
        assert "+ item" in user.screen
        await user.press("escape", "home", "down", "m")
        assert "mark" not in user.lines[0]


async def test_the_label_of_a_checkpoint_is_not_the_nodes(tea: Tea) -> None:
    """It is shown at the node, but what is asked for is the label of the node, which has none."""
    with tea.store.session("milk") as session:
        session.commit(["oat?"], label="good")
        (node,) = session.path()
    async with browsing(tea.store, session=(tea.store, "milk")) as user:
        assert rows(user)[0] == "(main) [good] user: oat?"
        await user.press("l", "enter")
        assert rows(user)[0] == "(main) [good] user: oat?"
    assert node not in tea.store.view("milk").labels()


async def test_l_labels_the_node(tea: Tea) -> None:
    """The label is asked for, recorded and shown; an empty one removes it."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "l", *"key", "enter")
        assert rows(user)[0] == "[key] user: why is the total wrong?"
        assert f"labelled …{tea.question[-8:]}: key" in user.screen
        assert tea.store.view("tea").labels() == {tea.question: "key"}
        await user.press("L", "backspace", "backspace", "backspace", "enter")
        assert "removed the label" in user.screen
    assert tea.store.view("tea").labels() == {}


async def test_escape_at_a_question_writes_nothing(tea: Tea) -> None:
    """Neither does an empty name."""
    before = tea.store.view("tea").heads
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        for keys in (["b", "x", "escape"], ["f", "enter"], ["r", "n"]):
            await user.press(*keys)
            assert ("nothing was written" in user.screen) == (keys[0] != "r")
    assert tea.store.view("tea").heads == before


async def test_b_branches_at_the_node(tea: Tea) -> None:
    """The session goes on there, and the line to it is straight now."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "down", "b", *"third", "enter")
        assert "branch 'third' begins at" in user.screen
        assert "on third" in user.lines[0]
        assert "(third) assistant: it rounds twice" in user.screen
    view = tea.store.view("tea")
    assert (view.head, view.node) == ("third", tea.answer)
    assert view.heads["other"] == tea.second


async def test_r_goes_back_to_the_node(tea: Tea) -> None:
    """State and context are those of that time; nothing is lost."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "down", "r")
        assert "go back to" in user.screen
        await user.press("enter")
        assert "'other' stands at" in user.screen
    view = tea.store.view("tea")
    assert (view.head, view.node, dict(view.state)) == ("other", tea.answer, {"step": 1})
    assert len(view.nodes()) == 7


async def test_s_goes_on_at_the_head_on_the_node(tea: Tea) -> None:
    """Where no other head stands, it says what to do instead."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("s")
        assert "no other head stands here" in user.screen
        await user.press("up", "s")
        assert "the session goes on at 'main'" in user.screen
    assert tea.store.view("tea").node == tea.first


async def test_f_makes_a_session_of_the_path_to_the_node(tea: Tea) -> None:
    """A name that is taken is refused, with what to do."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home", "f", *"cup", "enter")
        assert "session 'cup' has the path to" in user.screen
        await user.press("f", *"cup", "enter")
        assert "session 'cup' exists" in user.screen
        assert "choose another name" in user.words
    assert tea.store.view("cup").path() == (tea.question,)


async def test_a_session_that_another_one_holds_is_said_to_be(tea: Tea) -> None:
    """Who has it, and what to do; what was shown stays."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        with tea.store.session("tea", create=False):
            await user.press("home", "l", "x", "enter")
            assert "already held. holder='pid" in user.words
            assert "wait until it is closed there; reading commands work meanwhile" in user.words
            assert "user: why is the total wrong?" in user.screen
        await user.press("l", "x", "enter")
        assert "labelled" in user.screen


async def test_y_offers_the_node_as_well(tea: Tea) -> None:
    """Ids are in full."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("y", "end", "enter")
        await user.press("q")
        assert user.app.return_value == tea.second


async def test_looking_writes_nothing(tea: Tea) -> None:
    """Every screen that reads leaves the journal as it was."""
    before = list(tea.store.view("tea").lines())
    async with browsing(tea.store) as user:
        await user.press(
            "enter", "home", "enter", "escape", "c", "escape", "d", "escape", "ctrl+o", "f5", "question_mark"
        )
        assert "r Rewind" in user.words
        await user.press("escape", "escape")
        assert "Too much tea" in user.lines[2]
    assert list(tea.store.view("tea").lines()) == before


async def test_what_others_recorded_is_shown_by_f5(tea: Tea) -> None:
    """The cursor stays at its node."""
    async with browsing(tea.store, session=(tea.store, "tea")) as user:
        await user.press("home")
        with tea.store.session("tea") as session:
            session.append("one more thing")
        await user.press("f5")
        assert "one more thing" in user.screen
        await user.press("enter")
        assert "why is the total wrong?" in user.screen
        assert "one more thing" not in user.screen


async def test_an_empty_session_and_one_that_is_gone(tea: Tea) -> None:
    """A session without a node has an empty tree; one that is gone is an error that says so."""
    with tea.store.session("empty") as session:
        session.set_title("nothing yet")
    async with browsing(tea.store, session=(tea.store, "empty")) as user:
        assert "0 nodes" in user.lines[0]
        await user.press("enter", "c", "d", "l", "b", "r", "s", "ctrl+left", "ctrl+right", "alt+up", "m")
        assert user.app.is_running
    async with browsing(tea.store, session=(tea.store, "gone")) as user:
        assert "no such session" in user.screen or "there is no session" in user.screen
        await user.press("enter", "f5")
        assert user.app.is_running
