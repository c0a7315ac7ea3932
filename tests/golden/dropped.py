"""What the programs drop of a file and we keep: a class of damage each.

A program that drops a record answers as if it were not there. So where its answer for a file is another one than ours,
it must be ours for the file without what is dropped, and ours for the whole file must have all that it has. README of
the folder: forks that lose history are not targets either; how forks are compared knows of that.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.golden.folder import Golden

from treering.programs.operator.read import RULES

Drop = Callable[[str], str]
"""From a line to what the program reads of it."""


def several_records(line: str) -> str:
    """A line is not one JSON value: it has two records, or one after a torn record or NUL bytes."""
    return line if _record(line) is not None else ""


def records_behind_the_first(line: str) -> str:
    """A record at the beginning of a line is read, whatever follows it; otherwise the line is dropped."""
    try:
        end = json.JSONDecoder().raw_decode(line)[1]
    except (ValueError, RecursionError):
        return ""
    return line[:end]


def lines_cut_inside(line: str) -> str:
    """A character ends the line for Python, though it stands in a text: both pieces are no records."""
    return line if len(line.splitlines()) <= 1 else ""


def entries_not_known(line: str) -> str:
    """An entry has a type that is not known, or a value that is not allowed."""
    record: Any = _record(line)
    is_entry = isinstance(record, dict) and record.get("type") != "session"
    return "" if is_entry and RULES.reads is not None and not RULES.reads(record) else line


def _record(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


DROPPED: Final[Mapping[str, tuple[Drop, ...]]] = {
    "pi073": (several_records,),
    "pi152": (several_records,),
    "omp": (records_behind_the_first,),
    "operator": (several_records, lines_cut_inside, entries_not_known),
}
"""By program: what it drops. We drop nothing of it."""


def classes(golden: Golden) -> set[str]:
    """The names of the classes of which something is in a file."""
    lines, drops = _lines(golden.path), DROPPED.get(golden.system, ())
    return {drop.__name__ for drop in drops if any(_left(drop, line) != line for line in lines)}


def without(golden: Golden, folder: Path) -> Golden:
    """The same answers for a copy of the file without what its program drops; it is written below a folder."""
    lines = _lines(golden.path)
    for drop in DROPPED[golden.system]:
        lines = [left for line in lines if (left := _left(drop, line)) or not line]
    copy = folder / golden.path.parent.name / golden.path.name.removesuffix(".gz")
    if not copy.exists():
        copy.parent.mkdir()
        (folder / golden.blobs.name).symlink_to(golden.blobs)
        copy.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    return golden._replace(path=copy)


def _left(drop: Drop, line: str) -> str:
    bare = line.rstrip("\r")
    return drop(bare) + line[len(bare) :] if bare.strip() else line


def _lines(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", "surrogateescape").split("\n")
