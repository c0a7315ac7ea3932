"""Messages on one line."""

from __future__ import annotations

from treering.cli.text import one_line
from treering.transcript.node import Node
from treering.transcript.parts import parts_of, text_of


def first_line(message: object, characters_max: int = 200) -> str:
    """Return the beginning of a message on one line."""
    parts = parts_of(message)
    said = [part for part in parts if part.kind in ("text", "result") and part.text.strip()]
    calls = [f"→ {part.title} {part.text}" for part in parts if part.kind == "call"]
    shown = [part.text for part in said[:1]] + calls or [part.text or part.title for part in parts]
    return one_line("  ".join(text[: 4 * characters_max] for text in shown), characters_max)


def headline(node: Node) -> str:
    """Return a node on one line: the text of a message, the settings of a change."""
    if node.payload is None and node.brief:
        return ", ".join(f"{name}: {text_of(value)}" for name, value in node.brief.items())
    return first_line(node.payload)


def role_of(node: Node) -> str:
    """Return the role of a message, or the kind of another node."""
    return node.role if node.kind == "message" and node.role else node.kind
