"""Every byte of every kind of object changed, and every length cut: an error or the same data, never other data.

What is undamaged stays readable, and `verify` finds the damage, with its key and the positions affected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.faultlog import FaultLog, rounds
from tests.sampling import few
from tests.session.backends import Backend, memory_backend

from treering.api.store import Store
from treering.api.view import View
from treering.errors import CorruptError, FormatVersionError, TreeringError
from treering.maintenance.verify import DAMAGE
from treering.storage.open import open_driver
from treering.storage.requests import Delete, Put
from treering.store.place import Place

FLIPS, CUTS = few(50, whole=150), few(20, whole=60)
"""How many bytes of an object are flipped, and lengths tried, in the usual run; `make faults` tries more."""
LOG_OUTCOME = "an error, the same data, or whole appends from the beginning"
LARGE = bytes(range(256)) * 300  # becomes a blob


class Seen(NamedTuple):
    """What can be read of a session, each part by itself; an error stands for what cannot."""

    context: object
    history: object
    state: object


class Kind(NamedTuple):
    """A kind of object, and what damage to it may take away."""

    key: str
    """A part of its key."""
    hurts: frozenset[str]
    """Parts of a session that may be unreadable; the others are read as before."""
    appends: bool = False


EVERYTHING = frozenset(Seen._fields)
KINDS = {
    "latest": Kind("latest/s.", EVERYTHING),
    "tail": Kind("sessions/s/tail.jsonl.zst", EVERYTHING),
    "log": Kind("sessions/s/tail.jsonl", EVERYTHING, appends=True),
    "segment": Kind("sessions/s/(life)/segments/", frozenset({"history"})),
    "blob": Kind("sessions/s/(life)/blobs/", EVERYTHING),
    "treering.json": Kind("treering.json", frozenset()),
}


def record(backend: Backend) -> None:
    """A session in segments, tail and `latest`, with a blob, and another session beside it."""
    for name in ("s", "other"):
        with backend.store().session(name, title="T") as session:
            session.commit(["first", {"role": "user", "content": LARGE}], state={"n": 1})
            session.seal()
            session.commit(["second"], state={"n": 2})
            session.seal()
            session.append("third")
            session.commit(["fourth"], state={"n": 4})
            session._holds.clear()


def attempt(call: Callable[[], object]) -> object:
    """What a call returns, or its error; errors of other kinds are none that a user should see."""
    try:
        return call()
    except (CorruptError, FormatVersionError) as error:
        return error if error.key and error.remedy else TypeError("an error without key or remedy")


def walk(view: View) -> object:
    """Every payload and every line."""
    return [view.get(row.id).payload for row in view.nodes()], list(view.lines())


def see(store: Store, name: str = "s") -> Seen:
    """Read everything in a session that can be read."""
    view = attempt(lambda: store.view(name))
    if not isinstance(view, View):
        return Seen(view, view, view)
    return Seen(
        attempt(lambda: [item.message for item in view.context]),
        attempt(lambda: walk(view)),
        attempt(lambda: view.state),
    )


def places(size: int, count: int) -> list[int]:
    """All places of something small, so many of something large, its ends among them."""
    if size <= count:
        return list(range(size))
    return sorted({0, 1, size - 2, size - 1, *(place * size // count for place in range(count))})


def damages(data: bytes) -> Iterator[tuple[str, int, bytes | None]]:
    """Ways to damage an object, and where."""
    for at in places(len(data), rounds(FLIPS)):
        yield "byte flipped", at, data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
    for length in places(len(data), rounds(CUTS)):
        yield "object cut", length, data[:length]
    yield "object missing", 0, None
    for nonsense in (b"nonsense", bytes(len(data)), data + data, b"{}\n"):
        yield "object replaced by nonsense", 0, nonsense


def key_of(kind: Kind, objects: Mapping[str, bytes]) -> str:
    """The key of the first object of a kind in session `s`."""
    pattern = re.compile(re.escape(kind.key).replace(re.escape("(life)"), "[0-9a-f]+"))
    return next(key for key in sorted(objects) if pattern.match(key))


def judge(kind: Kind, fault: str, seen: Seen, sound: Seen) -> bool:
    """Check that what was read is what was recorded; tell whether something was said to be damaged."""
    for part, found, right in zip(Seen._fields, seen, sound, strict=True):
        if isinstance(found, TreeringError):
            assert part in kind.hurts, part
        elif kind.appends and fault == "object cut":
            assert part == "state" or is_beginning(found, right), part
        elif found != right:
            assert "blobs" in kind.key, part
            assert "missing attachment" in str(found), part
            return True
    return any(isinstance(found, TreeringError) for found in seen)


def is_beginning(found: Any, right: Any) -> bool:
    """Whether what was read is a beginning of what was recorded: an append that is torn was acknowledged to nobody."""
    pairs = zip(found, right, strict=True) if isinstance(found, tuple) else [(found, right)]
    return all(list(one) == list(other)[: len(list(one))] for one, other in pairs)


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_an_error_or_nothing(name: str, fault_log: FaultLog) -> None:
    """Whatever happens to one object: no read returns other data, the rest stays readable, and `verify` finds it."""
    kind = KINDS[name]
    backend = memory_backend(appends=kind.appends)
    record(backend)
    objects = backend.snapshot()
    sound, other = see(backend.store()), see(backend.store(), "other")
    key = key_of(kind, objects)
    for fault, at, data in damages(objects[key]):
        backend.driver().execute((Delete((key,)) if data is None else Put(key, data),))
        try:
            noticed = judge(kind, fault, see(backend.store()), sound)
            assert see(backend.store(), "other") == other
            check_findings(backend.store(), key, noticed=noticed)
        except Exception as error:
            raise AssertionError(f"{fault} at {at} of {key}: {error!r}") from error
        fault_log.record("stored bytes", fault, "an error, or the same data" if name != "log" else LOG_OUTCOME)
    backend.driver().execute((Put(key, objects[key]),))
    assert backend.snapshot() == objects  # no look has changed anything


def check_findings(store: Store, key: str, *, noticed: bool) -> None:
    """`verify` finds what reading noticed, and names the object, or the folder that lacks it."""
    assert [each for each in store.verify("other") if each.severity == DAMAGE] == []
    findings = [each for each in store.verify("s") if each.severity == DAMAGE]
    assert findings or not noticed
    for finding in findings:
        assert finding.key == key or finding.kind in ("missing_segment", "moment", "registers", "checkpoint")
        assert finding.remedy
        assert finding.first is not None or finding.offset is not None


@pytest.mark.parametrize("register", ["latest/s", "sessions/s/tail"])
def test_every_byte_of_a_slot(register: str, tmp_path: Path, fault_log: FaultLog) -> None:
    """Where a register is a pair of slots, damage of one is an error, or the other one stands in."""

    def store() -> Store:
        return Store(Place(open_driver(f"file://{tmp_path}", single_writer=True)))

    record(Backend("generic", lambda: open_driver(f"file://{tmp_path}", single_writer=True), dict))
    sound = see(store())
    for path in sorted(path for path in tmp_path.rglob("*") if str(path.relative_to(tmp_path)).startswith(register)):
        data = path.read_bytes()
        for fault, at, damaged in damages(data):
            if at % 3:
                continue
            path.unlink() if damaged is None else path.write_bytes(damaged)
            for found, right in zip(see(store()), sound, strict=True):
                assert isinstance(found, TreeringError) or found == right, f"{fault} at {at} of {path.name}"
            fault_log.record("stored bytes", fault, "an error, or the same data")
            path.write_bytes(data)
