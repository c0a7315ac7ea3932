"""A session file without its messages: ids, labels, and the entries that a model sees.

In memory are only ids, and the facts about entries that policies need. All else is read again, one entry at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from treering.checkpoint.policy import find_policy
from treering.importers.nodes import Nodes
from treering.programs.common.entry import Entry
from treering.programs.common.reader import text_of
from treering.programs.common.rules import Rules
from treering.programs.formats import find_format


class FileOutline:
    """The facts of `SessionFile`, for a file of any size."""

    def __init__(
        self,
        path: Path,
        format: str,  # noqa: A002  # as it is called everywhere here
        ids: list[str | None] | None = None,
    ) -> None:
        """Read a file.

        Args:
            path: The file.
            format: The format of the file.
            ids: The ids that its entries should have. Equal ids are replaced by the entries' objects, to save memory.

        Raises:
            UsageError: It is no session file of this format.
            NotFoundError: There is no such file.
            AccessError: The file may not be read.
        """
        self._format = find_format(format)
        self._source = self._format.open_source(path)
        self._nodes = Nodes()
        self._parents: list[str | None] = []
        self._labels: dict[str, str] = {}
        last: Entry | None = None
        ids = ids or []
        for entry, drafts in self._source.records():
            if entry is not None:
                # share equal texts
                shared = last is not None and entry.parent == last.id
                self._parents.append(last.id if shared and last is not None else entry.parent)
                at = len(self.entry_ids)
                if at < len(ids) and ids[at] == entry.id:
                    ids[at] = entry.id
                self._nodes.add(entry.id, drafts)
                self._take_label(entry)
                last = entry
        self.version = self._source.header.version
        self.leaf = self._source.leaf if self._format.RULES.leaf_told else self._format.restore([last] if last else [])
        """The entry at which the program would continue; None is the place before the first entry."""

    def _take_label(self, entry: Entry) -> None:
        kind, target, text = self._format.RULES.label or ("", "", "")
        if kind and entry.type == kind:
            self._labels[text_of(entry.record.get(target))] = text_of(entry.record.get(text))

    @property
    def rules(self) -> Rules:
        """The rules of its program."""
        return self._format.RULES

    @property
    def entry_ids(self) -> list[str | None]:
        """The ids of all entries, in the order of the file."""
        return self._nodes.entry_ids

    @property
    def labels(self) -> dict[str, str]:
        """See `SessionFile.labels`."""
        return {target: text for target, text in self._labels.items() if text and target in self._nodes.index}

    def each_entry(self) -> Iterator[Entry]:
        """Read the entries again, one at a time."""
        return (entry for entry, _ in self._source.records() if entry is not None)

    def path(self) -> set[str]:
        """Return the ids of the entries from a root to the leaf."""
        return {name for at in self._places(self._at_leaf()) if (name := self.entry_ids[at]) is not None}

    def shown(self) -> list[tuple[str | None, str]]:
        """Return the context at the leaf by the program's own rules: entries, each with the view of its message."""
        at = self._at_leaf()
        if at is None and self.leaf is not None and self._format.RULES.unknown == "last" and self.entry_ids:
            at = len(self.entry_ids) - 1
        context = find_policy(self._format.POLICIES[0]).build(self._nodes.path(self._places(at)), self._nodes)
        return [(self.entry_ids[self._nodes.place_of(item.node)], item.view) for item in context.items]

    def _at_leaf(self) -> int | None:
        return self._nodes.index.get(self.leaf) if self.leaf is not None else None

    def _places(self, at: int | None) -> array[int]:
        """Return the positions of the entries from a root to the entry at `at`."""
        path, passed = array("q"), bytearray(len(self.entry_ids))
        while at is not None and not passed[at]:
            passed[at] = True
            path.append(at)
            parent = self._parents[at]
            at = self._nodes.index.get(parent) if parent is not None else None
        path.reverse()
        return path
