"""The first prompt on a branch: that of the session may be on another one, which is not exported."""

from __future__ import annotations

from treering.api.view import View
from treering.format import values
from treering.format.erasure import NOTE, Erased
from treering.session.payload import first_prompt


def first_prompt_on(view: View, end: str | None) -> str:
    """Return what the user said first on the path to a node, as the card of a session has it; empty: nothing."""
    if end is None:
        return ""
    said = (node for node in view.each_node(view.path(end)) if (node.kind, node.role) == ("message", "user"))
    if (first := next(said, None)) is None:
        return ""
    return NOTE if isinstance(first.payload, Erased) else first_prompt(values.encode(first.payload))
