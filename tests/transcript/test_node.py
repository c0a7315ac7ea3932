from __future__ import annotations

from collections.abc import Callable

import pytest

from treering.transcript.node import (
    HERE,
    Draft,
    assistant,
    branch_summary,
    change,
    compaction,
    custom_message,
    system,
    tool,
    user,
)


@pytest.mark.parametrize(("make", "role"), [(user, "user"), (assistant, "assistant"), (system, "system")])
def test_messages_carry_role_content_and_fields(make: Callable[..., Draft], role: str) -> None:
    """A message's payload is the message itself, with whatever else was given."""
    draft = make([{"type": "text", "text": "hi"}], model="m")
    assert draft.payload == {"role": role, "content": [{"type": "text", "text": "hi"}], "model": "m"}
    assert (draft.type, draft.kind, draft.role, draft.parent) == ("node", "message", role, HERE)
    assert (draft.id, draft.time_ms, draft.brief) == (None, None, None)


def test_a_tool_result_names_its_call() -> None:
    """A tool's answer can be matched to the call it answers."""
    draft = tool("42", call="c1", name="sum")
    assert draft.role == "tool"
    assert draft.payload == {"role": "tool", "content": "42", "tool_call_id": "c1", "name": "sum"}


def test_a_compaction_says_in_its_brief_what_contexts_need() -> None:
    """The kept node and the sizes are read from the skeleton; summary and details are payload."""
    draft = compaction("so far", kept="n3", tokens_before=900, files_read=["x.py"])
    assert draft.brief == {"kept": "n3", "tokens_before": 900}
    assert draft.payload == {"summary": "so far", "files_read": ["x.py"]}
    assert compaction("all").brief == {}


def test_an_empty_branch_summary_is_marked() -> None:
    """Contexts leave out an empty summary without looking into its payload."""
    assert branch_summary("", source="n9").brief == {"empty": True}
    assert branch_summary("went wrong", source="n9").brief is None
    assert branch_summary("went wrong", source="n9").links == {"source": "n9"}


def test_changes_and_custom_messages_have_their_kinds() -> None:
    """Settings stand in the brief, an extension's message in the payload."""
    assert change("model_change", model="m", provider="p").brief == {"model": "m", "provider": "p"}
    draft = custom_message("todo", "3 left", details={"done": 4})
    assert (draft.kind, draft.brief) == ("custom_message", {"custom_type": "todo"})
    assert draft.payload == {"custom_type": "todo", "content": "3 left", "details": {"done": 4}}
