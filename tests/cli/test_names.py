from __future__ import annotations

import pytest
from tests.cli.conftest import Program, Recorded

import treering
from treering.cli.names import find_checkpoint, find_node, find_point
from treering.errors import NotFoundError, UsageError


def test_part_of_an_id(recorded: Recorded) -> None:
    """The beginning or the end of an id names it, as does the shortened form that a terminal shows."""
    view = recorded.store.view("tea")
    for text in (recorded.answer, recorded.answer[-8:], "…" + recorded.answer[-8:], recorded.answer[:31]):
        assert find_node(view, text) == recorded.answer


def test_words(recorded: Recorded) -> None:
    """Labels and heads name nodes, labels also checkpoints."""
    view = recorded.store.view("tea")
    assert find_point(view, "turning point") == ("node", recorded.again)
    assert find_point(view, "green") == ("checkpoint", recorded.green)
    assert find_node(view, "other") == recorded.second


def test_one_stands_for_the_other(recorded: Recorded) -> None:
    """Where a node is wanted a checkpoint stands for its node, and the other way round."""
    view = recorded.store.view("tea")
    assert find_node(view, "green") == recorded.answer
    assert find_checkpoint(view, recorded.answer) == recorded.green
    with pytest.raises(NotFoundError, match="no checkpoint was made at this node"):
        find_checkpoint(view, recorded.question)


def test_ambiguous_part(recorded: Recorded) -> None:
    """A part that fits several ids is refused, and the candidates are listed."""
    view = recorded.store.view("tea")
    with pytest.raises(UsageError, match="more than one") as caught:
        find_point(view, recorded.question[:6])
    assert recorded.question in str(caught.value)


def test_ambiguous_label(recorded: Recorded) -> None:
    """A label given twice is refused as well."""
    with recorded.store.session("tea") as session:
        session.label(recorded.question, "green")
    with pytest.raises(UsageError, match=recorded.question):
        find_point(recorded.store.view("tea"), "green")


def test_exact_wins(program: Program) -> None:
    """An id that is also the beginning of another one names its own node; so does a foreign one of few characters."""
    store = treering.open(program.store)
    drafts = [treering.Draft(role="user", payload={}, id=name, parent=None) for name in ("abcd", "abcdef", "x")]
    store.load("s", drafts, leaf=lambda: "x")
    view = store.view("s")
    assert [find_node(view, name) for name in ("abcd", "abcdef", "x", "cdef")] == ["abcd", "abcdef", "x", "abcdef"]


def test_too_short(recorded: Recorded) -> None:
    """Fewer than four characters are never taken for a part of an id."""
    with pytest.raises(NotFoundError):
        find_point(recorded.store.view("tea"), recorded.answer[-3:])


def test_session_by_part(program: Program) -> None:
    """A session is found by the end of its name, and by a part of several names it is not."""
    store = treering.open(program.store)
    for name in ("2026-alpha", "2026-beta"):
        with store.session(name) as session:
            session.append("hello")
    assert program.json("show", "-alpha"[1:])["session"]["id"] == "2026-alpha"
    assert program.json("branch", "beta", "idea")["session"] == "2026-beta"
    assert "2026-alpha, 2026-beta" in program("show", "2026", code=2).err
    assert "no-such" in program("show", "no-such", code=3).err


@pytest.mark.parametrize("command", [("show",), ("branch", "x"), ("rm", "--yes"), ("verify",), ("stats",)])
def test_a_typing_error_tells_the_nearest_names(program: Program, command: tuple[str, ...]) -> None:
    """A name that is not there is an error, and what was meant is told; nothing is made or deleted."""
    store = treering.open(program.store)
    for name in ("fix-login", "Fix-logic", "something-else"):
        with store.session(name) as session:
            session.append("hello")
    verb, *rest = command
    told = program(verb, "fix-logn", *rest, code=3).err
    assert "there is no session 'fix-logn'" in told
    assert "did you mean" in told
    assert "'fix-login'" in told
    assert "'Fix-logic'" in told
    assert "something-else" not in told
    assert "`treering ls` lists all sessions" in program(verb, "quite-another", *rest, code=3).err
    assert len(store.sessions().rows) == 3


def test_odd_session_names(program: Program) -> None:
    """Any name that can be stored can be typed: slashes, dots, emoji."""
    for name in ("org/42", "..", "🌲 rings", "a" * 2000):
        with treering.open(program.store).session(name) as session:
            session.append("hello")
        assert program.json("show", name)["session"]["id"] == name
