"""What a session of Claude Code shows is what Claude Code sends: it was recorded once for each of these sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.importers.claude_requests import recorded, shown
from tests.importers.claude_talks import TALKS, talk_of

DIFFERENT: Final = frozenset[str](
    [
        "calls before text",
        "calls before text in one entry",
        "thinking between calls",
        "parallel calls",
        "parallel calls in a row",
        "parallel calls with text between",
        "parallel calls and an attachment",
        "parallel calls and a skill",
        "a prompt between parallel calls",
        "thinking alone",
        "thinking alone at the end",
        "thinking alone, interrupted",
        "thinking alone behind a result",
        "thinking alone before an answer",
        "thinking hidden by the provider alone",
        "thinking of another model",
        "white space",
        "white space last in an answer",
        "white space alone",
        "white space at the end",
        "white space before a call",
        "white space and thinking",
        "white space and thinking in one entry",
        "white space and thinking before a call",
        "white space in a prompt",
        "a text of no letters",
        "a call without a result",
        "a call without a result, with text",
        "a call without a result, with thinking",
        "a call without a result beside another",
        "a call without a result in one entry with text",
        "a call without a result, interrupted",
        "a call without a result and an attachment",
        "a call without a result later",
        "a call at the end behind a result",
        "a call at the end of another answer",
        "a call at the end and a prompt",
        "a call at the end and words of the program",
        "a result first",
        "a result without a call",
        "a result without a call between answers",
        "a result without a call at the end",
        "a result twice",
        "a result twice, later",
        "a result behind a prompt",
        "a result behind an answer",
        "a call of the same name again",
        "a result that failed",
        "who calls",
        "the input of a call as text",
        "a local command",
        "a local command at the end",
        "a local command first",
        "a message that is never sent",
        "no role",
        "another role",
        "a compaction that keeps messages with a gap",
        "a compaction that keeps messages in another order",
        "a compaction that keeps a message that is gone",
        "a compaction that keeps parallel calls",
        "a compaction that keeps a result without its call",
        "a compaction that keeps what is written later",
        "a compaction that keeps a segment that is written later",
        "what goes on from a message that a compaction keeps",
        "a compaction that keeps the summary of another",
        "an entry twice, in other words",
        "a prompt twice, in other words",
        "an entry twice, elsewhere",
    ]
)
"""Sessions that show something else so far."""


@pytest.mark.parametrize("name", TALKS)
def test_context_is_what_claude_code_sends(name: str, tmp_path: Path) -> None:
    """The context of a session is the messages of the request with which Claude Code went on, block by block."""
    same = shown(talk_of(name).save(tmp_path)) == recorded()[name]
    assert same == (name not in DIFFERENT)


def test_every_session_is_recorded() -> None:
    """What was recorded is of these sessions, and of no others."""
    assert recorded().keys() == TALKS.keys()
