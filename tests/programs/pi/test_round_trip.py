"""Any session of pi, imported and exported, is the same file; continued in any way, it is what the session says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st
from tests.programs.pi.reading import HEADER, lines
from tests.sampling import few

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import read
from treering.programs.formats import find_format
from treering.programs.pi.read import open_source

IDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
TIMES: list[Any] = ["2026-01-05T08:00:01.000Z", "2026-01-05T08:00:02.000Z", "2026-01-05T09:00:01+01:00", "yesterday", 5]
TEXT = st.sampled_from(["", "hi", "\u2028 <b> \ud83d\ude80", "\ud800", "x" * 600, '"\\\n\x00\x7f'])
BLOCKS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2)
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 1.5, 1e21, 1e-7, 12345678901234567890, "", [], {}, {"a": [1, {"b": None}]}]
)


def message() -> st.SearchStrategy[dict[str, Any]]:
    """A message of any role, also ones that no program would write."""
    roles = st.sampled_from(["user", "assistant", "toolResult", "system", "hookMessage", "odd"])
    known: dict[str, st.SearchStrategy[Any]] = {"role": roles, "content": st.one_of(TEXT, BLOCKS, st.none())}
    times: st.SearchStrategy[Any] = st.sampled_from([1, 1.5, None])
    return st.fixed_dictionaries(known, optional={"timestamp": times, "provider": TEXT, "model": TEXT, "x": ODD})


FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "message": {"message": message() | ODD},
    "compaction": {
        "summary": TEXT, "firstKeptEntryId": st.sampled_from([*IDS, "gone", None]), "tokensBefore": ODD,
        "systemMessage": message(), "fromHook": st.booleans(), "details": ODD, "usage": ODD,
    },
    "branch_summary": {"fromId": st.sampled_from([*IDS, "root"]), "summary": TEXT, "details": ODD},
    "custom": {"customType": TEXT, "data": ODD},
    "custom_message": {"customType": TEXT, "content": TEXT | BLOCKS, "display": st.booleans(), "details": ODD},
    "label": {"targetId": st.sampled_from([*IDS, "gone"]), "label": TEXT},
    "session_info": {"name": TEXT},
    "usage": {"kind": TEXT, "usage": st.fixed_dictionaries({"input": ODD, "cost": ODD})},
    "context_edit": {"targetId": st.sampled_from(IDS), "replacement": st.fixed_dictionaries({"content": TEXT}) | ODD},
    "model_change": {"provider": TEXT, "modelId": TEXT},
    "thinking_level_change": {"thinkingLevel": TEXT},
    "leaf": {"targetId": st.sampled_from([*IDS, None])},
    "future": {"raw": ODD, "order": ODD, "id2": ODD},
}  # fmt: skip


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry with its fields in any order, some missing, some odd."""
    kind = draw(st.sampled_from([*FIELDS, "message", "message", "message"]))
    own = {name: draw(values) for name, values in FIELDS[kind].items() if draw(st.integers(0, 9))}
    more = {"extra": draw(ODD)} if not draw(st.integers(0, 5)) else {}
    time = draw(st.sampled_from(TIMES + TIMES[:1] * 10))
    record = {"type": kind, "timestamp": time, **own, **more}
    return {name: record[name] for name in draw(st.permutations([*record]))} if draw(st.booleans()) else record


@st.composite
def sessions(draw: st.DrawFn, *, wild: bool) -> list[dict[str, Any]]:
    """Entries one below the other, with branches; if wild, also with orphans, cycles, and ids used twice or missing."""
    found: list[dict[str, Any]] = []
    for number, record in enumerate(draw(st.lists(entries(), max_size=8))):
        above = [None, *IDS[:number]] + (["gone", *IDS, ""] if wild else [])
        near = IDS[number - 1] if number else None
        parent = draw(st.sampled_from(above)) if draw(st.booleans()) else near
        name = draw(st.sampled_from([*IDS, None])) if wild and not draw(st.integers(0, 4)) else IDS[number]
        found.append({"type": record["type"], "id": name, "parentId": parent, **record})
    return found


def there_and_back(data: bytes) -> tuple[bytes, treering.Store, Path]:
    """Import a file, export it; its bytes then, the store with it as `s`, and the folder of the files."""
    folder = Path(tempfile.mkdtemp())
    path, target = folder / "given.jsonl", folder / "made.jsonl"
    path.write_bytes(data)
    store = treering.open(f"memory://{new_nonce()}")
    source = open_source(path)
    store.load("s", source.drafts(), leaf=lambda: source.leaf, policy="pi-1.5")
    export(store.view("s"), target, format="pi")
    return target.read_bytes(), store, folder


@settings(max_examples=few(20, whole=60))
@given(sessions(wild=True), st.sampled_from([1, 2, 3]))
def test_an_untouched_session_is_the_same_file(found: list[dict[str, Any]], version: int) -> None:
    """Whatever is in it, and however odd, the file that comes out has the bytes that went in."""
    data = lines(*found, header=HEADER | {"version": version})
    assert there_and_back(data)[0] == data


@settings(max_examples=few(20, whole=60))
@given(sessions(wild=True))
def test_reading_a_file_ends_and_gives_what_the_store_gives(found: list[dict[str, Any]]) -> None:
    """Tree, paths and contexts can be asked for everywhere; the store shows the same at the leaf, but for circles.

    A circle has no first entry: a path in a file ends where it comes round, as with the programs whose paths end at
    all, and the store cuts it above the entry that stands first.
    """
    data = lines(*found)
    _, store, folder = there_and_back(data)
    file = read(folder / "given.jsonl")
    file.tree()
    for leaf in [None, "gone", *file.entry_ids]:
        file.path(leaf)
        file.context(leaf)
    circular = any(problem.kind == "cycle" for problem in store.view("s").problems())
    if len(set(file.entry_ids)) == len(file.entry_ids) and None not in file.entry_ids and not circular:
        shown = [shown.message for shown in file.context(file.leaf).messages]
        assert [item.message for item in store.view("s").recorded_context] == shown


DEEDS = st.sampled_from(["say", "answer", "go", "label", "unlabel", "title", "compact", "model", "retract", "usage"])


@settings(max_examples=few(20, whole=60))
@given(sessions(wild=False), st.lists(st.tuples(DEEDS, st.integers(0, 20)), min_size=1, max_size=6))
def test_a_continued_session_is_read_as_it_stands(found: list[dict[str, Any]], deeds: list[tuple[str, int]]) -> None:
    """After any operations nothing of the file is missing, and an import of the export has the session's head."""
    _, store, folder = there_and_back(lines(*found))
    with store.session("s") as session:
        for deed, number in deeds:
            _do(session, deed, number)
    view, target = store.view("s"), folder / "continued.jsonl"
    done = export(view, target, format="pi")
    assert done.same_context
    file = read(target)
    assert [name for name in file.entry_ids if name in IDS] == [record["id"] for record in found]
    source = find_format("pi").open_source(target)
    store.load("again", source.drafts(), leaf=lambda: source.leaf, policy="pi-1.5")
    again = store.view("again")
    assert [item.node for item in again.recorded_context if item.node in IDS] == [
        item.node for item in view.recorded_context if item.node in IDS
    ]


def _compact(session: treering.Session, kept: str | None) -> None:
    try:
        session.compact("in short", kept=kept)
    except treering.UsageError as error:
        if error.kind != "parted":
            raise


def _do(session: treering.Session, deed: str, number: int) -> None:
    nodes = [node.id for node in session.nodes() if not node.retracted]
    node = nodes[number % len(nodes)] if nodes else None
    if deed in ("say", "answer"):
        session.append("more" if deed == "say" else treering.assistant("yes"))
    elif deed == "go":
        session.checkout(node)
    elif deed == "title":
        session.set_title(f"title {number}")
    elif deed == "model":
        session.set_model(f"m{number}", provider="p")
    elif deed == "usage":
        session.record_usage(input=number)
    elif deed == "compact":
        _compact(session, node if number % 2 else None)
    elif node is not None and deed == "retract":
        session.retract(node)
    elif node is not None:
        session.label(node, "here" if deed == "label" else None)
