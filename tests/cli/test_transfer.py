from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.cli.conftest import Program, Recorded

import treering
from treering.format.record import decode_record

TIME = "2026-01-05T08:00:00.000Z"


def write_pi(path: Path, session: str, *entries: dict[str, Any]) -> Path:
    """Write a session file of pi with these entries, or two messages."""
    header = {"type": "session", "version": 3, "id": session, "timestamp": TIME, "cwd": "/repo", "odd": [1]}
    entries = entries or (pi_message("a", None, "user", "hello"), pi_message("b", "a", "assistant", "hello you"))
    data = b"".join(json.dumps(entry).encode() + b"\n" for entry in (header, *entries))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def pi_message(name: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    """Return an entry of a message."""
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": name, "parentId": parent, "timestamp": TIME, "message": message}


def test_import_a_file(program: Program, tmp_path: Path) -> None:
    """A file becomes a session of its own id, with what its header says."""
    path = write_pi(tmp_path / "one.jsonl", "s-1")
    done = program("import", path)
    (row,) = done.rows
    assert (row[0], row[2]) == ("s-1", str(path))
    assert "imported 1 session" in done.err
    document = program.json("show", "s-1")
    assert document["session"]["cwd"] == "/repo"
    assert document["session"]["created_ms"] == 1767600000000
    assert [item["node"] for item in program.json("context", "s-1")["items"]] == ["a", "b"]
    (note,) = treering.open(program.store).view("s-1").notes("import")
    assert note.payload["extra"] == {"odd": [1]}


def test_import_problems(program: Program, tmp_path: Path) -> None:
    """What was mended in a file is shown with its line: a few of many, all on request."""
    entries = [pi_message("a", None, "user", "hello"), *({"type": "message", "id": "a"} for _ in range(8))]
    path = write_pi(tmp_path / "one.jsonl", "s-1", *entries)
    err = program("import", path).err
    assert f"{path}:3: timestamp: " in err
    assert "more problem" in err
    err = program("import", path, "--name", "again", "--problems").err
    assert "more problem" not in err
    assert f"{path}:10: duplicate_id: " in err
    (file,) = program.json("import", path, "--name", "third")["files"]
    assert file["session"] == "third"
    assert {"line": 3, "kind": "timestamp"}.items() <= file["problems"][0].items()


def test_import_refuses(program: Program, tmp_path: Path) -> None:
    """What is wrong with a single path decides the exit code."""
    write_pi(tmp_path / "one.jsonl", "s-1")
    write_pi(tmp_path / "two.jsonl", "s-2")
    (tmp_path / "text").write_text("hello\n")
    program("import", tmp_path / "missing", code=3)
    program("import", tmp_path / "text", code=2)
    program("import", tmp_path / "one.jsonl", tmp_path / "two.jsonl", "--name", "x", code=2)
    program("import", code=2)
    assert not program.store.exists()


def test_import_long_header(program: Program, tmp_path: Path) -> None:
    """A header too large for a card is kept whole all the same."""
    title = "".join(map(chr, Random(1).choices(range(0x4E00, 0x9FA0), k=5000)))  # not to be compressed away
    header = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "title": title, "more": "m" * 9000}
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(header) + "\n" + json.dumps(pi_message("a", None, "user", "hello")) + "\n")
    program("import", path)
    (note,) = treering.open(program.store).view("s-1").notes("import")
    assert note.payload["title"] == title
    assert note.payload["extra"]["more"] == "m" * 9000


def test_import_large_session(program: Program, shared: Path) -> None:
    """A real session of a thousand entries imports, shows, verifies, seals and exports."""
    program("import", shared / "golden" / "fixtures" / "large-session.jsonl.gz", "--name", "large")
    document = program.json("show", "large")
    assert document["session"]["nodes"] > 1000
    assert len(program.json("context", "large")["items"]) > 900
    assert len(program("tree", "large").out.splitlines()) < 20
    assert program("verify", "large").code == 0
    assert program.json("seal", "large")["after"]["segments"] == 1
    lines = program("export", "large").out.splitlines()
    assert len(lines) == program.json("stats", "large")["records"]
    assert program("verify", "large").code == 0
    with treering.open(program.store).session("large", create=False) as session:
        session.append("where were we?")


def test_export_records(recorded: Recorded) -> None:
    """Every record comes out as it is stored, its checksum included."""
    lines = recorded.program("export", "tea").out.encode().splitlines(keepends=True)
    assert lines == list(recorded.store.view("tea").lines())
    assert [decode_record(line).at for line in lines] == list(range(len(lines)))


def test_export_to_a_file(recorded: Recorded, tmp_path: Path) -> None:
    """A file is written whole; one that exists is replaced only on request; a failure leaves nothing."""
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    assert "--force" in recorded.program("export", "tea", "--out", target, code=2).err
    assert target.read_text() == "mine"
    recorded.program("export", "tea", "--out", target, "--force")
    assert target.read_bytes() == b"".join(recorded.store.view("tea").lines())
    recorded.program("export", "tea", "--out", tmp_path / "none" / "out.jsonl", code=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "store"]


def test_export_to_the_program_it_came_from(program: Program, tmp_path: Path) -> None:
    """An untouched session is the same file again; what the format cannot say is told."""
    path, target = write_pi(tmp_path / "one.jsonl", "s-1"), tmp_path / "out.jsonl"
    program("import", path)
    assert "exported s-1: 2 records" in program("export", "s-1", "--format", "pi", "-o", target).err
    assert target.read_bytes() == path.read_bytes()
    assert "exists already" in program("export", "s-1", "--format", "pi", "-o", target, code=2).err
    assert "--out" in program("export", "s-1", "--format", "pi", code=2).err
    with treering.open(program.store).session("s-1") as session:
        session.record_system("be kind")
    assert "left out: 1 system record" in program("export", "s-1", "--format", "pi", "-o", target, "--force").err


def test_export_to_where_the_program_keeps_its_sessions(program: Program, tmp_path: Path) -> None:
    """The program's own list shows it, and `discover` as well; a second time it says how to replace it."""
    with treering.open(program.store).session("mine", cwd="/repos/app") as session:
        session.append("hello")
    done = program("export", "mine", "--format", "pi", "--install")
    (path,) = (tmp_path / "home").rglob("*.jsonl")
    assert path.parent == tmp_path / "home/.pi/agent/sessions/--repos-app--"
    assert str(path) in done.err
    assert [row["newest"] for row in program.json("discover")["folders"]] == [str(path)]
    assert "exists already" in program("export", "mine", "--format", "pi", "--install", code=2).err
    program("export", "mine", "--format", "pi", "--install", "--force")
    assert "--out" in program("export", "mine", "--format", "pi", "--install", "-o", path, code=2).err
    assert "--install" in program("export", "mine", "--install", code=2).err


def test_export_a_page(recorded: Recorded, tmp_path: Path) -> None:
    """One HTML file, to standard output or whole or not at all to a file; its options go with no other format."""
    program = recorded.program
    page = program("export", "tea", "--format", "html").out
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    target = tmp_path / "tea.html"
    program("export", "tea", "--format", "html", "--no-images", "--branch", "main", "-o", target)
    old = target.read_bytes()
    assert "--force" in program("export", "tea", "--format", "html", "-o", target, code=2).err
    assert (
        "no such head"
        in program("export", "tea", "--format", "html", "--branch", "x", "-o", target, "--force", code=3).err
    )
    assert "go with --format html" in program("export", "tea", "--no-images", code=2).err
    assert "go with --format html" in program("export", "tea", "--branch", "main", code=2).err
    assert target.read_bytes() == old


def test_export_markdown(recorded: Recorded) -> None:
    """The conversation along the branch in hand, or to a node; code is fenced so that it cannot end its fence."""
    text = recorded.program("export", "tea", "--format", "markdown").out
    assert text.startswith("# Too much tea\n\n- session: `tea`\n")
    assert text.index("why is the total wrong?") < text.index("fix it") < text.index("another way")
    assert "## Assistant\n" in text
    other = recorded.program("export", "tea", "--format", "markdown", "--node", recorded.first).out
    assert '**Call** `edit`\n\n```json\n{"path":"a.py"}\n```' in other
    assert "another way" not in other
    recorded.program("export", "tea", "--node", "green", code=2)
    with recorded.store.session("tea") as session:
        session.append(treering.tool("a\n```\nb", call="c1", name="read"))
    text = recorded.program("export", "tea", "--format", "markdown").out
    assert "**Result** `read`\n\n````\na\n```\nb\n````\n" in text


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("```python\nx = 1", "```"),
        ("  ~~~~\n~~~", "~~~~"),
        ("````\n```\n", "````"),
        ("<!-- so", "-->"),
        ("<script>\nlet x", "</script>"),
        ("<pre>x", "</script>"),
        ("- a\n  ```\n  x", ""),
        ("> ```\n> x", ""),
        ("```\nx\n```", ""),
        ("1 < 2 and `x", ""),
    ],
)
def test_what_a_message_left_open_ends_with_it_in_markdown(program: Program, said: str, end: str) -> None:
    """Each message has its heading, whatever the one before it did not end; what ends by itself is left alone."""
    with treering.open(program.store).session("open") as session:
        session.append(said)
        session.append(treering.assistant("and then"))
    text = program("export", "open", "--format", "markdown").out
    headings = [tokens[at + 1].content for tokens in [MarkdownIt().parse(text)] for at, token in enumerate(tokens)
                if token.type == "heading_open"]  # fmt: skip
    assert headings[1:] == ["User", "Assistant"]
    assert text.split("</sub>\n\n")[1].partition("\n\n## Assistant")[0].removeprefix(said.rstrip("\n")).strip() == end


def test_markdown_of_a_long_session(program: Program) -> None:
    """Parts of the path join without a gap or a repetition, also around retracted messages."""
    with treering.open(program.store).session("long") as session:
        nodes = [session.append(f"message {number}").node for number in range(250)]
        session.retract(nodes[99])
        session.retract(nodes[100])
    text = program("export", "long", "--format", "markdown").out
    said = [line for line in text.splitlines() if line.startswith("message ")]
    assert said == [f"message {number}" for number in range(250) if number not in (99, 100)]


def test_copy_to_another_store(recorded: Recorded, tmp_path: Path) -> None:
    """A copy in another store holds the same records, also while the session is in use."""
    other = Program(tmp_path / "other")
    with recorded.store.session("tea"):
        recorded.program("copy", "tea", other.store)
    assert other("export", "tea").out == recorded.program("export", "tea").out
    assert other.json("context", "tea") == recorded.program.json("context", "tea")
    recorded.program("copy", "tea", other.store, code=4)


def test_copy_under_another_name(recorded: Recorded) -> None:
    """Within a store a copy needs another name, or another namespace."""
    recorded.program("copy", "tea", code=2)
    recorded.program("copy", "tea", "--name", "tea-2")
    assert recorded.program.json("show", "tea-2")["node"] == recorded.second
    recorded.program("copy", "tea", "--target-namespace", "ann")
    assert recorded.program.json("show", "tea", "--namespace", "ann")["node"] == recorded.second


def test_backup(recorded: Recorded, tmp_path: Path) -> None:
    """Everything goes to another place, also while it is in use, and only what changed the next time."""
    other = Program(tmp_path / "other")
    with recorded.store.session("tea"):
        (row,) = recorded.program("backup", other.store).rows
    assert row[:4] == ["tea", "", "session", "copied"]
    assert other("export", "tea").out == recorded.program("export", "tea").out
    assert "1 unchanged" in recorded.program("backup", other.store, "tea").err
    recorded.program("rm", "tea", "--yes")
    done = recorded.program("backup", other.store)
    assert done.rows[0][3] == "kept"
    assert "--delete" in done.err
    assert recorded.program("backup", other.store, "--delete").rows[0][3] == "deleted"
    recorded.program("backup", recorded.program.store, code=2)


def test_backup_says_what_failed(recorded: Recorded, tmp_path: Path) -> None:
    """A session that cannot be read ends it with a code of its own, and the others are done."""
    with recorded.store.session("other") as session:
        session.append("said")
    (recorded.program.store / "latest" / "tea.jsonl.zst").write_bytes(b"damaged")
    rows = {row[0]: row for row in recorded.program("backup", tmp_path / "other", code=10).rows}
    assert rows["other"][3] == "copied"
    assert rows["tea"][3] == "failed"
    assert "latest/tea" in rows["tea"][6]


@pytest.mark.parametrize("command", ["log", "context", "tree", "export", "stats", "verify", "checkpoints"])
def test_session_without_nodes(program: Program, command: str) -> None:
    """A session that holds notes alone is no special case."""
    with treering.open(program.store).session("empty") as session:
        session.set_title("nothing yet")
    program(command, "empty")
    program("export", "empty", "--format", "markdown")
