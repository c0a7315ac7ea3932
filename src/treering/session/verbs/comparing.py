"""Compare two points of a session: the agent's state, the settings, and what the model sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from treering.format import values
from treering.session.content import ContextItem
from treering.session.payload import decoded_state
from treering.session.reader import Readable
from treering.storage.requests import Steps


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A value that differs between the two points."""

    before: Any
    after: Any


class ValueChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How values by key differ; read-only."""

    added: Mapping[str, Any]
    """Values that only the later point has."""
    changed: Mapping[str, Changed]
    removed: Mapping[str, Any]
    """Values that only the earlier point has."""


class ContextChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How two contexts differ. Items are the same if they come from one node; their order is not compared."""

    added: tuple[ContextItem, ...]
    edited: tuple[ContextItem, ...]
    """Items whose messages differ, with the message of the later point."""
    removed: tuple[ContextItem, ...]
    kept: int
    """The number of unchanged items."""


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """How two points of a session differ."""

    state: ValueChanges
    settings: ValueChanges
    context: ContextChanges


class _Point(NamedTuple):
    """State, settings and context at a point."""

    state: Mapping[str, Any]
    settings: Mapping[str, Any]
    context: tuple[ContextItem, ...]


def diff(reader: Readable, a: str, b: str | None = None) -> Steps[Diff]:
    """Compare two points of the session: state, settings, and what the model sees.

    A node stands for the state and context that a `checkout` of it from this head restores. Contexts are compared as
    they were recorded: with the messages that `context` leaves out, and without buffered messages.

    Args:
        reader: The session.
        a: A checkpoint or a node.
        b: A checkpoint or a node; by default the point where the session stands now.

    Raises:
        NotFoundError: There is no such checkpoint or node, or the checkpoint was pruned.
    """
    old, new = (yield from _at(reader, a)), (yield from _here(reader) if b is None else _at(reader, b))
    return Diff(
        state=_compared(old.state, new.state),
        settings=_compared(old.settings, new.settings),
        context=_compared_items(old.context, new.context),
    )


def _at(reader: Readable, name: str) -> Steps[_Point]:
    if (yield from reader.replica.ask(lambda look: look.is_checkpoint(name))):
        found = yield from reader.content.load_checkpoint(name)
        context = found.context
        lines = yield from reader.content.context_lines(context)
        yield from reader.blobs.fetch(lines.values(), context)
        state = found.state
    else:
        restored = yield from reader.content.restore(name, head=reader.head, state=False)
        context, lines = restored.context, restored.lines
        state = restored.checkpoint.state if restored.checkpoint else {}
    return _Point(decoded_state(state), values.copied(context.settings), reader.content.messages(context, lines))


def _here(reader: Readable) -> Steps[_Point]:
    yield from ()
    now, newest = reader.replica.state, reader.checkpoint
    context = reader.content.messages(now.context, now.lines)
    return _Point(decoded_state(newest.state if newest else {}), values.copied(now.context.settings), context)


def _compared(old: Mapping[str, Any], new: Mapping[str, Any]) -> ValueChanges:
    """How values differ; they are equal if their stored forms are."""
    changed = [key for key in old if key in new and _differ(old[key], new[key])]
    return ValueChanges(
        added=MappingProxyType({key: value for key, value in new.items() if key not in old}),
        changed=MappingProxyType({key: Changed(before=old[key], after=new[key]) for key in changed}),
        removed=MappingProxyType({key: value for key, value in old.items() if key not in new}),
    )


def _compared_items(old: Iterable[ContextItem], new: Iterable[ContextItem]) -> ContextChanges:
    before, after = _by_node(old), _by_node(new)
    both = [name for name in after if name in before]
    edited = [name for name in both if _differ(before[name].message, after[name].message)]
    return ContextChanges(
        added=tuple([item for name, item in after.items() if name not in before]),
        edited=tuple([after[name] for name in edited]),
        removed=tuple([item for name, item in before.items() if name not in after]),
        kept=len(both) - len(edited),
    )


def _by_node(items: Iterable[ContextItem]) -> dict[tuple[str, int], ContextItem]:
    """Items by their node, numbered, since a context may show a node more than once."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], ContextItem] = {}
    for item in items:
        found[item.node, seen[item.node]] = item
        seen[item.node] += 1
    return found


def _differ(old: object, new: object) -> bool:
    return values.encode(old) != values.encode(new)
