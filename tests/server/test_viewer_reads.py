"""What the viewer asks for beyond pages: how messages begin, what follows a node, notes of what is on the screen."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

import treering


def test_previews_are_one_line_each(folder: Path, api: TestClient) -> None:
    """A message is told by its first words, a call by the tool's name, a step without a message by its brief."""
    with treering.open(folder).session("long") as session:
        call = {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "ls"}}
        said, asked = session.append(treering.user("a\n\nb " + "x" * 500), treering.assistant([call])).nodes
        changed = str(session.set_model("m", provider="p").node)
    found = api.get("sessions/long/previews", params={"nodes": [said, asked, changed]}).json()
    assert found[said] == "a b " + "x" * 116
    assert found[asked].startswith("\u2192 bash")
    assert "model: m" in found[changed]
    assert api.get("sessions/long/previews", params={"nodes": [said] * 101}).status_code == 400


def test_a_path_can_be_read_downward(folder: Path, api: TestClient) -> None:
    """The first ids below a node on the way to another one; a node that is not on the way is not found."""
    with treering.open(folder).session("long") as session:
        ids = session.append(*[treering.user(str(number)) for number in range(6)]).nodes
        session.branch("aside", node=ids[0])
        aside = str(session.append("aside").node)
    asked: dict[str, str | int] = {"node": ids[5], "below": ids[1], "limit": 2}
    assert api.get("sessions/long/path", params=asked).json() == {"ids": list(ids[2:4])}
    assert api.get("sessions/long/path", params={"node": ids[5], "below": aside}).status_code == 404


def test_notes_about_some_nodes(folder: Path, api: TestClient) -> None:
    """Only those of a kind about the nodes that are named."""
    with treering.open(folder).session("long") as session:
        one, two = session.append("one", "two").nodes
        session.record_usage(input=1, target=one)
        session.record_usage(input=2, target=two)
        session.label(one, "x")
    found = api.get("sessions/long/notes", params={"kind": "usage", "targets": [one]}).json()
    assert [(note["target"], note["brief"]) for note in found] == [(one, {"input": 1})]
    both = api.get("sessions/long/notes", params={"targets": [one, two]}).json()
    assert sorted(note["kind"] for note in both) == ["label", "usage", "usage"]
