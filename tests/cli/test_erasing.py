"""`treering erase`: payloads by node, state by key, and what is said of it afterwards."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Program
from tests.session.at_rest import holding
from tests.session.backends import files_below

import treering

SECRET = "swordfish"


@pytest.fixture
def told(program: Program) -> Program:
    """A session that has a secret in a message, in a key of its state and in its manager's."""
    with treering.open(program.store).session("s") as session:
        session.commit([SECRET], state={"token": SECRET, "step": 1}, manager=[SECRET], label="first")
        session.commit(["next"], state={"step": 2})
    return program


def stored_in(program: Program) -> dict[str, bytes]:
    """All that is stored, but for who holds a session."""
    return {key: data for key, data in files_below(program.store).items() if not key.endswith("/hold")}


def test_state_is_erased_by_key_and_shown_as_erased(told: Program) -> None:
    """The session, the checkpoint and whoever goes back to it say so; the rest stays."""
    node = treering.open(told.store).view("s").path()[0]
    receipt = told.json("erase", "s", node, "--state", "token", "--manager", "--reason", "leaked", "--yes")
    assert (receipt["ids"], receipt["state"]) == ([node], ["token", None])
    assert holding(files_below(told.store), SECRET) == []
    assert "erased" in dict(row[:2] for row in told("show", "s").rows)["state token"]
    shown = told.json("show", "s", "first")["checkpoint"]
    assert shown["state"] == {"step": 1}
    assert [(each["key"], each["reason"]) for each in shown["erased_state"]] == [("token", "leaked"), (None, "leaked")]
    assert "state was erased: token" in told("rewind", "s", "first").err
    assert told.json("show", "s")["state"] == {"step": 1}


def test_nothing_is_erased_unless_somebody_agrees(told: Program) -> None:
    """The question names what would go; a key that is not there is an error of its own."""
    before = stored_in(told)
    done = told.on_terminal("erase", "s", "--state", "token", answer="n\n")
    assert done.code == 130
    assert "all values of 'token' of s" in done.out
    assert "no checkpoint holds such a key" in told("erase", "s", "--state", "tokem", "--yes", code=3).err
    assert stored_in(told) == before
    assert told.on_terminal("erase", "s", "--state", "token", answer="y\n").code == 0


@pytest.mark.parametrize("days", ["1e300", "inf", "nan", "-1", "x"])
def test_what_is_no_age_purges_nothing(told: Program, days: str) -> None:
    """A number of days that is none, or longer than any time, is a wrong command."""
    told("rm", "s", "--yes")
    assert "--older-than" in told("purge", "--older-than", days, "--yes", code=2).err
    assert told.json("purge", "--older-than", "1000000", "--yes")["purged"] == []


def test_the_whole_id_of_a_note_counts_more_than_a_part_of_a_node(program: Program) -> None:
    """What was named is erased, and nothing that is only like it."""
    node = treering.Draft(role="user", payload={"role": "user", "content": "keep"}, id="plan-0001")
    note = treering.Draft(type="note", kind="memo", payload={"memo": SECRET}, id="plan")
    with treering.open(program.store).session("s") as session:
        session.append(node, note)
    assert program.json("erase", "s", "plan", "--yes")["ids"] == ["plan"]
    assert holding(files_below(program.store), SECRET) == []
    assert treering.open(program.store).view("s").get("plan-0001").payload["content"] == "keep"
    assert program.json("erase", "s", "0001", "--yes")["ids"] == ["plan-0001"]
