"""`checkpoints` and `diff`: the checkpoints of a session, and the changes between two points."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click

from treering.api.encoding import stored_form
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.cli import documents
from treering.cli.completion import session_argument
from treering.cli.message import first_line
from treering.cli.names import find_point, open_view
from treering.cli.output import Cell, Field, Output, Span, id_cell
from treering.cli.settings import Settings, as_of_option, json_option, store_options
from treering.cli.text import counted, iso_time, local_time, short_id, size_text
from treering.format import values
from treering.session.verbs.comparing import Diff, ValueChanges


@click.command()
@json_option
@session_argument()
@click.option("--head", metavar="NAME", help="Only those made on this head.")
@click.option("--labelled", is_flag=True, help="Only those with a label.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Only the newest ones.")
@as_of_option
@store_options()
@click.pass_obj
def checkpoints(
    settings: Settings, *, as_json: bool, session: str, head: str | None, labelled: bool, limit: int | None,
    as_of: str | None,
) -> None:  # fmt: skip
    """List checkpoints, the newest last."""
    view, out = open_view(settings.open(), session, as_of), Output()
    entries = [
        entry for entry in view.checkpoints() if (head is None or entry.head == head) and (entry.label or not labelled)
    ][-(limit or 0) :]
    if as_json:
        out.document({"checkpoints": [documents.of_entry(entry) for entry in entries]})
        return
    with out.paged():
        out.table(
            ("checkpoint", "time", "head", "node", "step", "bytes", "label"), map(_row, entries), right=("bytes",)
        )


def _row(entry: CheckpointInfo) -> tuple[Field, ...]:
    return (
        id_cell(entry.id),
        Cell(iso_time(entry.time_ms), local_time(entry.time_ms), "dim"),
        Cell(entry.head, style="green"),
        id_cell(entry.node),
        "" if entry.step is None else str(entry.step),
        Cell(str(entry.length), size_text(entry.length), "dim"),
        Cell(entry.label or "", style="yellow"),
    )


@click.command()
@json_option
@session_argument()
@click.argument("before", metavar="A")
@click.argument("after", metavar="[B]", required=False)
@store_options()
@click.pass_obj
def diff(settings: Settings, *, as_json: bool, session: str, before: str, after: str | None) -> None:
    """Compare two checkpoints or nodes.

    Shows how the agent's state, the settings and the context differ from A to B. Without B, compares with the session's
    current state.
    """
    view, out = open_view(settings.open(), session), Output()
    a, b = find_point(view, before).id, None if after is None else find_point(view, after).id
    found = view.diff(a, b)
    if as_json:
        out.document(
            {
                "a": a,
                "b": b or "now",
                "state": _document(found.state),
                "settings": _document(found.settings),
                "context": {
                    "added": documents.of_items(found.context.added),
                    "removed": documents.of_items(found.context.removed),
                    "edited": documents.of_items(found.context.edited),
                    "kept": found.context.kept,
                },
            }
        )
        return
    with out.paged():
        for span in difference(found, name=short_id if out.terminal else str):
            out.line(span)
    if out.terminal:
        out.say(unchanged(found))


def _document(changes: ValueChanges) -> documents.Document:
    return {
        "added": documents.of_state(changes.added),
        "changed": {
            key: {"from": stored_form(each.before), "to": stored_form(each.after)}
            for key, each in changes.changed.items()
        },
        "removed": documents.of_state(changes.removed),
    }


def difference(found: Diff, *, name: Callable[[str], str]) -> Iterator[Span]:
    """Yield the lines that describe the difference of two points.

    Args:
        found: The difference.
        name: Returns the shown name of a node.
    """
    for noun, changes in (("state", found.state), ("setting", found.settings)):
        for key, value in changes.removed.items():
            yield f"- {noun} {key} = {_json(value)}", "red"
        for key, each in changes.changed.items():
            yield f"~ {noun} {key} = {_json(each.before)} -> {_json(each.after)}", "yellow"
        for key, value in changes.added.items():
            yield f"+ {noun} {key} = {_json(value)}", "green"
    items = found.context
    for mark, style, changed in (
        ("-", "red", items.removed), ("~", "yellow", items.edited), ("+", "green", items.added)
    ):  # fmt: skip
        for item in changed:
            role = item.message.get("role", "") if isinstance(item.message, dict) else ""
            yield f"{mark} item {name(item.node)} {role}: {first_line(item.message)}", style


def unchanged(found: Diff) -> str:
    """Return how much of the context is in both points."""
    return f"{counted(found.context.kept, 'item')} of the context the same"


def _json(value: object) -> str:
    return values.encode(value).decode()
