"""A log whose end is cut off or zeroed is detected, except for appends that nothing else covers.

The mark in the lock file tells how long a log was, and `latest` what it accounts for. If a tool copied the folder
without its lock file, nothing tells of whole appends behind what `latest` accounts for: a log without them is the log
as it was before them, and a torn end is what a power cut leaves. What is left is then the session as it was after one
of its appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.sampling import few
from tests.session.backends import kill, texts

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import CorruptError

SECTORS = (512, 64, 16, 8)
STEP = few(5, whole=1)
"""Between two places at which a log is cut; each is tried near the end of a line, and all with `make whole`."""
BATCHES = (["m0"], ["m1", "m2"], ["x"], ["y", "z", "last"])


def record(session: Session, moments: list[list[str]]) -> None:
    """Record in a few appends; what was said after each is added to `moments`."""
    for batch in BATCHES:
        session.append(*batch) if batch != ["x"] else session.commit([treering.assistant("x")], state={"k": 1})
        moments.append(texts(session.context))


def damages(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A log that is cut at a byte, zeroed from a byte on, or in whole sectors."""
    end = len(data.rstrip(b"\0"))
    ends = {place for place in range(end) if b"\n" in data[max(place - 2, 0) : place + 2]}
    for place in sorted({*range(0, end, STEP), *ends}):
        yield f"cut at {place}", data[:place]
        yield f"zeros from {place} on", data[:place].ljust(len(data), b"\0")
    for size in SECTORS:
        for place in range(0, end, size):
            yield f"{size} zeros at {place}", data[:place] + bytes(size) + data[place + size :]


def said(store: Store) -> list[str]:
    """What the session says."""
    return texts(store.view("a").context)


def test_what_latest_accounts_for_is_told(tmp_path: Path) -> None:
    """After a close every loss is an error, to those who open the session and to `verify`; repair keeps what it can."""
    store = treering.open(tmp_path)
    moments: list[list[str]] = []
    with store.session("a") as session:
        record(session, moments)
    tail = tmp_path / "sessions/a/tail.jsonl"
    whole = tail.read_bytes()
    for number, (what, data) in enumerate(damages(whole)):
        tail.write_bytes(data)
        with pytest.raises(CorruptError):
            store.view("a")
        if number % few(31, whole=97) == 0:
            with pytest.raises(CorruptError):
                store.session("a")
            assert [found for found in store.verify("a") if found.severity == "damage"], what
            store.repair("a", into=f"r{number}")
            assert texts(store.view(f"r{number}").context) == moments[-1], what  # `latest` shows it still


def killed(store: Store) -> list[list[str]]:
    """Record in a session that is killed before anything else covers it; return what was said after each append."""
    session = store.session("a")
    moments: list[list[str]] = [[]]
    record(session, moments)
    kill(session)
    return moments


def test_what_a_mark_covers_is_told(tmp_path: Path) -> None:
    """Killed before anything else covers it: a loss is an error, for readers, writers and `verify`; repair goes on."""
    store = treering.open(tmp_path)
    moments = killed(store)
    tail = tmp_path / "sessions/a/tail.jsonl"
    whole = tail.read_bytes()
    for number, (what, data) in enumerate(damages(whole)):
        tail.write_bytes(data)
        with pytest.raises(CorruptError):
            store.view("a")
        if number % few(31, whole=97) == 0:
            with pytest.raises(CorruptError):
                store.session("a")
            assert [found for found in store.verify("a") if found.severity == "damage"], what
            if data.find(b"\n") > 0 and not data.startswith(b"\0"):
                store.repair("a", into=f"r{number}")
                assert set(texts(store.view(f"r{number}").context)) <= set(moments[-1]), what
    tail.write_bytes(whole)
    assert said(store) == moments[-1]


def test_an_older_copy_that_was_put_back_is_told_until_the_mark_is_removed(tmp_path: Path) -> None:
    """The error says how to go on with it."""
    store = treering.open(tmp_path)
    session = store.session("a")
    session.append("one")
    session.append("two")
    tail = tmp_path / "sessions/a/tail.jsonl"
    before = tail.read_bytes()
    session.append("three")
    kill(session)
    tail.write_bytes(before)
    with pytest.raises(CorruptError, match=r"were durable.*remove the file \.lock beside it"):
        store.session("a")
    (tmp_path / "sessions/a/.lock").unlink()
    with store.session("a") as session:
        session.append("another")
    assert said(store) == ["one", "two", "another"]


def test_without_a_mark_what_nothing_covers_leaves_a_moment(tmp_path: Path) -> None:
    """A loss is an error, or the session as it was after one of its appends."""
    store = treering.open(tmp_path)
    moments = killed(store)
    tail = tmp_path / "sessions/a/tail.jsonl"
    whole = tail.read_bytes()
    (tmp_path / "sessions/a/.lock").unlink()
    told = silent = 0
    for what, data in damages(whole):
        tail.write_bytes(data)
        try:
            left = said(store)
        except CorruptError:
            told += 1
            continue
        silent += left != moments[-1]
        assert left in moments, what
        odd = [found.kind for found in store.verify("a")]
        torn = data.rstrip(b"\0")
        assert odd == (["torn"] if torn and not torn.endswith(b"}\n") else odd), what
    assert told > 0
    assert silent > 0


APPENDS: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append("new"),
    "commit": lambda session: session.commit(["new"], state={"k": 2}),
    "refresh": lambda session: session.refresh(),
    "title": lambda session: session.set_title("t"),
}
KEEPS: dict[str, tuple[bool, Callable[[Session], object]]] = {
    "seal": (False, lambda session: session.seal()),
    "seal shared": (True, lambda session: session.seal()),
    "close": (False, lambda session: session.close()),  # that of a shared session leaves `latest` to others
}


def spoiled(store: Path, part: float, *, shared: bool) -> tuple[Session, Path, list[list[str]]]:
    """An open session, whose log ends in zeros from some part of it on, as bad sectors would leave it."""
    session = treering.open(store).session("a", shared=shared)
    moments: list[list[str]] = []
    record(session, moments)
    tail = store / "sessions/a/tail.jsonl"
    whole = tail.read_bytes()
    with tail.open("r+b") as file:  # the same file
        file.write(whole[: int(len(whole.rstrip(b"\0")) * part)].ljust(len(whole), b"\0"))
    return session, tail, moments


@pytest.mark.parametrize("verb", APPENDS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_handle_knows_what_it_was_told(tmp_path: Path, verb: str, part: float, *, shared: bool) -> None:
    """A handle whose records vanish from the log says so with its next look, and writes nothing over what is left."""
    session, tail, _ = spoiled(tmp_path, part, shared=shared)
    left = tail.read_bytes()
    with pytest.raises(CorruptError):
        APPENDS[verb](session)
    assert tail.read_bytes() == left
    kill(session)


@pytest.mark.parametrize("verb", KEEPS)
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_what_a_handle_keeps_is_not_lost(tmp_path: Path, verb: str, part: float) -> None:
    """A seal or close covers the lost records: the next open detects the loss, and a repair restores them."""
    shared, keep = KEEPS[verb]
    session, _, moments = spoiled(tmp_path, part, shared=shared)
    keep(session)
    kill(session)
    store = treering.open(tmp_path)
    with pytest.raises(CorruptError):
        store.view("a")
    assert [found for found in store.verify("a") if found.severity == "damage"]
    store.repair("a", into="b")
    assert texts(store.view("b").context) == moments[-1]
