from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.checkpoint.records import skeleton

from treering.checkpoint.context import Context, Item, replace, without
from treering.checkpoint.policies import DEFAULT_POLICY, DefaultPolicy
from treering.checkpoint.policy import VIEWS, Seen, find_policy, register_policy, register_view, render
from treering.errors import FormatVersionError, UsageError
from treering.format.record import Skeleton

SUMMARY = "summary@1"
SEEN = Seen("n", 5, {}, {})
build, extend = DEFAULT_POLICY.build, DEFAULT_POLICY.extend


def brief_of(node: Skeleton) -> dict[str, Any]:
    """What a record tells of itself."""
    brief: dict[str, Any] = json.loads(node.brief)
    return brief


def model(path: Sequence[Skeleton]) -> list[tuple[str, str]]:
    """The rules for items once more, read off the table: what the model sees, as node and view."""
    last = max((place for place, node in enumerate(path) if node.kind == "compaction"), default=None)
    shown: list[tuple[str, str]] = []
    keeping = last is None
    kept = brief_of(path[last]).get("kept") if last is not None else None
    for place, node in enumerate(path):
        brief = brief_of(node)
        if place == last:
            shown.insert(0, (node.id, SUMMARY))
            keeping = True
        elif node.id == kept and last is not None and place < last:
            keeping = True
        if not keeping or brief.get("context") is False:
            continue
        if node.kind == "message":
            shown.append((node.id, ""))
        elif node.kind == "custom_message" or (node.kind == "branch_summary" and not brief.get("empty")):
            shown.append((node.id, f"{node.kind}@1"))
    return shown


def drawn(steps: list[tuple[str, int]]) -> list[Skeleton]:
    """Return a path; a compaction's number says which node it keeps: any on it, a later one, itself, or none."""
    path = []
    for place, (kind, number) in enumerate(steps):
        brief: dict[str, object] = {}
        if kind == "compaction" and number < 14:
            brief = {"kept": f"n{number}" if number < 12 else f"elsewhere{number}"}
        elif kind == "compaction" and number == 14:
            brief = {"kept": f"n{place}"}
        elif kind == "branch_summary" and number % 2:
            brief = {"empty": True}
        elif kind == "model_change":
            brief = {"model": None if number % 3 == 0 else number, f"extra{number % 2}": number}
        elif number == 0:
            brief = {"context": False}
        path.append(skeleton(f"n{place}", kind, **brief))
    return path


kinds = st.sampled_from(
    ["message"] * 4 + ["compaction"] * 3 + ["custom_message", "branch_summary", "custom", "model_change", "hologram"]
)
paths = st.lists(st.tuples(kinds, st.integers(0, 15)), max_size=12).map(drawn)


@given(paths)
def test_build_follows_the_rules(path: list[Skeleton]) -> None:
    """On any path the latest compaction wins, keeps from its kept node on or nothing, and older ones leave nothing."""
    assert [(item.node, item.view) for item in build(path).items] == model(path)
    assert all(item.message is None for item in build(path).items)


@given(paths)
def test_extending_a_context_equals_building_the_longer_path(path: list[Skeleton]) -> None:
    """Wherever a context can be extended without its path, the result is that of building from the path."""
    for length, node in enumerate(path):
        extended = extend(build(path[:length]), node)
        if extended is not None:
            assert extended == build(path[: length + 1])


@given(paths)
def test_only_a_kept_node_out_of_sight_needs_the_path(path: list[Skeleton]) -> None:
    """A context is extended without its path unless a compaction keeps from a node that shows no item of its own."""
    for length, node in enumerate(path):
        context = build(path[:length])
        kept = brief_of(node).get("kept") if node.kind == "compaction" else None
        in_sight = {item.node for item in context.items if item.view != SUMMARY}
        expected = kept is not None and kept != node.id and kept not in in_sight
        assert (extend(context, node) is None) == expected


def test_edits_survive_a_compaction_that_keeps_them() -> None:
    """An inline edit of a kept message is still there afterwards, one of a message left out is gone."""
    context = build([skeleton(node) for node in "abc"])
    context = without(replace(context, {"a": b"1", "c": b"2"}), {"b"})
    assert extend(context, skeleton("k", "compaction", kept="c")) == Context((Item("k", SUMMARY), Item("c", "", b"2")))


def test_an_amended_summary_is_still_the_summary() -> None:
    """A compaction that keeps from an older, amended compaction asks for the path, as it does for any summary."""
    context = build([skeleton("a"), skeleton("k", "compaction", kept="a"), skeleton("b")])
    context = replace(context, {"k": b'"shorter"'})
    assert extend(context, skeleton("l", "compaction", kept="k")) is None
    assert extend(context, skeleton("l", "compaction", kept="b")) == Context((Item("l", SUMMARY), Item("b")))


def test_settings_follow_changes_and_outlive_compactions() -> None:
    """The last value of each setting counts, null takes one back, and a compaction leaves them alone."""
    path = [
        skeleton("a", "model_change", model="m", provider="p"),
        skeleton("b", "thinking_change", thinking="high"),
        skeleton("c", "mode_change", mode="plan"),
        skeleton("d", "model_change", model="n", provider=None),
        skeleton("e", "custom", model="x"),
        skeleton("f", "compaction"),
    ]
    assert build(path).settings == {"model": "n", "thinking": "high", "mode": "plan"}


def test_views_make_messages_of_payloads() -> None:
    """Summaries are shown as the user's words with a line saying what they are; messages as they are."""
    message = {"role": "user", "content": "hi"}
    assert render("", message, SEEN) is message
    assert render(SUMMARY, {"summary": "S"}, SEEN) == {
        "role": "user",
        "content": "Earlier messages of this conversation were replaced by this summary:\n\nS",
    }
    assert render("branch_summary@1", {"summary": "B"}, SEEN) == {
        "role": "user",
        "content": "This conversation came back from another branch. Summary of that branch:\n\nB",
    }
    parts = [{"type": "text", "text": "t"}]
    shown = render("custom_message@1", {"custom_type": "x", "content": parts}, SEEN)
    assert shown == {"role": "user", "content": parts}


def test_an_unknown_view_is_of_a_newer_version() -> None:
    """A stored view that is not known here is never shown as something else."""
    with pytest.raises(FormatVersionError, match=r"summary@9"):
        render("summary@9", {}, SEEN)


def test_names_of_views_and_policies_are_taken_once() -> None:
    """What a stored name means never changes: registering another thing under it is refused."""
    register_policy(DEFAULT_POLICY)
    register_view(SUMMARY, VIEWS[SUMMARY])
    with pytest.raises(UsageError, match="next version"):
        register_policy(DefaultPolicy())
    with pytest.raises(UsageError, match="next version"):
        register_view(SUMMARY, lambda payload, _seen: payload)
    assert find_policy("default@1") is DEFAULT_POLICY
    with pytest.raises(UsageError, match="unknown"):
        find_policy("mine@1")
