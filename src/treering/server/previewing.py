"""Messages on one line each, for the rows of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta

from treering.server.call import Call
from treering.server.route import Query
from treering.transcript.node import Node
from treering.transcript.parts import parts_of

CHARACTERS_MAX: Final = 120
NODES_MAX: Final = 100
"""Most nodes of one request: more rows than a screen has."""


class PreviewsQuery(Query, frozen=True, kw_only=True):
    """Which nodes to preview."""

    nodes: Annotated[tuple[str, ...], Meta(max_length=NODES_MAX)] = ()


async def previews(call: Call, asked: PreviewsQuery) -> Mapping[str, str]:
    """Read the beginnings of messages, each on one line, by node."""
    view = await call.view()
    return {node.id: preview(node) async for node in view.each_node(asked.nodes, blobs=False)}


def preview(node: Node) -> str:
    """Return the beginning of a node's message, or the content of its brief if it has none."""
    parts = parts_of(node.payload)
    said = [part.text for part in parts if part.kind in ("text", "result") and part.text.strip()][:1]
    calls = [f"\u2192 {part.title}" for part in parts if part.kind == "call"]
    shown = "  ".join(said + calls) or next((part.text or part.title for part in parts), "")
    if not parts:
        shown = ", ".join(f"{name}: {value}" for name, value in node.brief.items())
    return " ".join(shown[: 4 * CHARACTERS_MAX].split())[:CHARACTERS_MAX]
