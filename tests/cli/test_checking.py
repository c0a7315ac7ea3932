from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Recorded
from tests.cli.test_transfer import pi_message, write_pi

from treering.storage.open import open_driver
from treering.storage.run import run
from treering.store.parcels import put_parcel
from treering.store.place import Place


def damage(recorded: Recorded) -> Path:
    """Flip a byte in the middle of the only segment, whose records are nowhere else."""
    recorded.program("seal", "tea")
    with recorded.store.session("tea") as session:
        session.append("the tail lets go of what is sealed")
    (segment,) = recorded.program.store.rglob("segments/*.zst")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    return segment


def test_sound(recorded: Recorded) -> None:
    """A sound store ends with 0 and prints no finding."""
    done = recorded.program("verify")
    assert done.out == ""
    assert "checked 1 session: sound" in done.err
    assert recorded.program.json("verify", "tea") == {
        "sessions": [{"session": "tea", "namespace": [], "findings": []}],
        "parcels": [],
        "sound": True,
    }


def test_parcels(recorded: Recorded) -> None:
    """What others keep beside the sessions is verified with them, and counted."""
    place = Place(open_driver(str(recorded.program.store)))
    for name in ("a", "b/c"):
        run(put_parcel(place, name, b"content"), place.driver)
    assert "checked 1 session and 2 parcels: sound" in recorded.program("verify").err
    (path,) = recorded.program.store.rglob("parcels/b/*")
    path.write_bytes(path.read_bytes()[:-1])
    (row,) = recorded.program("verify", code=6).rows
    assert row[:2] == ["b/c", "damage"]
    found = json.loads(recorded.program("verify", "--json", code=6).out)["parcels"]
    assert [(each["parcel"], len(each["findings"])) for each in found] == [("a", 0), ("b/c", 1)]


def test_damage(recorded: Recorded) -> None:
    """Damage ends with 6 and is named with key, positions and remedy; nothing is changed by looking."""
    segment = damage(recorded)
    before = segment.read_bytes()
    row, *_ = recorded.program("verify", "tea", code=6).rows
    assert row[:2] == ["tea", "damage"]
    assert row[3].endswith(segment.name)
    stored = recorded.store.view("tea").stored()
    assert row[5] == f"0-{stored.records - stored.tail_records}"
    assert row[7] != ""
    done = recorded.program("verify", "--json", code=6)
    document = json.loads(done.out)
    assert document["sound"] is False
    assert document["sessions"][0]["findings"][0]["key"].endswith(segment.name)
    assert segment.read_bytes() == before


def test_damage_elsewhere(recorded: Recorded) -> None:
    """Reading what is damaged says what it is and what to do, with the exit code of damage."""
    segment = damage(recorded)
    done = recorded.program("export", "tea", code=6)
    assert segment.name in done.err
    assert "verify" in done.err
    recorded.program("export", "tea", "--out", recorded.program.store.parent / "out", code=6)
    assert [path.name for path in recorded.program.store.parent.iterdir()] == ["store"]
    recorded.program("context", "tea")  # two reads, none of them of the segment


def test_oddities(recorded: Recorded, tmp_path: Path) -> None:
    """What is strange but lost nothing is listed, and counts only on request."""
    recorded.program("import", write_pi(tmp_path / "one.jsonl", "s-1", pi_message("b", "gone", "user", "hi")))
    (row,) = recorded.program("verify", "s-1").rows
    assert row[:3] == ["s-1", "oddity", "orphan"]
    recorded.program("verify", "s-1", "--strict", code=6)


def test_unreadable_register(recorded: Recorded) -> None:
    """A damaged register is found by verify, also under a key that is named in full."""
    (latest,) = recorded.program.store.rglob("latest/*.zst")
    data = latest.read_bytes()
    latest.write_bytes(data[:-3])
    (row, *_) = recorded.program("verify", code=6).rows
    assert row[3] == "latest/tea.jsonl.zst"
    recorded.program("show", "tea", code=6)


def test_verify_unknown(recorded: Recorded) -> None:
    """A session that is not there is an error of its own."""
    recorded.program("verify", "no-such", code=3)


def test_stats(recorded: Recorded) -> None:
    """Every byte at rest is counted: registers, segments, blobs."""
    with recorded.store.session("tea") as session:
        session.append("x" * 300_000)
    recorded.program("seal", "tea")
    found = recorded.program.json("stats", "tea")
    folder = recorded.program.store / "sessions" / "tea"
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", "hold")]
    latest = recorded.program.store / "latest" / "tea.jsonl.zst"
    assert found["bytes"] == sum(
        len(path.read_bytes().rstrip(b"\0")) for path in [*files, latest]
    )  # no room behind logs
    assert found["blobs"] == 1
    assert found["segments"] == 1
    assert found["records"] == recorded.store.view("tea").stored().records


def test_stats_of_all(recorded: Recorded) -> None:
    """All sessions are listed and added up; one that cannot be read is passed over with a message."""
    recorded.program("copy", "tea", "--name", "coffee")
    document = recorded.program.json("stats")
    assert sum(row["bytes"] for row in document["sessions"]) == document["total"]["bytes"]
    assert {row[-2] for row in recorded.program("stats").rows} == {"tea", "coffee"}
    (recorded.program.store / "latest" / "coffee.jsonl.zst").write_bytes(b"nonsense")
    done = recorded.program("stats", code=10)
    assert [row[-2] for row in done.rows] == ["tea"]
    assert "not measured: coffee: " in done.err
    assert recorded.program("stats", "--json", code=10).json["sessions"][0]["session"] == "tea"


def test_repair(recorded: Recorded) -> None:
    """What is left of a damaged session goes into a new one; what is lost is listed and ends with 6."""
    segment = damage(recorded)
    before = segment.read_bytes()
    done = recorded.program("repair", "tea", "--into", "tea-2", code=6)
    assert {"object", "records"} <= {row[0] for row in done.rows}
    assert all(row[1] for row in done.rows)
    assert "something is lost" in done.err
    recorded.program("verify", "tea-2")
    assert segment.read_bytes() == before
    assert "choose another name" in recorded.program("repair", "tea", "--into", "tea-2", code=4).err
    assert "choose another name" in recorded.program("repair", "tea", "--into", "tea", code=2).err
    document = json.loads(recorded.program("repair", "tea", "--into", "tea-3", "--json", code=6).out)
    assert document["complete"] is False
    assert document["repair"]["into"] == "tea-3"


def test_repair_of_a_sound_session(recorded: Recorded) -> None:
    """Nothing is lost of a session that is sound, and one that is not there is named."""
    done = recorded.program("repair", "tea", "--into", "copy")
    assert done.out == ""
    assert "nothing is lost" in done.err
    recorded.program("repair", "no-such", "--into", "copy-2", code=3)
