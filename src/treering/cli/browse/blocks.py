"""Messages as blocks of text: the panes' contents for nodes, items of a context, and sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from rich.text import Text

from treering.cli.checkpoints import difference, unchanged
from treering.cli.conversation import node_body, part_span, role_style, row_words
from treering.cli.message import role_of
from treering.cli.names import namespace_cell
from treering.cli.output import Span, one_line_keeping_indent
from treering.cli.text import ELLIPSIS, clean, counted, local_time, one_line, short_id, size_text
from treering.format.blobs import BlobRef
from treering.session.content import ContextItem
from treering.session.verbs.comparing import Diff
from treering.session.verbs.reading import HistoryRow
from treering.store.info import SessionInfo
from treering.transcript.node import Node
from treering.transcript.parts import Part, parts_of

PART_CHARACTERS_MAX = 20_000
"""More of a part is not shown: some hundred lines; `treering show` prints all."""
FOLDED_LINES_MAX = 6
"""Lines shown of a folded part."""
FOLDED = frozenset({"call", "result", "data"})
"""Kinds of parts that are folded until the user unfolds them."""
INDENT = 2
"""Columns by which the parts of a message are indented."""
BLOBS_DEPTH_MAX = 8
"""Depth to which references to texts are searched in a message: deeper than in the format of any API."""


class Block(NamedTuple):
    """Lines, with the parts of a message below them."""

    lines: tuple[tuple[Span, ...], ...]
    parts: tuple[Part, ...] = ()


class Shown(NamedTuple):
    """How much of messages is shown."""

    whole: bool = False
    """Show calls, results and data completely."""
    thinking: bool = True


def texts_of(block: Block, shown: Shown) -> Iterator[tuple[int, Text]]:
    """Yield the lines of a block, which may be longer than the screen is wide, each behind its indent.

    An empty line follows.
    """
    yield from ((0, line_of(*spans)) for spans in block.lines)
    for part in block.parts:
        if part.kind == "thinking" and not shown.thinking:
            continue
        lines_max = FOLDED_LINES_MAX if part.kind in FOLDED and not shown.whole else None
        text, style = part_span(part, lines_max=lines_max, characters_max=PART_CHARACTERS_MAX)
        for line in clean(text).expandtabs(4).split("\n"):
            yield INDENT, Text(line, style=style)
    yield 0, Text()


def line_of(*spans: Span) -> Text:
    """Return spans as one clean line."""
    return Text.assemble(*((one_line_keeping_indent(text), style) for text, style in spans), end="", no_wrap=True)


def begun(node: Node) -> Node:
    """Return a node that was read without its blobs, with the beginning of each text in place of its reference."""
    return msgspec.structs.replace(node, payload=_begun(node.payload, BLOBS_DEPTH_MAX))


def _begun(value: object, depth: int) -> object:
    if isinstance(value, BlobRef):
        what = f"{value.begins}{ELLIPSIS} " if value.form == "text" else ""
        return f"{what}[{size_text(value.size)}: `treering show` prints all]"
    if depth and isinstance(value, Mapping):
        return {key: _begun(each, depth - 1) for key, each in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_begun(each, depth - 1) for each in value]
    return value


def node_block(node: Node, words: Sequence[str] = ()) -> Block:
    """Return a node: role, id, time, marks, and the message."""
    role = role_of(node)
    marks: list[Span] = [(f"  {word}", "yellow") for word in words]
    heading = ((role, role_style(role)), (f"  {short_id(node.id)}", "cyan"), (f"  {local_time(node.time_ms)}", "dim"))
    return Block(((*heading, *marks),), tuple(parts_of(node_body(begun(node)))))


def detail_block(node: Node) -> Block:
    """Return a node with its other recorded fields."""
    words = [f"[{node.label}]"] if node.label else []
    words += [name for name in ("retracted", "amended", "erased") if getattr(node, name)]
    words += [f"{kind}: {short_id(target)}" for kind, target in node.links.items()]
    return node_block(node, words)


def row_block(row: HistoryRow) -> Block:
    """Return a row of a page of the conversation."""
    return node_block(row.node, row_words(row))


def item_block(item: ContextItem) -> Block:
    """Return an item of a context."""
    role = str((item.message.get("role") if isinstance(item.message, dict) else None) or "item")
    heading = ((role, role_style(role)), (f"  {short_id(item.node)}", "cyan"))
    return Block((heading,), tuple(parts_of(item.message)))


def session_block(info: SessionInfo) -> Block:
    """Return the card of a session."""
    facts = (
        ("session", info.id),
        ("namespace", namespace_cell(info.namespace).full),
        ("folder", info.cwd),
        ("project", info.project),
        ("model", "/".join(filter(None, (info.provider, info.model)))),
        ("status", info.status),
        ("parent", info.parent_session or ""),
        ("head", info.head),
        ("written", f"{local_time(info.updated_ms)}, created {local_time(info.created_ms)}" if info.created_ms else ""),
        ("size", f"{counted(info.messages, 'message')}, {counted(info.checkpoints, 'checkpoint')}"),
        ("task", info.task),
        ("begins", info.first_prompt),
        ("warning", info.warning),
    )
    title: Span = (info.title or info.task or info.first_prompt or info.id, "bold")
    shown = [((f"{name:<10}", "dim"), (one_line(value), "")) for name, value in facts if value]
    return Block(((title,), *shown))


def difference_block(found: Diff, a: str, b: str | None) -> Block:
    """Return the difference of two points of a session."""
    where = f"from {short_id(a)} to {'where the session stands' if b is None else short_id(b)}"
    changes = [(span,) for span in difference(found, name=short_id)]
    return Block((((where, "bold"),), *changes, ((unchanged(found), "dim"),)))
