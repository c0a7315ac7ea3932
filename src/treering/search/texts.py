"""The searchable texts of a record, by kind, cut to a bounded length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from treering.search.query import printable
from treering.transcript.parts import Part, parts_of

KINDS: Final = ("prompt", "text", "thinking", "call", "result")
"""Texts of the user; other texts, summaries included; thinking of a model; calls of tools; results of tools."""
SAID: Final = ("prompt", "text")
"""The default kinds of a search."""

SAID_CHARACTERS_MAX: Final = 64 * 1024
"""Limit of the characters of a prompt or text that are indexed, from its beginning: some 10,000 words."""
OTHER_CHARACTERS_MAX: Final = 8 * 1024
"""The same limit for other kinds: most of a session is results of tools, which their beginning identifies."""


class Text(NamedTuple):
    """One text of one node."""

    kind: str
    """One of `KINDS`."""
    text: str


def texts_of(kind: str, role: str, payload: object) -> Iterator[Text]:
    """Yield the searchable texts of a node: at most one of each kind. Data other than text is left out.

    Args:
        kind: The node's kind, for example `message`.
        role: Its role.
        payload: Its payload, blobs restored.
    """
    found: dict[str, list[str]] = {}
    for part in parts_of(payload):
        if part.kind != "data":
            found.setdefault(part.kind, []).append(_shown(part))
    for name, texts in found.items():
        sort = "prompt" if (name, kind, role) == ("text", "message", "user") else name
        limit = SAID_CHARACTERS_MAX if sort in SAID else OTHER_CHARACTERS_MAX
        if text := printable(_head(texts, limit)).strip():
            yield Text(sort, text)


def _shown(part: Part) -> str:
    return f"{part.title} {part.text}" if part.kind == "call" else part.text


def _head(texts: list[str], limit: int) -> str:
    """The beginning of some texts, joined by line breaks."""
    parts, left = [], limit
    for text in texts:
        if left <= 0:
            break
        parts.append(text[:left])
        left -= len(text) + 1
    return "\n".join(parts)
