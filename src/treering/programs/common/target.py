"""What the part `write` of a program offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

import msgspec

from treering.api.view import View
from treering.errors import UsageError
from treering.format.values import Fields
from treering.programs import has_part, known_programs, part_of
from treering.store.info import SessionInfo
from treering.transcript.node import Draft


class LeftOut(msgspec.Struct, frozen=True):
    """What a format cannot say, and an export therefore does not."""

    kind: str
    """Of the records, or what about them."""
    count: int
    reason: str
    seen: bool = False
    """The model saw it, so it will see something else in the other program."""


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A file, ready to be written."""

    data: Iterable[bytes]
    """Its bytes, in parts; read once."""
    entry_ids: list[str | None] | None
    """The ids of its entries in order, as a reader must find them; None if the file has none."""
    labels: dict[str, str] | None
    """Labels by entry, as a reader must find them; None if the format has none."""
    left_out: list[LeftOut]
    parts: dict[str, bytes] = {}
    """What the program keeps in files of their own, by their names."""
    pieces: frozenset[str] = frozenset()
    """Entries that say part of what a node says; the last part has the id of the node."""
    unseen: dict[str, tuple[str, str]] = {}
    """Nodes that are messages here and that the program shows nothing of: their kinds, and the reasons."""
    messages: list[object] | None = None
    """What a model must be sent where the program goes on; None if that follows from the entries."""
    ambiguous: bool = False
    """Several entries have one id, or come round in a circle, as in the file that was imported: paths may mean another
    one than the session does."""


class Exporter(Protocol):
    """What the part `write` of a program offers."""

    def compose(self, view: View) -> Composed:
        """Make the file of a session. Most formats do it with `treering.programs.common.composition.compose_lines`."""


class LineExporter(Protocol):
    """What is peculiar to a format of lines."""

    FORMAT: str
    """The name of the program."""
    VERSION: int
    """In the header of files that are written anew."""
    SENDS_EMPTY: bool
    """Summaries without text are sent to the model."""

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return the header of a new file: of a session made here, or of a fork of one that was imported.

        Args:
            info: The session.
            old: The header of the file that was imported, if it was.
        """

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return a record of ours as the format's importer would have made it; None if the format cannot say it.

        Args:
            draft: A node or note.
            settings: Those in force there.
        """

    def apart(self, message: Fields) -> list[Fields]:
        """Return a message as those that the program needs to say the same: usually itself.

        Args:
            message: As somebody recorded it.
        """

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry that says nothing new, to be the last one of the file: the program goes on there.

        Args:
            node: The node to go on at; None is the place before the first one.
            label: Its label.
            identifier: For the entry.
            time_ms: For the entry.

        Returns:
            The entry; None if the format has none.
        """

    def retract(self, draft: Draft) -> Draft | None:
        """Return an entry that hides the target of an edit from the model; None if the format has none."""

    def not_sent(self) -> list[LeftOut]:
        """Tell what stands in the file and is not sent by the program as it was by us, besides whole messages."""


def find_exporter(format: str) -> Exporter:  # noqa: A002  # as it is called everywhere here
    """Return the exporter of a format.

    Raises:
        UsageError: There is none.
    """
    found = part_of(format, "write")
    if found is None:
        raise UsageError(f"no exporter for this format. format={format!r}, known={targets()}", kind="format")
    return cast(Exporter, found)  # modules have no types of their own


def targets() -> list[str]:
    """Return the names of the programs for which files can be written, as far as they are known so far."""
    return sorted(name for name in known_programs() if has_part(name, "write"))
