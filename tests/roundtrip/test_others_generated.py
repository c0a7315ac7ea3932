"""Any session of Operator-Use, kit or evva, imported and exported, is the same file; continued, it has more."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings, strategies as st
from tests.sampling import few

import treering
from treering import assistant
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import SessionFile, read
from treering.programs.common.writing import encode_go, encode_python
from treering.programs.evva.read import indent
from treering.programs.formats import find_format

IDS = ["a", "b", "c", "d", "e", "f", "g", "h"]
TEXT = st.sampled_from(["", "hi", "\u2028 <b> & \U0001f680", "x" * 600, '"\\\n\x00\x7f'])
ODD: st.SearchStrategy[Any] = st.sampled_from([None, 0, 1.5, 1e21, 1e-7, "", [], {}, {"a": [1, {"b": None}]}])
SECONDS: st.SearchStrategy[Any] = st.sampled_from([1767600005.0, 1767600006.25, 1767600006.7620439, 1767600007, "soon"])
STAMPS: st.SearchStrategy[Any] = st.sampled_from(
    ["2026-02-01T10:00:01Z", "2026-02-01T10:00:01.657Z", "2026-02-01T10:00:01.656744688+02:00", "soon"]
)

CONTENTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "content": TEXT}),
        st.fixed_dictionaries({"type": st.just("tool_call"), "id": TEXT, "name": TEXT, "args": ODD}),
    ),
    max_size=2,
)
PARTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "data": st.fixed_dictionaries({"text": TEXT | ODD})}),
        st.fixed_dictionaries({"type": st.just("tool_result"), "data": st.fixed_dictionaries({"content": TEXT})}),
        st.fixed_dictionaries({"type": st.just("image"), "data": st.fixed_dictionaries({"data": TEXT})}),
        st.fixed_dictionaries({"type": TEXT, "data": ODD}),
        ODD,
    ),
    max_size=3,
)
NAMED = st.sampled_from([*IDS, "gone", ""])

OPERATOR: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "message": {
        "message": ODD
        | st.fixed_dictionaries(
            {
                "contents": CONTENTS | ODD,
                "id": TEXT,
                "timestamp": SECONDS,
                "role": st.sampled_from(["user", "assistant"]),
            }
        ),
        "meta": ODD,
    },
    "thinking_level_change": {"thinking_level": st.sampled_from(["off", "max", "ultra", None])},
    "model_change": {"model_id": TEXT, "provider_id": TEXT},
    "compaction": {
        "summary": TEXT, "first_kept_entry_id": NAMED, "tokens_before": ODD, "details": ODD, "from_hook": ODD,
    },
    "branch_summary": {"from_id": NAMED, "summary": TEXT, "details": ODD, "from_hook": ODD},
    "label": {"label": TEXT, "target_id": NAMED},
    "leaf": {"target_id": st.sampled_from([*IDS, "gone", None])},
    "session_info": {"name": TEXT},
    "custom": {"custom_type": TEXT, "data": ODD},
    "custom_message": {"custom_type": TEXT, "content": TEXT | CONTENTS, "display": ODD, "details": ODD},
    "channel": {"name": TEXT, "chat_id": ODD},
    "future": {"raw": ODD, "order": ODD},
}  # fmt: skip
KIT: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "message": {
        "role": st.sampled_from(["user", "assistant", "tool", "system", "odd"]),
        "parts": PARTS | ODD,
        "model": TEXT,
        "provider": TEXT,
    },
    "model_change": {"provider": TEXT, "model_id": TEXT},
    "branch_summary": {"from_id": NAMED, "summary": TEXT},
    "label": {"target_id": NAMED, "label": TEXT},
    "session_info": {"name": TEXT},
    "extension_data": {"ext_type": TEXT, "data": TEXT},
    "compaction": {
        "summary": TEXT, "first_kept_entry_id": NAMED, "tokens_before": ODD, "tokens_after": ODD,
        "messages_removed": ODD, "read_files": ODD,
    },
    "system_prompt": {"content": TEXT, "model": TEXT, "provider": TEXT},
    "future": {"raw": ODD, "order": ODD},
}  # fmt: skip


class Kind(NamedTuple):
    format: str
    suffix: str
    header: dict[str, Any]
    types: dict[str, dict[str, st.SearchStrategy[Any]]]
    times: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]


KINDS = {
    "operator": Kind(
        "operator", ".jsonl",
        {"type": "session", "version": 3, "id": "s-1", "timestamp": 1767600000.0, "cwd": "/repo"},
        OPERATOR, SECONDS, encode_python,
    ),
    "kit": Kind(
        "kit", ".jsonl",
        {"type": "session", "version": 3, "id": "a" * 32, "timestamp": "2026-02-01T10:00:00Z", "cwd": "/repo"},
        KIT, STAMPS, encode_go,
    ),
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn, kind: Kind) -> bytes:
    """A file with entries of all types, on branches, their fields in any order, some missing, some odd."""
    lines = [kind.encode(kind.header)]
    for number, own_id in enumerate(IDS[: draw(st.integers(0, len(IDS)))]):
        name = draw(st.sampled_from([*kind.types, "message", "message", "compaction"]))
        own = {field: draw(values) for field, values in kind.types[name].items() if draw(st.integers(0, 9))}
        parent = draw(st.sampled_from([None, "gone", *IDS[:number], *IDS[max(number - 1, 0) : number] * 9]))
        record = {"type": name, "id": own_id, "parent_id": parent, "timestamp": draw(kind.times)}
        record |= own | ({"extra": draw(ODD)} if not draw(st.integers(0, 5)) else {})
        shuffled = draw(st.permutations([*record])) if draw(st.booleans()) else [*record]
        lines.append(draw(st.sampled_from([kind.encode, _spaced]))({field: record[field] for field in shuffled}))
    return b"".join(line + b"\n" for line in lines)


def _spaced(record: Any) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode()


@settings(max_examples=few(13, whole=40))
@given(files(KINDS["operator"]))
def test_any_session_of_operator_comes_back_to_the_byte(data: bytes) -> None:
    """Import and export change nothing, and reading again gives the same answers."""
    _there_and_back("operator", data)


@settings(max_examples=few(13, whole=40))
@given(files(KINDS["kit"]))
def test_any_session_of_kit_comes_back_to_the_byte(data: bytes) -> None:
    """Import and export change nothing, and reading again gives the same answers."""
    _there_and_back("kit", data)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A document of evva, as evva writes it or in one line, with keys in any case, and with fields that it lacks."""
    message = st.fixed_dictionaries(
        {"Role": st.sampled_from(["user", "assistant", "tool"]), "Content": TEXT},
        optional={"Thinking": TEXT, "role": TEXT, "ToolCalls": ODD, "extra": ODD},
    )
    messages = draw(st.none() | st.lists(message, max_size=4))
    session = {"messages": messages, "usage": {"InputTokens": 7}, "todo": draw(ODD)}
    document = {"version": 1, "session_id": "s-1", "workdir": "/repo", "provider": "p"}
    document |= {"session": session, "x": draw(ODD)}
    if draw(st.booleans()):
        document = {name.upper(): value for name, value in document.items()}
    return indent(encode_go(document)) if draw(st.booleans()) else _spaced(document) + b"\n"


@settings(max_examples=few(13, whole=40))
@given(documents())
def test_any_session_of_evva_comes_back_to_the_byte(data: bytes) -> None:
    """Import and export change nothing, and reading again gives the same answers."""
    _there_and_back("evva", data, suffix=".json")


def _there_and_back(name: str, data: bytes, suffix: str = ".jsonl") -> None:
    store = treering.open(f"memory://round-{new_nonce()}")
    with tempfile.TemporaryDirectory() as folder:
        given_, back, more = (Path(folder, f"{each}{suffix}") for each in ("given", "back", "more"))
        given_.write_bytes(data)
        source = find_format(name).open_source(given_)
        store.load("s", source.drafts(), leaf=lambda: source.leaf, policy=name)
        export(store.view("s"), back, format=name)
        assert back.read_bytes() == data
        with store.session("s", policy=name) as session:
            session.append("and now?")
            session.append(assistant([{"type": "text", "text": "an answer"}]))
        done = export(store.view("s"), more, format=name)
        before, after = read(given_, format=name), read(more, format=name)
        if done.same_context:
            assert len(after.context(after.leaf).messages) == len(store.view("s").recorded_context)
        assert _last_texts(after) == ["and now?", "an answer"]
        if name != "evva":
            assert after.entry_ids[: len(before.entries)] == before.entry_ids
    store.close()


def _last_texts(file: SessionFile) -> list[str]:
    """The last two texts of what the model sees."""
    found = []
    for message in (shown.message for shown in file.context(file.leaf).messages[-2:]):
        fields: Any = message
        parts = fields.get("contents") or fields.get("content") or [{"text": fields.get("Content")}]
        found.append(parts[0].get("content") or parts[0].get("text"))
    return found
