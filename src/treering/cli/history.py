"""`log`, `context` and `show`: the conversation, the context, and single nodes or checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from treering.api.view import View
from treering.cli import documents
from treering.cli.completion import session_argument
from treering.cli.conversation import node_body, print_items, print_message, role_style, row_words, unfinished
from treering.cli.message import headline, role_of
from treering.cli.names import find_node, find_point, namespace_cell, open_view
from treering.cli.output import Cell, Field, Output, Span, id_cell
from treering.cli.settings import Settings, as_of_option, json_option, store_options
from treering.cli.text import counted, iso_time, local_time, one_line
from treering.format import values
from treering.format.erasure import Erased
from treering.session.content import ContextItem
from treering.session.pairs import whole
from treering.session.reader import Readable
from treering.session.verbs.reading import CheckpointView, HistoryRow
from treering.storage.requests import Steps
from treering.transcript.node import Node


@click.command()
@json_option
@session_argument()
@click.option("--head", metavar="NAME", help="Start from this head instead of the current one.")
@click.option("--node", metavar="ID", help="Start from this node.")
@click.option("--before", metavar="ID", help="The page before this node: the cursor below a page.")
@click.option("-n", "--limit", type=click.IntRange(1), default=30, show_default=True, help="At most this many nodes.")
@click.option("--full", is_flag=True, help="Whole messages, not their first line.")
@click.option("--retracted", is_flag=True, help="Also what was retracted.")
@as_of_option
@store_options()
@click.pass_obj
def log(
    settings: Settings, *, as_json: bool, session: str, head: str | None, node: str | None, before: str | None,
    limit: int, full: bool, retracted: bool, as_of: str | None,
) -> None:  # fmt: skip
    """Print a page of the conversation, the newest message last."""
    view, out = open_view(settings.open(), session, as_of), Output()
    start = find_node(view, node) if node is not None else None
    cursor = find_node(view, before) if before is not None else None
    page = view.history(head=head, node=start, before=cursor, limit=limit, retracted=retracted)
    rows = page.rows[::-1]
    if as_json:
        out.document({"nodes": [documents.of_row(row) for row in rows], "before": page.before})
        return
    if page.before is not None and out.terminal:
        out.say(f"above: --before {page.before}")
    with out.paged():
        if full:
            for row in rows:
                print_message(out, row.node.id, role_of(row.node), node_body(row.node), *_marks(row))
        else:
            out.table(("node", "time", "role", "", "text"), map(_line, rows))


def _line(row: HistoryRow) -> tuple[Field, ...]:
    node = row.node
    role = role_of(node)
    return (
        id_cell(node.id),
        Cell(iso_time(node.time_ms), local_time(node.time_ms), "dim"),
        Cell(role, style=role_style(role)),
        Cell(" ".join(row_words(row)), style="yellow"),
        headline(node),
    )


def _marks(row: HistoryRow) -> list[Span]:
    time = local_time(row.node.time_ms)
    return [(f"  {time}", "dim"), *((f"  {word}", "yellow") for word in row_words(row))]


@click.command()
@json_option
@session_argument()
@click.option("--at", metavar="ID", help="At this node or checkpoint instead of now.")
@click.option("--recorded", is_flag=True, help="Also what is not sent: calls without a result, results without a call.")
@as_of_option
@store_options()
@click.pass_obj
def context(
    settings: Settings, *, as_json: bool, session: str, at: str | None, recorded: bool, as_of: str | None
) -> None:
    """Print what the model sees, message by message."""
    view, out = open_view(settings.open(), session, as_of), Output()
    items = _context_at(view, at)
    items = items if recorded else view.perform(_sent, items)
    if as_json:
        out.document({"items": documents.of_items(items)})
        return
    with out.paged():
        print_items(out, items)
    if out.terminal:
        out.say(counted(len(items), "item"))


def _context_at(view: View, at: str | None) -> tuple[ContextItem, ...]:
    if at is None:
        return view.recorded_context
    point = find_point(view, at)
    if point.kind == "checkpoint":
        return view.checkpoint(point.id).context
    return view.context_at(point.id, recorded=True)


def _sent(reader: Readable, items: Sequence[ContextItem]) -> Steps[tuple[ContextItem, ...]]:
    yield from ()
    return whole(reader, items)


@click.command()
@json_option
@session_argument()
@click.argument("point", metavar="[NODE|CHECKPOINT]", required=False)
@as_of_option
@store_options()
@click.pass_obj
def show(settings: Settings, *, as_json: bool, session: str, point: str | None, as_of: str | None) -> None:
    """Show a session, or all of a node or checkpoint of it."""
    view, out = open_view(settings.open(), session, as_of), Output()
    found = find_point(view, point) if point is not None else None
    with out.paged():
        if found is None:
            _show_session(out, view, as_json=as_json)
        elif found.kind == "node":
            _show_node(out, view.get(found.id), as_json=as_json)
        else:
            _show_checkpoint(out, view.checkpoint(found.id), as_json=as_json)


def _show_session(out: Output, view: View, *, as_json: bool) -> None:
    if as_json:
        out.document(documents.of_standing(view))
        return
    info = view.info
    out.facts(
        (
            ("session", Cell(info.id, style="bold cyan")),
            ("namespace", namespace_cell(info.namespace)),
            ("title", info.title),
            ("first prompt", info.first_prompt),
            ("task", info.task),
            ("project", info.project),
            ("folder", info.cwd),
            ("status", info.status),
            ("created", Cell(iso_time(info.created_ms), local_time(info.created_ms))),
            ("written", Cell(iso_time(info.updated_ms), local_time(info.updated_ms))),
            ("nodes", str(info.nodes)),
            ("messages", str(info.messages)),
            ("checkpoints", str(info.checkpoints)),
            ("parent", info.parent_session or ""),
            ("lease", _holder(view)),
            ("head", view.head),
            ("node", id_cell(view.node)),
            ("checkpoint", id_cell(view.checkpoint_id)),
            ("context", counted(len(view.context), "item")),
            *unfinished(view),
            *((f"setting {name}", _value(value)) for name, value in view.settings.items()),
            *((f"usage {name}", f"{value:,}") for name, value in view.usage.items()),
            *((f"state {key}", _value(value)) for key, value in view.state.items()),
            *_erased(view.erased_state),
            *((f"head {name}", id_cell(node)) for name, node in view.heads.items() if name != view.head),
        )
    )


def _holder(view: View) -> str:
    if (lease := view.lease) is None:
        return ""
    return f"{lease.number}: {one_line(lease.holder)}; free after {lease.ttl:g} s without a sign of life"


def _value(value: object) -> str:
    return value if isinstance(value, str) else values.encode(value).decode()


def _erased(left: Mapping[str | None, Erased]) -> Iterator[tuple[str, Field]]:
    for key, each in left.items():
        why = f": {one_line(each.reason)}" if each.reason else ""
        yield "manager" if key is None else f"state {key}", Cell(f"erased {iso_time(each.time_ms)}{why}", style="dim")


def _show_node(out: Output, node: Node, *, as_json: bool) -> None:
    if as_json:
        out.document({"node": documents.of_node(node)})
        return
    out.facts(
        (
            ("node", Cell(node.id, style="bold cyan")),
            ("parent", node.parent or ""),
            ("kind", node.kind),
            ("time", Cell(iso_time(node.time_ms), local_time(node.time_ms))),
            ("position", str(node.at)),
            ("label", node.label or ""),
            *((f"link {name}", target) for name, target in node.links.items()),
            *((name, _value(value)) for name, value in node.brief.items()),
        )
    )
    out.line("")
    print_message(out, node.id, role_of(node), node.payload)


def _show_checkpoint(out: Output, checkpoint: CheckpointView, *, as_json: bool) -> None:
    if as_json:
        out.document({"checkpoint": documents.of_checkpoint(checkpoint)})
        return
    entry = checkpoint.info
    out.facts(
        (
            ("checkpoint", Cell(entry.id, style="bold cyan")),
            ("parent", entry.parent or ""),
            ("node", entry.node or ""),
            ("head", entry.head),
            ("time", Cell(iso_time(entry.time_ms), local_time(entry.time_ms))),
            ("label", entry.label or ""),
            ("step", "" if entry.step is None else str(entry.step)),
            ("policy", checkpoint.policy),
            ("context", counted(len(checkpoint.context), "item")),
            *((f"metadata {name}", _value(value)) for name, value in entry.metadata.items()),
            *((f"setting {name}", _value(value)) for name, value in checkpoint.settings.items()),
            *((f"state {key}", _value(value)) for key, value in checkpoint.state.items()),
            *_erased(checkpoint.erased_state),
        )
    )
