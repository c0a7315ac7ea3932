"""What the part `write` of a program offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

import msgspec

from treering.api.view import View
from treering.errors import UsageError
from treering.format.values import Fields
from treering.kinds import Kind
from treering.programs import has_part, known_programs, part_of
from treering.store.info import SessionInfo
from treering.transcript.node import Draft


class LeftOut(msgspec.Struct, frozen=True):
    """Records that an export leaves out, since the format cannot hold them."""

    kind: str
    """Of the records, or the part of them."""
    count: int
    reason: str
    seen: bool = False
    """The model saw it, so its context differs in the other program."""


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
    """Contents of further files of the program, by their names."""
    pieces: frozenset[str] = frozenset()
    """Entries that hold part of a node; the last part has the id of the node."""
    unseen: dict[str, tuple[str, str]] = {}
    """Messages that the program does not show: their kinds, and the reasons."""
    messages: list[object] | None = None
    """The context at the leaf; None if it follows from the entries."""
    ambiguous: bool = False
    """Several entries share one id, or form a cycle, as in the imported file: the program may resolve paths in another
    way than the session."""


class Exporter(Protocol):
    """What the part `write` of a program offers."""

    def compose(self, view: View) -> Composed:
        """Make the file of a session. Most formats use `treering.programs.common.composition.compose_lines`."""


class LineExporter(Protocol):
    """The parts of composing a file that depend on a format of lines."""

    FORMAT: str
    """The name of the program."""
    VERSION: int
    """The version in the header of new files."""
    SENDS_EMPTY: bool
    """Summaries without text are sent to the model."""

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return the header of a new file: of a session made here, or of a fork of one that was imported.

        Args:
            info: The session.
            old: The header of the file that was imported, if it was.
        """

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return a record as the format's importer would have made it; None if the format cannot hold it.

        Args:
            draft: A node or note.
            settings: Those in force there.
        """

    def apart(self, message: Fields) -> list[Fields]:
        """Split a message into those that the program needs for it: usually the message itself.

        Args:
            message: As it was recorded.
        """

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry without new facts, to be the last one of the file, so that the program continues there.

        Args:
            node: The node to continue at; None is the place before the first one.
            label: Its label.
            identifier: For the entry.
            time_ms: For the entry.

        Returns:
            The entry; None if the format has none.
        """

    def retract(self, draft: Draft) -> Draft | None:
        """Return an entry that hides the target of an edit from the model; None if the format has none."""

    def not_sent(self) -> list[LeftOut]:
        """Return the parts of messages in the file that the program does not send to a model."""


def find_exporter(format: str) -> Exporter:  # noqa: A002  # as it is called everywhere here
    """Return the exporter of a format.

    Raises:
        UsageError: There is none.
    """
    found = part_of(format, "write")
    if found is None:
        raise UsageError(f"no exporter for this format. format={format!r}, known={targets()}", kind=Kind.FORMAT)
    return cast(Exporter, found)  # modules have no types of their own


def targets() -> list[str]:
    """Return the names of the registered programs for which files can be written."""
    return sorted(name for name in known_programs() if has_part(name, "write"))
