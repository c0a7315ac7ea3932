"""From what happened to what the model sees: policies choose the items, views make messages of them.

A policy is used while a session is written, never while it is resumed: its result is stored. So a policy may change
with the next release, but a view is named in stored contexts and must mean the same for ever; a different wording is a
new view (`summary@2`).

Our own policy is in `treering.checkpoint.policies`. Those of other programs register themselves when their modules are
imported, and that is when a name is first asked for: the word it begins with tells whose it is, and who knows programs
finds the module; see `find_policies_with`. So a session that was imported shows its messages wherever it is resumed,
and a process that has none of these sessions loads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from treering.checkpoint.context import Context
from treering.errors import FormatVersionError, UsageError
from treering.format.record import Skeleton

_DEFAULTS: Final = frozenset({"default", "summary", "branch_summary", "custom_message"})
"""Words with which names begin that `treering.checkpoint.policies.default` registers."""
_FIRST_WORD: Final = re.compile(r"[a-z_]*")


class Recorded(Protocol):
    """The nodes of a session in the order in which they were recorded, whatever branch they are on."""

    def between(self, first: str, last: str) -> Sequence[Skeleton]:
        """Return the nodes from `first` up to, and without, `last`; none if either is missing."""


class Policy(Protocol):
    """Chooses what of a path the model sees. Implementations are pure."""

    @property
    def name(self) -> str:
        """The name and version stored with every context it made, such as `default@1`."""

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`.

        Args:
            path: From a root to the newest node.
            recorded: All nodes of the session, for programs that look at the order of the file and not at the path.
        """

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return what `build` would give for the path of `context` and then `skeleton`.

        None means that it takes the whole path: then the caller calls `build`.
        """

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return the settings of a context under the names that the program of this policy has for them."""


class Seen(NamedTuple):
    """The facts about a node that a view gets besides its payload."""

    node: str
    time_ms: int
    """Milliseconds since 1970."""
    links: Mapping[str, str]
    brief: Mapping[str, object]
    argument: str = ""
    """What follows the colon in the name of the view, as in `tool.stripped@1:call_1`."""


class Sent(NamedTuple):
    """A message of a context that goes to a model."""

    at: int
    """Which one it is of the context's messages."""
    message: object


View = Callable[[object, Seen], object]
"""From a node's payload, and what else is known of it, to the message a model is given."""

VIEWS: dict[str, View] = {}
POLICIES: dict[str, Policy] = {}
_LOADERS: Final[list[Callable[[str], None]]] = []


def find_policies_with(load: Callable[[str], None]) -> None:
    """Have a function called with the first word of a name that is not known, for it to register what begins so."""
    if load not in _LOADERS:
        _LOADERS.append(load)


def register_view(name: str, view: View) -> None:
    """Make `view` known under `name`, which stored contexts will carry for ever.

    Raises:
        UsageError: Another view has the name.
    """
    if VIEWS.setdefault(name, view) is not view:
        raise UsageError(f"view exists already, take the next version. view={name!r}")


def register_policy(policy: Policy) -> None:
    """Make `policy` known under its name.

    Raises:
        UsageError: Another policy has the name.
    """
    if POLICIES.setdefault(policy.name, policy) is not policy:
        raise UsageError(f"policy exists already, take the next version. policy={policy.name!r}")


def find_policy(name: str) -> Policy:
    """Return the policy registered under `name`, or one of those that come with Treering.

    Raises:
        UsageError: There is none.
    """
    if name not in POLICIES:
        _load_family(name)
    if name not in POLICIES:
        raise UsageError(f"policy is unknown, register it first. policy={name!r}, known={sorted(POLICIES)}")
    return POLICIES[name]


def render(view: str, payload: object, seen: Seen) -> object:
    """Return the message that `view` makes of a node's payload; the empty view is the payload itself.

    Raises:
        FormatVersionError: The view is unknown here: a newer version or an extension wrote it.
    """
    if not view:
        return payload
    name, _, argument = view.partition(":")
    if name not in VIEWS:
        _load_family(name)
    if name not in VIEWS:
        raise FormatVersionError(f"view is unknown, upgrade or register it. view={name!r}, known={sorted(VIEWS)}")
    return VIEWS[name](payload, seen._replace(argument=argument) if argument else seen)


def _load_family(name: str) -> None:
    """Import the module that registers `name`, if there is one; importing it again does nothing."""
    first = _FIRST_WORD.match(name)
    word = first[0] if first else ""
    if word in _DEFAULTS:
        import_module("treering.checkpoint.policies.default")
    else:
        for load in _LOADERS:
            load(word)
