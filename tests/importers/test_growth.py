"""A large file that grew is read from where the last look at it ended, and says what it says when read as a whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.roundtrip.authors import AUTHORS

from treering.errors import ConflictError
from treering.format.record import decode_record
from treering.ids import time_of
from treering.importers import Intake, claude, find_format, growth, lines, pi as pi_module, reader
from treering.importers.chain import Chain
from treering.importers.claude_course import Course
from treering.importers.growth import Growth, Looks
from treering.importers.origin import Reading
from treering.importers.source import Imported, ProblemLog
from treering.session.store import Place, Store
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Get

SEEDS = 20
FORMATS = [name for name in AUTHORS if name != "evva"]
"""evva writes a document, and no lines."""
DAMAGE = (
    b"\n",
    b"\n \t\n",
    b"\0\0\0\n",
    b"no json\n",
    b'{"type":"message","id":"torn","mes',
    b"[1]\n",
    b"null\n",
    b"\xff\n",
)


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    """Looks that are kept of every file, at every growth."""
    return Looks(tmp_path / "looks", bytes_min=0, growth_min=0)


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    """A format."""
    return str(request.param)


def written(name: str, folder: Path, random: Random) -> bytes:
    """A file in which anything may stand: all types of entries, old ones again, and what crashes leave."""
    author = AUTHORS[name](folder / "given.jsonl", random)
    author.begin()
    author.write(*random.choices([*author.table], k=random.randrange(3, 30)))
    given = author.path.read_bytes().splitlines(keepends=True)
    begins = 2 if name == "omp" else 1
    for _ in range(random.randrange(5)):
        again = random.choice([*DAMAGE, random.choice(given), given[random.randrange(len(given))].rstrip(b"\n")])
        given.insert(random.randrange(begins, len(given) + 1), again)
    return b"".join(given)


def rest(reading: Reading) -> list[Any]:
    """The drafts that were not read yet."""
    return [draft for part in reading.parts(1) for draft in part]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_reading_on_says_what_reading_all_says(name: str, seed: int, tmp_path: Path, looks: Looks) -> None:
    """Wherever the file ended then, in the middle of a line too: the same drafts, digest and place to go on."""
    random = Random(f"{name} {seed}")
    path, of = tmp_path / "grown.jsonl", find_format(name)
    data = written(name, tmp_path, random)
    first = data.index(b"\n", data.index(b"\n") + 1) + 1
    went_on = 0
    for cut in sorted({len(data), *random.choices(range(first, len(data) + 1), k=6)}):
        path.write_bytes(data[:cut])
        whole = Reading(of.open_source(path))
        drafts = rest(whole)
        begun = Growth(name) if (found := looks.growth(path, name, 10_000)) is None else found
        on = Reading(of.open_source(path), begun)
        went_on += on.units > 0
        before = on.units
        told = rest(on)
        skipped = Reading(of.open_source(path))
        for _ in zip(range(before), skipped.parts(1), strict=False):
            pass
        assert told == rest(skipped)
        assert (on.units, on.digest, on.active_ms) == (whole.units, whole.digest, whole.active_ms)
        assert (on.source.leaf, on.header, on.tail()) == (whole.source.leaf, whole.header, whole.tail())
        assert len(told) <= len(drafts)
        if on.look is not None:
            looks.keep(path, on.look)
    assert went_on


def recorded(store: Store, session: str) -> Any:
    """All that was said, and where the session stands; ids that an import makes are others each time."""
    view = store.view(session)
    said = [
        [
            record.type, record.kind, record.id if time_of(record.id) is None else "", record.parent, record.target,
            record.role, record.links, bytes(record.brief), bytes(record.body),
        ]
        for record in map(decode_record, view.lines())
        if record.type in ("node", "note") and record.kind != "origin"
    ]  # fmt: skip
    return said, view.node, view.heads


@pytest.mark.parametrize("seed", range(6))
def test_an_import_in_steps_records_the_same(name: str, seed: int, tmp_path: Path, looks: Looks) -> None:
    """As one in the same steps that reads the whole file each time."""
    random = Random(f"{name} steps {seed}")
    path = tmp_path / "grown.jsonl"
    data = written(name, tmp_path, random)
    first = data.index(b"\n", data.index(b"\n") + 1) + 1
    stores = Store(Place(MemoryDriver())), Store(Place(MemoryDriver()))
    for cut in sorted({len(data), *random.choices(range(first, len(data) + 1), k=4)}):
        path.write_bytes(data[:cut])
        ours = Intake(stores[0], looks=looks).take(path, format=name)
        theirs = Intake(stores[1]).take(path, format=name)
        assert (ours.outcome, ours.records, ours.session) == (theirs.outcome, theirs.records, theirs.session)
        assert recorded(stores[0], ours.session) == recorded(stores[1], ours.session)
        assert [each for each in stores[0].verify(ours.session) if each.severity != "oddity"] == []


# what it saves


def pi(count: int) -> list[bytes]:
    """The lines of a session of pi."""
    time = "2026-01-05T08:00:00.000Z"
    header = {"type": "session", "version": 3, "id": "s-1", "timestamp": time, "cwd": "/repo"}
    said = {"role": "user", "content": "words", "timestamp": 1}
    records = [
        {"type": "message", "id": f"{number + 1:08x}", "parentId": f"{number:08x}" if number else None,
         "timestamp": time, "message": said}
        for number in range(count)
    ]  # fmt: skip
    return [json.dumps(record).encode() + b"\n" for record in (header, *records)]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that were parsed."""
    found: list[bytes] = []
    parse = lines._whole_object

    def counted(data: bytes) -> dict[str, object] | None:
        found.append(data)
        return parse(data)

    monkeypatch.setattr(lines, "_whole_object", counted)
    return found


def test_only_new_lines_are_parsed(tmp_path: Path, looks: Looks, parsed: list[bytes]) -> None:
    """And the first ones, which tell the format and the session."""
    given = pi(2000)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    Intake(store, looks=looks).take(path, format="pi")
    path.write_bytes(b"".join(given))
    parsed.clear()
    assert Intake(store, looks=looks).take(path, format="pi").records == 1
    assert sorted(parsed) == sorted([given[0].strip(), given[-1].strip()])


def test_what_was_imported_is_not_read_again(tmp_path: Path, looks: Looks) -> None:
    """Neither its records nor their index: that would grow with the session."""
    given = pi(2000)
    driver = CountingDriver(MemoryDriver(), keep=True)
    path, store = tmp_path / "a.jsonl", Store(Place(driver))
    path.write_bytes(b"".join(given[:-2]))
    Intake(store, looks=looks).take(path, format="pi")
    for count in (len(given) - 1, len(given)):
        path.write_bytes(b"".join(given[:count]))
        driver.reset()
        taken = Intake(store, looks=looks).take(path, format="pi")
        assert taken.records == 1
        assert [
            request.key for request in driver.requests if isinstance(request, Get) and "/segments/" in request.key
        ] == []
        assert store.view(taken.session).node == json.loads(given[count - 1])["id"]


def test_small_files_leave_nothing_behind(tmp_path: Path) -> None:
    """They are read anew as quickly."""
    path, folder = tmp_path / "a.jsonl", tmp_path / "looks"
    path.write_bytes(b"".join(pi(10)))
    Intake(Store(Place(MemoryDriver())), looks=Looks(folder)).take(path)
    assert not folder.exists()


def test_a_look_holds_nothing_that_was_said(
    name: str, tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erasing a session need not know of it."""
    author = AUTHORS[name](tmp_path / "a.jsonl", Random(name))
    author.begin()
    author.write(*author.table)
    taken: list[bytes] = []
    monkeypatch.setattr(looks, "keep", lambda _, look: taken.append(look.state))
    Intake(Store(Place(MemoryDriver())), looks=looks).take(author.path, format=name)
    assert len(taken) == 1
    assert b"words" not in taken[0]


# what does not count


def test_a_change_far_before_the_end_is_noticed(name: str, tmp_path: Path, looks: Looks) -> None:
    """Though size and records behind it are what they were, and another record came."""
    random = Random(name)
    author = AUTHORS[name](tmp_path / "a.jsonl", random)
    author.begin()
    author.write(*[kind for kind in author.table if kind in ("message", "user")] * 5)
    store = Store(Place(MemoryDriver()))
    Intake(store, looks=looks).take(author.path, format=name)
    data = author.path.read_bytes()
    author.write(next(kind for kind in author.table if kind in ("message", "user")))
    new = author.path.read_bytes()[len(data) :]
    place = data.rindex(b"\n", 0, len(data) // 2) + 1
    field = b'"uuid":"' if name == "claude" else b'"id":"'
    at = data.index(field, place) + len(field)
    author.path.write_bytes(data[:at] + b"x" + data[at + 1 :] + new)
    with pytest.raises(ConflictError, match="rewritten"):
        Intake(store, looks=looks).take(author.path, format=name)


@pytest.mark.parametrize("harm", [b"", b"no look", None])
def test_a_look_that_is_damaged_or_gone_is_passed_over(tmp_path: Path, looks: Looks, harm: bytes | None) -> None:
    """The file is read from its beginning."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    Intake(store, looks=looks).take(path)
    (look,) = (tmp_path / "looks").iterdir()
    look.unlink() if harm is None else look.write_bytes(harm or look.read_bytes()[:-1])
    path.write_bytes(b"".join(given))
    assert Intake(store, looks=looks).take(path).records == 1
    assert store.verify("s-1") == []


def test_a_look_of_another_layout_is_passed_over(
    tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch, parsed: list[bytes]
) -> None:
    """Another version may know other things."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    Intake(store, looks=looks).take(path)
    path.write_bytes(b"".join(given))
    monkeypatch.setattr(growth, "LAYOUT", growth.LAYOUT + 1)
    parsed.clear()
    assert Intake(store, looks=looks).take(path, format="pi").records == 1
    assert len(parsed) > 20


def test_what_another_reader_knew_is_passed_over(tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nobody raised the number of the layout."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    with monkeypatch.context() as patch:
        patch.setattr(reader.Reader, "state", lambda _: b"\x92\x01\x02")
        Intake(store, looks=looks).take(path)
    path.write_bytes(b"".join(given))
    assert Intake(store, looks=looks).take(path).records == 1
    assert store.verify("s-1") == []


def test_another_store_has_its_own_place(tmp_path: Path, looks: Looks) -> None:
    """A look that came further than a store did is of no use there."""
    given = pi(20)
    path, stores = tmp_path / "a.jsonl", [Store(Place(MemoryDriver())) for _ in range(3)]
    for store, end in zip(stores, (5, 10, 21), strict=True):
        path.write_bytes(b"".join(given[:end]))
        Intake(store, looks=looks).take(path)
    assert [Intake(store, looks=looks).take(path).records for store in stores] == [16, 11, 0]


def test_compressed_files_are_read_as_a_whole(tmp_path: Path, looks: Looks) -> None:
    """Nobody appends to them."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(pi(10))))
    Intake(Store(Place(MemoryDriver())), looks=looks).take(path)
    assert not (tmp_path / "looks").exists()


def test_looks_that_cannot_be_kept_are_not(tmp_path: Path) -> None:
    """A cache folder that may not be written stops no import."""
    path, place = tmp_path / "a.jsonl", tmp_path / "file"
    place.write_bytes(b"")
    path.write_bytes(b"".join(pi(10)))
    looks = Looks(place / "looks", bytes_min=0)
    assert Intake(Store(Place(MemoryDriver())), looks=looks).take(path).outcome == "new"


def test_the_oldest_looks_go_first(tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are, the folder stays small."""
    monkeypatch.setattr(growth, "LOOKS_MAX", 3)
    for number in range(5):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"".join(pi(10)))
        Intake(Store(Place(MemoryDriver())), looks=looks).take(path)
    assert len([*(tmp_path / "looks").iterdir()]) == 3


KEPT_OTHERWISE = {
    # from the header, and where things are
    "dialect", "version", "_header", "_log", "_recall", "_session", "linear", "_new_id", "_ids",
    # of the record in hand
    "has_time", "stamp",
    # said once in a reading
    "_chained",
}  # fmt: skip
PARTS = {"runs", "run_of"}
"""Of a course, in the place of its runs by node."""


def test_a_look_has_all_that_readers_remember() -> None:
    """What is added to a reader must come into its state, or be named here."""
    chain, course = Chain("s"), Course(str)
    lines_reader = reader.Reader(pi_module.DIALECT, Imported(format="pi", version=3, session_id="s"), ProblemLog())
    of_claude = claude._Reader(course, claude.Ids(), ProblemLog(), None)
    assert remembered(chain) == {*Chain("s").known.__struct_fields__}
    assert remembered(lines_reader) == {*reader.State.__struct_fields__}
    assert remembered(course) - {"runs"} == {*course.known.__struct_fields__} - PARTS
    assert remembered(of_claude) | {"made"} == {*claude._State.__struct_fields__}


def remembered(of: object) -> set[str]:
    """The names of what an object remembers from one record to the next."""
    return {name.removeprefix("_") for name in vars(of) if name not in KEPT_OTHERWISE}


def test_what_can_be_read_of_a_cut_compressed_file(tmp_path: Path, looks: Looks) -> None:
    """Is read, however much is asked for at once."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(pi(3000)))[:-2000])
    taken = Intake(Store(Place(MemoryDriver())), looks=looks).take(path)
    assert 1000 < taken.records < 3000
