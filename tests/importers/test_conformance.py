"""The conformance test for importers: ours pass it, and one that breaks a rule does not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.golden.folder import find_golden
from tests.sampling import few

from treering import programs
from treering.api.store import Store
from treering.errors import UsageError
from treering.importers import FileImporter, detect_format, find_format, register_program
from treering.programs.common.source import open_stream, read_start
from treering.programs.formats import Format
from treering.programs.pi import locate as pi_locate, read as pi
from treering.storage.memory import MemoryDriver
from treering.store.place import Place
from treering.testing.importers import check_importer

TIME = "2026-01-05T08:00:00.000Z"


@pytest.mark.parametrize("folder", ["pi152", "omp", "operator", "kit", "evva"])
def test_ours(shared: Path, folder: str) -> None:
    """Our own importers keep the rules for every golden file that they know."""
    found = find_format(folder.removesuffix("152"))
    files = [golden for golden in find_golden(shared / "golden") if golden.system == folder]
    known = [golden for golden in files if found.detect(head(golden.path))]
    readable = [golden.path for golden in known if golden.accepted or opens(found, golden.path)]
    assert len(readable) > 10
    check_importer(found, readable[:: few(3, whole=1)])


def opens(found: Format, path: Path) -> bool:
    """Tell whether a file that its program refuses is read here."""
    try:
        found.open_source(path)
    except UsageError:
        return False
    return True


def head(path: Path) -> bytes:
    """The beginning of a file."""
    with open_stream(path) as stream:
        return read_start(stream, 64 * 1024)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small session of pi."""
    place = tmp_path / "a.jsonl"
    rows: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/repo"}]
    for name, above in (("a", None), ("b", "a"), ("c", "b")):
        message = {"role": "user", "content": name, "timestamp": 1}
        rows.append({"type": "message", "id": name, "parentId": above, "timestamp": TIME, "message": message})
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def variant(**changed: object) -> Any:
    """The importer of pi, with some members replaced."""
    members = {name: getattr(part, name) for part in (pi, pi_locate) for name in dir(part) if name[0] != "_"}
    return SimpleNamespace(**members | changed)


class Source:
    """A source whose drafts are changed on the way."""

    def __init__(self, path: Path, change: Callable[[Any], Any]) -> None:
        self._inner = pi.open_source(path)
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def records(self) -> Any:
        for entry, drafts in self._inner.records():
            yield entry, [self._change(draft) for draft in drafts]

    def drafts(self) -> Any:
        for _, drafts in self.records():
            yield from drafts


def changing(change: Callable[[Any], Any]) -> Any:
    """The importer of pi, with every draft changed."""
    return variant(open_source=lambda path, **_: Source(Path(path), change))


def replaced(draft: Any, **changed: object) -> Any:
    """A changed draft of a node."""
    return msgspec.structs.replace(draft, **changed) if draft.type == "node" else draft


def writing(path: Any, blobs: object = None) -> Any:
    """An importer that writes."""
    if Path(path).name == "a.jsonl":
        Path(path).write_bytes(Path(path).read_bytes() + b" ")
    return pi.open_source(path)


def opening_anything(path: Any, blobs: object = None) -> Any:
    """An importer that takes any file for an empty session."""
    try:
        return pi.open_source(path)
    except UsageError:
        return SimpleNamespace()


NUMBERS = count()
BROKEN = {
    "takes_all": (variant(detect=lambda _: True), "detect takes no file"),
    "takes_none": (variant(detect=lambda _: False), "detect knows the file"),
    "finds_none": (variant(find=lambda _: iter(())), "find yields the file"),
    "other_name": (variant(NAME="other"), "the header names the format"),
    "opens_all": (variant(open_source=opening_anything), "open_source refuses"),
    "random": (changing(lambda draft: replaced(draft, payload=next(NUMBERS))), "every reading gives the same"),
    "no_ids": (changing(lambda draft: replaced(draft, id=None)), "nodes have an id"),
    "one_id": (changing(lambda draft: replaced(draft, id="a")), "no id is used twice"),
    "loses": (changing(lambda draft: replaced(draft, payload={"role": "user"}, source=None)), "bytes of line 2"),
    "writes": (variant(open_source=writing), "reading changes nothing"),
}
"""Importers that break a rule, and what is said about it."""


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_one_is_told(path: Path, name: str) -> None:
    """Each rule is checked, and named with the file where it does not hold."""
    importer, rule = BROKEN[name]
    with pytest.raises(AssertionError, match=rule):
        check_importer(importer, [path], locate=importer)


def test_a_later_draft_may_not_change_an_earlier_one(path: Path) -> None:
    """What depends on the end of the file breaks what was imported before it grew."""

    def open_source(path: Any, blobs: object = None) -> Any:
        size = Path(path).stat().st_size
        return Source(Path(path), lambda draft: replaced(draft, links={"size": str(size)}))

    with pytest.raises(AssertionError, match="only adds drafts"):
        check_importer(variant(open_source=open_source), [path], locate=pi_locate)


def test_no_files(path: Path) -> None:
    """Without a file nothing is checked, and that is said."""
    with pytest.raises(AssertionError, match="there are files"):
        check_importer(variant(), [])


@pytest.fixture
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget afterwards what a test registers."""
    monkeypatch.setattr(programs, "_registered", {})


def other(name: str) -> Any:
    """A format whose files begin with a line of their own."""
    return variant(NAME=name, detect=lambda head: head.startswith(b'{"type": "session"') and b"cwd" in head)


@pytest.mark.usefixtures("_registry")
def test_a_registered_format(path: Path) -> None:
    """It is asked first, can be named, and imports; the names of ours cannot be taken."""
    assert detect_format(path).NAME == "pi"
    register_program("other", SimpleNamespace(read=other("other"), locate=pi_locate))
    assert detect_format(path).NAME == find_format("other").NAME == "other"
    assert FileImporter(Store(Place(MemoryDriver()))).load(path).outcome == "new"
    with pytest.raises(UsageError, match="name of one that exists"):
        register_program("pi", SimpleNamespace(read=other("pi")))


PACKAGED = """
from treering.programs.pi.read import *
from treering.programs.pi.read import RULES
NAME = "packaged"
def detect(head):
    return head.startswith(b"packaged")
"""


@pytest.mark.usefixtures("_registry")
def test_a_program_of_a_distribution(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point is found where no other program fits; one that cannot be imported harms nothing."""
    for name, text in (("packaged", PACKAGED), ("broken", "import no_such_module")):
        folder = tmp_path / "site" / f"x_{name}"
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "read.py").write_text(text)
    points = {"broken": "x_broken", "packaged": "x_packaged", "none": "no_such_package"}
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(programs, "_installed", lambda: points)
    assert detect_format(path).NAME == "pi"
    assert "packaged" not in programs.known_programs()
    odd = tmp_path / "odd"
    odd.write_text("packaged")
    assert detect_format(odd).NAME == "packaged"
    assert find_format("packaged").NAME == "packaged"
    for name in ("broken", "none"):
        with pytest.raises(UsageError, match="unknown"):
            find_format(name)


def test_a_compressed_file_that_is_cut(tmp_path: Path) -> None:
    """Its beginning is enough to tell the format, and what cannot be told is no session file."""
    place = tmp_path / "a.jsonl.gz"
    for end in (1, 2, 3, 12, 30):
        place.write_bytes(gzip.compress(b'{"type":"x"}' * 50)[:end])
        for name in ("pi", "omp", "kit", "operator", "evva"):
            with pytest.raises(UsageError):
                find_format(name).open_source(place)
        with pytest.raises(UsageError):
            detect_format(place)
