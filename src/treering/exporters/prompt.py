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
    nodes = view.nodes()
    rows = zip(nodes.ids, nodes.kinds, nodes.roles, strict=True)
    said = {name for name, kind, role in rows if (kind, role) == ("message", "user")}
    first = next((name for name in view.path(end) if name in said), None)
    if first is None:
        return ""
    payload = view.get(first).payload
    return NOTE if isinstance(payload, Erased) else first_prompt(values.encode(payload))
