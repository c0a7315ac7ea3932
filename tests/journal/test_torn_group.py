"""An append that was cut between two of its lines: the lines before the cut are whole, and do not count."""

from __future__ import annotations

from pathlib import Path

import treering


def test_a_torn_group_is_neither_shown_nor_in_the_way(tmp_path: Path) -> None:
    """Half an append is not seen, and what is appended behind it is read back, also after a seal."""
    store = treering.open(tmp_path)
    killed = store.session("s")
    killed.append("kept")
    before = {name: (tmp_path / name).read_bytes() for name in ("latest/s.jsonl.zst", "sessions/s/.lock")}
    killed.commit(["torn"], state={"step": 1})
    killed.close()
    for name, data in before.items():  # as a kill leaves them
        (tmp_path / name).write_bytes(data)
    tail = tmp_path / "sessions/s/tail.jsonl"
    lines = tail.read_bytes().rstrip(b"\0").splitlines(keepends=True)
    tail.write_bytes(b"".join(lines[:-1]))
    with store.session("s") as session:
        assert [item.message["content"] for item in session.context] == ["kept"]
        session.append("after")
    with store.session("s") as session:
        assert [item.message["content"] for item in session.context] == ["kept", "after"]
        session.seal()
    assert store.verify("s") == []
    assert [row.node.payload["content"] for row in store.view("s").history().rows] == ["after", "kept"]
