"""Session files, compared with what the real programs answered for them: every case of every file of a folder."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.golden.dropped import classes, without
from tests.golden.folder import ANY, DEFAULT, KINDS, SYSTEMS, Golden

import treering
from treering.errors import TreeringError
from treering.ids import new_nonce
from treering.importers import FileContext, SessionFile
from treering.programs.formats import find_format

BLOB: Final = "blob:sha256:"
_OF_THE_RECORDING: Final = ("deleted_by_listing",)  # what the listing did to the file, not what it showed

Answer = tuple[object, object]
"""Theirs and ours."""


@pytest.mark.sampled(8)
def test_answers_are_those_of_the_program(
    golden: Golden, kind: str, compared: Counter[tuple[str, str]], done: set[tuple[Path, str]], tmp_path: Path
) -> None:
    """Every case of the file is answered as the program answered it, but for what the program drops of the file.

    One kind of question in eight here, all with `make whole`.
    """
    done.add((golden.answer, kind))
    dropped = classes(golden)
    answer = _ANSWERS[kind] if golden.accepted else _open  # that of a program which destroyed the file is none
    for case in golden.cases(kind):
        theirs, ours = map(plain, answer(golden, case))
        compared[golden.system, kind] += 1
        if theirs != ours and dropped:
            assert _names(theirs) <= _names(ours), "the program has what we lack"
            theirs, ours = map(plain, answer(without(golden, tmp_path), case))
        assert ours == theirs, dropped


def test_every_case_of_the_folder_was_compared(
    all_golden: list[Golden], compared: Counter[tuple[str, str]], done: set[tuple[Path, str]]
) -> None:
    """No case is passed over: the numbers are those that the answers in the folder give, system by system."""
    files = {(golden.answer, kind) for golden in all_golden for kind in KINDS if golden.cases(kind)}
    if done != files:
        pytest.skip("only some of the files were compared")
    assert {golden.system for golden in all_golden} <= SYSTEMS.keys()
    expected: Counter[tuple[str, str]] = Counter()
    for golden in all_golden:
        for kind in KINDS:
            expected[golden.system, kind] += len(golden.cases(kind))
    assert compared == +expected


def plain(value: Any) -> Any:
    """A JSON value in which null and absent are the same."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if part is not None}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def _names(value: Any) -> set[Any]:
    """All texts and numbers in a value."""
    if isinstance(value, dict):
        return {name for part in value.values() for name in _names(part)}
    if isinstance(value, list):
        return {name for part in value for name in _names(part)}
    return {value} if isinstance(value, str) else set()


def our_id(golden: Golden, theirs: object) -> str | None:
    """Our id for an id in an answer: for old files, which have none, that of the entry at the same place."""
    made = golden.file.header.version < 2 and golden.system != "evva"
    place = golden.expected["entry_ids"].index(theirs) if made and theirs in golden.expected["entry_ids"] else None
    return golden.file.entry_ids[place] if place is not None else str(theirs) if theirs else None


def leaf_of(golden: Golden, case: dict[str, Any]) -> str | None:
    """The entry that a case is about."""
    return golden.file.leaf if case["leaf"] == DEFAULT else our_id(golden, case["leaf"])


def _open(golden: Golden, _case: dict[str, Any]) -> Answer:
    """What a program refuses we may refuse or read. What it reads we read, and never do we write."""
    before = golden.path.read_bytes()
    try:
        opened = bool(golden.file.entry_ids or golden.accepted)
    except TreeringError:
        opened = False
    assert golden.path.read_bytes() == before
    return True, opened or not golden.accepted


def _entry_ids(golden: Golden, case: dict[str, Any]) -> Answer:
    theirs = case["entry_ids"]
    if len(theirs) == len(golden.file.entry_ids):
        theirs = [name and our_id(golden, name) for name in theirs]
    return theirs, golden.file.entry_ids


def _leaf(golden: Golden, case: dict[str, Any]) -> Answer:
    return our_id(golden, case["open"]["leaf"]), golden.file.leaf


def _title(golden: Golden, case: dict[str, Any]) -> Answer:
    return case["open"].get("session_name") or "", golden.file.title


def _labels(golden: Golden, case: dict[str, Any]) -> Answer:
    return {our_id(golden, name): label for name, label in case["labels"].items()}, golden.file.labels


def _tree(golden: Golden, case: dict[str, Any]) -> Answer:
    return _flat(case["tree"], lambda name: our_id(golden, name)), _flat(golden.file.tree(), lambda name: name)


def _flat(tree: list[Any], rename: Callable[[Any], object]) -> list[object]:
    """A tree as a list of depth, id and label in its order, since comparing deep lists exhausts the stack."""
    flat: list[object] = []
    stack = [(0, node) for node in reversed(tree)]
    while stack:
        depth, node = stack.pop()
        flat.append([depth, rename(node[0]), *node[1:-1]])
        stack += [(depth + 1, child) for child in reversed(node[-1])]
    return flat


def _listing(golden: Golden, case: dict[str, Any]) -> Answer:
    theirs = {name: value for name, value in case["list_info"].items() if name not in _OF_THE_RECORDING}
    ours = golden.file.listing()
    return theirs, {name: ours.get(name) for name in theirs}


def _branch(golden: Golden, case: dict[str, Any]) -> Answer:
    theirs = [our_id(golden, name) for name in case["branch"] or []]
    return theirs, golden.file.path(leaf_of(golden, case))


def _shown(golden: Golden, case: dict[str, Any]) -> FileContext:
    return golden.file.context(leaf_of(golden, case), SYSTEMS[golden.system].policy)


def _context(golden: Golden, case: dict[str, Any]) -> Answer:
    ours = _shown(golden, case)
    if "error" in case:  # the program failed; we have an answer
        return True, True
    messages = case["context"]["messages"] or []
    theirs = [_message(golden, message) for message in messages]
    nameless = any(message.get("from") == ANY for message in messages)
    return theirs, [[ANY if nameless else shown.source, shown.message] for shown in ours.messages]


def _message(golden: Golden, theirs: dict[str, Any]) -> list[object]:
    """The entry that an expected message is of, if it is one's own, and the message."""
    if "message" in theirs:
        return [None, theirs["message"]]
    source = ANY if theirs["from"] == ANY else our_id(golden, theirs["from"])
    given = {name: value for name, value in theirs.items() if name != "from"}
    return [source, given or _own_message(golden, source)]


def _own_message(golden: Golden, source: str | None) -> object:
    """The message of an entry as it stands in the file, but for what the program migrates or puts in its place."""
    entry = next(entry for entry in reversed(golden.file.entries) if entry.id == source)
    message = entry.record["message"]
    return _resolved(message | {"role": "custom"} if message.get("role") == "hookMessage" else message, golden.blobs)


def _resolved(value: Any, blobs: Path) -> Any:
    """A message with its images in the place of the references to them."""
    if isinstance(value, dict):
        return {name: _resolved(part, blobs) for name, part in value.items()}
    if isinstance(value, list):
        return [_resolved(part, blobs) for part in value]
    if not isinstance(value, str) or not value.startswith(BLOB) or not (blobs / value.removeprefix(BLOB)).exists():
        return value
    data = (blobs / value.removeprefix(BLOB)).read_bytes()
    return data.decode() if data.startswith(b"data:") else base64.b64encode(data).decode()


def _state(golden: Golden, case: dict[str, Any]) -> Answer:
    ours = _shown(golden, case).state
    if "error" in case:
        return True, True
    return {name: value for name, value in case["context"].items() if name != "messages"}, ours


def _transcript(golden: Golden, case: dict[str, Any]) -> Answer:
    """What the program shows to a person."""
    ours = golden.file.transcript(leaf_of(golden, case))
    theirs = [_message(golden, message) for message in case["transcript"]]
    return theirs, [[message.source, message.message] for message in ours]


def _fork(golden: Golden, case: dict[str, Any]) -> Answer:
    """A fork through the store has all nodes of the path and shows what the file shows there.

    Where an id is used twice, the store gives the later entry another one and has below each what was written for it;
    a circle has no first entry, and the store cuts it above the one that stands first. Both may give another path.
    """
    file, leaf = golden.file, our_id(golden, case["leaf"])
    policy = SYSTEMS[golden.system].policy
    store = treering.open(f"memory://golden-{new_nonce()}")
    source = find_format(file.format).open_source(golden.path, blobs=golden.blobs if golden.blobs.is_dir() else None)
    store.load("source", source.drafts(), leaf=lambda: source.leaf, policy=policy)
    with store.session("source") as session:
        nodes = {node.id for node in session.nodes()}
        named = {entry.id: drafts[-1].id for entry, drafts in source.records() if entry is not None}
        path = [node for name in file.path(leaf) if (node := named[name]) in nodes]
        session.fork("fork", node=path[-1] if path else None)
    fork = store.view("fork")
    kept = {node.id for node in fork.nodes()} & set(path)
    ours = {
        "nodes": sorted(kept),
        "context": [item.message for item in fork.recorded_context],
        "labels": {name: label for name, label in fork.labels().items() if name in path},
    }
    theirs = {
        "nodes": sorted(set(path)),
        "context": [message.message for message in file.context(leaf, policy).messages],
        "labels": {name: label for name, label in file.labels.items() if name in path},
    }
    store.close()
    if theirs != ours and _is_twisted(file, leaf):
        return path[-1:], [node for node in path[-1:] if node in kept]
    return theirs, ours


def _is_twisted(file: SessionFile, leaf: str | None) -> bool:
    """Tell a path that comes round in a circle, or on which an id is used twice."""
    path, used = file.path(leaf), Counter(file.entry_ids)
    parents = {entry.id: entry.parent for entry in file.entries}
    return any(used[name] > 1 for name in path) or parents.get(next(iter(path), None)) in path


_ANSWERS: Final = {
    "open": _open,
    "entry_ids": _entry_ids,
    "leaf": _leaf,
    "title": _title,
    "labels": _labels,
    "tree": _tree,
    "listing": _listing,
    "branch": _branch,
    "context": _context,
    "state": _state,
    "transcript": _transcript,
    "fork": _fork,
}
