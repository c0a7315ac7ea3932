"""The interface of a session file from which a program's list of sessions is made."""

from __future__ import annotations

from typing import Protocol

from treering.format.values import Fields
from treering.programs.common.entry import Entry
from treering.programs.common.source import Imported


class ReadFile(Protocol):
    """A session file that was read as a whole; see `treering.importers.session_file.SessionFile`."""

    entries: list[Entry]
    header: Imported

    @property
    def header_record(self) -> Fields:
        """The header, verbatim."""

    @property
    def title(self) -> str:
        """The last title; empty if there is none."""

    @property
    def leaf(self) -> str | None:
        """The entry at which the program would continue; None is the place before the first entry."""

    def path(self, leaf: str | None) -> list[str]:
        """Return the ids of the entries from a root to `leaf`."""
