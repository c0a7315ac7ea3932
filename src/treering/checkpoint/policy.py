"""Policies choose which nodes of a path the model sees; views turn their payloads into messages.

A policy runs when a session is written, never when it is resumed: its result is stored. So a policy may change with a
release. Stored contexts name views, so a view must never change its result; another wording is a new view
(`summary@2`).

The default policy is in `treering.checkpoint.policies`. The policies of a program are registered when its module is
imported, which happens when one of their names is first looked up: the first word of the name is the program, and the
function given to `find_policies_with` imports its module. So an imported session can be resumed in any process, and a
process without such sessions imports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol

import msgspec

from treering.checkpoint.context import Context, Item
from treering.errors import FormatVersionError, UsageError
from treering.format.record import Skeleton

_DEFAULTS: Final = frozenset({"default", "summary", "branch_summary", "custom_message"})
"""First words of the names that `treering.checkpoint.policies` registers."""


class Recorded(Protocol):
    """The nodes of a session in the order in which they were recorded, whatever branch they are on."""

    def between(self, first: str, last: str) -> Sequence[Skeleton]:
        """Return the nodes from `first` up to `last`, without `last`; empty if either is missing."""


class Policy(Protocol):
    """Chooses which nodes of a path the model sees. Implementations are pure."""

    @property
    def name(self) -> str:
        """The name and version that are stored with each context, such as `default@1`."""

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`.

        Args:
            path: From a root to the newest node.
            recorded: All nodes of the session, for programs that go by the order of the file and not by the path.
        """

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return the result of `build` for the path of `context` followed by `skeleton`.

        None means that the whole path is needed: the caller then calls `build`.
        """

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return the settings of a context under the names that the program of this policy uses."""


class Growth:
    """A context to which nodes are added one after the other, so that its items are copied once and not for each node.

    This requires that the policy has `first_seen`, which says how many of the first items its `extend` reads for a node
    that is no compaction. Such a node then adds the same items, whatever items follow the first ones.
    """

    def __init__(self, policy: Policy, context: Context) -> None:
        self._policy = policy
        self._begun = context
        self._added: list[Item] = []
        self._settings = context.settings
        first_seen: int | None = getattr(policy, "first_seen", None)
        known = first_seen is not None and len(context.items) >= first_seen
        self._first = context.items[:first_seen] if known else None

    @property
    def context(self) -> Context:
        """The context with the nodes added."""
        if not self._added and self._settings is self._begun.settings:
            return self._begun
        return Context((*self._begun.items, *self._added), self._settings)

    def add(self, node: Skeleton) -> tuple[Item, ...] | None:
        """Add a node and return its items; None if only `extend` can compute the new context."""
        if self._first is None or node.kind == "compaction":
            return None
        extended = self._policy.extend(Context(self._first, self._settings), node)
        if extended is None or extended.items[: len(self._first)] != self._first:
            return None
        items = extended.items[len(self._first) :]
        self._added += items
        self._settings = extended.settings
        return items


def extend_all(policy: Policy, context: Context, nodes: Iterable[Skeleton]) -> Context | None:
    """Extend a context by several nodes, as `extend` does by each of them; None if the whole path is needed."""
    growth = Growth(policy, context)
    for node in nodes:
        if growth.add(node) is None:
            extended = policy.extend(growth.context, node)
            if extended is None:
                return None
            growth = Growth(policy, extended)
    return growth.context


class Seen(msgspec.Struct, frozen=True):
    """The facts about a node that a view receives in addition to its payload."""

    node: str
    time_ms: int
    """Milliseconds since 1970."""
    links: Mapping[str, str]
    brief: Mapping[str, object]
    argument: str = ""
    """The text after the colon in the name of the view, as in `tool.stripped@1:call_1`."""


class Sent(msgspec.Struct, frozen=True):
    """A message of a context that goes to a model."""

    at: int
    """Index among the messages of the context."""
    message: object


View = Callable[[object, Seen], object]
"""Turns a node's payload, and facts about the node, into the message that a model sees."""

VIEWS: dict[str, View] = {}
POLICIES: dict[str, Policy] = {}
_LOADERS: Final[list[Callable[[str], None]]] = []


def find_policies_with(load: Callable[[str], None]) -> None:
    """Add a function that is called with the first word of an unknown name, and registers the names that begin so."""
    if load not in _LOADERS:
        _LOADERS.append(load)


def register_view(name: str, view: View) -> None:
    """Register `view` under `name`. Stored contexts have this name for ever.

    Raises:
        UsageError: Another view has the name.
    """
    if VIEWS.setdefault(name, view) is not view:
        raise UsageError(f"view exists already, take the next version. view={name!r}")


def register_policy(policy: Policy) -> None:
    """Register `policy` under its name.

    Raises:
        UsageError: Another policy has the name.
    """
    if POLICIES.setdefault(policy.name, policy) is not policy:
        raise UsageError(f"policy exists already, take the next version. policy={policy.name!r}")


def find_policy(name: str) -> Policy:
    """Return the policy registered under `name`, or a policy of that name that comes with Treering.

    Raises:
        UsageError: There is no such policy.
    """
    if name not in POLICIES:
        _load_family(name)
    if name not in POLICIES:
        raise UsageError(f"policy is unknown, register it first. policy={name!r}, known={sorted(POLICIES)}")
    return POLICIES[name]


def render(view: str, payload: object, seen: Seen) -> object:
    """Return the message that `view` makes from a node's payload; for the empty view, the payload itself.

    Raises:
        FormatVersionError: The view is unknown in this process: a newer version or an extension wrote it.
    """
    if not view:
        return payload
    name, _, argument = view.partition(":")
    if name not in VIEWS:
        _load_family(name)
    if name not in VIEWS:
        raise FormatVersionError(f"view is unknown, upgrade or register it. view={name!r}, known={sorted(VIEWS)}")
    return VIEWS[name](payload, msgspec.structs.replace(seen, argument=argument) if argument else seen)


def _load_family(name: str) -> None:
    """Import the module that registers `name`, if there is one; importing it again does nothing."""
    first = re.match("[a-z_]*", name)
    word = first[0] if first else ""
    if word in _DEFAULTS:
        import_module("treering.checkpoint.policies")
    else:
        for load in _LOADERS:
            load(word)
