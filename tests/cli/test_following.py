"""`follow` prints what happens in a session, and goes on where it was; `--as-of` shows what the session was then."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
from typing import Any

import pytest
from tests.cli.conftest import Program, Recorded
from tests.cli.test_reference import fields

import treering


def lines(program: Program, *arguments: object) -> list[dict[str, Any]]:
    """The documents that `follow --json` prints."""
    return [json.loads(line) for line in program("follow", *arguments, "--json").out.splitlines()]


def test_from_the_first_record(recorded: Recorded) -> None:
    """Each event is a document on a line: what the feed of the library yields."""
    view = recorded.store.view("tea")
    end = view.stored().records
    told = [event for _, event in zip(range(end), view.events(first=0), strict=False)]
    found = recorded.program("follow", "tea", "--first", 0, "--limit", end, "--json")
    assert found.out.encode().splitlines() == [treering.to_json(event) for event in told]
    assert {event["type"] for event in map(json.loads, found.out.splitlines())} >= {
        "node",
        "note",
        "head",
        "checkpoint",
    }
    assert all(set(event) == fields("EVENT") for event in map(json.loads, found.out.splitlines()))


def test_in_a_pipe(recorded: Recorded) -> None:
    """A line for each event: position, time, type, kind, id, text and cursor."""
    with recorded.store.session("tea") as session:
        session.amend(recorded.answer, treering.assistant("it rounds once").payload)
        session.retract(recorded.first)
        session.unretract(recorded.first)
        end = session.stored().records
        session.erase(recorded.question, state=["plan"], reason="an address")
    rows = recorded.program("follow", "tea", "--first", 0, "--limit", end + 1).rows
    assert {len(row) for row in rows} == {7}
    assert [int(row[0]) for row in rows] == [*range(end), end]
    said = [row[2:6] for row in rows]
    assert ["node", "assistant", recorded.answer, "it rounds twice"] in said
    assert ["checkpoint", "main", recorded.green, "green"] in said
    assert ["note", "label", recorded.again, '{"label":"turning point"}'] in said
    assert ["head", "other", recorded.again, "current"] in said
    assert ["edit", "amend", recorded.answer, "it rounds once"] in said
    assert ["edit", "retract", recorded.first, ""] in said
    assert ["edit", "undo retract", recorded.first, ""] in said
    assert said[-1][0] == "erasure"
    assert recorded.question in said[-1][2]
    assert said[-1][3] == "state plan, an address"
    assert rows[0][1].endswith("Z")


def test_goes_on_behind_a_cursor(recorded: Recorded) -> None:
    """Nothing twice and nothing left out, and at last the deletion."""
    first = lines(recorded.program, "tea", "--first", 0, "--limit", 3)
    assert [event["at"] for event in first] == [0, 1, 2]
    (row,) = recorded.program("follow", "tea", "--after", first[1]["after"], "--limit", 1).rows
    assert row[0] == "2"
    end = lines(recorded.program, "tea", "--first", 0, "--limit", recorded.store.view("tea").stored().records)[-1]
    recorded.store.delete("tea")
    with recorded.store.session("tea") as session:
        session.append("another session of the name")
    (event,) = lines(recorded.program, "tea", "--after", end["after"])
    assert (event["type"], event["value"]) == ("deletion", None)
    done = recorded.program("follow", "tea", "--after", end["after"])
    assert done.rows[0][2:6] == ["deletion", "", "", ""]
    assert "another session of this name" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("tea", "--after", "nonsense"), 2, "nonsense"),
        (("tea", "--after", "0-0-x", "--first", "0"), 2, "--first and --after"),
        (("tea", "--first", "-1"), 2, "--first"),
        (("tea", "--poll", "0"), 2, "--poll"),
        (("milk",), 3, "'milk'"),
    ],
)
def test_no_place_to_begin(recorded: Recorded, arguments: tuple[str, ...], code: int, said: str) -> None:
    """The error says what is wrong, and nothing is waited for."""
    done = recorded.program("follow", *arguments, code=code)
    assert said in done.err
    assert done.out == ""


@pytest.mark.parametrize("form", [("--json",), ()])
def test_ctrl_c(recorded: Recorded, form: tuple[str, ...]) -> None:
    """It waits for what comes, shows it at once, and is ended by Ctrl-C, which says how to go on there."""
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = recorded.program.start("follow", "tea", "--poll", "0.05", "--first", 0, *form)
    finally:
        signal.signal(signal.SIGINT, ours)
    assert process.stdout is not None
    shown = b""
    count = recorded.store.view("tea").stored().records
    while shown.count(b"\n") < count:
        assert select.select([process.stdout], [], [], 60)[0]
        shown += os.read(process.stdout.fileno(), 65536)
    with recorded.store.session("tea") as session:
        session.append("one more")
    while shown.count(b"\n") <= count:
        assert select.select([process.stdout], [], [], 60)[0]
        shown += os.read(process.stdout.fileno(), 65536)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert shown.endswith(b"\n")
    _, told, word = err.decode().splitlines()  # of which the first goes behind `^C`
    assert (rest, word) == (b"", "interrupted")
    cursors = [json.loads(line)["after"] if form else line.split("\t")[-1] for line in shown.decode().splitlines()]
    *command, cursor, name = shlex.split(told.removeprefix("go on: "))
    assert (command, name) == (["treering", "--store", str(recorded.program.store), "follow", "--after"], "tea")
    assert cursor in cursors[-2:]  # it may have been interrupted behind a line and before it knew so
    with recorded.store.session("tea") as session:
        session.append("and another")
    (event,) = lines(recorded.program, "tea", "--after", cursors[-1], "--limit", 1)
    assert event["value"]["payload"]["content"] == "and another"


def test_on_a_terminal(recorded: Recorded) -> None:
    """A terminal gets short ids, and no cursors."""
    out = recorded.program.on_terminal("follow", "tea", "--first", 0, "--limit", 2).out
    assert recorded.question not in out
    assert recorded.question[-8:] in out
    assert "why is the total wrong?" in out


COMMANDS = [
    ("log",),
    ("show",),
    ("context",),
    ("context", "--recorded"),
    ("tree",),
    ("tree", "--text"),
    ("checkpoints",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_as_of_a_position(recorded: Recorded, command: tuple[str, ...]) -> None:
    """What a command prints of the session as it was is what it printed then."""
    program, name, *options = recorded.program, *command
    before = program.json(name, "tea", *options)
    records = recorded.store.view("tea").stored().records
    with recorded.store.session("tea") as session:
        session.label(recorded.question, "late")
        session.amend(recorded.second, treering.assistant("amended").payload)
        session.commit(["later"], state={"step": 3})
        session.switch("main")
    now, then = program.json(name, "tea", *options), program.json(name, "tea", *options, "--as-of", records)
    assert now != before
    for document in (before, then):
        document.get("session", {}).pop("updated_ms", None)  # of a record then, of the card before
    assert then == before


def test_as_of_a_node_or_checkpoint(recorded: Recorded) -> None:
    """A node, a checkpoint or a label stands for the moment at which it was recorded."""
    program = recorded.program
    rows = program("log", "tea", "--as-of", recorded.answer).rows
    assert [row[0] for row in rows] == [recorded.question, recorded.answer]
    assert program("log", "tea", "--as-of", "turning point").rows[-1][0] == recorded.again
    assert dict(program("show", "tea", "--as-of", recorded.answer[-8:]).rows)["context"] == "2 items"
    assert program.json("show", "tea", "--as-of", "green")["state"] == {"step": 1, "plan": ["look"]}
    assert program.json("show", "tea", "--as-of", "green")["head"] == "main"
    assert program.json("show", "tea", recorded.question, "--as-of", "1")["node"]["label"] is None
    assert program.json("context", "tea", "--as-of", "0")["items"] == []
    assert program("log", "tea", "--as-of", "0").out == ""
    assert program.json("tree", "tea", "--as-of", "0") == {"rows": []}


def test_as_of_an_id_of_digits(program: Program) -> None:
    """A number that the session cannot have had as records is the end of an id; a smaller one is never."""
    with treering.open(program.store).session("s") as session:
        for number in range(3):
            session.append(treering.user(f"say {number}", id=f"a7f{number}-4444{number}"))
    assert [row[4] for row in program("log", "s", "--as-of", "44441").rows] == ["say 0", "say 1"]
    assert [row[4] for row in program("log", "s", "--as-of", "1").rows] == ["say 0"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("log", "tea", "--as-of", "99"), 2, "no such position. position=99"),
        (("log", "tea", "--as-of", "9" * 5000), 3, "9999"),
        (("log", "tea", "--as-of", "-1"), 3, "'-1'"),
        (("log", "tea", "--as-of", "nothing"), 3, "'nothing'"),
        (("show", "tea", "turning point", "--as-of", "1"), 3, "'turning point'"),
        (("log", "tea", "--as-of", "1", "--head", "other"), 3, "other"),
    ],
)
def test_no_such_moment(recorded: Recorded, arguments: tuple[str, ...], code: int, said: str) -> None:
    """The error says what there is not; what came later is not there."""
    assert said in recorded.program(*arguments, code=code).err


def test_as_of_where_the_checkpoint_was_pruned(recorded: Recorded) -> None:
    """The state of that time is not made up."""
    with recorded.store.session("tea") as session:
        at = session.stored().records
        session.commit(["later"], state={"step": 3})
        session.prune(treering.KeepCheckpoints(last=1))
    done = recorded.program("show", "tea", "--as-of", at, code=3)
    assert "pruned" in done.err
