"""A conversation as Markdown, for people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.api.view import View
from treering.cli.message import headline, role_of
from treering.cli.text import clean, local_time, one_line
from treering.exporters.prompt import first_prompt_on
from treering.session.verbs.reading import HistoryRow
from treering.transcript.node import Node
from treering.transcript.parts import Part, parts_of

NODES_AT_ONCE = 100  # read together, and so held in memory
_ENDS = ("-->", "?>", ">", "]]>", "</script>")
"""HTML lasts until one of these; the last one ends every tag that contains what is no HTML."""
_HEADING = "heading_close"
_NAMES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "toolResult": "Tool", "system": "System"}


def markdown(view: View, node: str | None) -> Iterator[str]:
    """Yield the conversation down to `node`, in parts; retracted nodes are left out."""
    info = view.info
    yield f"# {_escaped(info.title or first_prompt_on(view, node) or info.id)}\n\n"
    for name, value in (("session", info.id), ("folder", info.cwd), ("project", info.project)):
        if value:
            yield f"- {name}: {_code(value)}\n"
    if info.created_ms:
        yield f"- created: {local_time(info.created_ms)}\n"
    for row in walk(view, node):
        yield from _node(row.node)


def walk(view: View, node: str | None) -> Iterator[HistoryRow]:
    """Yield the visible path from the root down to `node`, oldest first, a page in memory at a time."""
    path = view.path(node) if node is not None else ()
    for start in range(0, len(path), NODES_AT_ONCE):
        part = path[start : start + NODES_AT_ONCE]
        page = view.history(node=part[-1], limit=len(part), retracted=True)
        yield from (row for row in reversed(page.rows) if not row.node.retracted)


def _node(node: Node) -> Iterator[str]:
    role = role_of(node)
    yield f"\n## {_NAMES.get(role, _escaped(role.replace('_', ' ').capitalize()))}\n\n"
    facts = [f"node {_code(node.id)}", local_time(node.time_ms), _code(node.label) if node.label else ""]
    yield f"<sub>{' · '.join(fact for fact in facts if fact)}</sub>\n"
    parts = parts_of(node.payload)
    if not parts and node.brief:
        yield f"\n{_escaped(headline(node))}\n"
    for part in parts:
        yield f"\n{_part(part)}\n"


def _part(part: Part) -> str:
    text = clean(part.text).rstrip("\n")
    if part.kind == "text":
        return _ended(text)
    if part.kind == "thinking":
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    title = {"call": "Call", "result": "Result", "data": "Data"}[part.kind]
    name = f" {_code(part.title)}" if part.title else ""
    return f"**{title}**{name}" + (f"\n\n{_fenced(text)}" if text else "")


def _ended(text: str) -> str:
    """Return a text with an end for its last block, such as code that was not finished: it would go on behind it."""
    if not any(mark in text for mark in "`~<"):
        return text
    last = _last_with_a_heading(text)
    if last.type == _HEADING:
        return text
    ended = [f"{text}\n{end}" for end in (last.markup, *_ENDS) if end]
    return next((each for each in ended if _last_with_a_heading(each).type == _HEADING), text)


def _last_with_a_heading(text: str) -> Token:
    """Read a text as Markdown, with a heading behind it; return the last token: the heading, unless a block goes on."""
    return MarkdownIt().parse(f"{text}\n\n# next")[-1]


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}{'json' if _is_json(text) else ''}\n{text}\n{fence}"


def _code(text: str) -> str:
    line = one_line(text)
    mark = "`" * (1 + _longest_run(line))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{pad}{line}{pad}{mark}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _is_json(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#])", r"\\\1", one_line(text))
