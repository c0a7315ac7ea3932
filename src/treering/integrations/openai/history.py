"""The history of a session of the OpenAI Agents SDK, in one session of Treering: protocols without I/O.

Rule 1: the history of a branch is the context of a head. Each item is a node, recorded once. Items that are popped,
cleared or replaced leave the context, and stay in the transcript as a branch.
Rule 2: no change is refused because another writer was faster. Every change is made to the newest history of the
branch, and planned again if another writer appends first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final, NamedTuple

import msgspec

from treering.checkpoint.context import Context, Item
from treering.errors import UsageError
from treering.format.record import read_brief
from treering.integrations.openai.turns import start_of
from treering.integrations.shared import is_recorded
from treering.kinds import Kind
from treering.session.content import ContextItem, Restored
from treering.session.pairs import recorded
from treering.session.payload import decoded_state
from treering.session.recording import Change, Recording
from treering.session.verbs import conversation, navigation
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.node import Draft

DROPPED: Final = "dropped_branch"
"""The kind of notes about deleted branches, whose names are not used again."""
_RESULT: Final = "_output"
"""The suffix of the types of items that are results of tools."""


def draft_of(item: Mapping[str, Any]) -> Draft:
    """Return the draft of an item's node. Calls and reasoning have no role of their own and get the model's.

    Raises:
        UsageError: The item is no mapping.
    """
    if not isinstance(item, Mapping):
        raise UsageError(
            f"an item is no mapping. type={type(item).__name__}",
            kind=Kind.VALUE,
            remedy="pass items as the SDK has them",
        )
    role, kind = item.get("role"), item.get("type")
    if not isinstance(role, str):
        role = "tool" if isinstance(kind, str) and kind.endswith(_RESULT) else "assistant"
    return Draft(role=role, payload=dict(item))


def items(writer: Writer, branch: str | None = None) -> Steps[Sequence[ContextItem]]:
    """Read the history of a branch as it is now, by default of the current branch.

    Raises:
        UsageError: There is no such branch.
    """
    yield from writer.look()
    if branch is None or branch == writer.position.head:
        return recorded(writer)
    return (yield from items_at(writer, branch))


def items_at(writer: Writer, branch: str) -> Steps[Sequence[ContextItem]]:
    """Return the history of a branch as this writer last read it.

    Raises:
        UsageError: There is no such branch.
    """
    if branch == writer.position.head:
        return recorded(writer)
    require(writer, branch)
    found = yield from writer.content.restore(writer.replica.state.heads.heads[branch], head=branch)
    return writer.content.messages(found.context, found.lines)


def require(writer: Writer, branch: str) -> None:
    """Raise UsageError unless a branch has that name."""
    heads = writer.replica.state.heads.heads
    if branch not in heads:
        raise UsageError(f"Branch {branch!r} does not exist. known={sorted(heads)!r}", kind=Kind.HEAD)


def add(writer: Writer, new: Sequence[Mapping[str, Any]], ids: Sequence[str], *, again: bool = False) -> Steps[None]:
    """Record items at the end of the current branch; they are durable when this returns.

    Args:
        writer: The session.
        new: The items.
        ids: The ids of their nodes.
        again: An earlier call with these ids had no answer; do nothing if it recorded them.
    """
    drafts = [msgspec.structs.replace(draft_of(item), id=name) for item, name in zip(new, ids, strict=True)]

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        if not (again and (yield from is_recorded(writer, ids[0]))):
            for draft in drafts:
                recording.draft(draft)
            recording.end(None)
        return recording

    yield from writer.appender.write(plan)


class Taken:
    """What a call of `pop` takes, also if it has no answer."""

    item: Any = None
    checkpoint: str | None = None
    """The checkpoint that it sent."""


def pop(writer: Writer, taken: Taken) -> Steps[Any]:
    """Take the last item out of the history of the current branch, and return it; None if there is none.

    Args:
        writer: The session.
        taken: What an earlier call took that had no answer; if that was recorded, nothing more is taken.
    """

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        yield from writer.blobs.fetch_shown()
        last_items = recorded(writer)[-1:]
        taken.item, taken.checkpoint = (last_items[0].message if last_items else None), None
        if last_items:
            kept = writer.replica.state.context.items
            last = yield from writer.replica.ask(lambda lookup: lookup.node(kept[-1].node))
            end = last.parent if last.id == recording.node else recording.node
            yield from _cut(recording, "checkout", recording.head, end, kept[:-1])
            taken.checkpoint = recording.made.id if recording.made is not None else None
        return recording

    yield from writer.look()
    if not writer.replica.exists:
        return None
    if taken.checkpoint is None or taken.checkpoint not in writer.appender.found:
        yield from writer.appender.write(plan)
    return taken.item


def clear(writer: Writer) -> Steps[None]:
    """Empty the current branch: no items, and no state."""

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        if recording.node is not None or recorded(writer) or writer.state_values:
            recording.checkpoint = None
            yield from _cut(recording, "checkout", recording.head, None, ())
        return recording

    yield from writer.look()
    if writer.replica.exists:
        yield from writer.appender.write(plan)


def replace(
    writer: Writer,
    expected: Sequence[str],
    new: Sequence[Mapping[str, Any]],
    *,
    expired: Callable[[Any], bool] | None = None,
) -> Steps[bool]:
    """Replace the last items of the current branch; False, without a change, if it ends with other items now.

    Args:
        writer: The session.
        expected: The nodes of the last items.
        new: The items that replace them.
        expired: Returns whether an item at the beginning of the history is removed as well.
    """
    drafts, done = list(map(draft_of, new)), [False]

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        before = writer.replica.state.context
        start = max(0, len(before.items) - len(expected))
        done[0] = bool(expected) and [item.node for item in before.items[start:]] == list(expected)
        if done[0]:
            first = 0
            if expired is not None:
                yield from writer.blobs.fetch_shown()
                left = recorded(writer)[:start]
                first = next((place for place, each in enumerate(left) if not expired(each.message)), start)
            made = [Item(recording.draft(draft)) for draft in drafts]
            recording.context = Context((*before.items[first:start], *made), before.settings)
            recording.keep(Change(metadata={"replaced": len(expected)}))
        return recording

    yield from writer.appender.write(plan)
    return done[0]


def commit(writer: Writer, state: Mapping[str, object]) -> Steps[None]:
    """Set keys of the state of the current branch; keys that other writers set are kept."""
    yield from writer.look()
    yield from conversation.commit(writer, state=state, merge=True)


def state(writer: Writer, key: str) -> Steps[Any]:
    """Read the value of a key of the state of the current branch; None if there is none."""
    yield from writer.look()
    return decoded_state(writer.state_values).get(key)


def drop_state(writer: Writer, key: str) -> Steps[None]:
    """Remove a key from the state of the current branch."""
    yield from writer.look()
    if key in writer.state_values:
        yield from conversation.commit(writer, drop=[key], merge=True)


class Branch(NamedTuple):
    """A branch with its history."""

    name: str
    is_current: bool
    items: Sequence[ContextItem]


def branches(writer: Writer) -> Steps[list[Branch]]:
    """Read all branches, the oldest first."""
    yield from writer.look()
    found: list[Branch] = []
    for name in writer.replica.state.heads.heads:
        items = yield from items_at(writer, name)
        found += [Branch(name, name == writer.position.head, items)]
    return found


def current(writer: Writer) -> Steps[str]:
    """Read the name of the current branch."""
    yield from writer.look()
    return writer.position.head


def branch(writer: Writer, turn: int, name: str | None, *, otherwise: str) -> Steps[str]:
    """Make a branch that ends before a turn of the current one, and continue on it, with the state of that place.

    Args:
        writer: The session.
        turn: The turn.
        name: The name of the branch; None chooses `otherwise`.
        otherwise: The name if `name` is None; a number is added if it was used.

    Returns:
        The name of the branch.

    Raises:
        UsageError: There is no such turn, or a branch has or had that name.
    """
    chosen = [name or otherwise]

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        place = start_of(recorded(writer), turn)
        taken = yield from _used(writer)
        if name in taken:
            raise UsageError(f"Branch ID {name!r} has already been used; choose another one", kind=Kind.HEAD)
        if name is None:
            numbered = (f"{otherwise}_{number}" for number in count(2))
            chosen[0] = next(each for each in chain([otherwise], numbered) if each not in taken)
        items = writer.replica.state.context.items
        said = yield from writer.replica.ask(lambda lookup: lookup.node(items[place].node))
        before = yield from writer.content.restore(said.parent, head=recording.head, part=_without_items)
        recording.checkpoint = before.checkpoint
        yield from _cut(recording, "branch", chosen[0], said.parent, items[:place], beside=before.lines)
        return recording

    yield from writer.look()
    yield from writer.appender.write(plan)
    return chosen[0]


def switch(writer: Writer, name: str) -> Steps[None]:
    """Continue on another branch.

    Raises:
        UsageError: There is no such branch.
    """
    yield from writer.look()
    require(writer, name)
    if name != writer.position.head:
        yield from navigation.switch(writer, name)


def drop(writer: Writer, name: str, *, instead: str | None = None) -> Steps[None]:
    """Delete a branch; its items stay in the transcript.

    Args:
        writer: The session.
        name: The branch.
        instead: The branch to continue on if `name` is the current one.

    Raises:
        UsageError: There is no such branch, or it is the current one and `instead` is None.
    """

    def plan() -> Steps[Recording]:
        recording = yield from _begun(writer)
        require(writer, name)
        if name == recording.head:
            what = f"Cannot delete current branch {name!r}"
            raise UsageError(what, kind=Kind.HEAD, remedy="switch to another one first, or pass force=True")
        recording.draft(Draft(type="note", kind=DROPPED, brief={"head": name}))
        recording.forget(name)
        return recording

    yield from writer.look()
    require(writer, name)
    if name == writer.position.head and instead is not None:
        yield from switch(writer, instead)
    yield from writer.appender.write(plan)


def _used(writer: Writer) -> Steps[set[str]]:
    """Return the names of all branches, including deleted ones."""
    return {*writer.replica.state.heads.heads, writer.position.head, *(yield from _dropped(writer))}


def _dropped(writer: Writer) -> Steps[set[str]]:
    """Return the names of deleted branches."""
    gone = yield from writer.replica.ask(lambda lookup: lookup.notes(DROPPED))
    return {str(read_brief(note)["head"]) for note in gone}


def _begun(writer: Writer) -> Steps[Recording]:
    """Begin an append at the end of the current branch, which another writer may have moved.

    Raises:
        UsageError: Another writer deleted it.
    """
    head = writer.position.head
    if writer.replica.exists and head not in writer.replica.state.heads.heads and head in (yield from _dropped(writer)):
        raise UsageError(
            f"Branch {head!r} was deleted by another process.", kind=Kind.HEAD, remedy="switch to another one"
        )
    writer.position.follow_head()
    yield from writer.position.ensure_context()
    return Recording(writer)


def _without_items(context: Context) -> Context:
    return context.with_items(())


def _cut(
    recording: Recording, kind: str, head: str, node: str | None, kept: Sequence[Item],
    *, beside: Mapping[str, bytes] = {},
) -> Steps[None]:  # fmt: skip
    """Record that a head points to a node now, with a part of the current context.

    Args:
        recording: The records of the append; it has the checkpoint whose state goes on.
        kind: The kind of the move.
        head: The head.
        node: The node.
        kept: The items of the context.
        beside: Lines of the records that hold the state, if it is not the current one.
    """
    writer, state = recording.writer, recording.state
    context = Context(tuple(kept), state.context.settings)
    lines = {**{name: state.lines[name] for name in context.nodes}, **beside}
    yield from writer.upkeep.pin(Restored(node, context, lines, recording.checkpoint))
    recording.move(kind, head, node)
    recording.context = context
    recording.keep(Change(navigated=True))
