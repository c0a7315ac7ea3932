"""One append that stores a checkpoint of LangGraph, or pending writes: it is recorded whole or not at all.

Rule 1: after each append the state of the session holds the newest checkpoint of every namespace: the one with the
greatest id. A checkpoint that arrives late is recorded, and then, in the same append, the state before it again.
Rule 2: messages are nodes, each recorded once. If the parent of a checkpoint is not the newest checkpoint, the append
moves the head back to the parent's node; the messages after that node stay as a branch.
Rule 3: pending writes stay in the state while their checkpoint is the newest of its namespace, and those to delta
channels, with the value before them, while the newest one is rebuilt from them. So a checkpoint needs no ancestor,
whatever is pruned. Pending writes stay in the journal while it has the checkpoint of Treering with which they were
recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treering.checkpoint.context import Context, Item
from treering.format import values
from treering.integrations.langgraph import names
from treering.integrations.langgraph.codec import message_from
from treering.integrations.langgraph.kept import NewCheckpoint, Spoken
from treering.session.recording import Change, Recording
from treering.transcript.node import Draft


class Base(NamedTuple):
    """The node and messages that a new checkpoint continues."""

    node: str | None
    items: tuple[Item, ...]
    digests: tuple[bytes, ...]
    """The digests of the messages of `items`."""
    erased: Mapping[bytes, Item] = {}
    """The items whose messages were erased, by the digests that these had: a run that began before has them still."""


class ThreadAppend(Recording):
    """The records of one append."""

    digests: tuple[bytes, ...] = ()
    """The digests of the messages in the context after this append."""

    @property
    def keys(self) -> Mapping[str, bytes]:
        """The state of the session after the records so far."""
        return self.checkpoint.state if self.checkpoint is not None else {}

    def put(self, put: NewCheckpoint, base: Base) -> None:
        """Record a checkpoint as the newest of its namespace."""
        self._go_to(base.node)
        items: Sequence[Item] = base.items
        if not put.ns:
            items = self._items(put.spoken, base, put)
            self.digests = tuple([each.digest for each in put.spoken or ()])
        self._lay(put.keys, _outdated(self.keys, put), items, Change(metadata={names.MARK: put.brief}, step=put.step))

    def put_back(self, keys: Mapping[str, bytes], base: Base) -> None:
        """Record a whole state of the session: keys that it does not have are dropped."""
        self._go_to(base.node)
        self.digests = base.digests
        gone = [key for key in self.keys if key not in keys]
        self._lay(keys, gone, base.items, Change())

    def add(self, keys: Mapping[str, bytes], brief: Mapping[str, object]) -> None:
        """Record further keys of the state."""
        self.keep(Change(state=self._changed(keys), metadata={names.MARK: brief}))

    def _lay(self, keys: Mapping[str, bytes], gone: Sequence[str], items: Sequence[Item], change: Change) -> None:
        before = self.context
        self.context = Context(tuple(items), before.settings if before is not None else {})
        self.keep(
            Change(
                state=self._changed(keys), drop=gone, metadata=change.metadata, step=change.step,
                navigated=self._went,
            )
        )  # fmt: skip
        self._went = False

    _went = False

    def _go_to(self, node: str | None) -> None:
        if node != self.node:
            self.move("checkout", self.head, node, {"by": names.MARK})
            self._went = True

    def _changed(self, keys: Mapping[str, bytes]) -> dict[str, object]:
        return {key: values.decode(raw) for key, raw in keys.items() if self.keys.get(key) != raw}

    def _items(self, spoken: Sequence[Spoken] | None, base: Base, put: NewCheckpoint) -> list[Item]:
        """Return the context items of a list of messages; messages that are no nodes yet are recorded."""
        there: dict[bytes, deque[Item]] = {}
        for item, digest in zip(base.items, base.digests, strict=True):
            there.setdefault(digest, deque()).append(item)
        items: list[Item] = []
        for each in spoken or ():
            if known := there.get(each.digest):
                items.append(known.popleft())
            elif each.digest in base.erased:
                items.append(base.erased[each.digest])
            else:
                payload = each.payload if each.payload is not None else put.codec.payload_of(message_from(each.raw))
                items.append(Item(self.draft(Draft(role=each.role, payload=payload))))
        return items


def _outdated(keys: Mapping[str, bytes], put: NewCheckpoint) -> list[str]:
    """Return the namespace's keys that a new checkpoint drops; pending writes of later checkpoints are kept."""
    start = names.prefix_of(put.ns)
    gone = []
    for key in keys:
        if key.startswith(start) and key not in put.keys:
            name = names.write_of(put.ns, key)
            if name is None or name.checkpoint < put.id:
                gone.append(key)
    return gone
