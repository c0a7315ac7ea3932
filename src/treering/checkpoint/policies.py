"""The walk along a path that all policies share, with tables for the differences; and the default policy.

Rule 1: the latest compaction on the path replaces all items before it by its own items and those of the nodes it keeps.
Older compactions contribute nothing, neither their summaries nor the nodes that they kept.
Rule 2: settings are folded over the whole path. No compaction removes them.
Rule 3: `extend` returns the result of `build`, or None. It is called for each append, so it reads the new node and the
items, never the path. For a node that is no compaction it reads only the first items, so that adding many nodes
together is cheap.

A policy of another program is a subclass that fills in the tables below. If a program differs in a rule and not only in
a name, its subclass overrides the one method that holds the rule.

The default policy, `default@1`.

For a path from a root to the newest node:

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
compactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from treering.calls import whole_pairs
from treering.checkpoint.context import Context, Item
from treering.checkpoint.policy import Recorded, Seen, Sent, register_policy, register_view
from treering.format.record import Skeleton, read_brief

_NO_BRIEF = b"{}"
SUMMARY = "summary@1"
_CHANGES = frozenset({"model_change", "thinking_change", "mode_change"})


def sent(messages: Sequence[object], *, keep_open: bool) -> list[Sent]:
    """Return messages in their order, without calls that have no result, and without results that have no call."""
    whole = whole_pairs(messages, keep_open=keep_open)
    return [Sent(at, left) for at, left in enumerate(whole) if left is not None or messages[at] is None]


class Walk:
    """A policy made of tables."""

    name: ClassVar[str]
    """The name under which the policy is registered and stored."""
    shown: ClassVar[Mapping[str, str]] = {}
    """Kinds of nodes that are messages, and the view through which each is seen; other kinds show nothing."""
    summary: ClassVar[str]
    """The view of a compaction."""
    front: ClassVar[frozenset[str]]
    """The views of all items that a compaction puts in front."""
    changes: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """By kind of node: the fields of its brief that are settings, and the names of these settings.

    A field that the brief does not have, or has as null, sets null."""
    first_seen: ClassVar[int] = 2
    """How many of the first items `extend` reads for a node that is no compaction; see `Growth`."""
    own: ClassVar[frozenset[str]] = frozenset({""})
    """Views that show the message of a node itself; the other views show messages that the program made or altered."""

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`, which runs from a root to the newest node."""
        latest = next((at for at in reversed(range(len(path))) if path[at].kind == "compaction"), -1)
        head = self.compacted(path[latest]) if latest >= 0 else ()
        shown = [*self.kept(path, latest, recorded), *path[latest + 1 :]] if latest >= 0 else path
        items = (*head, *(item for skeleton in shown for item in self.items(skeleton)))
        return Context(self.edited(items, shown), self.settings(path))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path; None if a compaction keeps messages from a node without an item.

        Such a node may be outside the path, never shown (a change of model), or left out by an earlier compaction; only
        the path tells which.
        """
        settings = self.settle(context.settings, skeleton)
        if skeleton.kind != "compaction":
            return Context((*context.items, *self.items(skeleton)), settings)
        head = self.compacted(skeleton)
        kept = read_brief(skeleton).get("kept")
        if kept is None or kept == skeleton.id:
            return Context(head, settings)
        # A summary stands at the front, not where its compaction stands on the path.
        messages = [item for item in context.items if item.view not in self.front]
        first = next((index for index, item in enumerate(messages) if item.node == kept), None)
        return None if first is None else Context((*head, *messages[first:]), settings)

    def compacted(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the items that a compaction puts in place of the earlier items."""
        return (Item(skeleton.id, self.summary),)

    def kept(
        self,
        path: Sequence[Skeleton],
        latest: int,
        recorded: Recorded | None,  # noqa: ARG002  # for subclasses that override it
    ) -> Sequence[Skeleton]:
        """Return the nodes that the compaction at `latest` keeps: from the node it names on, if that is on the path."""
        kept = read_brief(path[latest]).get("kept")
        first = next((index for index in range(latest) if path[index].id == kept), latest)
        return path[first:latest]

    def items(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the items of a node: usually one or none."""
        view = self.shown.get(skeleton.kind)
        if view is None or (skeleton.brief != _NO_BRIEF and self.hides(skeleton)):
            return ()
        return (Item(skeleton.id, view),)

    def hides(self, skeleton: Skeleton) -> bool:
        """Return whether the brief of a node that could be shown keeps it out of the context."""
        brief = read_brief(skeleton)
        return brief.get("context") is False or (skeleton.kind == "branch_summary" and bool(brief.get("empty")))

    def edited(self, items: tuple[Item, ...], shown: Sequence[Skeleton]) -> tuple[Item, ...]:  # noqa: ARG002  # likewise
        """Return the items as some of the `shown` nodes change them.

        If a policy overrides this, its `extend` must return None for such nodes.
        """
        return items

    def settings(self, path: Iterable[Skeleton]) -> dict[str, object]:
        """Return the settings at the end of a path; of several values of a setting the last one counts."""
        settings: dict[str, object] = {}
        for skeleton in path:
            settings = self.settle(settings, skeleton)
        return settings

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node; the same object if the node changes none."""
        names = self.changes.get(skeleton.kind)
        if names is None:
            return settings
        brief = read_brief(skeleton)
        return settings | {new: brief.get(old) for old, new in names.items()}

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return the settings under the program's own names."""
        return dict(settings)

    def sent(self, messages: Sequence[object], *, keep_open: bool = False) -> list[Sent]:
        """Return the messages of a context that are sent to a model, in the order of sending.

        Args:
            messages: As they were recorded.
            keep_open: Keep calls that a next message can answer.
        """
        return sent(messages, keep_open=keep_open)

    def is_own(self, item: Item) -> bool:
        """Return whether an item is the unaltered message of its node."""
        return item.message is None and item.view.partition(":")[0] in self.own


class DefaultPolicy(Walk):
    """The rules in the table above."""

    name = "default@1"
    summary = SUMMARY
    front = frozenset({SUMMARY})
    shown = {"message": "", "branch_summary": "branch_summary@1", "custom_message": "custom_message@1"}  # noqa: RUF012

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node: a change sets each field of its brief; null removes the setting."""
        if skeleton.kind not in _CHANGES:
            return settings
        brief = read_brief(skeleton)
        if brief.get("erased") is True:  # the mark of a tombstone, and no setting
            del brief["erased"]
        return {name: value for name, value in (settings | brief).items() if value is not None}


def _field(payload: object, name: str) -> object:
    return payload.get(name, "") if isinstance(payload, dict) else payload


def _summary(payload: object, _seen: Seen) -> object:
    text = f"Earlier messages of this conversation were replaced by this summary:\n\n{_field(payload, 'summary')}"
    return {"role": "user", "content": text}


def _branch_summary(payload: object, _seen: Seen) -> object:
    text = f"This conversation came back from another branch. Summary of that branch:\n\n{_field(payload, 'summary')}"
    return {"role": "user", "content": text}


def _custom_message(payload: object, _seen: Seen) -> object:
    return {"role": "user", "content": _field(payload, "content")}


DEFAULT_POLICY = DefaultPolicy()
register_policy(DEFAULT_POLICY)
register_view(SUMMARY, _summary)
register_view("branch_summary@1", _branch_summary)
register_view("custom_message@1", _custom_message)
