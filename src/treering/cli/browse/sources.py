"""Where a screen of text gets its pages, the last one first. A page that could not be read can be asked for again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from treering.api.view import View
from treering.cli.browse.blocks import Block, difference_block, item_block, row_block
from treering.session.content import ContextItem

PAGE_NODES = 30
"""Messages that are read together while the user goes up."""


class Source(ABC):
    """Reads pages one after the other, each with its oldest message first; used by one thread at a time."""

    ended = False
    """Whether there is no page any more."""

    @abstractmethod
    def page(self) -> Sequence[Block]:
        """Read the page above those that were read."""


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
    """What the model sees at a node."""

    def __init__(self, view: View, node: str) -> None:
        self._view = view
        self._node = node
        self._above: Sequence[ContextItem] | None = None
        """What was not shown yet; None: nothing was read."""

    def page(self) -> Sequence[Block]:
        """Take the last items; the first time all are read."""
        items = self._view.context_at(self._node) if self._above is None else self._above
        self._above = items[:-PAGE_NODES]
        self.ended = not self._above
        return [item_block(item) for item in items[-PAGE_NODES:]]


class Difference(Source):
    """What differs from one node to another, or to where the session stands."""

    def __init__(self, view: View, a: str, b: str | None) -> None:
        self._view = view
        self._a = a
        self._b = b

    def page(self) -> Sequence[Block]:
        """Compare them; there is one page."""
        found = self._view.diff(self._a, self._b)
        self.ended = True
        return [difference_block(found, self._a, self._b)]
