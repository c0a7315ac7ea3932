"""The conformance test of importers, a function to call in a test.

    from my_program import read
    from treering.testing.importers import check_importer

    @pytest.mark.parametrize("path", sorted(Path("samples").glob("*.jsonl")))
    def test_importer(path):
        check_importer(read, [path])

It needs no pytest: a failure is an `AssertionError` that names the file and the rule. Pass files of all kinds that the
program writes, and some damaged ones; they are not changed. If the program's sessions are folders, pass these folders.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import cast

import msgspec

from treering.api.store import Store
from treering.errors import UsageError
from treering.format import values
from treering.format.values import Fields
from treering.importers.file_importer import FileImporter
from treering.importers.session_file import SessionFile
from treering.programs import part_of
from treering.programs.common.entry import ORDER, RAW, Encode, Entry
from treering.programs.common.source import HEAD_BYTES, ImportSource, open_stream, read_start
from treering.programs.formats import FolderLocator, Format, Locator
from treering.storage.memory import MemoryDriver
from treering.store.place import Place
from treering.transcript.node import HERE, Draft

PREFIXES_MAX = 20
"""Files of at most this many records are cut after each record to check that drafts only grow."""
_STRANGE = (
    b"",
    b"\n",
    bytes(100),
    b"hello\n",
    b"{}",
    b"[1]\n",
    b'{"type":"unheard of"}\n',
    b"\x1f\x8b\x00",
    b"\xff\xfe",
)


def check_importer(found: Format, files: Iterable[str | os.PathLike[str]], *, locate: Locator | None = None) -> None:
    """Check the rules for importers on which treering relies.

    Args:
        found: The part `read` of a program.
        files: Session files of the program, or folders.
        locate: The part `locate`; by default that of the known program of this name.

    Raises:
        AssertionError: A rule does not hold; the message says which, and for which file.
    """
    paths = [Path(path) for path in files]
    _require(bool(paths), "there are files to check it with", None)
    locator: Locator | None = locate or part_of(found.NAME, "locate")
    _check_module(found)
    if locator is None:
        raise AssertionError("the program has a part `locate`, or it is given")
    paths_are = all(isinstance(each, Path) for each in locator.folders(Path("/home/x"), {}))
    _require(paths_are, "folders are paths", None)
    listed = {folder: set(locator.find(folder)) for folder in {path.parent for path in paths}}
    for path in paths:
        _require(path in listed[path.parent], "find yields the file", path)
        before = _bytes_of(path)
        if path.is_dir():
            _check_folder(found, locator, path)
        else:
            _check_file(found, path)
        _require(_bytes_of(path) == before, "reading changes nothing", path)


def _bytes_of(path: Path) -> dict[str, bytes]:
    """The bytes of all files at a path, by name."""
    return {str(each): each.read_bytes() for each in (path, *path.rglob("*")) if each.is_file()}


def _require(holds: bool, rule: str, path: Path | None) -> None:  # noqa: FBT001  # reads like an assertion
    if not holds:
        raise AssertionError(f"{rule}. file={str(path)!r}" if path else rule)


def _check_module(found: Format) -> None:
    _require(found.NAME.isidentifier(), "NAME is a word", None)
    _require(bool(found.POLICIES), "POLICIES names at least one policy", None)
    for data in _STRANGE:
        _require(not found.detect(data), f"detect takes no file that begins with {data!r}", None)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "strange")
        for data in _STRANGE:
            place.write_bytes(data)
            _require(_refuses(found, place), f"open_source refuses {data!r} with a UsageError", None)


def _refuses(found: Format, path: Path) -> bool:
    try:
        found.open_source(path)
    except UsageError:
        return True
    return False


def _check_file(found: Format, path: Path) -> None:
    with open_stream(path) as stream:
        head = read_start(stream, HEAD_BYTES)
    _require(found.detect(head), "detect knows the file by its beginning", path)
    _check_source(found, path)
    _check_records(found, found.open_source(path), path)
    _check_growth(found, path)
    _check_view(found, path)
    _check_store(found, path)


def _check_folder(found: Format, locator: Locator, path: Path) -> None:
    files = [file for file in path.rglob("*") if file.is_file()]
    units = {cast(FolderLocator, locator).unit_of(str(file.absolute())) for file in files}
    _require(str(path.absolute()) in units, "unit_of knows the folder by its files", path)
    _check_source(found, path)
    _check_view(found, path)
    _check_store(found, path)


def _check_source(found: Format, path: Path) -> None:
    """Check the header, the drafts and the problems of a session."""
    source = found.open_source(path)
    _require(source.header.format == found.NAME, "the header names the format", path)
    _require(bool(source.header.session_id), "the header has an id", path)
    drafts = list(source.drafts())
    _check_drafts(drafts, path)
    _require(_shape(drafts) == _shape(found.open_source(path).drafts()), "every reading gives the same drafts", path)


def _check_drafts(drafts: list[Draft], path: Path) -> None:
    first = drafts[0] if drafts else Draft()
    _require((first.type, first.kind) == ("note", "import"), "the first draft is a note of the kind `import`", path)
    ids = [draft.id for draft in drafts if draft.id is not None]
    _require(len(set(ids)) == len(ids), "no id is used twice", path)
    for draft in drafts:
        named = draft.type != "node" or (draft.id is not None and draft.parent is not HERE)
        _require(named, f"nodes have an id and an explicit parent: {draft.kind!r}", path)
        values.encode([draft.payload, draft.brief, draft.source])


def _check_records(found: Format, source: ImportSource, path: Path) -> None:
    """Check that the bytes of each entry are kept or can be reproduced, and that places increase."""
    # A source may know files beside this one that a record refers to.
    write = getattr(getattr(source, "dialect", None), "write", found.to_record)
    entries: list[Entry] = []
    for entry, drafts in source.records():
        if entry is None:
            continue
        entries.append(entry)
        _require(bool(drafts), "an entry has a draft", path)
        again = not entry.record or _bytes_again(write, found.encode, entry, drafts[-1])
        _require(again, f"the bytes of line {entry.line} can be made again", path)
    places = [(entry.line, entry.offset) for entry in entries]
    _require(all(one < other for one, other in pairwise(places)), "entries come in the order of the file", path)
    nodes = {draft.id for draft in source.drafts() if draft.type == "node"}
    _require(source.leaf is None or source.leaf in nodes, "the leaf is a node", path)


def _bytes_again(write: Callable[[Draft, str | None], Fields], encode: Encode, entry: Entry, draft: Draft) -> bool:
    """Return whether the bytes of an entry's record can be made from the source of its draft."""
    left = dict(draft.source or {})
    if RAW in left:
        raw = left[RAW]
        return (raw if isinstance(raw, bytes) else str(raw).encode("utf-8", "surrogatepass")) == entry.raw
    order = left.pop(ORDER, None)
    parent = (draft.links or {}).get("source_parent") or (draft.parent if isinstance(draft.parent, str) else None)
    bare = msgspec.structs.replace(draft, source=left or None)
    for above in (parent, entry.parent):
        record = write(bare, above)
        ordered = {name: record[name] for name in order if name in record} if isinstance(order, list) else record
        if encode(ordered) == entry.raw:
            return True
    return False


def _check_growth(found: Format, path: Path) -> None:
    """Check that the drafts of a file that has grown begin with the earlier ones."""
    with open_stream(path) as stream:
        rows = read_start(stream).splitlines(keepends=True)
    if not 1 < len(rows) <= PREFIXES_MAX:
        return
    whole = _shape(found.open_source(path).drafts())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, path.name.removesuffix(".gz"))
        for end in range(1, len(rows)):
            place.write_bytes(b"".join(rows[:end]))
            try:
                part = _shape(found.open_source(place).drafts())
            except UsageError:
                continue  # cut in front of the header, or inside a document
            _require(part[1:] == whole[1 : len(part)], f"a file that grows behind line {end} only adds drafts", path)


def _shape(drafts: Iterable[Draft]) -> list[bytes]:
    return [
        values.encode([draft.type, draft.kind, draft.id, draft.payload, draft.brief, draft.links]) for draft in drafts
    ]


def _check_view(found: Format, path: Path) -> None:
    """Check the tree and the contexts of a file."""
    file = SessionFile(found, found.open_source(path))
    looks: tuple[Callable[[], object], ...] = (file.tree, file.listing, lambda: file.labels, lambda: file.title)
    for look in looks:
        look()
    for leaf in {*file.entry_ids[:: max(1, len(file.entry_ids) // 50)], file.leaf, None, "no such entry"}:
        names = file.path(leaf)
        _require(len(set(names)) == len(names), "no path comes round in a circle", path)
        file.context(leaf)


def _check_store(found: Format, path: Path) -> None:
    """Check that an import stores all nodes and the leaf, and that a second import finds nothing new."""
    store = Store(Place(MemoryDriver()))
    source = found.open_source(path)
    nodes = [draft.id for draft in source.drafts() if draft.type == "node"]
    result = FileImporter(store).load(path, of=found)
    view = store.view(result.session)
    _require([node.id for node in view.nodes()] == nodes, "the store has every node, in order", path)
    _require(view.node == source.leaf, "the session stands at the leaf", path)
    _require(FileImporter(store).load(path, of=found).outcome == "unchanged", "a second import finds nothing new", path)
