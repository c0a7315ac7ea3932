"""Commands look into namespaces: what they list can be typed back, and nothing below is deleted unasked."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Program

import treering
from treering.api.store import Store

LONG = "-home-" + "/a/long/path" * 20
"""Stored as a hash."""
PARTS: list[tuple[str, ...]] = [(), ("ann",), ("-Users-ann-shop",), ("ann", "-work tree"), (LONG,)]


def inside(store: Store, names: tuple[str, ...]) -> Store:
    """The part of a store in some namespaces."""
    for name in names:
        store = store.namespace(name)
    return store


@pytest.fixture
def filled(program: Program, tmp_path: Path) -> Program:
    """A store with a session of its own name in each of some namespaces, and `twice` in two of them."""
    store = treering.open(program.store)
    for number, names in enumerate(PARTS):
        with inside(store, names).session(f"session-{number}", project=f"p{number}", cwd=str(tmp_path)) as session:
            session.commit([f"prompt {number}", treering.assistant("answer")], state={"n": number})
    for names in PARTS[1:3]:
        with inside(store, names).session("twice") as session:
            session.append("hello")
    return program


def ids(number: int) -> list[str]:
    """What a list of sessions with this number says first."""
    return [f"session-{number}"]


def options(row: dict[str, list[str]]) -> list[str]:
    """What to type for the namespace of a document."""
    return [f"--namespace={name}" for name in row["namespace"]]


def test_what_is_listed_can_be_typed_back(filled: Program) -> None:
    """The name alone is enough if it is the only one; with the namespaces it always is."""
    rows = filled.json("ls")["sessions"]
    assert len(rows) == 7
    assert {tuple(row["namespace"]) for row in rows} >= set(PARTS[:4])
    for row in rows:
        assert filled.json("show", row["id"], *options(row))["session"] == row
        if row["id"] == "twice":
            continue
        assert filled.json("show", row["id"])["session"] == row
        for command in ("log", "context", "tree", "checkpoints", "stats", "verify", "export", "seal"):
            filled(command, row["id"])
        filled("branch", row["id"], "other")
        filled("rewind", row["id"], row["node"])
        filled("fork", row["id"], f"fork-of-{row['id']}")
        assert filled.json("show", f"fork-of-{row['id']}")["session"]["namespace"] == row["namespace"]
        filled("copy", row["id"], "--name", f"copy-of-{row['id']}")
        assert filled.json("show", f"copy-of-{row['id']}", *options(row))["session"]["title"] == ""


def test_a_name_that_several_have_is_asked_back(filled: Program) -> None:
    """Each name is printed as it can be typed; sessions of the chosen namespace come first."""
    done = filled("show", "twice", code=2)
    assert "--namespace=-Users-ann-shop twice" in done.err
    assert "--namespace=ann twice" in done.err
    assert filled.json("show", "twice", "--namespace", "ann")["session"]["namespace"] == ["ann"]


def test_it_is_said_where_a_session_was_found(filled: Program) -> None:
    """Part of a name is enough, as in the namespace in hand; options are told as a shell takes them."""
    done = filled("show", "ssion-3")
    assert f"in {shlex.join(['--namespace=ann'])} --namespace={shlex.quote('-work tree')}" in done.err
    assert ["namespace", "ann > -work tree"] in done.rows
    assert "in --namespace" not in filled("show", "session-0").err


def test_pages_and_filters(filled: Program) -> None:
    """One order for all."""
    everything = [row["id"] for row in filled.json("ls", "--all")["sessions"]]
    page = filled.json("ls", "--limit", 3)
    rest = filled.json("ls", "--after", page["after"])
    assert [row["id"] for row in page["sessions"] + rest["sessions"]] == everything
    assert [row["id"] for row in filled.json("ls", "--project", "p3")["sessions"]] == ids(3)
    assert {row["id"] for row in filled.json("ls", "--namespace", "ann")["sessions"]} == {
        "session-1", "session-3", "twice",
    }  # fmt: skip


def test_verify_and_stats_look_at_everything(filled: Program) -> None:
    """Damage in a namespace is found, and told with it."""
    assert "checked 7 sessions, 6 of them in 4 namespaces: sound" in filled("verify").err
    assert len(filled.json("stats")["sessions"]) == 7
    assert {tuple(row["namespace"]) for row in filled.json("stats")["sessions"]} >= set(PARTS[:4])
    (tail,) = (filled.store / "ns/ann/ns").rglob("tail.jsonl")
    tail.write_bytes(b"nonsense")
    done = filled("verify", code=6)
    assert done.rows[0][0] == "session-3"
    assert done.rows[0][-1] == "ann > -work tree"


def test_search_finds_in_all(filled: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit says its namespace; an index of one's own is of one namespace, and that is said."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    hits = filled.json("search", "prompt")["hits"]
    assert {(hit["session"], *hit["namespace"][:1]) for hit in hits} >= {("session-0",), ("session-3", "ann")}
    assert len(hits) == 5
    assert len(filled.json("search", "prompt", "--limit", 2)["hits"]) == 2
    assert [row[0] for row in filled("search", "prompt", "--session", "session-3").rows] == ids(3)
    newest = [hit["time_ms"] for hit in filled.json("search", "--newest", "prompt")["hits"]]
    assert newest == sorted(newest, reverse=True)
    done = filled("search", "prompt", "--index", tmp_path / "index")
    assert [row[0] for row in done.rows] == ids(0)
    assert "4 namespaces in this store not searched" in done.err


def test_continue_takes_the_last_one_wherever_it_is(filled: Program, tmp_path: Path) -> None:
    """And says how to open it from a program."""
    with inside(treering.open(filled.store), PARTS[3]).session("session-3") as session:
        session.append("the last word")
    done = filled("continue", "--cwd", tmp_path, "--message", "go on")
    assert ["session", "session-3"] in done.rows
    (opened,) = (row[1] for row in done.rows if row[0] == "open")
    with eval(opened) as session:  # what the user is told to type
        assert session.context[-1].message["content"] == "go on"
    said = filled.json("continue", "--cwd", tmp_path, "--dry-run")
    assert (said["session"], said["namespace"]) == ("session-3", ["ann", "-work tree"])


def test_a_long_name_is_opened_by_what_stands_for_it(filled: Program, tmp_path: Path) -> None:
    """Its hash, as lists show it."""
    done = filled("continue", "--project", "p4", "--cwd", tmp_path)
    (opened,) = (row[1] for row in done.rows if row[0] == "open")
    with eval(opened) as session:  # what the user is told to type
        assert session.id == "session-4"


def test_nothing_below_is_deleted_unasked(filled: Program) -> None:
    """`rm` and `erase` say where it is; `retain` and `purge` say how many namespaces they left alone."""
    for arguments in (("rm", "session-1", "--yes"), ("erase", "session-1", "--state", "n", "--yes")):
        done = filled(*arguments, code=3)
        assert "did you mean --namespace=ann session-1?" in done.err
    done = filled("retain", "--keep-newest", 1, "--min-idle", "0h", "--yes")
    assert [row[0] for row in done.rows] == ids(0)
    assert "4 namespaces in this store left alone: --all-namespaces" in done.err
    assert "4 namespaces in this store left alone" in filled("purge", "--yes").err
    assert len(filled.json("ls")["sessions"]) == 7
    filled("rm", "session-1", "--namespace", "ann", "--yes")
    assert len(filled.json("ls")["sessions"]) == 6


def test_retain_and_purge_everywhere(filled: Program) -> None:
    """The newest of each namespace stay."""
    arguments = ("retain", "--keep-newest", 1, "--min-idle", "0h", "--all-namespaces")
    planned = filled.json(*arguments, "--dry-run")
    gone = [(row["session"], row["namespace"]) for row in planned["rows"] if row["action"] == "delete"]
    assert sorted(gone) == [("session-1", ["ann"]), ("session-2", ["-Users-ann-shop"])]
    done = filled(*arguments, "--yes")
    assert "left alone" not in done.err
    assert len(filled.json("ls")["sessions"]) == 5
    assert sorted(filled.json("purge", "--all-namespaces", "--yes")["purged"]) == ["session-1", "session-2"]
    filled("purge", "session-1", "--all-namespaces", "--yes", code=2)


def test_a_misspelt_name_tells_those_below_as_they_are_typed(filled: Program) -> None:
    """The nearest ones come with their namespaces."""
    done = filled("show", "sesion-1x", code=3)
    assert "--namespace=ann session-1" in done.err


def test_copying_into_a_namespace(filled: Program, tmp_path: Path) -> None:
    """The target may be inside another one."""
    filled("copy", "session-0", "--target-namespace", "bob", "--target-namespace", "-in")
    filled("copy", "session-3", tmp_path / "other", "--target-namespace", "bob")
    assert filled.json("show", "session-0", "--namespace=bob", "--namespace=-in")["session"]["project"] == "p0"
    other = Program(tmp_path / "other")
    assert other.json("ls")["sessions"][0]["namespace"] == ["bob"]


def test_repairing_stays_in_the_namespace(filled: Program) -> None:
    """The new session lies beside the damaged one."""
    filled("repair", "session-3", "--into", "mended")
    assert filled.json("show", "mended")["session"]["namespace"] == ["ann", "-work tree"]


def test_backing_up_single_sessions_keeps_their_namespaces(filled: Program, tmp_path: Path) -> None:
    """Each has the place in the backup that it has in the store."""
    done = filled.json("backup", tmp_path / "backup", "session-0", "session-3")
    assert [(row["name"], row["namespace"]) for row in done["rows"]] == [
        ("session-0", []), ("session-3", ["ann", "-work tree"]),
    ]  # fmt: skip
    copied = Program(tmp_path / "backup").json("ls")["sessions"]
    assert sorted((row["id"], row["namespace"]) for row in copied) == [
        ("session-0", []), ("session-3", ["ann", "-work tree"]),
    ]  # fmt: skip
