"""Runs: one answer of the model and the results of its calls, which Claude Code writes as many entries.

A run is identified by its first node. Runs can be continued from a memo, which is read page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final

import msgspec

from treering.programs.common.memo import Memo, Recalled


class Run(msgspec.Struct, array_like=True, gc=False):
    """The nodes of one answer and the results of its calls."""

    first: str
    """Its first node, which identifies it."""
    tip: str
    writer: str
    answer: str = ""
    """The id of the answer, if the run has one and has not ended."""
    ended: bool = False
    """Whether a node follows that does not belong to the run."""


_RUN: Final = msgspec.json.Decoder(Run)
_NAME: Final = msgspec.json.Decoder(str)


class RecalledRuns:
    """The runs in a memo, and later runs."""

    def __init__(self, memo: Memo) -> None:
        """Make the table, without reading anything."""
        self._kept: Recalled[Run] = Recalled(memo, "runs", _RUN)
        self.runs: dict[str, Run] = {}
        """The runs that were read from the memo or are newer, by first node: these may have changed."""

    def find(self, first: str) -> Run:
        """Return a run by its first node."""
        if first not in self.runs:
            self.runs[first] = self._kept[first]
        return self.runs[first]


class RecalledNames(MutableMapping[str, Run]):
    """The runs of nodes or of ids of answers: from a memo, with later changes."""

    def __init__(self, memo: Memo, table: str, runs: RecalledRuns) -> None:
        """Make the table, without reading anything.

        Args:
            memo: The memo.
            table: The table of names in the memo.
            runs: The runs to which the names may refer.
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
    """Return the runs of a table that may differ from the memo."""
    return table.of.runs.values() if isinstance(table, RecalledNames) else table.values()


def firsts_in(table: Table) -> Iterable[tuple[str, str]]:
    """Return the names in a table that are not in the memo, with the first nodes of their runs."""
    if isinstance(table, RecalledNames):
        return table.firsts.new.items()
    return ((name, run.first) for name, run in table.items())
