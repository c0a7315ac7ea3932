"""A large file that grew is read from the end of the last reading, with the same result as a full reading."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from uuid import UUID

import pytest
import zstandard
from tests.roundtrip.authors import AUTHORS
from tests.sampling import few

from treering.api.store import Store
from treering.errors import ConflictError
from treering.format.record import decode_record
from treering.ids import time_of
from treering.importers import FileImporter, find_format
from treering.importers.origin import Reading
from treering.programs.claude import read as claude
from treering.programs.claude.course import Course
from treering.programs.claude.steps import Steps
from treering.programs.common import growth, lines, memo, reader
from treering.programs.common.chain import Chain
from treering.programs.common.growth import Growth, Look, Looks
from treering.programs.common.memo import Memo, Page
from treering.programs.common.source import Imported, ProblemLog
from treering.programs.pi import read as pi_module
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Get
from treering.store.place import Place

SEEDS = few(10, whole=20)
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
    """All contents and the head of the session; ids made by an import differ each time."""
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


@pytest.mark.parametrize("seed", range(few(3, whole=6)))
def test_an_import_in_steps_records_the_same(name: str, seed: int, tmp_path: Path, looks: Looks) -> None:
    """As one in the same steps that reads the whole file each time."""
    random = Random(f"{name} steps {seed}")
    path = tmp_path / "grown.jsonl"
    data = written(name, tmp_path, random)
    first = data.index(b"\n", data.index(b"\n") + 1) + 1
    stores = Store(Place(MemoryDriver())), Store(Place(MemoryDriver()))
    for cut in sorted({len(data), *random.choices(range(first, len(data) + 1), k=4)}):
        path.write_bytes(data[:cut])
        ours = FileImporter(stores[0], looks=looks).load(path, format=name)
        theirs = FileImporter(stores[1]).load(path, format=name)
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
    FileImporter(store, looks=looks).load(path, format="pi")
    path.write_bytes(b"".join(given))
    parsed.clear()
    assert FileImporter(store, looks=looks).load(path, format="pi").records == 1
    assert sorted(parsed) == sorted([given[0].strip(), given[-1].strip()])


def test_what_was_imported_is_not_read_again(tmp_path: Path, looks: Looks) -> None:
    """Neither its records nor their index: that would grow with the session."""
    given = pi(2000)
    driver = CountingDriver(MemoryDriver(), keep=True)
    path, store = tmp_path / "a.jsonl", Store(Place(driver))
    path.write_bytes(b"".join(given[:-2]))
    FileImporter(store, looks=looks).load(path, format="pi")
    for count in (len(given) - 1, len(given)):
        path.write_bytes(b"".join(given[:count]))
        driver.reset()
        taken = FileImporter(store, looks=looks).load(path, format="pi")
        assert taken.records == 1
        assert [
            request.key for request in driver.requests if isinstance(request, Get) and "/segments/" in request.key
        ] == []
        assert store.view(taken.session).node == json.loads(given[count - 1])["id"]


def claude_lines(count: int) -> list[bytes]:
    """The lines of a session of Claude Code."""
    names = [str(UUID(int=number + 1)) for number in range(count)]
    records = [
        {"type": "user", "uuid": name, "parentUuid": above, "sessionId": "s-1", "timestamp": "2026-01-05T08:00:00.000Z",
         "message": {"role": "user", "content": "words"}}
        for above, name in zip([None, *names], names, strict=False)
    ]  # fmt: skip
    return [json.dumps(record).encode() + b"\n" for record in records]


@pytest.fixture
def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files have many pieces and pages, as large ones do."""
    monkeypatch.setattr(growth, "PIECE_BYTES", 1000)
    monkeypatch.setattr(growth, "CHECKED_BYTES_MAX", 5000)
    monkeypatch.setattr(growth, "_READ_BYTES", 1000)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(memo, "FACTS_ON_PAGE", 8)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes of files that were read, and pages of what was known of them."""
    found: Counter[str] = Counter()
    decoded = Memo._decoded

    class Counted(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            count = super().readinto(buffer)
            found["bytes"] += count or 0
            return count

    def counted(of: Memo, page: Page) -> dict[str, Any]:
        found["pages"] += 1
        return decoded(of, page)

    monkeypatch.setattr(claude, "open_stream", lambda path: io.BufferedReader(Counted(path), 1000))
    monkeypatch.setattr(Memo, "_decoded", counted)
    return found


def test_one_more_record_costs_the_same_at_any_size(
    tmp_path: Path, looks: Looks, in_small: None, costs: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the file a few pieces are read, and of what was known of it a few pages."""
    monkeypatch.setattr(claude, "HEAD_ENTRIES_MAX", 5)
    seen = []
    for count in (500, 2000):
        given = claude_lines(count)
        path, store = tmp_path / f"{count}.jsonl", Store(Place(MemoryDriver()))
        path.write_bytes(b"".join(given[:-1]))
        FileImporter(store, looks=looks).load(path, format="claude")
        path.write_bytes(b"".join(given))
        costs.clear()
        taken = FileImporter(store, looks=looks).load(path, format="claude")
        assert taken.records == 1
        assert store.view(taken.session).node == json.loads(given[-1])["uuid"]
        seen.append(costs.copy())
    assert 0 < seen[1]["bytes"] < len(b"".join(claude_lines(100)))
    assert 0 < seen[1]["pages"] <= seen[0]["pages"] + 2 < 20


def test_small_files_leave_nothing_behind(tmp_path: Path) -> None:
    """They are read anew as quickly."""
    path, folder = tmp_path / "a.jsonl", tmp_path / "looks"
    path.write_bytes(b"".join(pi(10)))
    FileImporter(Store(Place(MemoryDriver())), looks=Looks(folder)).load(path)
    assert not folder.exists()


def test_a_look_holds_nothing_that_was_said(
    name: str, tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erasing a session need not know of it."""
    author = AUTHORS[name](tmp_path / "a.jsonl", Random(name))
    author.begin()
    author.write(*author.table)
    taken: list[bytes] = []
    monkeypatch.setattr(looks, "keep", lambda _, look: taken.append(said_in(look)))
    FileImporter(Store(Place(MemoryDriver())), looks=looks).load(author.path, format=name)
    assert len(taken) == 1
    assert b"words" not in taken[0]


def said_in(look: Look) -> bytes:
    """All that stands in a look."""
    pages = [look.fresh[page.offset :][: page.size] for page in look.contents.pages]
    return b"".join([look.state, *map(zstandard.decompress, pages)])


# what does not count


def test_a_change_far_before_the_end_is_noticed(name: str, tmp_path: Path, looks: Looks) -> None:
    """Though size and records behind it are what they were, and another record came."""
    random = Random(name)
    author = AUTHORS[name](tmp_path / "a.jsonl", random)
    author.begin()
    author.write(*[kind for kind in author.table if kind in ("message", "user")] * 5)
    store = Store(Place(MemoryDriver()))
    FileImporter(store, looks=looks).load(author.path, format=name)
    data = author.path.read_bytes()
    author.write(next(kind for kind in author.table if kind in ("message", "user")))
    new = author.path.read_bytes()[len(data) :]
    place = data.rindex(b"\n", 0, len(data) // 2) + 1
    field = b'"uuid":"' if name == "claude" else b'"id":"'
    at = data.index(field, place) + len(field)
    author.path.write_bytes(data[:at] + b"x" + data[at + 1 :] + new)
    with pytest.raises(ConflictError, match="rewritten"):
        FileImporter(store, looks=looks).load(author.path, format=name)


def changed_in_place(path: Path, place: int) -> None:
    """Say something else in a file, in as many bytes."""
    data = path.read_bytes()
    at = data.index(b"words", place)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"other")


def begins_again(path: Path, looks: Looks, name: str) -> bool:
    """Tell whether a file counts as changed, so that it is read from its beginning."""
    begun = looks.growth(path, name, 10_000)
    assert begun is not None
    return Reading(find_format(name).open_source(path), begun).units == 0


@pytest.fixture
def looked(tmp_path: Path, looks: Looks, in_small: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with many pieces that was looked at; those in its middle are not drawn."""
    monkeypatch.setattr(SystemRandom, "sample", lambda _, of, count: [*of][:count])
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(pi(200)))
    FileImporter(Store(Place(MemoryDriver())), looks=looks).load(path, format="pi")
    return path


def test_a_change_in_place_is_found_when_it_is_drawn(
    looked: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though another look was taken meanwhile: a digest is never made anew."""
    middle = looked.stat().st_size // 2
    changed_in_place(looked, middle)
    for more in (201, 202):
        with looked.open("ab") as file:
            file.write(pi(more)[-1])
        begun = looks.growth(looked, "pi", 10_000)
        assert begun is not None
        reading = Reading(find_format("pi").open_source(looked), begun)
        assert reading.units == more - 1
        rest(reading)
        assert reading.look is not None
        looks.keep(looked, reading.look)
    number = (looked.read_bytes().index(b"other") - 1) // 1000
    monkeypatch.setattr(SystemRandom, "sample", lambda *_: [number])
    assert begins_again(looked, looks, "pi")


@pytest.mark.parametrize("how", ["longer", "other file", "older"])
def test_what_is_no_mere_change_in_place_is_seen_at_once(looked: Path, looks: Looks, how: str) -> None:
    """What has another length, is another file or an older one, wherever it was changed."""
    before = looked.stat()
    if how == "longer":
        data = looked.read_bytes()
        looked.write_bytes(data.replace(b"words", b"more words", 101).replace(b"more words", b"words", 100))
    else:
        changed_in_place(looked, before.st_size // 2)
        os.utime(looked, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert not begins_again(looked, looks, "pi")
    if how == "other file":
        copy = looked.with_suffix(".new")
        copy.write_bytes(looked.read_bytes())
        copy.replace(looked)
    elif how == "older":
        os.utime(looked, ns=(before.st_atime_ns, before.st_mtime_ns - 1))
    assert begins_again(looked, looks, "pi")


def test_all_of_a_file_is_hashed_whose_program_changes_records(
    tmp_path: Path, looks: Looks, in_small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operator-Use rewrites its files in place when a user reacts to a message."""
    monkeypatch.setattr(SystemRandom, "sample", lambda _, of, count: [*of][:count])
    author = AUTHORS["operator"](tmp_path / "a.jsonl", Random(1))
    author.begin()
    author.write(*["message"] * 60)
    FileImporter(Store(Place(MemoryDriver())), looks=looks).load(author.path, format="operator")
    assert not begins_again(author.path, looks, "operator")
    changed_in_place(author.path, author.path.stat().st_size // 2)
    assert begins_again(author.path, looks, "operator")


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
def test_pages_that_are_damaged_are_passed_over(tmp_path: Path, looks: Looks, in_small: None, harm: str) -> None:
    """The file is read from its beginning then, and the next time from where that ended."""
    given = claude_lines(300)
    path, store, name = tmp_path / "a.jsonl", Store(Place(MemoryDriver())), ""
    for count, units in ((298, 298), (299, 1), (300, 1)):
        path.write_bytes(b"".join(given[:count]))
        taken = FileImporter(store, looks=looks).load(path, format="claude")
        name = taken.session
        assert taken.records in (units, units + 1)  # the first time with what is known of the file
        (pages,) = (each for each in (tmp_path / "looks").iterdir() if each.suffix)
        if harm == "gone":
            pages.unlink()
        else:
            data = pages.read_bytes()
            pages.write_bytes(data[: len(data) // 3] if harm == "cut" else bytes(byte ^ 1 for byte in data))
    assert [each for each in store.verify(name) if each.severity != "oddity"] == []
    assert store.view(name).node == json.loads(given[-1])["uuid"]


@pytest.mark.parametrize("harm", [b"", b"no look", None])
def test_a_look_that_is_damaged_or_gone_is_passed_over(tmp_path: Path, looks: Looks, harm: bytes | None) -> None:
    """The file is read from its beginning."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    FileImporter(store, looks=looks).load(path)
    (look,) = (each for each in (tmp_path / "looks").iterdir() if not each.suffix)
    look.unlink() if harm is None else look.write_bytes(harm or look.read_bytes()[:-1])
    path.write_bytes(b"".join(given))
    assert FileImporter(store, looks=looks).load(path).records == 1
    assert store.verify("s-1") == []


def test_a_look_of_another_layout_is_passed_over(
    tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch, parsed: list[bytes]
) -> None:
    """Another version may know other things."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    FileImporter(store, looks=looks).load(path)
    path.write_bytes(b"".join(given))
    monkeypatch.setattr(growth, "LAYOUT", growth.LAYOUT + 1)
    parsed.clear()
    assert FileImporter(store, looks=looks).load(path, format="pi").records == 1
    assert len(parsed) > 20


def test_what_another_reader_knew_is_passed_over(tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nobody raised the number of the layout."""
    given = pi(20)
    path, store = tmp_path / "a.jsonl", Store(Place(MemoryDriver()))
    path.write_bytes(b"".join(given[:-1]))
    with monkeypatch.context() as patch:
        patch.setattr(reader.Reader, "known", lambda _: growth.Knowledge(b"\x92\x01\x02", {}))
        FileImporter(store, looks=looks).load(path)
    path.write_bytes(b"".join(given))
    assert FileImporter(store, looks=looks).load(path).records == 1
    assert store.verify("s-1") == []


def test_another_store_has_its_own_place(tmp_path: Path, looks: Looks) -> None:
    """A look that came further than a store did is of no use there."""
    given = pi(20)
    path, stores = tmp_path / "a.jsonl", [Store(Place(MemoryDriver())) for _ in range(3)]
    for store, end in zip(stores, (5, 10, 21), strict=True):
        path.write_bytes(b"".join(given[:end]))
        FileImporter(store, looks=looks).load(path)
    assert [FileImporter(store, looks=looks).load(path).records for store in stores] == [16, 11, 0]


def test_compressed_files_are_read_as_a_whole(tmp_path: Path, looks: Looks) -> None:
    """Nobody appends to them."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(pi(10))))
    FileImporter(Store(Place(MemoryDriver())), looks=looks).load(path)
    assert not (tmp_path / "looks").exists()


def test_looks_that_cannot_be_kept_are_not(tmp_path: Path) -> None:
    """A cache folder that may not be written stops no import."""
    path, place = tmp_path / "a.jsonl", tmp_path / "file"
    place.write_bytes(b"")
    path.write_bytes(b"".join(pi(10)))
    looks = Looks(place / "looks", bytes_min=0)
    assert FileImporter(Store(Place(MemoryDriver())), looks=looks).load(path).outcome == "new"


def test_the_oldest_looks_go_first(tmp_path: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files there are, the folder stays small."""
    monkeypatch.setattr(growth, "LOOKS_MAX", 3)
    for number in range(5):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"".join(pi(10)))
        FileImporter(Store(Place(MemoryDriver())), looks=looks).load(path)
    assert len([*(tmp_path / "looks").iterdir()]) == 3 * 2


KEPT_OTHERWISE = {
    # from the header, and where things are
    "dialect", "version", "_header", "_log", "_recall", "_session", "linear", "_new_id", "_ids",
    "_entry_at",
    # of the record in hand
    "has_time", "stamp",
    # said once in a reading
    "_chained",
}  # fmt: skip


def test_a_look_has_all_that_readers_remember() -> None:
    """What is added to a reader must come into its state, or be named here."""
    chain, course = Chain("s"), Course(str)
    lines_reader = reader.Reader(pi_module.DIALECT, Imported(format="pi", version=3, session_id="s"), ProblemLog())
    of_claude = claude._Reader(course, claude.Ids(), ProblemLog(), None)
    assert remembered(chain) == {*Chain("s").known.__struct_fields__, *chain.facts}
    facts = lines_reader.known().facts.keys() - chain.facts.keys()
    assert remembered(lines_reader) == {*reader.State.__struct_fields__, *facts}
    assert remembered(course) == {*course.known.__struct_fields__, *course.facts} - {"run_of", "ended"}
    assert remembered(Steps()) == {"all", "ended"}
    assert remembered(of_claude) | {"made"} == {*claude._State.__struct_fields__}


def remembered(of: object) -> set[str]:
    """The names of what an object remembers from one record to the next."""
    return {name.removeprefix("_") for name in vars(of) if name not in KEPT_OTHERWISE}


def test_what_can_be_read_of_a_cut_compressed_file(tmp_path: Path, looks: Looks) -> None:
    """Is read, however much is asked for at once."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(pi(3000)))[:-2000])
    taken = FileImporter(Store(Place(MemoryDriver())), looks=looks).load(path)
    assert 1000 < taken.records < 3000
