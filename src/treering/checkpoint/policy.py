"""From what happened to what the model sees: policies choose the items, views make messages of them.

A policy is used while a session is written, never while it is resumed: its result is stored. So a policy may change
with the next release, but a view is named in stored contexts and must mean the same for ever; a different wording is a
new view (`summary@2`).

The default policy, for a path from a root to the newest node:

| kind of node                                  | effect                                                        |
|-----------------------------------------------|---------------------------------------------------------------|
| `message`                                     | an item                                                       |
| `custom_message`                              | an item, seen through `custom_message@1`                      |
| `branch_summary`                              | an item, seen through `branch_summary@1`; none if it is empty |
| `compaction`                                  | the latest on the path replaces what came before, see below   |
| `model_change`, `thinking_change`, `mode_change` | settings; a value of null takes one back                   |
| `custom` and any unknown kind                 | nothing                                                       |

A brief of `{"context": false}` keeps a node out of the context. A compaction leaves its summary (`summary@1`) and the
items from node `kept` (in its brief) up to itself; if `kept` is not on the path before the compaction, nothing is
kept. Older compactions inside the kept range contribute nothing, neither summary nor items. Settings outlive
compactions. (The same rules as pi 1.5, whose sessions are imported.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from treering.checkpoint.context import Context, Item
from treering.errors import FormatVersionError, UsageError
from treering.format.record import Skeleton
from treering.format.values import decode

SUMMARY = "summary@1"
_SHOWN = {"message": "", "branch_summary": "branch_summary@1", "custom_message": "custom_message@1"}
_NO_BRIEF = b"{}"
_CHANGES = frozenset({"model_change", "thinking_change", "mode_change"})


class Policy(Protocol):
    """Chooses what of a path the model sees. Implementations are pure."""

    @property
    def name(self) -> str:
        """The name and version stored with every context it made, such as `default@1`."""

    def build(self, path: Sequence[Skeleton]) -> Context:
        """Return the context at the end of `path`, which runs from a root to the newest node."""

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return what `build` would give for the path of `context` and then `skeleton`.

        None means that this cannot be told without the path: then the caller builds.
        """


class DefaultPolicy:
    """The rules in the table above."""

    @property
    def name(self) -> str:
        """The name stored with contexts of this policy."""
        return "default@1"

    def build(self, path: Sequence[Skeleton]) -> Context:
        """Return the context at the end of `path`, which runs from a root to the newest node."""
        settings: dict[str, object] = {}
        latest = -1
        for index, skeleton in enumerate(path):
            settings = _settings(settings, skeleton)
            latest = index if skeleton.kind == "compaction" else latest
        head = [Item(path[latest].id, SUMMARY)] if latest >= 0 else []
        shown = [*path[_kept_from(path, latest) : max(latest, 0)], *path[latest + 1 :]]
        return Context((*head, *(item for skeleton in shown for item in _items(skeleton))), settings)

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path, or None if a compaction keeps from a node that shows no item.

        Such a node may be none of the path, one that never shows (a change of model), or one that an earlier compaction
        left out; only the path can tell.
        """
        settings = _settings(context.settings, skeleton)
        if skeleton.kind != "compaction":
            return Context((*context.items, *_items(skeleton)), settings)
        kept = _brief(skeleton).get("kept")
        if kept is None or kept == skeleton.id:
            return Context((Item(skeleton.id, SUMMARY),), settings)
        # A summary stands at the front, not where its compaction stands on the path.
        messages = [item for item in context.items if item.view != SUMMARY]
        first = next((index for index, item in enumerate(messages) if item.node == kept), None)
        return None if first is None else Context((Item(skeleton.id, SUMMARY), *messages[first:]), settings)


def _kept_from(path: Sequence[Skeleton], latest: int) -> int:
    """Return the index on `path` from which the compaction at `latest` keeps; `latest` itself keeps nothing."""
    if latest < 0:
        return 0
    kept = _brief(path[latest]).get("kept")
    return next((index for index in range(latest) if path[index].id == kept), latest)


def _items(skeleton: Skeleton) -> tuple[Item, ...]:
    view = _SHOWN.get(skeleton.kind)
    if view is None or (skeleton.brief != _NO_BRIEF and _hides(skeleton)):
        return ()
    return (Item(skeleton.id, view),)


def _hides(skeleton: Skeleton) -> bool:
    brief = _brief(skeleton)
    return brief.get("context") is False or (skeleton.kind == "branch_summary" and bool(brief.get("empty")))


def _settings(settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
    if skeleton.kind not in _CHANGES:
        return settings
    changed = settings | _brief(skeleton)
    return {name: value for name, value in changed.items() if value is not None}


def _brief(skeleton: Skeleton) -> dict[str, object]:
    value = decode(skeleton.brief)
    return value if isinstance(value, dict) else {}


View = Callable[[object], object]
"""From a node's payload to the message a model is given."""


def _field(payload: object, name: str) -> object:
    return payload.get(name, "") if isinstance(payload, dict) else payload


def _summary(payload: object) -> object:
    text = f"Earlier messages of this conversation were replaced by this summary:\n\n{_field(payload, 'summary')}"
    return {"role": "user", "content": text}


def _branch_summary(payload: object) -> object:
    text = f"This conversation came back from another branch. Summary of that branch:\n\n{_field(payload, 'summary')}"
    return {"role": "user", "content": text}


def _custom_message(payload: object) -> object:
    return {"role": "user", "content": _field(payload, "content")}


VIEWS: dict[str, View] = {SUMMARY: _summary, "branch_summary@1": _branch_summary, "custom_message@1": _custom_message}
POLICIES: dict[str, Policy] = {}


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
    """Return the policy registered under `name`.

    Raises:
        UsageError: There is none.
    """
    if name not in POLICIES:
        raise UsageError(f"policy is unknown, register it first. policy={name!r}, known={sorted(POLICIES)}")
    return POLICIES[name]


def render(view: str, payload: object) -> object:
    """Return the message that `view` makes of a node's payload; the empty view is the payload itself.

    Raises:
        FormatVersionError: The view is unknown here: a newer version or an extension wrote it.
    """
    if not view:
        return payload
    if view not in VIEWS:
        raise FormatVersionError(f"view is unknown, upgrade or register it. view={view!r}, known={sorted(VIEWS)}")
    return VIEWS[view](payload)


DEFAULT_POLICY = DefaultPolicy()
register_policy(DEFAULT_POLICY)
