"""What a session of Claude Code shows is what Claude Code sends: it was recorded once for each of these sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from tests.programs.claude.requests import recorded, shown
from tests.programs.claude.talks import TALKS, talk_of

ON_PURPOSE: Final[Mapping[str, str]] = {
    "a call without a result in one entry with text": "the text stays; the program drops the whole entry",
    "a result behind an answer": "call and result stay; the program drops both, or makes up another result",
    "the input of a call as text": "the API takes objects alone",
    "a boundary that keeps messages, without a summary": "nothing stands for what is not kept, so all is shown",
    "an entry twice, elsewhere": "what was said first stays where it was said",
}
"""Sessions that show something else than the program sends, and what."""


@pytest.mark.parametrize("name", TALKS)
def test_context_is_what_claude_code_sends(name: str, tmp_path: Path) -> None:
    """The context of a session is the messages of the request with which Claude Code went on, block by block."""
    same = shown(talk_of(name).save(tmp_path)) == recorded()[name]
    assert same == (name not in ON_PURPOSE)


def test_every_session_is_recorded() -> None:
    """What was recorded is of these sessions, and of no others."""
    assert recorded().keys() == TALKS.keys()
