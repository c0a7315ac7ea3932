"""Write the files of format version 1 that every later version must read.

This ran once. Files are created and never replaced: what is here is what users have on disk. For a new version write a
new script and a new folder beside this one.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Raw

from treering.format.line import close_line
from treering.format.parcel import encode_parcel
from treering.format.paths import SegmentName, SessionKeys, namespace_prefix
from treering.format.record import Record, Skeleton, encode_record, skeleton_of
from treering.format.register import Card, Tail, TailHeader, encode_latest, encode_tail
from treering.format.segment import build_segment
from treering.format.values import encode

FOLDER = Path(__file__).parent / "data" / "v1"
SESSION = "org/42 \u00e9\ud800"
USER = "01950000000070008000000000000001"
REPLY = "01950000000172348123456789abcdef"
CHECKPOINT = "0195000000017235bfffffffffffffff"


def lines() -> list[bytes]:
    """Records that use every field, foreign and double ids, and a field and a type of some later version."""
    message = partial(Record, type="node", kind="message")
    label = "01950000000270008000000000000009"
    first, imported, other = "a1b2c3d4e5f6", "imported.0", "ffffffffffff.12"
    records = [
        message(at=0, by=f"{first}.0", id=USER, head="main", role="user", more=True),
        message(at=1, by=f"{first}.0", id=REPLY, parent=USER, head="main", role="assistant"),
        Record(at=2, by=f"{first}.1", type="checkpoint", id=CHECKPOINT, head="main", target=REPLY),
        Record(at=3, by=f"{first}.2", type="note", kind="label", id=label, target=USER),
        message(at=4, by=imported, id="8f3a91bc", parent=REPLY, head="main-2", time=1_700_000_000_000),
        message(at=5, by=imported, id="8f3a91bc", parent="gone\ud800", time=-1),
        Record(at=6, by=imported, type="node", id="last", parent="8f3a91bc", links={"copy-of": "x", "by": "\u00e9"}),
        Record(at=7, by=other, type="verdict", kind="later", id="v", critical=True),
    ]
    briefs = {2: b'{"step":3,"label":"green"}', 3: b'{"label":"start here"}', 6: b'{"body":{"x":1,"body":2}}'}
    bodies = {
        0: b'{"role":"user","content":"the test fails on CI"}',
        1: encode(
            {"role": "assistant", "content": [{"type": "text", "text": "caf\u00e9 \U0001f600"}], "t": (1, b"\0")}
        ),
        2: b'{"set":{"step":3},"context":[[0,0,["01950000000070008000000000000001"]]]}',
        4: b'{"text":"cut \\ud83d"}',
        5: b"[1,2.5,null]",
    }
    made = [
        msgspec.structs.replace(
            record,
            brief=Raw(briefs[record.at]) if record.at in briefs else record.brief,
            body=Raw(bodies[record.at]) if record.at in bodies else record.body,
        )
        for record in records
    ]
    later = b'{"at":8,"by":"ffffffffffff.13","type":"node","id":"n8","mood":{"body":[1]},"body":{"new":true}}'
    return [*map(encode_record, made), close_line(later)]


def values() -> dict[str, object]:
    """One value for each tag; `test_read_v1.py` knows them as well."""
    from tests.compat.test_read_v1 import VALUES

    return VALUES


def write(name: str, data: bytes) -> None:
    """Create a file, never replace one."""
    with (FOLDER / name).open("xb") as file:
        file.write(data)


def main() -> None:
    """Create all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    all_lines = lines()
    erased = ((9, 1), (11, 2))
    header = TailHeader(session=SESSION, life="0a1b2c3d4e5f", base=0, epoch=2, erased=erased, nonce="00ff00ff00ff")
    tail = Tail(header=header, lines=tuple(all_lines))
    card = Card(
        session=SESSION,
        life="0a1b2c3d4e5f",
        write="123456789abc",
        epoch=2,
        born=1,
        covers=9,
        sealed=8,
        title="Fix login",
        project="web",
        cwd="/home/ann/web",
        created=1_739_000_000_000,
        updated=1_739_000_000_500,
        nodes=6,
        messages=5,
        checkpoints=1,
        first_prompt="the test fails on CI",
        head="main",
        node=REPLY,
        provider="acme",
        model="m-1",
        parent_session="parent",
        parent_node="p1",
        task="review",
        status="done",
        max_id=CHECKPOINT,
        extra={"tags": ["a"]},
        erased=erased,
    )
    plain = encode_tail(tail, compressed=False)
    write("segment.jsonl.zst", build_segment(all_lines, key=""))
    write("tail.jsonl", plain)
    write("tail-torn.jsonl", plain + encode_record(Record(at=9, by="t.0", type="node", more=True)) + b'{"at":10,"by"')
    write("tail-hole.jsonl", plain + b'{"at":9,"by":"t.0","type":"node"' + b"\0" * 512)
    write("tail.jsonl.zst", encode_tail(tail, compressed=True))
    write("latest.jsonl.zst", encode_latest(card, [b'{"state":{"step":3}}\n', *all_lines[:2]]))
    write("tombstone.jsonl.zst", encode_latest(Card(session="s", life="0", write="w", dead=True), []))
    write("values.jsonl", b"".join(encode(value) + b"\n" for value in values().values()))
    write("parcel.zst", encode_parcel(f"session/{SESSION}", b'{"messages": []}\0\xff' * 3, write="123456789abc"))
    write("expected.json", json.dumps(expected(all_lines, header, card, len(plain)), indent=1).encode())


def expected(all_lines: list[bytes], header: TailHeader, card: Card, complete: int) -> dict[str, object]:
    """What readers must find in the files, as plain JSON."""
    keys = SessionKeys(namespace_prefix("", "Team A"), SESSION, appends=False)
    return {
        "lines": [line.decode() for line in all_lines],
        "skeletons": [plain(skeleton_of(line)) for line in all_lines],
        "header": msgspec.to_builtins(header),
        "complete": complete,
        "card": msgspec.to_builtins(msgspec.structs.replace(card, lines=3)),
        "keys": [
            keys.latest,
            keys.tail,
            msgspec.structs.replace(keys, appends=True).tail,
            keys.hold,
            keys.segment("0a1b2c3d4e5f", SegmentName(0, 9, 2, "00ff")),
            keys.blob("0a1b2c3d4e5f", "ab" * 32),
        ],
    }


def plain(skeleton: Skeleton) -> dict[str, object]:
    """A skeleton as JSON; its brief as text."""
    fields = msgspec.structs.asdict(skeleton)
    return fields | {"brief": fields["brief"].decode()}


if __name__ == "__main__":
    main()
