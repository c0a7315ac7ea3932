"""The picture of `treering browse` in its how-to page; `python -m tests.docs.screen` makes it anew."""

from __future__ import annotations

import asyncio
import re

from tests.cli.browse.screens import browsing, empty_store
from tests.docs.pages import ROOT

import treering
from treering.cli.browse.app import Browser

SCREEN = ROOT / "docs/how-to/browse.svg"
BYTES_MAX = 40_000
"""Of the picture: it is loaded with every view of the page."""
SIZE = (100, 26)
CALL = {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "pytest"}}
DONE = "Done. All tests pass, here and on CI.\n\n- `total.py`: one `round`, at the end\n- a test"
SAID = (
    ("question", None, treering.user("the test of the total fails on CI, and passes here")),
    ("look", "question", treering.assistant("Let me look at how the total is made.")),
    ("run", "look", treering.assistant([CALL])),
    ("result", "run", treering.tool("FAILED test_total: 10.07 != 10.08", call="c", name="bash")),
    ("clock", "result", treering.assistant("It is the clock: the test compares times.")),
    ("no", "clock", treering.user("no, that is not it")),
    ("rounds", "result", treering.assistant("It rounds twice: once for each line, and once for the total.")),
    ("fix", "rounds", treering.user("round once, at the end")),
    ("done", "fix", treering.assistant(DONE)),
)


def store() -> treering.Store:
    """A store with the session that is shown."""
    made = empty_store()
    drafts = [
        treering.Draft(
            id=name, parent=parent, role=draft.role, payload=draft.payload, time_ms=1_790_000_000_000 + 60_000 * minute
        )
        for minute, (name, parent, draft) in enumerate(SAID)
    ]
    made.load("fix-total", drafts, leaf=lambda: "done", facts={"title": "Fix the total", "cwd": "/home/me/shop"})
    with made.session("fix-total") as session:
        session.label("result", "reproduced")
    return made


async def drawn() -> tuple[list[str], str]:
    """The lines of the screen, and the picture of it; that loads nothing from elsewhere."""
    shown = store()
    async with browsing(shown, size=SIZE, session=(shown, "fix-total")) as user:
        assert isinstance(user.app, Browser)
        picture = user.app.export_screenshot(title="treering browse")
        picture = re.sub(r"@font-face\s*{[^}]*}\s*", "", picture)
        return user.lines, re.sub(r"\s*<!--.*?-->|[ \t]+$", "", picture, flags=re.MULTILINE)


if __name__ == "__main__":
    SCREEN.write_text(asyncio.run(drawn())[1])
