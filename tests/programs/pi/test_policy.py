"""The policies of pi: what each append shows is what building it anew shows, and each rule has its example."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.checkpoint.records import skeleton

from treering.checkpoint.context import Context
from treering.checkpoint.policy import Seen, find_policy, render
from treering.errors import UsageError
from treering.format.record import Skeleton

NAMES = "abcdefgh"
KINDS = ["message", "message", "message", "compaction", "branch_summary", "custom_message", "context_edit"]
KINDS += ["model_change", "thinking_change", "custom"]


def message(name: str, role: str = "user", **brief: object) -> Skeleton:
    """A message of a role."""
    return skeleton(name, "message", role, **brief)


@st.composite
def paths(draw: st.DrawFn) -> list[Skeleton]:
    """A path of any nodes, whose briefs name any others."""
    found = []
    for name in NAMES[: draw(st.integers(0, len(NAMES)))]:
        kind, role = draw(st.sampled_from(KINDS)), ""
        other = draw(st.sampled_from([*NAMES, None]))
        brief: dict[str, Any] = {}
        if kind == "message":
            role = draw(st.sampled_from(["user", "assistant", "system"]))
            brief = draw(st.sampled_from([{}, {}, {"blank": True}, {"context": False}]))
            brief |= {"model": name, "provider": None} if role == "assistant" else {}
        elif kind == "compaction":
            brief = ({"kept": other} if other else {}) | draw(st.sampled_from([{}, {"system": True}]))
        elif kind == "context_edit":
            brief = {"target": other} | draw(st.sampled_from([{}, {"edit": "amend"}, {"edit": "retract"}]))
        elif kind.endswith("change"):
            brief = {"model": name, "thinking": name}
        found.append(skeleton(name, kind, role, **brief))
    return found


@pytest.mark.parametrize("name", ["pi", "pi-1.5"])
@given(path=paths())
def test_what_is_extended_is_what_is_built(name: str, path: list[Skeleton]) -> None:
    """Adding nodes one by one gives what the whole path gives, wherever extending is possible at all."""
    policy = find_policy(name)
    context: Context = policy.build([])
    for length, node in enumerate(path, start=1):
        built = policy.build(path[:length])
        extended = policy.extend(context, node)
        assert extended in (None, built)
        context = built


def test_an_edit_before_its_compaction_is_ignored() -> None:
    """Also where the compaction keeps messages from before the edit, whether the context is extended or built."""
    path = [message("u"), skeleton("e", "context_edit", target="c", edit="amend"), message("v")]
    compaction = skeleton("c", "compaction", kept="u")
    policy = find_policy("pi-1.5")
    expected = [("c", "pi.compaction@1"), ("u", ""), ("v", "")]
    for context in (policy.extend(policy.build(path), compaction), policy.build([*path, compaction])):
        assert context is not None
        assert [(item.node, item.view) for item in context.items] == expected


def shown(name: str, *path: Skeleton) -> list[tuple[str, str]]:
    """Node and view of what a policy shows."""
    return [(item.node, item.view) for item in find_policy(name).build(path).items]


def test_messages_are_appended_without_the_path() -> None:
    """An append costs no look at the path, whatever the role."""
    for name in ("pi", "pi-1.5"):
        for role in ("user", "assistant", "toolResult", "system"):
            assert find_policy(name).extend(Context(), message("a", role)) is not None


def test_a_compaction_carries_the_system_message_in_force() -> None:
    """In 1.5 it stands before the summary, and system messages are not kept; 0.73 knows nothing of that."""
    path = [message("s", "system"), message("u"), message("t", "system"), message("v")]
    path.append(skeleton("c", "compaction", kept="u", system=True))
    assert shown("pi", *path) == [("c", "pi.compaction@1"), ("u", ""), ("t", ""), ("v", "")]
    assert shown("pi-1.5", *path) == [("c", "pi.checkpoint@1"), ("c", "pi.compaction@1"), ("u", ""), ("v", "")]


def test_an_edit_counts_while_its_target_is_in_sight() -> None:
    """The later of two edits counts; behind a compaction that keeps neither, none does."""
    edits = [skeleton("e", "context_edit", target="a", edit="retract")]
    edits.append(skeleton("f", "context_edit", target="a", edit="amend"))
    path = [message("a"), message("b"), *edits]
    assert shown("pi", *path) == [("a", ""), ("b", "")]
    assert shown("pi-1.5", *path[:3]) == [("b", "")]
    assert shown("pi-1.5", *path) == [("f", "pi.edited@1:a"), ("b", "")]
    kept = skeleton("c", "compaction", kept="b")
    assert shown("pi-1.5", *path, kept, message("d")) == [("c", "pi.compaction@1"), ("b", ""), ("d", "")]


def test_an_edited_message_has_the_new_content_and_all_else_it_had() -> None:
    """Text becomes a block where pi has blocks; an edit without content leaves none."""
    seen = Seen("e", 5, {}, {})
    for role, content in (("assistant", [{"type": "text", "text": "new"}]), ("user", "new")):
        payload = {"message": {"role": role, "x": 1, "content": None}, "replacement": {"content": "new"}}
        assert render("pi.edited@1:a", payload, seen) == {"role": role, "x": 1, "content": content}
    payload = {"message": {"role": "user", "content": None}, "replacement": {}}
    assert render("pi.edited@1:a", payload, seen) == {"role": "user"}


def test_the_state_has_the_names_of_the_program() -> None:
    """The last assistant or change of model counts, also one that says nothing of its provider."""
    policy = find_policy("pi-1.5")
    assert policy.state(policy.build([]).settings) == {"thinkingLevel": "off", "model": None}
    path = [skeleton("a", "model_change", provider="p", model="m"), message("b", "assistant", model="n", provider=None)]
    path.append(skeleton("c", "thinking_change", thinking="high"))
    state = policy.state(policy.build(path).settings)
    assert state == {"thinkingLevel": "high", "model": {"provider": None, "modelId": "n"}}


def test_names_of_other_families_are_not_found_there() -> None:
    """A name that only begins like ours is unknown."""
    with pytest.raises(UsageError, match="pi-9"):
        find_policy("pi-9")
