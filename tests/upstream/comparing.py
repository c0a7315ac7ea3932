"""Our answers for a session file, beside those of a real program."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from treering.importers import SessionFile, read
from treering.programs.common.reader import text_of
from treering.programs.common.times import read_time
from treering.programs.omp.read import NOTES
from treering.programs.omp.views import NATIVE_PAYLOAD, NOTEBOOK

FORMATS: Final = {"pi073": "pi", "pi152": "pi", "omp": "omp"}
POLICIES: Final = {"pi073": "pi", "pi152": "pi-1.5", "omp": "omp"}
"""Format and policy of each program."""


class Difference(NamedTuple):
    """Two answers that differ."""

    what: str
    leaf: object
    theirs: object
    ours: object


def plain(value: Any) -> Any:
    """A JSON value as JavaScript has it: null and absent are the same, and so are 1 and 1.0."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if plain(part) is not None}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value) if math.isfinite(float(value)) else None
        except OverflowError:
            return None
    return value


def differences(program: str, path: Path, answer: dict[str, Any], blobs: Path | None = None) -> Iterator[Difference]:
    """Yield what a program says of a file and we do not."""
    file = read(path, format=FORMATS[program], blobs=blobs)
    names = _names(file, answer["entry_ids"])
    asked = {
        "entry_ids": (answer["entry_ids"], file.entry_ids),
        "leaf": (answer["leaf"], file.leaf),
        "title": (answer["title"], file.title),
        "labels": (answer["labels"], file.labels),
        "tree": (answer["tree"], answer["tree"] and _flat(file.tree())),
    }
    for what, (theirs, ours) in asked.items():
        yield from _compare(what, None, _renamed(theirs, names), ours)
    for case in answer["cases"]:
        if "error" not in case and "hangs" not in case:
            yield from _case(file, POLICIES[program], case, names)


def _case(file: SessionFile, policy: str, case: dict[str, Any], names: dict[Any, Any]) -> Iterator[Difference]:
    leaf = names.get(case["leaf"], case["leaf"])
    shown = file.context(leaf, policy)
    yield from _compare("branch", leaf, _renamed(case["branch"], names), file.path(leaf))
    theirs, ours = _messages(case["messages"], names), _ours(shown.messages)
    if not _is_dated(file, file.path(leaf) or file.path(next(reversed(file.entry_ids), None))):
        theirs, ours = _undated(theirs), _undated(ours)
    yield from _compare("context", leaf, theirs, ours)
    yield from _compare("state", leaf, case["state"], shown.state)
    if case.get("transcript") is not None:
        yield from _compare("transcript", leaf, _messages(case["transcript"], names), _ours(file.transcript(leaf)))


def _is_dated(file: SessionFile, path: Sequence[str | None]) -> bool:
    """Tell whether the entry that dates a provider's summary has a time, and is no note behind that summary."""
    by_id = {entry.id: entry.record for entry in file.entries}
    records = [by_id.get(name, {}) for name in path]
    latest = next((at for at in reversed(range(len(records))) if records[at].get("type") == "compaction"), len(records))
    summary, behind = records[latest : latest + 1], records[latest + 1 : latest + 2]
    kept = [row for row in records[:latest] if row.get("id") in [row.get("firstKeptEntryId") for row in summary]]
    if not kept and behind and text_of(behind[0].get("type")) in NOTES:
        return False
    return all(isinstance(row.get("timestamp"), str) and read_time(row["timestamp"]) for row in (kept or behind)[:1])


def _undated(rows: list[Any]) -> list[Any]:
    return [[source, message | {"timestamp": None} if _is_native(message) else message] for source, message in rows]


def _is_native(message: Any) -> bool:
    own = message.get("role") == "compactionSummary"
    return own and bool(message.get("providerPayload", {}).get("type") == NATIVE_PAYLOAD)


def _ours(messages: Any) -> list[Any]:
    return [[shown.source, without_words(shown.message)] for shown in messages]


def without_words(message: Any) -> Any:
    """A message without the words in which oh-my-pi, or we, explain a notebook to the model."""
    if message.get("customType") != NOTEBOOK or message["role"] != "custom" or message["display"]:
        return message
    text = message["content"].partition(":\n")[2].partition("Latest notebook revision:\n")
    return message | {"content": (text[2] or text[0]).removesuffix("</experimental-context-notes>").strip()}


def _messages(messages: list[Any], names: dict[Any, Any]) -> list[Any]:
    """A message that is no object goes to no model here."""
    return [
        [names.get(source, source), without_words(message)] for source, message in messages if isinstance(message, dict)
    ]


def _names(file: SessionFile, theirs: list[Any]) -> dict[Any, Any]:
    """Our ids for those that the program made for a file without any."""
    if file.header.version >= 2 or len(theirs) != len(file.entry_ids):
        return {}
    return dict(zip(theirs, file.entry_ids, strict=True))


def _renamed(value: Any, names: dict[Any, Any]) -> Any:
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    if isinstance(value, dict):
        return {names.get(name, name): part for name, part in value.items()}
    return names.get(value, value) if isinstance(value, str) else value


def _compare(what: str, leaf: object, theirs: Any, ours: Any) -> Iterator[Difference]:
    if plain(theirs) != plain(ours):
        yield Difference(what, leaf, theirs, ours)


def _flat(tree: list[Any]) -> list[object]:
    rows: list[object] = []
    stack = [(0, node) for node in reversed(tree)]
    while stack:
        depth, node = stack.pop()
        rows.append([depth, node[0], node[1]])
        stack += [(depth + 1, child) for child in reversed(node[2])]
    return rows


def first_unequal(theirs: Any, ours: Any) -> str:
    """Tell where two values begin to differ."""
    theirs, ours = plain(theirs), plain(ours)
    if isinstance(theirs, list) and isinstance(ours, list):
        for at, (one, other) in enumerate(zip(theirs, ours, strict=False)):
            if one != other:
                return f"[{at}]{first_unequal(one, other)}"
        return f" has {len(theirs)} theirs, {len(ours)} ours: {json.dumps((theirs + ours)[-1])[:200]}"
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in {**theirs, **ours}:
            if theirs.get(name) != ours.get(name):
                return f".{name}{first_unequal(theirs.get(name), ours.get(name))}"
    return f" theirs {json.dumps(theirs)[:200]}, ours {json.dumps(ours)[:200]}"
