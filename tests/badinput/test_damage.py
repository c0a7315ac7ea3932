"""Damaged, missing and newer objects: a typed error with place and remedy, however one looks, and no byte changed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.badinput.conftest import Damaged
from tests.sampling import few

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.errors import CorruptError, FormatVersionError, TreeringError
from treering.format.frames import add_check, compress, decompress, frame_at, remove_check
from treering.format.line import close_line
from treering.format.segment import build_segment, read_segment
from treering.storage.requests import List

BOMB = struct.pack("<IB", 0xFD2FB528, 0b11100100) + struct.pack("<Q", 8 << 30) + b"\x01\x00\x00"
"""Sixteen bytes that ask for 8 GiB."""


def flip(data: bytes, at: int, bit: int = 0) -> bytes:
    """One bit of one byte, counted from the end if negative."""
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def newer(data: bytes) -> bytes:
    """The same register with a first line of a later format version, otherwise sound."""
    if not data.startswith(b"{"):
        frame = frame_at(data, 0, key="")
        first = newer(decompress(data[: frame.end], key="", bytes_max=1 << 20))
        return add_check(compress(first) + remove_check(data, key="")[frame.end :])
    line, _, rest = data.partition(b"\n")
    fields = line[: line.rindex(b',"_c":')] + b"}"
    return close_line(fields.replace(b'{"treering":1', b'{"treering":2,"new":[1]')) + rest


Case = tuple[Callable[[bytes], bytes | None], type[TreeringError], bool]
"""What happens to an object (None: it is lost), the error, and whether it says at which byte."""

REGISTER_CASES: Mapping[str, Case] = {
    "flipped first byte": (lambda data: flip(data, 0), CorruptError, True),
    "flipped in the header": (lambda data: flip(data, 20), CorruptError, True),
    "flipped in the middle": (lambda data: flip(data, len(data) // 2), CorruptError, True),
    "garbage": (lambda _: b"not what we wrote", CorruptError, True),
    "empty": (lambda _: b"", CorruptError, True),
    "newer": (newer, FormatVersionError, False),
    "bomb": (lambda _: BOMB, CorruptError, True),
    "missing": (lambda _: None, CorruptError, False),
}
# A log may end torn after a power cut, so there a cut end is no damage; see `test_a_cut_log_is_a_beginning`.
CUT_CASES: Mapping[str, Case] = {
    "cut by one byte": (lambda data: data[:-1], CorruptError, True),
    "cut in half": (lambda data: data[: len(data) // 2], CorruptError, True),
    "one byte more": (lambda data: data + b"x", CorruptError, True),
    "flipped last byte": (lambda data: flip(data, -1), CorruptError, True),
}


def damage(place: Damaged, key: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change or remove one object."""
    data = change(place.read(key))
    if data is None:
        place.remove(key)
    else:
        place.write(key, data)


def refused(call: Callable[[], object], error: type[TreeringError], key: str, *, offset: bool) -> TreeringError:
    """The error of a call, which must be of this type, name this key, say where, and what to do."""
    with pytest.raises(error) as caught:
        call()
    found = caught.value
    assert type(found) is error
    assert found.key is not None
    assert found.key.startswith(key)
    assert not offset or found.offset is not None
    assert found.remedy
    assert found.key in str(found)
    assert found.remedy in str(found)
    return found


def assert_reported(place: Damaged, key: str) -> None:
    """Verifying reports damage of this object, with what to do, and finds nothing wrong elsewhere."""
    findings = [finding for finding in place.store().verify("s") if finding.severity == "damage"]
    assert findings
    assert any(finding.key.startswith(key) for finding in findings)
    assert all(finding.remedy for finding in findings)
    assert place.store().verify("other") == []
    assert {name: bool(found) for name, found in place.store().verify_all()} == {"other": False, "s": True}


@pytest.mark.sampled(5, "place", "case")
@pytest.mark.parametrize("register", ["latest", "tail"])
@pytest.mark.parametrize("case", [*REGISTER_CASES, *CUT_CASES])
def test_a_damaged_register_is_reported(damaged: Damaged, register: str, case: str) -> None:
    """Opening, looking, copying and deleting a session with a bad register fail alike and leave it as it is.

    Each case in one or two kinds of store here, in all with `make whole`.
    """
    change, error, offset = {**REGISTER_CASES, **CUT_CASES}[case]
    if register == "tail" and damaged.driver().appends and case in CUT_CASES:
        pytest.skip("a log may end torn")
    if damaged.name == "generic" and case == "missing":
        pytest.skip("removing a register means removing both slots, as below")
    key = damaged.latest if register == "latest" else damaged.tail
    damage(damaged, key, change)
    before = damaged.stored()
    store = damaged.store()
    for call in (
        lambda: store.view("s"),
        lambda: store.session("s"),
        lambda: store.session("s", shared=True),
        lambda: store.session("s", create=False),
        lambda: store.copy("s", name="copy"),
    ):
        refused(call, error, key, offset=offset)
    rows = {row.id: row for row in store.sessions().rows}
    assert rows["other"].warning == ""
    assert_reported(damaged, key)
    assert damaged.stored() == before


@pytest.mark.sampled(5, "place", "case")
@pytest.mark.parametrize("case", [*REGISTER_CASES, *CUT_CASES])
def test_a_damaged_segment_is_reported_where_it_is_read(damaged: Damaged, case: str) -> None:
    """A bad segment changes nothing about resuming and appending; reading the history names it.

    Each case in one or two kinds of store here, in all with `make whole`.
    """
    change, error, _ = {**REGISTER_CASES, **CUT_CASES}[case]
    if case == "newer":
        pytest.skip("a segment states its version in its index, see `test_a_newer_segment_is_refused`")
    key = damaged.segments[0]
    damage(damaged, key, change)
    where = key if case != "missing" else key.rpartition("/")[0]
    before = damaged.stored()
    view = damaged.store().view("s")
    said = [item.message["content"] for item in view.context]
    assert said == [f"m{number}" for number in range(7)]
    for call in READS.values():
        refused(lambda call=call: call(view), error, where, offset=False)  # type: ignore[misc]
    refused(lambda: damaged.store().copy("s", name="copy"), error, where, offset=False)
    assert_reported(damaged, where)
    assert damaged.stored() == before
    with damaged.store().session("s") as session:
        session.append("on")
        session.seal()
        refused(lambda: session.optimize(everything=True), error, where, offset=False)
    assert damaged.store().view("s").context == session.context


def test_a_newer_segment_is_refused(damaged: Damaged, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of a later format version is left alone, with an error that says to upgrade; the session resumes."""
    key = damaged.segments[0]
    lines = read_segment(damaged.read(key), key=key)
    with monkeypatch.context() as later:
        later.setattr("treering.format.segment.INDEX_VERSION", 3)
        damaged.write(key, build_segment(lines, key=key))
    before = damaged.stored()
    view = damaged.store().view("s")
    assert len(view.context) == 7
    for name, read in READS.items():
        error = refused(lambda read=read: read(view), FormatVersionError, key, offset=False)  # type: ignore[misc]
        assert "upgrade" in error.remedy, name
    refused(lambda: damaged.store().copy("s", name="copy"), FormatVersionError, key, offset=False)
    assert_reported(damaged, key)
    assert damaged.stored() == before


READS: Mapping[str, Callable[[Session | View], Any]] = {
    "history": lambda view: view.history(limit=100),
    "lines": lambda view: list(view.lines()),
    "nodes": lambda view: [view.get(row.id) for row in view.nodes()],
    "tree": lambda view: [view.tree(), view.original(view.path()[0])],
    "checkpoints": lambda view: [view.checkpoint(entry.id) for entry in view.checkpoints()],
}


def said_or_damage(store: Store) -> list[object] | CorruptError:
    """What the messages of the context say, or the error that looking raised."""
    try:
        return [item.message["content"] for item in store.view("s").context]
    except CorruptError as error:
        return error


def test_the_slots_of_a_register_may_fail_one_by_one(damaged: Damaged) -> None:
    """Where registers are pairs of slots, one that is damaged or lost is reported or stood in for, never ignored."""
    if damaged.name != "generic":
        pytest.skip("only the driver for other filesystems keeps slots")
    before = damaged.stored()
    store = damaged.store()
    slots = [key for key in before if key.startswith(("latest/s.", "sessions/s/tail"))]
    assert len(slots) == 4
    folder = damaged.driver()._root  # type: ignore[attr-defined]
    for key in slots:
        for data in (flip(before[key], 70), flip(before[key], 3), b"", before[key][:-1], None):
            path = f"{folder}/{key}"
            if data is None:
                damaged.driver()._fs.rm_file(path)  # type: ignore[attr-defined]
            else:
                damaged.driver()._fs.pipe_file(path, data)  # type: ignore[attr-defined]
            stored = damaged.stored()
            found = said_or_damage(store)
            if isinstance(found, CorruptError):
                assert str(found.key).startswith(key.rpartition(".")[0])
            else:
                assert found == [f"m{number}" for number in range(7)]
            assert damaged.stored() == stored
            damaged.driver()._fs.pipe_file(path, before[key])  # type: ignore[attr-defined]


def test_a_cut_log_is_a_beginning(damaged: Damaged) -> None:
    """A log cut anywhere is damage, or ends before what was cut off: what a power cut may leave of it."""
    if not damaged.driver().appends:
        pytest.skip("only logs are appended to")
    whole = damaged.read(damaged.tail)
    for length in range(0, len(whole), few(17, whole=7)):
        damaged.write(damaged.tail, whole[:length])
        before = damaged.stored()
        found = said_or_damage(damaged.store())
        if isinstance(found, CorruptError):
            assert found.key == damaged.tail
            assert_reported(damaged, damaged.tail)
        else:
            assert found == [f"m{number}" for number in range(7)][: len(found)]
        assert damaged.stored() == before


@pytest.mark.parametrize("what", ["latest", "tail", "segment"])
def test_every_flipped_bit_is_noticed(damaged: Damaged, what: str) -> None:
    """Each bit of each byte: reading fails with the object's key; nothing else is ever returned."""
    if damaged.name not in ("memory", "logs"):
        pytest.skip("the bytes are the same in every store; these two are quick")
    key = {"latest": damaged.latest, "tail": damaged.tail, "segment": damaged.segments[0]}[what]
    whole = damaged.read(key)
    store = damaged.store()
    for at in range(len(whole)):
        damaged.write(key, flip(whole, at, at % 8))
        with pytest.raises((CorruptError, FormatVersionError)) as caught:
            list(store.view("s").lines())
        assert caught.value.key == key, at


@pytest.mark.parametrize("what", ["latest", "tail", "segment"])
def test_every_truncation_is_noticed(damaged: Damaged, what: str) -> None:
    """Cut at any byte, an object is damaged; only a log may end early."""
    if damaged.name not in ("memory", "logs") or (damaged.name == "logs" and what == "tail"):
        pytest.skip("the bytes are the same in every store; these two are quick")
    key = {"latest": damaged.latest, "tail": damaged.tail, "segment": damaged.segments[0]}[what]
    whole = damaged.read(key)
    store = damaged.store()
    for length in range(len(whole)):
        damaged.write(key, whole[:length])
        with pytest.raises(CorruptError) as caught:
            list(store.view("s").lines())
        assert caught.value.key == key


def test_registers_of_different_sessions_are_damage(damaged: Damaged) -> None:
    """The sound register of another session in the place of ours is noticed."""
    other = damaged.read(damaged.latest.replace("/s.", "/other."))
    damaged.write(damaged.latest, other)
    before = damaged.stored()
    refused(lambda: damaged.store().view("s"), CorruptError, "", offset=False)
    assert damaged.stored() == before


def test_a_lost_segment_is_not_an_empty_history(damaged: Damaged) -> None:
    """With all segments lost the session resumes; its history is reported as damaged, with the positions."""
    for key in damaged.segments:
        damaged.remove(key)
    before = damaged.stored()
    view = damaged.store().view("s")
    assert len(view.context) == 7
    error = refused(view.history, CorruptError, "sessions/s/", offset=False)
    assert error.kind == "missing_segment"
    (finding,) = [found for found in damaged.store().verify("s") if found.kind == "missing_segment"]
    assert (finding.first, finding.end) == (0, 10)
    assert damaged.stored() == before


def test_foreign_files_are_passed_over(damaged: Damaged) -> None:
    """Files that are not ours, anywhere in the store, disturb nothing."""
    folder = damaged.segments[0].rpartition("/")[0]
    before = list(damaged.store().view("s").lines())
    for key in (f"{folder}/README.txt", "latest/notes.txt", "sessions/s/junk", "junk", "latest/sub/x.jsonl.zst"):
        damaged.write(key, b"junk")
    assert [row.id for row in damaged.store().sessions().rows if row.warning] == []
    assert list(damaged.store().view("s").lines()) == before
    assert [found for found in damaged.store().verify("s") if found.severity == "damage"] == []
    with damaged.store().session("s") as session:
        session.append("on")
        session.seal()
        session.optimize(everything=True)
    assert damaged.read(f"{folder}/README.txt") == b"junk"


@pytest.mark.parametrize("name", ["short", "long " * 400])
def test_a_session_whose_card_is_lost_is_found(place: Damaged, name: str) -> None:
    """Verifying the whole store also finds sessions that no list shows any more, in every namespace."""
    for store in (place.store(), place.store().namespace("tenant")):
        with store.session(name) as session:
            session.append("x")
        with store.session("whole") as session:
            session.append("x")
    store = place.store().namespace("tenant")
    place.remove(next(key for key in place_keys(store) if "whole" not in key))
    assert [row.id for row in store.sessions().rows] == ["whole"]
    found = {name: bool(findings) for name, findings in store.verify_all()}
    assert found == {name: True, "whole": False}
    assert {name: bool(findings) for name, findings in place.store().verify_all()} == {name: False, "whole": False}


def place_keys(store: Store) -> list[str]:
    """Keys of the cards of a store."""
    listed = store.place.driver.execute((List(f"{store.place.prefix}latest/"),))[0]
    return [entry.key for entry in listed.entries]  # type: ignore[union-attr]
