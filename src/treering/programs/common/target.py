"""The interface of a program's part `write`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, cast

import msgspec

from treering.api.view import View
from treering.errors import UsageError
from treering.format.values import Fields
from treering.kinds import Kind
from treering.programs import has_part, known_programs, part_of
from treering.session.verbs.extending import EXPORTED
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

NOT_WRITTEN: Final = frozenset(
    {"card", "created", "import", "origin", EXPORTED, "link", "damage", "request_mark", "stream", "stream_end"}
)
"""Notes about the store, the import or a request, which are not part of the conversation."""
UNTOLD: Final = NOT_WRITTEN - {"link", "damage"}
"""Notes that are not reported as left out."""


class LeftOut(msgspec.Struct, frozen=True):
    """Records that an export leaves out, since the format cannot hold them."""

    kind: str
    """The kind of the records, or of the parts of records."""
    count: int
    reason: str
    seen: bool = False
    """Whether the model saw the records, so that its context differs in the other program."""


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """A file, ready to be written."""

    data: Iterable[bytes]
    """Its bytes, in parts; they can be read once."""
    entry_ids: list[str | None] | None
    """The ids of its entries in order, for a check by reading the file again; None if the file has no ids."""
    labels: dict[str, str] | None
    """Labels by entry, for the same check; None if the format has no labels."""
    left_out: list[LeftOut]
    parts: dict[str, bytes] = {}
    """Contents of other files of the program, by name."""
    pieces: frozenset[str] = frozenset()
    """Entries that hold a part of a node; the last part has the id of the node."""
    unseen: dict[str, tuple[str, str]] = {}
    """Messages that the program does not show: their kinds, and the reasons."""
    messages: list[object] | None = None
    """The context at the leaf; None if it follows from the entries."""
    foreign: bool = False
    """Whether messages are not from a file of the program, or were changed since. Only the file has the facts by which
    the program chooses which of them it sends."""
    ambiguous: bool = False
    """Whether several entries share one id, or form a cycle, as in the imported file: the program may then resolve
    paths differently from the session."""


class Exporter(Protocol):
    """The interface of a program's part `write`.

    If the id of a session in its files is not the session's name, a function `id_of` there returns it for a name.
    """

    def compose(self, view: View) -> Composed:
        """Make the file of a session. Most formats use `treering.programs.common.composition.compose_lines`."""


class LineExporter(Protocol):
    """The parts of composing a file that depend on a format of lines."""

    FORMAT: str
    """The name of the program."""
    VERSION: int
    """The version in the header of new files."""
    SENDS_EMPTY: bool
    """Whether summaries without text are sent to the model."""
    HOLDS: frozenset[str]
    """Kinds of `treering.programs.common.blocks.LOST` that its messages can hold."""
    HOLDS_IN_RESULTS: frozenset[str]
    """Those that a result of a call can hold."""
    TITLED: bool
    """Whether the program has the title of a session in another place than its entries."""

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return the header of a new file: for a session made in Treering, or for a fork of an imported session.

        Args:
            info: The session.
            old: The header of the imported file, or None.
        """

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return the draft that the format's importer would have made; None if the format cannot hold the record.

        Args:
            draft: A node or note.
            settings: The settings in force there.
        """

    def apart(self, message: Fields) -> list[Fields]:
        """Split a message into the messages that the program needs for it: usually the message itself.

        Args:
            message: The recorded message.
        """

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry without new facts, to be the last one of the file, so that the program continues there.

        Args:
            node: The node to continue at; None is the place before the first node.
            label: The node's label.
            identifier: The id of the entry.
            time_ms: The time of the entry.

        Returns:
            The entry; None if the format has no such entry.
        """

    def retract(self, draft: Draft) -> Draft | None:
        """Return an entry that hides the target of an edit from the model; None if the format has no such entry."""

    def not_sent(self) -> list[LeftOut]:
        """Return the parts of messages in the file that the program does not send to a model."""


def find_exporter(format: str) -> Exporter:  # noqa: A002  # as it is called everywhere here
    """Return the exporter of a format.

    Raises:
        UsageError: The format has no exporter.
    """
    found = part_of(format, "write")
    if found is None:
        raise UsageError(f"no exporter for this format. format={format!r}, known={targets()}", kind=Kind.FORMAT)
    return cast(Exporter, found)  # modules have no types of their own


def targets() -> list[str]:
    """Return the names of the registered programs for which files can be written."""
    return sorted(name for name in known_programs() if has_part(name, "write"))
