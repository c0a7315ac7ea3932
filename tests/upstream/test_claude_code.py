"""Claude Code itself is asked what it sends when it resumes a session."""

from __future__ import annotations

import pytest

from tests.importers.claude_requests import recorded
from tests.importers.claude_talks import TALKS, talk_of
from tests.upstream.claude_code import ClaudeCode


@pytest.mark.parametrize("name", TALKS)
def test_what_was_recorded_is_what_the_program_sends(claude: ClaudeCode, name: str) -> None:
    """The answers with which contexts are compared where the program is not installed are the program's."""
    assert claude.rows(talk_of(name).data) == recorded()[name]
