"""Contexts in a page: nodes by their numbers, with runs of consecutive numbers joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.checkpoint.checkpoint import write_form
from treering.checkpoint.context import Item
from treering.exporters.page.chosen import Chosen
from treering.exporters.page.images import without_images
from treering.session.payload import blobs_in


class Element(msgspec.Struct, omit_defaults=True):
    """An item that is more than the payload of its node."""

    n: int
    """The number of its node; -1 if the node is not in the page."""
    id: str = ""
    """The id of a node that is not in the page."""
    view: str = ""
    message: Raw | UnsetType = UNSET
    """The message of an item that was edited."""


Elements = list[int | tuple[int, int] | Raw]
"""A number is a node; a pair is a run: its first node, and the number of nodes; an object is an `Element`."""


class Wanted:
    """The views of nodes and the blobs that contexts need, collected while contexts are written.

    Args:
        chosen: The nodes of the page.
        images: Whether edited messages keep their images.
    """

    def __init__(self, chosen: Chosen, *, images: bool) -> None:
        self._chosen = chosen
        self._images = images
        self.views: defaultdict[int, set[str]] = defaultdict(set)
        """The views of a node in contexts, by its number."""
        self.blobs: dict[str, None] = {}
        """Digests of blobs, in the order in which they were found."""

    def elements(self, items: Iterable[Item]) -> Elements:
        """Return the items of a context, and note the views and blobs that they need."""
        found: Elements = []
        for item in items:
            number = self._chosen.number(item.node)
            if number < 0 or item.view or item.message is not None:
                found.append(self._element(number, item))
                continue
            last = found[-1] if found else -1
            if isinstance(last, int) and last >= 0 and last + 1 == number:
                found[-1] = (last, 2)
            elif isinstance(last, tuple) and last[0] + last[1] == number:
                found[-1] = (last[0], last[1] + 1)
            else:
                found.append(number)
        return found

    def _element(self, number: int, item: Item) -> Raw:
        message: Raw | UnsetType = UNSET
        if item.message is not None:
            self.note_blobs(item.message)
            message = Raw(item.message if self._images else without_images(item.message))
        elif item.view and number >= 0:
            self.views[number].add(item.view)
        left = "" if number >= 0 else item.node
        return Raw(write_form(Element(n=number, id=left, view=item.view, message=message)))

    def note_blobs(self, data: bytes) -> None:
        """Note the blobs that encoded bytes refer to."""
        self.blobs |= dict.fromkeys(sorted(blobs_in(data)))
