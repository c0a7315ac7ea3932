"""Print the messages of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from treering.api.view import View
from treering.cli.message import headline
from treering.cli.output import Cell, Field, Output, Span
from treering.cli.text import short_id
from treering.session.content import ContextItem
from treering.session.verbs.open_calls import OpenCall
from treering.session.verbs.reading import HistoryRow
from treering.transcript.node import Node
from treering.transcript.parts import Part, parts_of

ROLE_STYLES = {"user": "bold green", "assistant": "bold blue", "tool": "bold yellow", "toolResult": "bold yellow"}
_STYLES = {"thinking": "dim italic", "result": "dim", "data": "dim"}


def role_style(role: str) -> str:
    """Return the colour in which a role is printed."""
    return ROLE_STYLES.get(role, "bold magenta")


def unfinished(view: View) -> Iterator[tuple[str, Field]]:
    """Yield rows for the unfinished work of a session: calls without a result or an outcome, and partial answers."""
    yield from map(_open_call, view.open_calls())
    for effect in view.unresolved_effects():
        told = "" if effect.key == effect.call else f" (key {effect.key})"
        yield "unresolved effect", f"{effect.call}{told}: nobody knows whether it was made"
    for stream in view.open_streams():
        yield f"open stream, {stream.status}", Cell(f"{stream.id}, {stream.offset:,} characters of {stream.role}")


def _open_call(call: OpenCall) -> tuple[str, Field]:
    """Return the row for a call without a result."""
    told = " ".join(each for each in (call.name, call.id, "in ") if each)
    return "open call", Cell(told + call.node, told + short_id(call.node))


def print_items(out: Output, items: Iterable[ContextItem], *, lines_max: int | None = None) -> None:
    """Print items of a context.

    Args:
        out: The output.
        items: The items, in order.
        lines_max: Most lines of each part; None for all.
    """
    for item in items:
        role = item.message.get("role") if isinstance(item.message, dict) else None
        print_message(out, item.node, str(role or "item"), item.message, lines_max=lines_max)


def print_message(
    out: Output, node: str, role: str, message: object, *marks: Span, lines_max: int | None = None
) -> None:
    """Print one message under a heading: its role, its node, and `marks`."""
    identifier = short_id(node) if out.terminal else node
    out.line((role, role_style(role)), ("  ", ""), (identifier, "cyan"), *marks)
    for part in parts_of(message):
        _print_part(out, part, lines_max)
    out.line("")


def _print_part(out: Output, part: Part, lines_max: int | None) -> None:
    text, style = part_span(part, lines_max=lines_max)
    out.block(text, style, indent=2)


def part_span(part: Part, *, lines_max: int | None = None, characters_max: int | None = None) -> Span:
    """Return the text of a part, which may have several lines and is not cleaned, and its style.

    Args:
        part: A part of a message.
        lines_max: Most lines; None for all.
        characters_max: Most characters; None for all. The amount that is left out is on a line of its own.
    """
    mark = {"call": "→ ", "result": "← "}.get(part.kind, "")
    text = mark + " ".join(each for each in (part.title, part.text) if each)
    left_out = 0 if characters_max is None else len(text) - characters_max
    lines = (text[:characters_max] if left_out > 0 else text).split("\n")
    if lines_max is not None and len(lines) > lines_max:
        more = text.count("\n") + 1 - lines_max
        lines = [*lines[:lines_max], f"... {more} more lines"]
    elif left_out > 0:
        lines.append(f"... {left_out} more characters")
    return "\n".join(lines), _STYLES.get(part.kind, "")


def row_words(row: HistoryRow) -> list[str]:
    """Return the marks of a row of a page: its number among its siblings, its label, and its edits."""
    node = row.node
    words = [f"{row.sibling + 1}/{row.siblings}"] if row.siblings > 1 else []
    words += [f"[{node.label}]"] if node.label else []
    return words + [name for name in ("retracted", "amended") if getattr(node, name)]


def node_body(node: Node) -> object:
    """Return the shown content of a node: its payload, or its brief on one line."""
    return node.payload if node.payload is not None else headline(node)
