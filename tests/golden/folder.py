"""A folder of session files with the answers that real programs gave for them.

Its README tells the shape of an answer. A folder of the same shape with other files in it is as good.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from treering.importers import SessionFile, read


class System(NamedTuple):
    """A program whose answers were recorded."""

    format: str
    policy: str


SYSTEMS: Final = {
    "pi073": System("pi", "pi"),
    "pi152": System("pi", "pi-1.5"),
    "omp": System("omp", "omp"),
    "operator": System("operator", "operator"),
    "kit": System("kit", "kit"),
    "evva": System("evva", "evva"),
}
"""By the name of the folder."""

KINDS: Final = (
    "open",
    "entry_ids",
    "leaf",
    "title",
    "labels",
    "tree",
    "listing",
    "branch",
    "context",
    "state",
    "transcript",
    "fork",
)
"""What is compared. The last five are compared for each case of a file, the others once."""


class Golden(NamedTuple):
    """A session file and the answers for it."""

    system: str
    path: Path
    answer: Path

    @property
    def stem(self) -> str:
        return self.path.name.partition(".")[0]

    @property
    def expected(self) -> dict[str, Any]:
        return _answer(self.answer)

    @property
    def accepted(self) -> bool:
        """The program read the file, and did not replace it by an empty session."""
        opened = self.expected.get("open") or self.expected["load"]
        return bool(opened["ok"]) and not opened.get("replaced_by_new_session")

    @property
    def file(self) -> SessionFile:
        return _file(self.path, SYSTEMS[self.system].format, self.blobs)

    @property
    def blobs(self) -> Path:
        """The folder of the parts that oh-my-pi keeps beside its files; it need not exist."""
        return self.path.parents[1] / "blobs"

    def cases(self, kind: str) -> list[dict[str, Any]]:
        """The cases of a kind; one for the file as a whole has no leaf."""
        if kind == "open":
            return [{}]
        if not self.accepted:
            return []
        expected = self.expected
        if kind == "fork":
            return expected.get("forks") or []
        if kind in ("branch", "context", "state", "transcript"):
            named = kind in ("branch", "transcript")
            return [case for case in expected.get("cases") or [] if not named or kind in case]
        names = {"leaf": "open", "title": "open", "listing": "list_info"}
        return [expected] if expected.get(names.get(kind, kind)) is not None else []


@cache
def _answer(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return found


@cache
def _file(path: Path, format_: str, blobs: Path) -> SessionFile:
    return read(path, format=format_, blobs=blobs if blobs.is_dir() else None)


def find_golden(folder: Path) -> list[Golden]:
    """Return all files of a folder that have answers."""
    found = []
    for answer in sorted(folder.glob("*/*/*.expect.json")):
        name = answer.name.removesuffix(".expect.json")
        files = [path for path in answer.parent.glob(f"{name}.json*") if path.suffix in (".json", ".jsonl")]
        found += [Golden(answer.parts[-3], path, answer) for path in files]
    for answer in sorted(folder.glob("fixtures/*.expect.json")):
        name, _, system = answer.name.removesuffix(".expect.json").rpartition(".")
        found.append(Golden(system, folder / "fixtures" / f"{name}.jsonl.gz", answer))
    return found
