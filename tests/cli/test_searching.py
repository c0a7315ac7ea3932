from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Program, Recorded

import treering
from treering.cli.searching import KINDS
from treering.search import texts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "cache"


def test_rows(recorded: Recorded) -> None:
    """A pipe gets one line a hit, with everything in full."""
    (row,) = recorded.program("search", "total", "wrong").rows
    assert row[:2] == ["tea", recorded.question]
    assert row[2].endswith("Z")
    assert row[3:] == ["user", "prompt", "shop", "Too much tea", "0", "why is the total wrong?", ""]


def test_jump(recorded: Recorded) -> None:
    """The node of a row is taken wherever a node is wanted."""
    (hit,) = recorded.program.json("search", "rounds")["hits"]
    run = recorded.program.json
    assert run("show", hit["session"], hit["node"])["node"]["payload"]["content"] == "it rounds twice"
    assert run("log", hit["session"], "--node", hit["node"])["nodes"][-1]["id"] == hit["node"]
    assert run("branch", hit["session"], "again", "--at", hit["node"])["node"] == hit["node"]
    assert run("rewind", hit["session"], hit["node"])["node"] == hit["node"]


def test_prompts(recorded: Recorded) -> None:
    """Without words --prompts is a history, the newest first."""
    assert [row[8] for row in recorded.program("search", "--prompts").rows] == ["fix it", "why is the total wrong?"]


def test_filters(recorded: Recorded, tmp_path: Path) -> None:
    """Each filter narrows a search."""
    search = recorded.program.json
    assert len(search("search", "--project", "shop", "--cwd", tmp_path, "--session", "tea")["hits"]) > 3
    assert search("search", "--project", "bar")["hits"] == []
    assert search("search", "--cwd", "/")["hits"] == []
    assert search("search", "--since", "1h", "--until", "2020-01-31")["hits"] == []
    assert len(search("search", "--since", "2020-01-31T12:00", "fix")["hits"]) == 1
    assert [hit["kind"] for hit in search("search", "--kind", "call", "edit")["hits"]] == ["call"]
    assert [hit["role"] for hit in search("search", "--role", "branch_summary")["hits"]] == ["branch_summary"]
    assert len(search("search", "--limit", 1, "--newest", "it")["hits"]) == 1


def test_where_the_index_is(recorded: Recorded, cache: Path, tmp_path: Path) -> None:
    """The index lies in the cache folder, or in the file that is named; never in the store."""
    before = sorted(recorded.program.store.rglob("*"))
    recorded.program("search", "total")
    assert len(list(cache.rglob("*.sqlite"))) == 1
    recorded.program("search", "total", "--index", tmp_path / "mine")
    assert (tmp_path / "mine").exists()
    assert sorted(recorded.program.store.rglob("*")) == before


def test_no_update(recorded: Recorded) -> None:
    """With --no-update the store is not looked at; with --rebuild everything is read again."""
    assert recorded.program("search", "total", "--no-update").out == ""
    assert len(recorded.program("search", "total").rows) == 1
    with recorded.store.session("tea") as session:
        session.append("the total once more")
    assert len(recorded.program("search", "total", "--no-update", "--session", "tea").rows) == 1
    done = recorded.program("search", "total", "--rebuild")
    assert len(done.rows) == 2
    assert "made anew" in done.err


def test_no_words_are_the_newest(program: Program) -> None:
    """Of all namespaces together, also if the words are blank."""
    store = treering.open(program.store)
    for text, place in (("one", "a"), ("two", "a"), ("three", "b"), ("four", "b")):
        with store.namespace(place).session(text) as session:
            session.append(text)
    found = [[row[0] for row in program("search", *words).rows] for words in ((), ("",), (" ",))]
    assert found == [["four", "three", "two", "one"]] * 3


def test_damage_is_told(recorded: Recorded, program: Program) -> None:
    """A session that cannot be read is named on standard error; the others are searched."""
    with recorded.store.session("coffee") as session:
        session.append("is there any?")
    (tail,) = program.store.rglob("coffee/tail.jsonl")
    tail.write_bytes(b"nonsense\n")
    done = program("search", "total", code=10)
    assert len(done.rows) == 1
    assert "not searched: coffee: " in done.err
    program("search", "total", "--no-update")


def test_wrong_use(program: Program) -> None:
    """What has no meaning is refused, and a store that is not there has nothing."""
    program("search", "--since", "yesterday", code=2)
    program("search", "--prompts", "--kind", "call", code=2)
    program("search", "--no-update", "--rebuild", code=2)
    program("search", "x", "-n", "9" * 20, code=2)
    assert program("search", "x", "AND (", '"').out == ""
    assert not program.store.exists()


def test_terminal(recorded: Recorded) -> None:
    """A terminal gets two lines a hit, matches marked."""
    out = recorded.program.on_terminal("search", "total").out
    assert "Too much tea" in out
    assert "\x1b[1;33mtotal\x1b[0m" in out
    assert "nothing found" in recorded.program.on_terminal("search", "nowhere").out


def test_kinds() -> None:
    """The command line offers all kinds of texts."""
    assert KINDS == texts.KINDS
