"""Whatever happened to a list of messages is said in new nodes and a context, and nothing more than that."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import given, strategies as st

from treering import ContextItem
from treering.integrations.strands.conversation import Shown, difference, message_of, name_all


def message(name: str, text: str) -> Any:
    """A message with a tracking id."""
    return {"role": "user", "content": [{"text": text}], "tracking_id": name}


def lists(names: str) -> Any:
    """Lists of messages with these tracking ids, some of them twice."""
    return st.lists(st.builds(message, st.sampled_from(names), st.sampled_from("xy")), max_size=8)


def replay(shown: list[Shown], found: Any) -> list[Any]:
    """What a session shows when a difference is recorded in it."""
    known = {each.node: each.message for each in shown} | {draft.id: draft.payload for draft in found.drafts}
    if found.context is None:
        return [each.message for each in shown] + [draft.payload for draft in found.drafts]
    return [item.message if isinstance(item, ContextItem) else known[item] for item in found.context]


@given(lists("abcdef"), lists("abcdefz"), st.integers(0, 2**32))
def test_a_difference_leads_from_one_list_to_the_other(before: list[Any], after: list[Any], seed: int) -> None:
    """Recorded, any difference shows the new list exactly, with a node for each message; then there is none left."""
    first = difference((), copy.deepcopy(before))
    assert replay([], first) == before
    random.Random(seed).shuffle(after)
    second = difference(first.shown, after, elsewhere={"z"})  # which left the context long ago
    assert replay(list(first.shown), second) == after
    assert [each.message for each in second.shown] == after
    ids = [draft.id for draft in second.drafts]
    assert len(set(ids)) == len(ids)
    assert not {"z", *(each.node for each in first.shown)} & set(ids)
    third = difference(second.shown, after)
    assert (third.drafts, third.context, third.shown) == ((), None, second.shown)


def test_what_only_grew_needs_no_context() -> None:
    """Messages at the end are new nodes under their own ids, and the context follows by itself."""
    shown = (Shown("a", message("a", "x")),)
    found = difference(shown, [message("a", "x"), message("b", "y"), message("c", "z")])
    assert found.context is None
    assert [(draft.id, draft.role, draft.brief) for draft in found.drafts] == [("b", "user", None), ("c", "user", None)]


def test_what_was_put_between_is_marked() -> None:
    """An unknown message before a known one is marked as injected; one after all known messages is not."""
    shown = (Shown("a", message("a", "x")),)
    found = difference(shown, [message("s", "summary"), message("a", "x"), message("b", "y")])
    assert [(draft.id, draft.brief) for draft in found.drafts] == [("s", {"injected": True}), ("b", None)]
    assert found.context == ("s", "a", "b")


def test_a_name_that_is_taken_is_not_used_again() -> None:
    """A message whose own node was erased gets a node of another name, and keeps its tracking id."""
    found = difference((Shown("a", None),), [message("a", "notice")], taken={"a"})
    assert found.drafts[0].id not in (None, "a")
    assert found.drafts[0].payload["tracking_id"] == "a"
    assert found.context == (found.drafts[0].id,)


def test_later_changes_of_a_message_do_not_reach_what_was_recorded() -> None:
    """What is kept for comparing is a copy."""
    messages = [message("a", "x")]
    found = difference((), messages)
    messages[0]["content"][0]["text"] = "changed in place"
    assert found.shown[0].message == message("a", "x")
    assert difference(found.shown, messages).context == (ContextItem(node="a", message=messages[0]),)


def test_messages_without_a_name_get_one_as_strands_does() -> None:
    """A missing, empty or null tracking id is made up, in the message itself; others stay."""
    messages: list[Any] = [message("a", "x"), {"role": "user", "content": []}, message("", "y"), message("b", "z")]
    messages[3]["tracking_id"] = None
    given_names = name_all(messages)
    assert [each["tracking_id"] for each in messages] == ["a", *given_names]
    assert len(set(given_names)) == 3


def test_messages_of_other_programs_are_shown_as_strands_expects_them() -> None:
    """What was erased, or is text only, has a list of blocks, a role and a tracking id when it is loaded."""
    assert message_of(ContextItem(node="n", message={"role": "assistant", "content": "[erased]"})) == {
        "role": "assistant", "content": [{"text": "[erased]"}], "tracking_id": "n",
    }  # fmt: skip
    assert message_of(ContextItem(node="n", message="text"))["content"] == [{"text": "text"}]
    assert message_of(ContextItem(node="n", message=message("a", "x"))) == message("a", "x")
