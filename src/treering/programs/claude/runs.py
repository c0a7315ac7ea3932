"""Runs: one answer of the model and the results of its calls, which Claude Code writes as many entries.

A run is known by its first node. Runs can be carried on from what is stored, a page at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final

import msgspec

from treering.programs.common.memo import Memo, Recalled


class Run(msgspec.Struct, array_like=True, gc=False):
    """Nodes that say one thing together."""

    first: str
    """Its first node, by which it is known."""
    tip: str
    writer: str
    answer: str = ""
    """The id of the answer, if it is one and has not ended."""
    ended: bool = False
    """Something follows that is not of the run."""


_RUN: Final = msgspec.json.Decoder(Run)
_NAME: Final = msgspec.json.Decoder(str)


class RecalledRuns:
    """The runs that were known at a look, and those since."""

    def __init__(self, memo: Memo) -> None:
        """Read nothing yet."""
        self._kept: Recalled[Run] = Recalled(memo, "runs", _RUN)
        self.runs: dict[str, Run] = {}
        """By their first nodes, as far as they were asked for, or came since: these may have changed."""

    def find(self, first: str) -> Run:
        """Return a run by its first node."""
        if first not in self.runs:
            self.runs[first] = self._kept[first]
        return self.runs[first]


class RecalledNames(MutableMapping[str, Run]):
    """The runs of nodes, or what the ids of answers mean, as they were at a look and as they are since."""

    def __init__(self, memo: Memo, table: str, runs: RecalledRuns) -> None:
        """Read nothing yet.

        Args:
            memo: What was known.
            table: Which names.
            runs: Those that they may mean.
        """
        self.firsts: Recalled[str] = Recalled(memo, table, _NAME)
        self.of = runs

    def __getitem__(self, name: str) -> Run:
        return self.of.find(self.firsts[name])

    def __setitem__(self, name: str, run: Run) -> None:
        self.firsts[name] = run.first
        self.of.runs[run.first] = run

    def __delitem__(self, name: str) -> None:
        del self.firsts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.firsts)

    def __len__(self) -> int:
        return len(self.firsts)


Table = MutableMapping[str, Run]


def runs_in(table: Table) -> Iterable[Run]:
    """Return the runs of a table that may not be kept as they are."""
    return table.of.runs.values() if isinstance(table, RecalledNames) else table.values()


def firsts_in(table: Table) -> Iterable[tuple[str, str]]:
    """Return the names in a table that are not kept, and the first nodes of their runs."""
    if isinstance(table, RecalledNames):
        return table.firsts.new.items()
    return ((name, run.first) for name, run in table.items())
