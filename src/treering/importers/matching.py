"""Files whose messages have no ids: recorded messages are recognised by their contents.

evva writes its whole document each time, and an export writes the context at the session's head. So such a file begins
with a context that the session has had, and the messages after it are new messages of the program.

Rule: the session and the program may have been at several nodes. The node whose context is the longest beginning of the
file counts, and the rest of the file descends from it. A file that begins with no such context was rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, Protocol, TypeGuard

import msgspec

from treering.api.session import Session
from treering.api.view import View
from treering.checkpoint.context import Context
from treering.checkpoint.policy import find_policy
from treering.format.values import Fields
from treering.ids import time_of
from treering.importers.origin import Origin, Reading
from treering.programs.common.entry import Entry, as_text
from treering.programs.common.source import Imported, ImportSource
from treering.programs.common.words import SPELLED, WORDS, digest_of, sorted_fields
from treering.session.index import Index
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.node import Draft


class NamelessSource(ImportSource, Protocol):
    """A file whose messages have no ids."""

    @staticmethod
    def word(message: object) -> Fields:
        """Return a message in the format of its program; equal for messages with the same contents."""

    @staticmethod
    def write(message: Fields) -> bytes:
        """Return the bytes that the program writes for a message in that format."""


def is_nameless(source: ImportSource) -> TypeGuard[NamelessSource]:
    """Tell whether messages of a file have no ids."""
    return hasattr(source, "word")


class Match(NamedTuple):
    """The part of a file that is recorded in a session, and its place there."""

    node: str | None
    """The session's node when the file was written."""
    names: list[str]
    """The nodes of the file's first messages."""
    said: list[Fields]
    """The messages of these nodes."""
    graph: Graph
    """The nodes of the session."""


def find_match(
    reader: Readable, source: NamelessSource, entries: Sequence[Entry], policy: str, known: Origin
) -> Steps[Match | None]:
    """Find the node of a session from which a file was written.

    Args:
        reader: The session.
        source: The file.
        entries: Its messages.
        policy: The policy of the program.
        known: The earlier import of the file.

    Returns:
        The longest match, with preference for the session's head; None if the file begins with no context.
    """
    index = yield from reader.replica.index()
    graph = index.graph
    given = [sorted_fields(source.word(entry.record)) for entry in entries]
    best: Match | None = None
    for node in _places(reader, index, known):
        built = find_policy(policy).build(graph.path(node), graph)
        edited = yield from reader.content.edited(built)
        for context in (edited, built):
            size = len(context.items)
            if size > len(given) or (best is not None and size <= len(best.names)):
                continue
            said = yield from _said(reader, context, source)
            if [*map(sorted_fields, said)] == given[:size] and (said or node in (reader.node, known.leaf)):
                best = Match(node, [item.node for item in context.items], said, graph)
    return best


def _places(reader: Readable, index: Index, known: Origin) -> list[str | None]:
    """Return the nodes at which an export may have been written, or the program may have been; the head first.

    These are the heads and leaves, the nodes recorded since the last import and their parents, and the nodes of
    checkpoints, beginning with the last checkpoint before that import.
    """
    graph, checkpoints = index.graph, index.all_checkpoints.values()
    new = [row for row in graph if (time_of(row.id) or 0) >= known.imported_ms]
    before = [entry.node for entry in checkpoints if entry.time_ms < known.imported_ms]
    since = [entry.node for entry in checkpoints if entry.time_ms >= known.imported_ms]
    heads = reader.replica.state.heads.heads.values()
    ends = (reader.node, known.leaf, *heads, *graph.leaves())
    places = dict.fromkeys((*ends, *(row.id for row in new), *(row.parent for row in new), *before[-1:], *since))
    return [node for node in places if node is None or node in graph]


def _said(reader: Readable, context: Context, source: NamelessSource) -> Steps[list[Fields]]:
    lines = yield from reader.content.context_lines(context)
    yield from reader.blobs.fetch(lines.values(), context)
    return [source.word(item.message) for item in reader.content.messages(context, lines)]


def matched(
    session: Session | View, source: ImportSource, policy: str, known: Origin, *, begins: bool
) -> Matched | None:
    """Return a reading of a file that gives its messages the ids of a session's nodes; None without a match.

    Args:
        session: The session of the file.
        source: The file; a file whose entries have ids is not matched.
        policy: The policy of its program.
        known: The earlier import of the file.
        begins: The file begins with the messages of that import. A match of fewer of them does not count then: one was
            erased or amended in the session since, and would be recorded once more.
    """
    if not is_nameless(source):
        return None
    entries = [entry for entry, _ in source.records() if entry is not None]
    match = session.perform(find_match, source, entries, policy, known)
    if match is None or (begins and len(match.names) < known.units):
        return None
    return Matched(source, entries, match)


class Matched(Reading):
    """A reading of a matched file: its messages have the ids of their nodes."""

    source: NamelessSource

    def __init__(self, source: NamelessSource, entries: Sequence[Entry], match: Match) -> None:
        """Read the header, and give all messages their ids."""
        super().__init__(source)
        self._match = match
        self._new = self._free_names(source.header)
        self._names: dict[str | None, str] = {}
        for at, entry in enumerate(entries):
            self._names[entry.id] = match.names[at] if at < len(match.names) else self._free(str(entry.id))
        self._first = entries[len(match.names)].id if len(entries) > len(match.names) else None
        self._leaf = self._names[entries[-1].id] if self._first is not None else match.node
        said = [*match.said, *(source.word(entry.record) for entry in entries[len(match.names) :])]
        written = zip(entries, map(source.write, said), strict=True)
        spelled = {str(at): as_text(entry.raw) for at, (entry, data) in enumerate(written) if entry.raw != data}
        self._note_words({WORDS: digest_of(said), SPELLED: spelled})

    @property
    def stood(self) -> str | None:
        """The session's node when the file was written."""
        return self._match.node

    @property
    def leaf(self) -> str | None:
        """The program's current node."""
        return self._leaf

    def _note_words(self, found: Mapping[str, object]) -> None:
        note, *more = self.header_drafts
        self.header_drafts = [msgspec.structs.replace(note, source={**(note.source or {}), **found}), *more]
        self.header = self.digest_of_header()

    def _count(self, entry: Entry | None, drafts: list[Draft]) -> list[Draft]:
        found = super()._count(entry, drafts)
        if entry is None:
            return [msgspec.structs.replace(draft, id=self._free(str(draft.id))) for draft in found]
        *settings, message = found
        name = self._names[entry.id]
        if entry.id != self._first:
            above = message.parent if isinstance(message.parent, str) else None
            return [msgspec.structs.replace(message, id=name, parent=self._names.get(above, above))]
        if self._match.node is not None:
            return [msgspec.structs.replace(message, id=name, parent=self._match.node)]
        return [*settings, msgspec.structs.replace(message, id=name)]

    def _free(self, name: str) -> str:
        """Return the id, or a new one if a node has it."""
        return name if name not in self._match.graph else next(self._new)

    def _free_names(self, header: Imported) -> Iterator[str]:
        for number in count():
            seed = f"{header.session_id}/{self._match.node}/{number}".encode("utf-8", "surrogatepass")
            name = blake2b(seed, digest_size=8).hexdigest()
            if name not in self._match.graph:
                yield name
