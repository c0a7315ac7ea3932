"""The context at each node, as a change of the context at its parent.

A node usually adds its own message. Only after a compaction, or if another program's rules change more, is a whole
context written; at a node with a checkpoint, the context is the checkpoint's. So the size of the changes is about that
of the compactions, for a session of any length.

Rule: with the edits that the page applies, the context at each node is the one that `restore` returns, see
`treering.session.content`: that of the nearest checkpoint, extended by the policy with the nodes below it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from treering.checkpoint.checkpoint import write_form
from treering.checkpoint.context import Context, Item
from treering.checkpoint.policy import extend_all
from treering.exporters.page.chosen import Chosen
from treering.exporters.page.elements import Elements, Wanted
from treering.format import values
from treering.format.record import Skeleton
from treering.session.nearest import has_passed
from treering.session.reader import Readable
from treering.storage.requests import Steps

UNKNOWN = -2
"""The value for a checkpoint that the change does not name: it is the parent's."""
NONE = -1


class Beginning(NamedTuple):
    """The part of a context that a policy needs to add nodes to it."""

    first: tuple[Item, ...]
    settings: dict[str, object]


class _Change(NamedTuple):
    """The change that a node makes to the context of its parent."""

    views: tuple[str, ...] = ()
    """The views of the node's own items, which are added."""
    items: tuple[Item, ...] | None = None
    """The whole context."""
    built: bool = False
    """Whether it was built from the whole path, so that edits in its checkpoint must be applied again."""
    settings: bytes | None = None
    """All settings from here on; None: the parent's settings."""
    start: str | None = None
    """The checkpoint whose context this is."""


class ChangeForm(msgspec.Struct, omit_defaults=True):
    """A change in the page."""

    views: list[str] = []
    items: Elements | UnsetType = UNSET
    built: bool = False
    settings: Raw | UnsetType = UNSET
    checkpoint: int = UNKNOWN
    """The number of the checkpoint that holds the state from here on; -1 if there is none. Without `items`, its context
    is that of this node."""


def contexts_of(reader: Readable, chosen: Chosen, beginnings: Mapping[str, Beginning]) -> Steps[Contexts]:
    """Compute the context at each node.

    Args:
        reader: The session.
        chosen: The nodes of the page.
        beginnings: The beginnings of the contexts of checkpoints, by id.
    """
    contexts = Contexts(reader, chosen, beginnings)
    yield from contexts.run()
    return contexts


class Contexts:
    """Computes the changes of all nodes, parents first.

    Args:
        reader: The session.
        chosen: The nodes of the page.
        beginnings: The beginnings of the contexts of checkpoints, by id.
    """

    def __init__(self, reader: Readable, chosen: Chosen, beginnings: Mapping[str, Beginning]) -> None:
        self._reader = reader
        self._chosen = chosen
        self._policy, self._first_seen = chosen.policy, chosen.first_seen
        self._beginnings = beginnings
        every = chosen.index.all_checkpoints.rows
        targets = chosen.graph.skeletons.targets(sorted(every.values()))
        self._made = dict(zip(sorted(every, key=every.__getitem__), targets, strict=True))
        self._made_at = frozenset(targets)
        count = len(chosen.rows)
        self.codes = array("i", [NONE]) * count
        """By node number: the index of its change."""
        self._changes: list[_Change] = []
        self._code_of: dict[_Change, int] = {}
        self._begun: list[Beginning | None] = [None] * count
        self._held: list[str | None] = [None] * count
        self._passed, self._built = bytearray(count), bytearray(count)
        self._whole: list[tuple[int, int]] = []
        """Nodes at which another checkpoint holds the state, with their changes."""
        self._last: tuple[int, Context] = (NONE, Context())

    def run(self) -> Steps[None]:
        """Compute all changes."""
        parents, skeletons = self._chosen.parents, self._chosen.skeletons(0, len(self.codes))
        for number in range(len(self.codes)):
            waiting = []
            at = number
            while at != NONE and self.codes[at] == NONE:  # in an imported session a parent may follow its child
                waiting.append(at)
                at = parents[at]
            for each in reversed(waiting):
                yield from self._add(each, skeletons[each])

    def _add(self, number: int, node: Skeleton) -> Steps[None]:
        parent = self._chosen.parents[number]
        held = self._held[number] = self._checkpoint(number, node, parent)
        if held is not None and self._made[held] == node.id:
            self.codes[number] = self._code(_Change(start=held))
            self._begun[number] = self._beginnings[held]
        elif held != (self._held[parent] if parent != NONE else None):
            context, built = yield from self._restored(node.id, held)
            self._built[number] = built
            self._set_whole(number, context, built=built, settings=values.encode(context.settings))
            self._whole.append((number, self.codes[number]))
        else:
            yield from self._extend(number, node, parent)

    def _checkpoint(self, number: int, node: Skeleton, parent: int) -> str | None:
        """Return the checkpoint that holds the state at a node: usually the parent's."""
        heads = self._chosen.heads
        placed = (heads.placed or {}).get(heads.current)
        passed = placed is not None and has_passed(placed, heads.current, heads.tip, node)
        self._passed[number] = passed
        if parent != NONE and node.id not in self._made_at and passed == self._passed[parent]:
            return self._held[parent]
        row = self._chosen.rows[number]
        return self._chosen.index.checkpoint_above(row, head=heads.current, heads=heads) if self._made else None

    def _extend(self, number: int, node: Skeleton, parent: int) -> Steps[None]:
        begun = (self._begun[parent] if parent != NONE else None) or Beginning((), {})
        self._built[number] = parent != NONE and self._built[parent]
        if self._first_seen is not None and node.kind != "compaction":
            extended = self._policy.extend(Context(begun.first, begun.settings), node)
            if extended is not None and self._grow(number, node, begun, extended, len(begun.first)):
                return
        context = yield from self._context(parent, begun.settings)
        extended = self._policy.extend(context, node)
        if extended is None:
            graph = self._chosen.whole.graph
            extended = self._policy.build(graph.path(node.id), graph)
            self._built[number] = True
        first = (*context.items[: self._first_seen or 0],)
        if extended.items[: len(context.items)] != context.items or not self._grow(
            number, node, Beginning(first, begun.settings), extended, len(context.items)
        ):
            settings = self._changed(begun.settings, extended.settings)
            self._set_whole(number, extended, built=bool(self._built[number]), settings=settings)
        self._last = (number, extended)

    def _grow(self, number: int, node: Skeleton, begun: Beginning, extended: Context, known: int) -> bool:
        """Note that a node only adds its own items; False if it makes another change."""
        first, own = extended.items[: len(begun.first)], extended.items[known:]
        if first != begun.first or any(item.node != node.id or item.message is not None for item in own):
            return False
        settings = self._changed(begun.settings, extended.settings)
        self.codes[number] = self._code(_Change(tuple([item.view for item in own]), settings=settings))
        room = (self._first_seen or 0) - len(first)
        first = (*first, *own[:room]) if room > 0 and own else begun.first
        same = first is begun.first and settings is None
        self._begun[number] = (
            begun if same else Beginning(first, begun.settings if settings is None else extended.settings)
        )
        return True

    def _changed(self, old: dict[str, object], new: dict[str, object]) -> bytes | None:
        if old is new:
            return None
        encoded = values.encode(new)
        return None if encoded == values.encode(old) else encoded

    def _set_whole(self, number: int, context: Context, *, built: bool, settings: bytes | None) -> None:
        self.codes[number] = len(self._changes)
        self._changes.append(_Change(items=context.items, built=built, settings=settings))
        self._begun[number] = Beginning(context.items[: self._first_seen or 0], context.settings)

    def _code(self, change: _Change) -> int:
        if change not in self._code_of:
            self._code_of[change] = len(self._changes)
            self._changes.append(change)
        return self._code_of[change]

    def _context(self, number: int, settings: dict[str, object]) -> Steps[Context]:
        """Return the context at a node whose change is known, without edits."""
        if number == self._last[0]:
            return self._last[1]
        added: list[Item] = []
        items: tuple[Item, ...] = ()
        while number != NONE:
            change = self._changes[self.codes[number]]
            if change.start is not None:
                items = (yield from self._reader.content.load_checkpoint(change.start)).context.items
                break
            if change.items is not None:
                items = change.items
                break
            added += [Item(self._chosen.ids[number], view) for view in reversed(change.views)]
            number = self._chosen.parents[number]
        return Context((*items, *reversed(added)), settings)

    def _restored(self, node: str, held: str | None) -> Steps[tuple[Context, bool]]:
        """Return the context at a node from its checkpoint on, and whether it was built from the whole path."""
        graph = self._chosen.whole.graph
        path = graph.path(node)
        if held is not None:
            made_at = self._made[held]
            depth = next((place for place, each in enumerate(path, 1) if each.id == made_at), 0)
            found = yield from self._reader.content.load_checkpoint(held)
            extended = extend_all(self._policy, found.context, path[depth:])
            if extended is not None:
                return extended, False
        return self._policy.build(path, graph), True

    def standing(self, number: int) -> tuple[dict[str, object], str | None]:
        """Return the settings at a node, and the checkpoint that holds the state there; both are empty for no node."""
        begun = self._begun[number] if number != NONE else None
        return ({}, None) if begun is None else (begun.settings, self._held[number])

    def forms(self, wanted: Wanted, numbers: Mapping[str, int]) -> list[Raw]:
        """Return all changes in the form of the page, and note the views of nodes that they need.

        Args:
            wanted: Collects the views.
            numbers: The numbers of the checkpoints in the page, by id.
        """
        moved = {code: number for number, code in self._whole}
        for number, code in enumerate(self.codes):
            for view in self._changes[code].views:
                if view:
                    wanted.views[number].add(view)
        found: list[Raw] = []
        for code, change in enumerate(self._changes):
            checkpoint = UNKNOWN if change.start is None else numbers[change.start]
            if code in moved:
                there = self._held[moved[code]]
                checkpoint = NONE if there is None else numbers[there]
            form = ChangeForm(
                views=[*change.views],
                items=UNSET if change.items is None else wanted.elements(change.items),
                built=change.built,
                settings=UNSET if change.settings is None else Raw(change.settings),
                checkpoint=checkpoint,
            )
            found.append(Raw(write_form(form)))
        return found
