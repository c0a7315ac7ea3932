"""Sources of the pages of a text screen, the last page first. A page that could not be read can be requested again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from treering.api.view import View
from treering.cli.browse.blocks import Block, difference_block, item_block, row_block
from treering.session.content import ContextItem

PAGE_NODES = 30
"""Messages that are read together while the user scrolls up."""


class Source(ABC):
    """Reads pages one after the other, each with its oldest message first; used by one thread at a time."""

    ended = False
    """Whether all pages were read."""

    @abstractmethod
    def page(self) -> Sequence[Block]:
        """Read the next page above."""


class Conversation(Source):
    """The conversation down to a node."""

    def __init__(self, view: View, node: str) -> None:
        self._view = view
        self._node = node
        self._before: str | None = None

    def page(self) -> Sequence[Block]:
        """Read a page of the history."""
        page = self._view.history(node=self._node, before=self._before, limit=PAGE_NODES, blobs=False)
        self._before, self.ended = page.before, page.before is None
        return [row_block(row) for row in reversed(page.rows)]


class Context(Source):
    """The context at a node."""

    def __init__(self, view: View, node: str) -> None:
        self._view = view
        self._node = node
        self._above: Sequence[ContextItem] | None = None
        """Items that were not shown yet; None if nothing was read yet."""

    def page(self) -> Sequence[Block]:
        """Return the last items that were not shown; the first call reads the whole context."""
        items = self._view.context_at(self._node) if self._above is None else self._above
        self._above = items[:-PAGE_NODES]
        self.ended = not self._above
        return [item_block(item) for item in items[-PAGE_NODES:]]


class Difference(Source):
    """The difference from one node to another, or to the session's current node."""

    def __init__(self, view: View, a: str, b: str | None) -> None:
        self._view = view
        self._a = a
        self._b = b

    def page(self) -> Sequence[Block]:
        """Compare the two points; there is only one page."""
        found = self._view.diff(self._a, self._b)
        self.ended = True
        return [difference_block(found, self._a, self._b)]
