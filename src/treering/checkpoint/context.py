"""The working context: what the model sees, as references to nodes.

Rule 1: every item names its node, even if its message was edited inline, so that each message can be traced to a node.
Rule 2: a context is never stored as "the history from an offset". Items are listed one by one, and changes are splices
of that list, exact to the byte.

A context changes by appending, by losing its front, or in one place in the middle, and all of it in one step when a
compaction and new messages are recorded together. `treering.format.splices` finds such changes in O(n log n).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from treering.errors import CorruptError
from treering.format.values import alike


class Item(msgspec.Struct, frozen=True, gc=False):
    """One message of the context."""

    node: str
    view: str = ""
    """The view that makes a message from the node's payload, see `treering.checkpoint.policy`; empty: the payload is
    the message."""
    message: bytes | None = None
    """JSON (`format.values`) of an inline edit: a message that replaces the view's."""


class Context(msgspec.Struct, frozen=True):
    """The messages that a model gets, in order, and the settings for its call."""

    items: tuple[Item, ...] = ()
    settings: dict[str, object] = {}
    """Small JSON values: model, provider, thinking, mode and other settings that change along a path."""

    def __eq__(self, other: object) -> bool:
        """Whether both are stored alike."""
        if not isinstance(other, Context):
            return NotImplemented
        same = self.settings is other.settings or alike(self.settings, other.settings)
        return same and self.items == other.items

    __hash__ = None  # type: ignore[assignment]  # settings can be of any JSON

    def with_items(self, items: Sequence[Item]) -> "Context":
        """Return a context with other items and the same settings."""
        return Context(tuple(items), self.settings)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of all items, in order."""
        return tuple([item.node for item in self.items])


_QUOTES = 3  # around a name, with the comma that follows

Splice: TypeAlias = tuple[int, int, tuple[Item, ...]]
"""An index of the old list, how many items to delete there, and the items to insert."""


def without(context: Context, nodes: Collection[str]) -> Context:
    """Return `context` without the items of some (retracted) nodes."""
    return context.with_items([item for item in context.items if item.node not in nodes]) if nodes else context


def without_messages(context: Context, nodes: Collection[str]) -> Context:
    """Return `context` without the inline edits of some (erased) nodes."""
    if not nodes or not any(item.message is not None and item.node in nodes for item in context.items):
        return context
    return context.with_items([Item(item.node, item.view) if item.node in nodes else item for item in context.items])


def replace(context: Context, messages: Mapping[str, bytes]) -> Context:
    """Return `context` with other messages (JSON) for some (amended) nodes.

    A node with several items has one afterwards, in the place of the first; nodes without items get none.
    """
    if not messages:
        return context
    items: list[Item] = []
    done: set[str] = set()
    for item in context.items:
        if item.node not in messages:
            items.append(item)
        elif item.node not in done:
            done.add(item.node)
            items.append(Item(item.node, item.view, messages[item.node]))
    return context.with_items(items) if done else context


def splice_apply(old: Sequence[Item], splices: Sequence[Splice]) -> tuple[Item, ...]:
    """Apply the splices of `splice_diff` and return the new list.

    Raises:
        CorruptError: A splice lies outside of `old`, or they are not in order.
    """
    new: list[Item] = []
    done = 0
    for start, deleted, items in splices:
        if not (done <= start <= start + deleted <= len(old)):
            raise CorruptError(f"context splice does not fit. splice={(start, deleted)}, items={len(old)}, done={done}")
        new += old[done:start]
        new += items
        done = start + deleted
    return (*new, *old[done:])


def least_bytes(items: Iterable[Item]) -> int:
    """Return a lower bound of the bytes that `items` take as JSON."""
    return sum([len(item.node) + len(item.view) + len(item.message or b"") + _QUOTES for item in items])


def growth_bytes(old: Sequence[Item], splices: Iterable[Splice]) -> int:
    """Return by how much `least_bytes` of a context grows with some splices."""
    return sum(least_bytes(items) - least_bytes(old[start : start + deleted]) for start, deleted, items in splices)


class ItemForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item as JSON, where it is more than the bare id of its node."""

    node: str
    view: str = ""
    message: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def encode_items(items: Iterable[Item]) -> list[str | ItemForm]:
    """Return `items` for msgspec's JSON encoder."""
    return [item.node if item.message is None and not item.view else _encode_item(item) for item in items]


def _encode_item(item: Item) -> ItemForm:
    return ItemForm(item.node, item.view, msgspec.UNSET if item.message is None else msgspec.Raw(item.message))


def decode_items(forms: Iterable[str | ItemForm]) -> tuple[Item, ...]:
    """Return the items that `encode_items` was given."""
    return tuple(Item(form) if isinstance(form, str) else _decode_item(form) for form in forms)


def _decode_item(form: ItemForm) -> Item:
    return Item(form.node, form.view, None if form.message is msgspec.UNSET else bytes(form.message))
