"""Write a session as a file of another program.

Rule: a file is there whole and right, or not at all. It is written beside its place and read again as its program
would read it; its entries, its labels, the place where it goes on and what a model sees there must be those of the
session. Only then it gets its name.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from treering.checkpoint.context import Context
from treering.checkpoint.policy import find_policy
from treering.errors import CorruptError, UsageError
from treering.exporters.target import Composed, LeftOut, find_exporter
from treering.importers import SessionFile, read
from treering.importers.formats import find_format
from treering.importers.omp_blobs import FOLDER, find_folder
from treering.importers.session_file import read_outline
from treering.session.blocking import View
from treering.session.reader import Reader
from treering.storage.requests import Steps

_MISSED: Final = "the session shows them to the model there, and by its own rules the program does not"
_AMBIGUOUS: Final = "several entries have one id or come round in a circle, and the program may mean others than we do"
_REFUSED: Final = "it stands in the file, but the program opens no file with such an entry"
_PASSED_OVER: Final = "it stands in the file, but the program passes over such an entry and loses what is above it"
_ADDED: Final = "the session does not show them to the model there, and by its own rules the program does"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an export."""

    path: str
    format: str
    entries: int
    left_out: list[LeftOut]
    """What the format cannot say."""
    same_context: bool
    """The program sends to the model what the session would; else `left_out` tells why not."""


def export(
    view: View,
    path: str | os.PathLike[str],
    *,
    format: str,  # noqa: A002  # as it is called everywhere here
    overwrite: bool = False,
) -> Exported:
    """Write a session as a file of another program, which then goes on where the session stands.

    Args:
        view: The session.
        path: The file.
        format: `pi`, `omp`, `operator`, `kit`, `evva` or `claude`.
        overwrite: Replace the file if it exists.

    Raises:
        UsageError: The file exists, or there is no exporter for the format.
        CorruptError: What was written is not what the session says, and was removed again; please report it.
    """
    place, composed = Path(path), find_exporter(format).compose(view)
    if place.exists() and not overwrite:
        raise UsageError(f"file exists already. path={str(place)!r}", kind="file", remedy="ask to overwrite it")
    made: list[Path] = []
    try:
        made += _write_parts(place, composed)
        made.append(_write_beside(place, composed.data))
        left_out, same = _check(view, _read_again(made[-1], format, composed), composed)
        made[-1].replace(place)
    except BaseException:
        for each in made:
            each.unlink(missing_ok=True)
        raise
    return Exported(
        path=str(place), format=format, entries=len(composed.entry_ids or ()), left_out=left_out, same_context=same
    )


def _write_parts(place: Path, composed: Composed) -> Iterator[Path]:
    """Write what goes into files of their own, where the program will look for it; yield those that are new."""
    if not composed.parts:
        return
    folder = find_folder(place) or place.parent / FOLDER
    folder.mkdir(exist_ok=True)
    for name, data in composed.parts.items():
        if not (folder / name).exists():
            written = _write_beside(folder / name, [data])
            yield written.replace(folder / name)


def _write_beside(place: Path, data: Iterable[bytes]) -> Path:
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=place.suffix)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink()
        raise
    return Path(name)


def _read_again(path: Path, format: str, composed: Composed) -> SessionFile:  # noqa: A002
    """Read what was written: its words only if these are compared, as they are where entries have no ids."""
    return read(path, format=format) if composed.messages is not None else read_outline(path, format)


def _check(view: View, file: SessionFile, composed: Composed) -> tuple[list[LeftOut], bool]:
    """Compare a file with its session; tell what is left out, and whether the model sees the same."""
    by_name = file.header.version > 1 and not composed.ambiguous
    if composed.entry_ids is not None and file.header.version > 1:
        _require("entries", _named(composed.entry_ids), _named(file.entry_ids))
    if composed.labels is not None and by_name:
        # The store cuts labels to what a brief may hold. What was imported is written whole.
        labels = {name: label[: len(composed.labels.get(name, label))] for name, label in file.labels.items()}
        _require("labels", composed.labels, labels)
    if composed.messages is not None:
        _require("messages", composed.messages, [message.message for message in file.context(file.leaf).messages])
    expected = view.perform(_expected, find_format(file.format).POLICIES[0])
    leaf = file.leaf
    shown = [name for name in file.shown(leaf) if name not in composed.pieces]
    unread = _unread(file, leaf)
    left_out = [*composed.left_out, *unread, *_unseen(composed, expected), *_otherwise(view, expected)]
    same = len(shown) == len(expected) and (not by_name or shown == expected)
    if not same and composed.ambiguous:
        left_out.append(LeftOut("parent", 1, _AMBIGUOUS, seen=True))
    elif not same and not any(left.seen for left in composed.left_out):
        names = [[name for name in each if name not in composed.unseen] for each in (expected, shown)]
        _require("context", *names)
    return left_out, same and not any(left.seen for left in left_out)


def _unread(file: SessionFile, leaf: str | None) -> list[LeftOut]:
    """Tell of entries that the program cannot read, though they are its own: with them it loses more."""
    rules = find_format(file.format).RULES
    if rules.reads is None:
        return []
    path = set(file.path(leaf))
    ends = [end.encode() for end in rules.ends]
    found = Counter(
        (entry.type or "unknown", rules.refuses or entry.id in path)
        for entry in file.each_entry()
        if any(end in entry.raw for end in ends) or not rules.reads(entry.record)
    )
    reason = _REFUSED if rules.refuses else _PASSED_OVER
    return [LeftOut(kind, count, reason, seen) for (kind, seen), count in found.items()]


def _unseen(composed: Composed, expected: list[str]) -> list[LeftOut]:
    """Tell of which messages the program shows nothing, and whether the model would see them here."""
    found = Counter((*what, node in expected) for node, what in composed.unseen.items())
    return [LeftOut(kind, count, reason, seen) for (kind, reason, seen), count in found.items()]


def _otherwise(view: View, expected: list[str]) -> list[LeftOut]:
    """Tell how many messages the program sends or does not send by its own rules, unlike those of the session."""
    here, there = {item.node for item in view.recorded_context}, set(expected)
    counts = {_MISSED: len(here - there), _ADDED: len(there - here)}
    return [LeftOut("message", count, reason, seen=True) for reason, count in counts.items() if count]


def _named(ids: list[str | None]) -> list[str]:
    return [name for name in ids if name]


def _require(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise CorruptError(
            f"export differs from its session in {what}, nothing was written. expected={expected!r}, got={got!r}",
            kind="export",
        )


def _expected(reader: Reader, policy: str) -> Steps[list[str]]:
    """The nodes that a model sees by the policy of the program, edits included."""
    index = yield from reader.index()
    context = find_policy(policy).build(index.graph.path(reader.state.tip), index.graph)
    context = yield from reader.edited(index, Context(context.items, context.settings))
    return [item.node for item in context.items]
