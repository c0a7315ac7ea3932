"""What is wrong with a file is said with its place, and a repaired copy has the whole conversation."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st
from tests.golden.folder import Golden, find_golden
from tests.sampling import few

from treering.errors import ConflictError, TreeringError, UsageError
from treering.importers import file_repair, read
from treering.importers.file_repair import diagnose, repair
from treering.importers.parsed_file import Diagnosis
from treering.programs.formats import detect_format

TIME = "2026-01-05T08:00:00.000Z"
HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/repo"}


def message(name: str | None, parent: str | None, text: str = "hello", **more: object) -> dict[str, Any]:
    """An entry of pi."""
    said = {"role": "user", "content": text, "timestamp": 1}
    named = {} if name is None else {"id": name}
    return {"type": "message", **named, "parentId": parent, "timestamp": TIME, "message": said, **more}


def chain(count: int) -> list[dict[str, Any]]:
    """Messages n0, n1, ... one below the other."""
    return [message(f"n{at}", f"n{at - 1}" if at else None) for at in range(count)]


def lines(*records: dict[str, Any] | bytes) -> bytes:
    """A file with these records, or bytes as they are, on its lines."""
    return b"".join(
        (each if isinstance(each, bytes) else json.dumps(each, separators=(",", ":")).encode()) + b"\n"
        for each in records
    )


def write(folder: Path, data: bytes) -> Path:
    """Write a file."""
    path = folder / "file.jsonl"
    path.write_bytes(data)
    return path


def found(diagnosis: Diagnosis) -> list[tuple[int, str]]:
    """Lines and kinds of what is damaged."""
    return [(each.line, each.kind) for each in diagnosis.findings if each.severity == "damage"]


def mended(path: Path, **options: Any) -> list[str]:
    """Write a copy, check that nothing is wrong with it, and return the path to where its program goes on."""
    before = path.read_bytes()
    copy = path.with_name("copy.jsonl")
    repair(path, copy, **options)
    assert path.read_bytes() == before
    assert found(diagnose(copy)) == []
    file = read(copy)
    return file.path(file.leaf)


BROKEN = {
    "bom": (b"\xef\xbb\xbf" + lines(HEADER, *chain(4)), [(1, "bom")]),
    "cycle": (lines(HEADER, *chain(2), message("n2", "n3"), message("n3", "n2")), [(4, "cycle")]),
    "garbage": (lines(HEADER, *chain(2), b"what is this", *chain(4)[2:]), [(4, "garbage")]),
    "glued": (lines(HEADER, *chain(2), lines(*chain(4)[2:]).replace(b"\n", b"")), [(4, "glued")]),
    "header_displaced": (lines(chain(1)[0], HEADER, *chain(4)[1:]), [(2, "header_displaced")]),
    "header_missing": (lines(*chain(4)), [(1, "header_missing")]),
    "nul": (lines(HEADER, *chain(2), bytes(512), *chain(4)[2:]), [(4, "nul")]),
    "null": (lines(HEADER, *chain(2), b"null", *chain(4)[2:]), [(4, "null")]),
    "orphan": (lines(HEADER, *chain(3), message("n3", "gone")), [(5, "orphan")]),
    "second_header": (lines(HEADER, *chain(2), HEADER, *chain(4)[2:]), [(4, "second_header")]),
    "self_parent": (lines(HEADER, *chain(2), message("n2", "n2"), message("n3", "n2")), [(4, "self_parent")]),
    "utf8": (lines(HEADER, *chain(4)).replace(b"hello", b"hell\xff", 1), [(2, "utf8")]),
}
"""Files whose conversation is n0 to n3, whatever happened to them."""


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_each_defect_is_found_and_mended(tmp_path: Path, name: str) -> None:
    """It is reported with its line, and in the copy the whole conversation can be reached."""
    data, expected = BROKEN[name]
    path = write(tmp_path, data)
    diagnosis = diagnose(path)
    assert found(diagnosis) == expected
    assert diagnosis.entries == 4
    assert mended(path) == ["n0", "n1", "n2", "n3"]


def test_offsets(tmp_path: Path) -> None:
    """An offset is that of the byte where the defect begins, also behind characters of several bytes."""
    data = lines(HEADER, message("n0", None, "größer \u2028"), b"  what", *chain(2)[1:])
    at = {each.kind: each.offset for each in diagnose(write(tmp_path, data)).findings}
    assert data[at["garbage"] :].startswith(b"what")
    path = write(tmp_path, lines(*chain(1), message("n1", "gone")))
    at = {each.kind: each.offset for each in diagnose(path).findings}
    assert path.read_bytes()[at["orphan"] :].startswith(b'{"type":"message","id":"n1"')


def test_a_lost_record_that_still_says_who_it_was(tmp_path: Path) -> None:
    """What was below a torn record goes on below the parent that is still to be read in it."""
    torn = json.dumps(message("n2", "n0", "x" * 100)).encode()[:120]
    path = write(tmp_path, lines(HEADER, *chain(2), torn, message("n3", "n2")))
    assert found(diagnose(path)) == [(4, "torn"), (5, "orphan")]
    assert mended(path) == ["n0", "n3"]


def test_a_lost_record_with_another_inside_of_it(tmp_path: Path) -> None:
    """The id of a torn record is its own, and not that of an object inside it."""
    whole = {"type": "custom", "data": message("inner", "n1"), "id": "n2", "parentId": "n0", "more": "x" * 100}
    torn = json.dumps(whole).encode()[:-50]
    path = write(tmp_path, lines(HEADER, *chain(2), torn, message("n3", "n2")))
    assert found(diagnose(path)) == [(4, "torn"), (5, "orphan")]
    assert mended(path) == ["n0", "n3"]


def test_a_lost_record_that_is_gone(tmp_path: Path) -> None:
    """Its children get the entry before the damage as their parent, and not a later one on another branch."""
    other = message("x1", "n0")
    path = write(tmp_path, lines(HEADER, *chain(2), b"gone", other, message("n3", "n2"), message("n4", "n3")))
    assert found(diagnose(path)) == [(4, "garbage"), (6, "orphan")]
    assert mended(path) == ["n0", "n1", "n3", "n4"]


def test_children_of_one_lost_parent_stay_siblings(tmp_path: Path) -> None:
    """All of them are attached to the same entry."""
    path = write(tmp_path, lines(HEADER, *chain(2), message("a", "gone"), message("b", "a"), message("c", "gone")))
    repair(path, tmp_path / "copy.jsonl")
    assert read(tmp_path / "copy.jsonl").path("c") == ["n0", "n1", "c"]
    assert read(tmp_path / "copy.jsonl").path("b") == ["n0", "n1", "a", "b"]


def test_nothing_is_attached_to_a_label(tmp_path: Path) -> None:
    """A label in front of the damage is passed over, and so is an entry below the lost one."""
    label = {"type": "label", "id": "l1", "parentId": "n1", "timestamp": TIME, "targetId": "n0", "label": "x"}
    path = write(tmp_path, lines(HEADER, *chain(2), label, message("n3", "gone")))
    assert mended(path) == ["n0", "n1", "n3"]
    path = write(tmp_path, lines(HEADER, message("b", "a"), message("a", "gone")))
    (tmp_path / "copy.jsonl").unlink()
    assert mended(path) == ["a"]


def test_ids_that_are_used_twice_or_missing(tmp_path: Path) -> None:
    """Each entry gets an id of its own; what names one that is used twice means the last one above it."""
    label = {"type": "label", "id": "l1", "parentId": "d", "timestamp": TIME, "targetId": "d", "label": "x"}
    twice = (message("d", None, "first"), message("e", "d"), message("d", None, "second"), message("f", "d"), label)
    path = write(tmp_path, lines(HEADER, *twice, message(None, "f")))
    assert found(diagnose(path)) == [(4, "duplicate_id"), (7, "missing_id")]
    repair(path, tmp_path / "copy.jsonl")
    file = read(tmp_path / "copy.jsonl")
    first, _, second, after, marked, last = file.entries
    assert first.raw == path.read_bytes().splitlines()[1]
    assert second.id != "d"
    assert [second.record["message"]["content"], file.path("f"), file.path("e")] == [
        "second", [second.id, "f"], ["d", "e"]
    ]  # fmt: skip
    assert marked.record["targetId"] == marked.parent == second.id
    assert last.parent == after.id


def test_good_records_keep_their_bytes(tmp_path: Path) -> None:
    """Only what must change is written anew."""
    odd = b'{ "type":"message", "id":"n1","parentId":"n0" , "timestamp":"x","message":{"n":1e400,"s":"\\ud800"} }'
    path = write(tmp_path, lines(HEADER, chain(1)[0], odd, b"what", message("n2", "gone")))
    repair(path, tmp_path / "copy.jsonl")
    before, after = path.read_bytes().splitlines(), (tmp_path / "copy.jsonl").read_bytes().splitlines()
    assert after[:3] == before[:3]
    assert json.loads(after[3]) == {**message("n2", "n1")}


def test_harmless_things_are_told_and_left(tmp_path: Path) -> None:
    """U+2028, half a surrogate pair and 1e400 are right in JSON, and no damage."""
    texts = b'"\xe2\x80\xa8"', b'"\\ud83d"', b"1e400", b'"\\ud83d\\ude00"', b'"\\\\ud83d"'
    entries = [
        b'{"type":"message","id":"n%d","parentId":null,"timestamp":"%b","message":{"role":"user","x":%b}}'
        % (at, TIME.encode(), text)
        for at, text in enumerate(texts)
    ]
    diagnosis = diagnose(write(tmp_path, lines(HEADER, *entries)))
    assert [(each.line, each.kind) for each in diagnosis.findings] == [
        (2, "separator"),
        (3, "surrogate"),
        (4, "number"),
    ]
    assert not diagnosis.damaged


def test_an_empty_file(tmp_path: Path) -> None:
    """It is damaged, and there is nothing to write a copy of."""
    for data in (b"", b" \n", bytes(100)):
        path = write(tmp_path, data)
        assert found(diagnose(path)) == [(0, "empty")]
        with pytest.raises(ConflictError, match="nothing is left"):
            repair(path, tmp_path / "copy.jsonl")
    assert not (tmp_path / "copy.jsonl").exists()


def test_a_line_of_many_megabytes(tmp_path: Path) -> None:
    """It is a record like any other, and damage behind it is found: 10 MB here, 50 with `make whole`."""
    big = message("n1", "n0", "x" * few(10_000_000, whole=50_000_000))
    path = write(tmp_path, lines(HEADER, chain(1)[0], big, b"what", message("n2", "n1")))
    done = repair(path, tmp_path / "copy.jsonl")
    assert found(done.diagnosis) == [(4, "garbage")]
    assert done.entries == 3
    assert done.bytes == path.stat().st_size - len(b"what\n")


def test_a_compressed_file(tmp_path: Path) -> None:
    """What can be read of a cut one is kept; offsets count in its content."""
    data = lines(HEADER, *(message(f"n{at}", f"n{at - 1}" if at else None, f"{at * 7919}") for at in range(3000)))
    path = tmp_path / "file.jsonl.gz"
    path.write_bytes(gzip.compress(data)[:-3000])
    assert "gzip" in {kind for _, kind in found(diagnose(path))}
    repair(path, tmp_path / "copy.jsonl.gz")
    assert 10 < len(read(tmp_path / "copy.jsonl.gz").entries) < 3000


def test_refuses(tmp_path: Path) -> None:
    """A file that exists is not replaced, neither is the file itself; what is no session is said to be none."""
    path = write(tmp_path, lines(HEADER, *chain(2), b"what"))
    (tmp_path / "there").write_text("mine")
    for out in (tmp_path / "there", path):
        with pytest.raises(UsageError, match="exists"):
            repair(path, out)
    assert (tmp_path / "there").read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file.jsonl", "there"]
    with pytest.raises(UsageError, match="no session file that is known"):
        diagnose(write(tmp_path, b"hello\n"))


def test_evva(tmp_path: Path, shared: Path) -> None:
    """A document that is cut inside its messages becomes whole again, with those that are."""
    source = shared / "golden" / "evva" / "random" / "e1.json"
    whole = read(source)
    data = source.read_bytes()
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    path.write_bytes(data[: data.rindex(b'"Role"') + 10])
    assert found(diagnose(path))[0][1] == "torn"
    repair(path, copy)
    assert found(diagnose(copy)) == []
    document = json.loads(copy.read_bytes())
    assert document["session_id"] == whole.header.session_id
    kept = [entry.record for entry in whole.entries][: len(document["session"]["messages"])]
    assert document["session"]["messages"] == kept
    assert len(kept) == len(whole.entries) - 1


@pytest.mark.parametrize("system", ["pi152", "omp", "operator", "kit", "evva"])
def test_golden_files(shared: Path, tmp_path: Path, system: str) -> None:
    """Of every file a copy can be written in which nothing is wrong; nothing is wrong with what a program wrote."""
    nothing: list[Golden] = []
    files = [golden for golden in find_golden(shared / "golden") if golden.system == system]
    for golden in files[:: few(3, whole=1)]:
        path = golden.path
        copy = tmp_path / f"{path.parts[-2]}-{path.name}"
        try:
            diagnosis = diagnose(path)
            done = repair(path, copy, format=diagnosis.format)
        except (ConflictError, UsageError):
            nothing.append(golden)
            continue
        assert path.parts[-2] == "edge" or not diagnosis.damaged, path
        assert done.entries <= diagnosis.entries
        if not diagnosis.findings:
            whole, repaired = read(path, format=diagnosis.format), read(copy, format=diagnosis.format)
            assert [(each.id, each.parent) for each in repaired.entries] == [
                (each.id, each.parent) for each in whole.entries
            ]
            assert (repaired.leaf, repaired.labels) == (whole.leaf, whole.labels), path
    assert [golden.path for golden in nothing if golden.accepted] == []  # the program finds no session in them either


def test_operator_and_kit_get_what_they_can_read(shared: Path, tmp_path: Path) -> None:
    """Types that a program refuses, and characters that end a line for it, are written in another way."""
    golden = shared / "golden"
    repair(golden / "operator" / "edge" / "unicode_line_separators.jsonl", tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text()
    assert len(text.splitlines()) == text.count("\n") == 7
    repair(golden / "operator" / "edge" / "unknown_type_breaks_chain.jsonl", tmp_path / "b.jsonl")
    assert read(tmp_path / "b.jsonl").path("n1") == ["u1", "a1", "u2", "a2", "f1", "n1"]
    repair(golden / "kit" / "edge" / "unknown_type.jsonl", tmp_path / "c.jsonl", format="kit")
    types = {entry.type for entry in read(tmp_path / "c.jsonl", format="kit").entries}
    assert types <= {"message", "extension_data"}


def test_other_agents(shared: Path) -> None:
    """Files of other programs crash nothing; none is known but Claude Code's and those like pi's."""
    folder = shared / "samples"
    if not folder.is_dir():
        pytest.skip("no samples of other agents in the shared test data")
    known, refused = set(), []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        for look in (detect_format, diagnose):
            try:
                look(path)
                known.add("claude" if {"claude", "claude-code"} & {*path.parts} else path.parent.name)
            except TreeringError as error:
                refused.append((error.kind, "known" in str(error)))
    assert set(refused) == {("format", True)}
    assert known == {"claude", "openclaw", "pi"}


@settings(max_examples=few(20, whole=60))
@given(
    parents=st.lists(st.integers(-1, 11), min_size=2, max_size=12),
    broken=st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["cut", "drop", "nul", "glue", "flip"])), max_size=4),
)
def test_any_damage(
    tmp_path_factory: pytest.TempPathFactory, parents: list[int], broken: list[tuple[int, str]]
) -> None:
    """Whatever parents entries have and whatever happens to lines: a copy has all that can be read, and is sound."""
    folder = tmp_path_factory.mktemp("doctor")
    entries = [message(f"n{at}", None if up < 0 else f"n{up}") for at, up in enumerate(parents)]
    rows = [*lines(HEADER, *entries).splitlines(keepends=True), b""]
    for place, how in broken:
        at = min(place, len(rows) - 2)
        row = rows[at]
        rows[at] = {
            "cut": row[: len(row) // 2] + b"\n", "drop": b"", "nul": bytes(64) + row, "glue": row.rstrip(b"\n"),
            "flip": row.replace(b"hello", b"h\xff"),
        }[how]  # fmt: skip
    path = write(folder, b"".join(rows))
    before = read(path)
    done = repair(path, folder / "copy.jsonl")
    after = read(folder / "copy.jsonl")
    assert done.entries == len(before.entries) == len(after.entries)
    assert [each.record.get("message") for each in after.entries] == [
        each.record.get("message") for each in before.entries
    ]
    assert found(diagnose(folder / "copy.jsonl")) == []
    names = {each.id for each in after.entries}
    assert all(each.parent is None or each.parent in names for each in after.entries)
    for entry in after.entries:
        assert after.path(entry.id)[-1] == entry.id


def linked(name: str, count: int) -> list[bytes]:
    """The lines of a session in which each message follows the one before."""
    time = "2026-01-05T08:00:00.000Z"
    said: dict[str, object] = {"role": "user", "content": "words", "timestamp": 1}
    if name == "claude":
        ids = [str(UUID(int=(number + 1) << 64)) for number in range(count)]
        own, above, kind = "uuid", "parentUuid", "user"
        header: list[dict[str, object]] = []
    else:
        ids = [f"{number + 1:08x}" for number in range(count)]
        own, above, kind = "id", "parentId", "message"
        header = [{"type": "session", "version": 3, "id": "s-1", "timestamp": time, "cwd": "/repo"}]
    records: list[dict[str, object]] = [
        {"type": kind, own: each, above: before, "sessionId": "s-1", "timestamp": time, "message": said}
        for before, each in zip([None, *ids], ids, strict=False)
    ]
    return [json.dumps(record).encode() + b"\n" for record in (*header, *records)]


@pytest.mark.parametrize(("name", "bytes_max"), [("claude", 750), ("pi", 500)])
def test_few_bytes_are_kept_of_an_entry(name: str, bytes_max: int, tmp_path: Path) -> None:
    """Its id, and what tells its place: a gigabyte may have 350,000 of them."""
    path, count = tmp_path / "a.jsonl", 4000
    path.write_bytes(b"".join(linked(name, 10)))
    diagnose(path)  # loads what is loaded once
    path.write_bytes(b"".join(linked(name, count)))
    tracemalloc.start()
    entries = diagnose(path).entries
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert entries == count
    assert found < count * bytes_max, found / count


def test_the_tree_is_looked_at_in_steps_that_follow_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets that only become fuller are not made anew for each entry: that took the square of their number."""
    touched = 0

    class Counted(set[Any]):
        """A set that counts what goes into it, and what is copied with it."""

        def update(self, *others: Iterable[Any]) -> None:
            nonlocal touched
            touched += sum(1 for other in others for _ in other)
            super().update(*others)

        def __or__(self, other: Collection[Any]) -> Counted:  # also by `|=` with no set
            nonlocal touched
            touched += len(self) + len(other)
            return Counted([*self, *other])

    monkeypatch.setattr(file_repair, "set", Counted, raising=False)
    count = 500
    diagnose(write(tmp_path, lines(HEADER, *chain(count))))
    assert count <= touched <= 5 * count


def test_memory_does_not_grow_with_what_was_said(tmp_path: Path) -> None:
    """Of each record its ids are remembered, also while a copy is written and read again."""
    entries = [message(f"n{at}", f"n{at - 1}" if at else None, f"{at} " + "x" * 100_000) for at in range(200)]
    entries[100]["parentId"] = "lost"
    path = tmp_path / "file.jsonl"
    path.write_bytes(lines(HEADER, *entries))
    diagnose(path)  # loads what is loaded once
    tracemalloc.start()
    done = repair(path, tmp_path / "copy.jsonl")
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.entries == 200
    assert done.bytes == path.stat().st_size - len('"lost"') + len('"n99"')
    assert found < done.bytes / 5, found
