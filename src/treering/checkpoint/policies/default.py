"""The default policy, `default@1`.

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

from treering.checkpoint.policies.walk import Walk
from treering.checkpoint.policy import Seen, register_policy, register_view
from treering.format.record import Skeleton, read_brief

SUMMARY = "summary@1"
_CHANGES = frozenset({"model_change", "thinking_change", "mode_change"})


class DefaultPolicy(Walk):
    """The rules in the table above."""

    name = "default@1"
    summary = SUMMARY
    front = frozenset({SUMMARY})
    shown = {"message": "", "branch_summary": "branch_summary@1", "custom_message": "custom_message@1"}  # noqa: RUF012

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node: those that a change names, under its names."""
        if skeleton.kind not in _CHANGES:
            return settings
        changed = settings | read_brief(skeleton)
        return {name: value for name, value in changed.items() if value is not None}


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
