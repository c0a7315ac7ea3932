"""A session file in the way of its program: entries, tree, paths, and the context at each entry.

Rule 1: files and stores share one code path. Entries become the same drafts as in a store, and go through the same
policies and views.
Rule 2: only damaged entries are lost. Entries next to them are read, even if the program loses them.
Rule 3: cycles cause no endless loop. A path ends before an entry that is on it already.

The whole file is in memory. A store imports files of any size, one entry at a time.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import msgspec

from treering.checkpoint.context import Context
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Policy, Seen, find_policy, render
from treering.errors import UsageError
from treering.format import values
from treering.format.values import Fields, fields_of
from treering.importers.nodes import Nodes
from treering.programs.common.entry import RAW, Entry
from treering.programs.common.folder import located
from treering.programs.common.lines import decode
from treering.programs.common.reader import text_of
from treering.programs.common.source import Imported, ImportSource, Problem, closing_of
from treering.programs.common.spool import is_stream, settled
from treering.programs.formats import Format, detect_format, find_format, format_with
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.transcript.node import Draft

Tree = list[object]
"""`[id, label, [children]]`, or `[id, [children]]` if the program's tree has no labels."""


class ContextMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message that goes to the model."""

    source: str | None
    """The entry of the message; None if the program made or altered the message."""
    message: Any
    """The JSON object that the program passes on."""
    entry: str | None
    """The entry from which the message comes, even if the program made or altered it."""


class FileContext(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that go to the model at one place of a session."""

    messages: list[ContextMessage]
    state: dict[str, object]
    """Thinking level, model and other settings, under the program's names."""


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # as it is called everywhere here
    blobs: str | os.PathLike[str] | None = None,
) -> SessionFile:
    """Read a session file of another program.

    Args:
        path: The file, compressed by gzip or not, or a pipe; for some programs a folder or its URL. It is not changed.
        format: Its format; by default it is detected.
        blobs: The folder with the parts that the program keeps in separate files; by default the usual folder.

    Raises:
        UsageError: It is no session file of a known format, or not of the given format.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place, parts = located(path), Path(blobs) if blobs is not None else None
    if isinstance(place, Path) and is_stream(place):
        return _read_stream(place, format, parts)
    found = find_format(format) if format is not None else detect_format(place)

    def read_as(other: Format) -> SessionFile | None:
        try:
            return SessionFile(other, other.open_source(place, blobs=parts))
        except UsageError:
            return None

    return SessionFile(found, found.open_source(place, blobs=parts), read_as)


def _read_stream(path: Path, name: str | None, blobs: Path | None) -> SessionFile:
    """Read a session from a pipe; its temporary copy exists until the result is freed."""
    kept = ExitStack()
    try:
        file = read(kept.enter_context(settled(path)), format=name, blobs=blobs)
    except BaseException:
        kept.close()
        raise
    weakref.finalize(file, kept.close)
    return file


class SessionFile:
    """A session file that was read as a whole."""

    def __init__(
        self, found: Format, source: ImportSource, read_as: Callable[[Format], SessionFile | None] | None = None
    ) -> None:
        self._format = found
        self._read_as = read_as
        self._others: dict[str, SessionFile] = {}
        self.entries: list[Entry] = []
        """The entries in the order of the file, without the header and records that are no entries."""
        self._drafts: list[list[Draft]] = []
        self._header_note: Draft | None = None
        for entry, drafts in source.records():
            if entry is not None:
                self.entries.append(entry)
                self._drafts.append(drafts)
            elif self._header_note is None:
                self._header_note = drafts[0]
        if ending := closing_of(source):
            self._end(ending)
        self.header: Imported = source.header
        """The facts in the file's header."""
        self.problems: list[Problem] = source.problems
        """The problems found."""
        self._index = {entry.id: at for at, entry in enumerate(self.entries) if entry.id != ""}
        self._nodes: Nodes | None = None

    def _end(self, drafts: list[Draft]) -> None:
        """Add the final state of a session as a last entry, though the file has no record for it."""
        last = self.entries[-1] if self.entries else None
        name, above, line = drafts[-1].id, last.id if last else None, last.line + 1 if last else 1
        self.entries.append(Entry(id=name, parent=above, type=drafts[-1].type, record={}, raw=b"", line=line, offset=0))
        self._drafts.append(drafts)

    @property
    def format(self) -> str:
        """The name of its program: `pi`, `omp` and so on."""
        return self._format.NAME

    @property
    def header_record(self) -> Fields:
        """The header, verbatim."""
        raw = (self._header_note.source or {}).get(RAW) if self._header_note else None
        return fields_of(decode(raw if isinstance(raw, bytes) else str(raw or "{}").encode())[0])

    @property
    def leaf(self) -> str | None:
        """The entry at which the program would continue; None is the place before the first entry."""
        return self._format.restore(self.entries)

    @property
    def entry_ids(self) -> list[str | None]:
        """The ids of all entries, in the order of the file."""
        return [entry.id for entry in self.entries]

    @property
    def labels(self) -> dict[str, str]:
        """Labels by entry; the last label of an entry counts, and an empty one removes the label."""
        labels: dict[str, str] = {}
        if self._format.RULES.label is not None:
            kind, target, text = self._format.RULES.label
            for record in (entry.record for entry in self.entries if entry.type == kind):
                labels[text_of(record.get(target))] = text_of(record.get(text))
        return {target: text for target, text in labels.items() if text and target in self._index}

    @property
    def title(self) -> str:
        """The last title; empty if there is none."""
        if self._format.RULES.title is None:
            return self.header.title
        kind, field = self._format.RULES.title
        rules = self._format.RULES
        on_path = rules.title_on_path
        entries = [self.entries[at] for at in self._places(self._index.get(self.leaf))] if on_path else self.entries
        titles = [text_of(entry.record.get(field)) for entry in entries if entry.type == kind]
        trimmed = [title.strip() for title in titles] if rules.title_trimmed else titles
        return next((title for title in reversed(trimmed) if title or not on_path), "")

    def listing(self) -> dict[str, object]:
        """Return the facts that the program's own list of sessions shows, under its names."""
        return self._format.listing(self)

    # the tree

    def path(self, leaf: str | None) -> list[str]:
        """Return the ids of the entries from a root to `leaf`; empty if `leaf` is None or missing."""
        at = self._index.get(leaf) if leaf is not None else None
        return [entry.id for at in self._places(at) if (entry := self.entries[at]).id is not None]

    def _places(self, at: int | None) -> list[int]:
        """Return the positions of the entries from a root to the entry at `at`."""
        path: dict[int, None] = {}
        while at is not None and at not in path:
            path[at] = None
            parent = self.entries[at].parent
            at = self._index.get(parent) if parent is not None else None
        return [*path][::-1]

    def tree(self) -> list[Tree]:
        """Return the roots with their descendants, like the program's own tree.

        If two entries have one id, the later entry takes the places of both.
        """
        rules = self._format.RULES
        roots: list[int] = []
        below: dict[int, list[int]] = {}
        for entry in self.entries:
            if entry.type in rules.outside or entry.id == "" or (entry.id is None and not rules.nameless):
                continue
            at, above = self._index[entry.id], self._above(entry)
            if above is not None:
                below.setdefault(above, []).append(at)
            elif entry.parent is None or rules.orphans:
                roots.append(at)
        below = {at: self._ordered(children) for at, children in below.items()}
        return self._grow(self._ordered(roots) if rules.roots_ordered else roots, below)

    def _above(self, entry: Entry) -> int | None:
        """Return the position of the entry's parent; None if it is a root, its own parent, or the parent is missing."""
        if entry.parent is None or entry.parent == entry.id:
            return None
        return self._index.get(entry.parent)

    def _ordered(self, places: list[int]) -> list[int]:
        """Order entries by time like JavaScript: an invalid time is neither before nor after another time."""
        rules = self._format.RULES
        moment = rules.moment
        if moment is None:
            return places
        times = {at: moment(self.entries[at].record.get(rules.time)) for at in places}

        def compare(one: int, other: int) -> int:
            first, second = times[one], times[other]
            return 0 if first is None or second is None else (first > second) - (first < second)

        return sorted(places, key=cmp_to_key(compare))

    def _grow(self, roots: list[int], below: dict[int, list[int]]) -> list[Tree]:
        """Build the tree without recursion, since it may be as deep as the session is long; cycles are left out."""
        labels, labelled = self.labels, self._format.RULES.labelled_tree
        grown: list[Tree] = []
        above: set[int] = set()
        stack: list[tuple[int, list[Tree] | None]] = [(at, grown) for at in reversed(roots)]
        while stack:
            at, siblings = stack.pop()
            if siblings is None:
                above.remove(at)
            elif at not in above:
                above.add(at)
                children: list[Tree] = []
                name = self.entries[at].id
                siblings.append([name, labels.get(name or ""), children] if labelled else [name, children])
                stack.append((at, None))
                stack.extend((child, children) for child in reversed(below.get(at, ())))
        return grown

    # messages for the model

    def context(self, leaf: str | None, policy: str | None = None) -> FileContext:
        """Return the messages that go to the model at an entry.

        Args:
            leaf: The entry; None is the place before the first entry. For a missing entry the result is that of the
                program: the context of the last entry of the file, or an empty one.
            policy: The policy; by default that of the newest version of the program. With the policy of another program
                the file is read like that program reads it, if it can: pi and oh-my-pi read each other's files.
        """
        name = policy or self._format.POLICIES[0]
        return self._as_read_for(name)._shown(leaf, find_policy(name))  # noqa: SLF001  # of the same class

    def _as_read_for(self, policy: str) -> SessionFile:
        """Return this file, or the same file in the way of the program that has the policy."""
        owner = None if policy in self._format.POLICIES or self._read_as is None else format_with(policy)
        if owner is None or self._read_as is None:
            return self
        if owner.NAME not in self._others:
            self._others[owner.NAME] = self._read_as(owner) or self
        return self._others[owner.NAME]

    def _context(self, leaf: str | None, chosen: Policy) -> Context:
        at = self._index.get(leaf) if leaf is not None else None
        if at is None and leaf is not None and self._format.RULES.unknown == "last" and self.entries:
            at = len(self.entries) - 1
        nodes = self._recorded()
        kept = self._drafts[at][-1] if at is not None and self._drafts[at] else None
        if kept is not None and kept.type == CHECKPOINT:
            return checkpoint_of(kept).context
        return chosen.build(nodes.path(self._places(at)), nodes)

    def _shown(self, leaf: str | None, chosen: Policy) -> FileContext:
        context, nodes = self._context(leaf, chosen), self._recorded()
        messages = []
        for item in context.items:
            place = nodes.place_of(item.node)
            draft = next(draft for draft in self._drafts[place][::-1] if draft.id == item.node)
            message = values.decode(item.message) if item.message is not None else _rendered(item.view, draft)
            own = chosen.is_own(item) if isinstance(chosen, Walk) else not item.view
            about = self.entries[place].id
            messages.append(ContextMessage(source=about if own else None, message=message, entry=about))
        return FileContext(messages=messages, state=chosen.state(context.settings))

    def transcript(self, leaf: str | None) -> list[ContextMessage]:
        """Return the messages that the program shows to a person at an entry.

        Only oh-my-pi shows other messages than the model gets: also those before a compaction or a reset, and turns
        that failed.
        """
        shown = f"{self._format.POLICIES[0]}-transcript"
        return self.context(leaf, shown if shown in self._format.POLICIES else None).messages

    def _recorded(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes()
            for entry, drafts in zip(self.entries, self._drafts, strict=True):
                self._nodes.add(entry.id, drafts)
        return self._nodes


def _rendered(view: str, draft: Draft) -> object:
    seen = Seen(draft.id or "", draft.time_ms or 0, draft.links or {}, draft.brief or {})
    return render(view, draft.payload, seen)
