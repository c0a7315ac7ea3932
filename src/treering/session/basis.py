"""Where a recording goes: on the head in hand, or on one beside it, because others went on from there.

Rule 1: a handle stands on a node and on a checkpoint: those that its caller was shown when the session was opened,
refreshed or gone elsewhere in, and what it recorded since. What others record meanwhile changes neither.
Rule 2: nodes go behind the node in hand. If others took the head along, they begin a head of their own.
Rule 3: a checkpoint that says something (state, context, a label, ...) goes on the checkpoint in hand. If the head has
a newer one that says something else, it begins a head of its own: it may have been made of what that replaced.
Rule 4: what says nothing of the kind is in nobody's way. A checkpoint that a schedule makes is made of the newest one.
Rule 5: a caller who was promised another place (`expect`, `expect_checkpoint`) is told, and nothing is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treering.errors import HeadMovedError, NotFoundError
from treering.storage.requests import Steps
from treering.transcript.heads import Heads
from treering.transcript.node import HERE, Here

if TYPE_CHECKING:
    from treering.checkpoint.checkpoint import Checkpoint
    from treering.session.reader import Restored
    from treering.session.writer import Writer


class Wish(NamedTuple):
    """What a caller said of the place."""

    head: str | None = None
    """Another head than the one in hand."""
    expect: str | Here | None = HERE
    """The node that the head is believed to stand on."""
    expect_checkpoint: str | Here | None = HERE
    """The checkpoint that is believed to be the newest of the head."""
    merge: bool = False
    """What is said of the state may be said beside what others said."""

    @property
    def is_particular(self) -> bool:
        """The place is named, so whatever was put off stands in front of it."""
        return self.head is not None or self.expect is not HERE or self.expect_checkpoint is not HERE


ANYWHERE = Wish()
"""Where the handle stands."""


class Place(NamedTuple):
    """Where a recording goes."""

    head: str
    node: str | None
    own_head: bool = True
    """The handle goes along."""
    newest: Restored | None = None
    """What a checkpoint is made of, if it is not what the handle stands on."""
    caught_up: bool = True
    """The caller knows what that is, or gave leave to change it unseen: the handle then stands on what was made."""


def in_hand(writer: Writer, *, says_state: bool = False) -> Place:
    """The head in hand, or one beside it if others took that along, or its state, and this says what it is."""
    there = writer.state.heads.heads.get(writer.at_head)
    if there != writer.at_node or (says_state and writer.behind):
        return _beside(writer)
    return Place(writer.at_head, writer.at_node)


def find_place(writer: Writer, wish: Wish, *, says_state: bool, adds_nodes: bool, ends: bool) -> Steps[Place]:
    """Where a recording goes.

    Args:
        writer: Knows the context of the node in hand, see `Writer.anchor`.
        wish: What the caller said of it.
        says_state: It says something of the agent's state.
        adds_nodes: There are nodes in it.
        ends: There may be a checkpoint in it.

    Raises:
        HeadMovedError: The head is not where the caller expected it.
        NotFoundError: There is no head of that name.
    """
    heads = writer.state.heads.heads
    name = wish.head or writer.at_head
    there = heads.get(name)
    if wish.expect is not HERE and there != wish.expect:
        raise _moved(writer, f"head {name!r} is not where you expected it", wish.expect, there)
    if name != writer.at_head:
        if name not in heads:
            raise NotFoundError(f"no such head. head={name!r}, known={sorted(heads)!r}", kind="head")
        return Place(name, there, own_head=False)
    if there != writer.at_node and wish.expect is HERE and (adds_nodes or not wish.merge):
        return _beside(writer)
    if ends or wish.expect_checkpoint is not HERE:
        return (yield from _find_basis(writer, wish, there, says_state=says_state))
    return Place(name, there)


def _find_basis(writer: Writer, wish: Wish, there: str | None, *, says_state: bool) -> Steps[Place]:
    """What a checkpoint is made of, and so where it goes; `there` is the node of the head in hand."""
    name, known = writer.at_head, writer.at_checkpoint
    newest = known
    if there != writer.at_node or writer.behind:
        index = yield from writer.index()
        newest, _ = index.nearest_checkpoint(index.graph.path(there), head=name)
    if wish.expect_checkpoint not in (HERE, newest):
        what = f"the newest checkpoint of head {name!r} is not the one you expected"
        raise _moved(writer, what, wish.expect_checkpoint, newest)
    if newest == known and there == writer.at_node:
        return Place(name, there)
    restored = yield from writer.restore(there, head=name)
    told = wish.merge or wish.expect_checkpoint is not HERE
    knows = told or newest == known or (there == writer.at_node and _says_the_same(writer, restored))
    if says_state and not knows:
        if wish.expect is not HERE:
            raise _moved(writer, f"others committed state on head {name!r} since you looked", known, newest)
        yield from _require_there(writer)
        return _beside(writer)
    return Place(name, there, newest=restored, caught_up=knows)


def _says_the_same(writer: Writer, newest: Restored) -> bool:
    """Whether others only repeated what the caller was shown: by going elsewhere and back, or under a label."""
    return writer.state.context == newest.context and _state_of(writer.shown) == _state_of(newest.checkpoint)


def _state_of(checkpoint: Checkpoint | None) -> tuple[dict[str, bytes], bytes | None]:
    return (checkpoint.state, checkpoint.manager) if checkpoint is not None else ({}, None)


def _beside(writer: Writer) -> Place:
    """A head of its own; the one in hand is taken also where no node was recorded yet, and no head."""
    heads, name = writer.state.heads.heads, writer.at_head
    if heads.get(name) == writer.at_node:
        heads = heads | {name: writer.at_node}
    return Place(Heads(heads).free_name(name), writer.at_node)


def _require_there(writer: Writer) -> Steps[None]:
    """Refuse to go on from a checkpoint that others pruned: its state is gone."""
    index = yield from writer.index()
    if writer.at_checkpoint in index.pruned:
        raise _moved(writer, "the checkpoint that this session stood on was pruned", writer.at_checkpoint, None)


def _moved(writer: Writer, what: str, expected: object, got: object) -> HeadMovedError:
    return HeadMovedError(
        f"{what}. expected={expected!r}, got={got!r}",
        key=writer.keys.tail,
        remedy="refresh, look at what was added, and decide where to go on",
    )
