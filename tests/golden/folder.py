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


DEFAULT: Final = "$default"
"""As a case's leaf: where the program goes on."""
ANY: Final = "$any"
"""As a message's source: the program gives its messages no ids."""

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
        opened = self.expected["open"]
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
        expected = self.expected
        if kind in ("branch", "context", "state", "transcript"):
            return [case for case in expected.get("cases") or [] if _has(case, kind)]
        if not self.accepted:
            return []
        if kind == "fork":
            return expected.get("forks") or []
        opened = {"leaf": "leaf", "title": "session_name"}
        if kind in opened:
            return [expected] if opened[kind] in expected["open"] else []
        return [expected] if expected.get("list_info" if kind == "listing" else kind) is not None else []


def _has(case: dict[str, Any], kind: str) -> bool:
    if kind == "state":
        return "error" in case or case["context"].keys() != {"messages"}
    return kind == "context" or kind in case


@cache
def _answer(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return found if "load" not in found else _in_cases(found)


def _in_cases(found: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of evva in the shape of the others; its messages have no ids."""
    opened: dict[str, Any] = {"open": found["load"]}
    if not found["load"]["ok"]:
        return opened
    snapshot = found["load"]["snapshot"]
    shown = ("session_id", "workdir", "profile", "provider", "model", "created_at", "updated_at", "first_user_prompt")
    messages = [{"from": ANY, **message} for message in snapshot["session"]["messages"] or []]
    case = {"leaf": DEFAULT, "context": {"messages": messages}}
    return opened | {"list_info": {name: snapshot[name] for name in shown}, "cases": [case]}


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
