"""UUIDs of names: those of the standard library, and of half a surrogate pair, too."""

from __future__ import annotations

from pathlib import Path
from uuid import NAMESPACE_OID, NAMESPACE_URL, UUID, uuid5

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import read
from treering.programs.common.named_uuid import named_uuid


def test_is_that_of_the_standard_library() -> None:
    """Files that were exported before keep their names."""
    for space in (NAMESPACE_OID, NAMESPACE_URL):
        for name in ("", "a", "é\U0001f600"):
            assert named_uuid(space, name) == str(uuid5(space, name))


def test_every_text_has_one() -> None:
    """Different texts have different ones."""
    names = {named_uuid(NAMESPACE_URL, name) for name in ("", "\ud83d", "\ud83e", "\udc80", "\ufffd")}
    assert len(names) == 5
    assert all(UUID(name).version == 5 for name in names)


def test_a_session_of_any_name_becomes_a_file_of_claude_code(tmp_path: Path) -> None:
    """Its name is made a UUID, which half of an emoji has, too."""
    store = treering.open(f"memory://named-{new_nonce()}")
    with store.session("half \ud83d") as session:
        session.append("hello")
    export(store.view("half \ud83d"), tmp_path / "x.jsonl", format="claude")
    assert read(tmp_path / "x.jsonl").header.session_id == named_uuid(NAMESPACE_URL, "half \ud83d")
