"""Write a session as a file of another program.

Rule: a file exists whole and verified, or not at all. It is written under a temporary name and read again as its
program would read it. Its entries, its labels, the leaf and the context at the leaf must be those of the session. Only
then is it renamed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from treering.api.view import View
from treering.checkpoint.context import Context
from treering.checkpoint.policy import find_policy
from treering.errors import CorruptError
from treering.importers import SessionFile, read
from treering.importers.outline import FileOutline
from treering.kinds import Kind
from treering.programs.common.source import file_to_write
from treering.programs.common.stored import let_index_go
from treering.programs.common.target import Composed, LeftOut, find_exporter
from treering.programs.formats import blobs_folder, find_format
from treering.session.reader import Readable
from treering.storage.requests import Steps

_MISSED: Final = "the session sends them to the model there, and by its own rules the program does not"
_AMBIGUOUS: Final = "several entries share one id or form a cycle, and the program may resolve them in another way"
_REFUSED: Final = "it is in the file, but the program opens no file with such an entry"
_PASSED_OVER: Final = "it is in the file, but the program skips such an entry and loses its ancestors"
_ADDED: Final = "the session does not send them to the model there, and by its own rules the program does"
_CUT: Final = "the session and, by its own rules, the program leave out different parts of them"

_Form: TypeAlias = tuple[str | None, str]
"""A message of a context: its entry, and its view."""


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export."""

    path: str
    format: str
    entries: int
    """The number of the file's entries or, if it has none, messages; without its header."""
    left_out: list[LeftOut]
    """Records that the format cannot hold."""
    same_context: bool
    """Whether the program sends the same context to the model as the session; otherwise `left_out` has the reasons."""


class _Shown(NamedTuple):
    """The branch of a session, and what a program should send of it."""

    path: list[str]
    """Its nodes, from the root."""
    forms: list[_Form]
    hidden: Collection[str] = ()
    """Retracted nodes, of any branch. A program that cannot hide messages may send them."""


def export(
    view: View,
    path: str | os.PathLike[str],
    *,
    format: str,  # noqa: A002  # as it is called everywhere here
    overwrite: bool = False,
) -> Exported:
    """Write a session as a file of another program, which continues at the session's head.

    Args:
        view: The session.
        path: The file.
        format: The name of the program, one of `treering.programs.common.target.targets()`.
        overwrite: Replace the file if it exists.

    Raises:
        UsageError: The file exists, or is no regular file, or there is no exporter for the format.
        NotFoundError: Its folder does not exist.
        CorruptError: The file differs from the session and was removed; please report this.
    """
    exporter = find_exporter(format)
    expected = view.perform(_expected, find_format(format).POLICIES[0])
    composed = exporter.compose(view)
    view.perform(let_index_go)
    place = file_to_write(Path(path), overwrite=overwrite)
    made: list[Path] = []
    try:
        made += _write_parts(place, format, composed)
        made.append(_write_beside(place, composed.data))
        if composed.messages is not None:
            _check_messages(read(made[-1], format=format), composed)
        written = FileOutline(made[-1], format, composed.entry_ids)
        left_out, same = _check(view, written, composed, expected)
        if place.exists():
            shutil.copymode(place, made[-1])
        made[-1].replace(place)
    except BaseException:
        for each in made:
            each.unlink(missing_ok=True)
        raise
    return Exported(
        path=str(Path(path)), format=format, entries=len(written.entry_ids), left_out=left_out, same_context=same
    )


def _write_parts(place: Path, program: str, composed: Composed) -> Iterator[Path]:
    """Write parts that the program keeps in separate files; yield the new files."""
    folder = blobs_folder(program, place)
    if not composed.parts or folder is None:
        return
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


def _check_messages(file: SessionFile, composed: Composed) -> None:
    """Compare the messages of a file with those of its session, for formats without ids."""
    _require("messages", composed.messages, [message.message for message in file.context(file.leaf).messages])


def _check(view: View, file: FileOutline, composed: Composed, session: _Shown) -> tuple[list[LeftOut], bool]:
    """Compare a file with its session; return what is left out, and whether the context is the same."""
    by_name = file.version > 1 and not composed.ambiguous
    if composed.entry_ids is not None and file.version > 1:
        _require("entries", _named(composed.entry_ids), _named(file.entry_ids))
    if composed.labels is not None and by_name:
        # The store cuts labels to the limit of a brief; imported labels are written whole.
        labels = {name: label[: len(composed.labels.get(name, label))] for name, label in file.labels.items()}
        _require("labels", composed.labels, labels)
    shown = [form for form in file.shown() if form[0] not in composed.pieces]
    expected, got = [[name for name, _ in forms] for forms in (session.forms, shown)]
    left_out = [*composed.left_out, *_unread(file), *_unseen(composed, expected)]
    same = len(got) == len(expected) and (not by_name or got == expected)
    sent: Iterable[str | None] = expected
    if not same and composed.ambiguous:
        left_out.append(LeftOut("parent", 1, _AMBIGUOUS, seen=True))
    elif any(left.seen for left in composed.left_out):
        pass  # the context differs, and why is told
    elif composed.foreign and by_name and shown != session.forms:
        _require_branch(session, composed, file.path(), got)
        sent = [*got, *(name for name in expected if name in composed.unseen)]
        left_out += _cut(session.forms, shown, file.rules.cuts)
        same = True
    elif not same:
        _require("context", *([name for name in names if name not in composed.unseen] for names in (expected, got)))
    left_out += _otherwise(view, sent)
    return left_out, same and not any(left.seen for left in left_out)


def _require_branch(session: _Shown, composed: Composed, on_path: set[str], sent: list[str | None]) -> None:
    """Require that the file ends where the session does, and that what both send is of one branch, in one order."""
    written, expected = set(composed.entry_ids or ()), [name for name, _ in session.forms]
    _require("leaf", *([name for name in session.path if name in names][-1:] for names in (written, on_path)))
    _require("context", [], [*{*sent}.difference(session.path, expected, session.hidden)])
    both = set(sent).intersection(expected)
    _require("order", *([name for name in names if name in both] for names in (expected, sent)))


def _unread(file: FileOutline) -> list[LeftOut]:
    """Return the program's own entries that it cannot read: it loses their ancestors as well."""
    rules = file.rules
    if rules.reads is None:
        return []
    path = file.path()
    ends = [end.encode() for end in rules.ends]
    found = Counter(
        (entry.type or "unknown", rules.refuses or entry.id in path)
        for entry in file.each_entry()
        if any(end in entry.raw for end in ends) or not rules.reads(entry.record)
    )
    reason = _REFUSED if rules.refuses else _PASSED_OVER
    return [LeftOut(kind, count, reason, seen) for (kind, seen), count in found.items()]


def _unseen(composed: Composed, expected: list[str | None]) -> list[LeftOut]:
    """Return the messages that the program does not show, and whether the session shows them to the model."""
    found = Counter((*what, node in expected) for node, what in composed.unseen.items())
    return [LeftOut(kind, count, reason, seen) for (kind, reason, seen), count in found.items()]


def _otherwise(view: View, sent: Iterable[str | None]) -> list[LeftOut]:
    """Count the messages that only the program sends, and those that only the session sends."""
    here, there = {item.node for item in view.recorded_context}, set(sent)
    counts = {_MISSED: len(here - there), _ADDED: len(there - here)}
    return [LeftOut("message", count, reason, seen=True) for reason, count in counts.items() if count]


def _cut(expected: list[_Form], sent: list[_Form], cuts: frozenset[str]) -> list[LeftOut]:
    """Count the messages of which both send something, but not the same parts."""
    here, there = (
        {name: view if view.partition(":")[0] in cuts else "" for name, view in each} for each in (expected, sent)
    )
    count = sum(here[name] != there[name] for name in here.keys() & there.keys())
    return [LeftOut("message", count, _CUT, seen=True)] if count else []


def _named(ids: list[str | None]) -> list[str]:
    return [name for name in ids if name]


def _require(what: str, expected: object, got: object) -> None:
    if expected != got:
        raise CorruptError(
            f"export differs from its session in {what}, nothing was written. expected={expected!r}, got={got!r}",
            kind=Kind.EXPORT,
            remedy="nothing is damaged; please report this, if you can with the session",
        )


def _expected(reader: Readable, policy: str) -> Steps[_Shown]:
    """Return the branch, and its context by the policy of the program, including edits."""
    index = yield from reader.replica.index()
    path = index.graph.path(reader.replica.state.tip)
    context = find_policy(policy).build(path, index.graph)
    context = yield from reader.content.edited(Context(context.items, context.settings))
    return _Shown(
        [row.id for row in path], [(item.node, item.view) for item in context.items], index.graph.marks.retracted
    )
