"""`checkpoints` and `diff`: the checkpoints of a session, and the changes between two points."""

from __future__ import annotations

import click

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.cli import documents
from treering.cli.completion import session_argument
from treering.cli.message import first_line
from treering.cli.names import find_point, open_view
from treering.cli.output import Cell, Field, Output, id_cell, raw
from treering.cli.settings import Settings, as_of_option, json_option, store_options
from treering.cli.text import counted, iso_time, local_time, short_id, size_text
from treering.format import values
from treering.session.verbs.comparing import ContextChanges, ValueChanges


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

    Tells how the agent's state, the settings and what the model sees differ from A to B. Without B, compare with
    where the session stands.
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
        _print_changes(out, "state", found.state)
        _print_changes(out, "setting", found.settings)
        _print_items(out, found.context)


def _document(changes: ValueChanges) -> documents.Document:
    return {
        "added": documents.of_state(changes.added),
        "changed": {key: {"from": raw(each.before), "to": raw(each.after)} for key, each in changes.changed.items()},
        "removed": documents.of_state(changes.removed),
    }


def _print_changes(out: Output, noun: str, changes: ValueChanges) -> None:
    for key, value in changes.removed.items():
        out.line((f"- {noun} {key} = {_json(value)}", "red"))
    for key, each in changes.changed.items():
        out.line((f"~ {noun} {key} = {_json(each.before)} -> {_json(each.after)}", "yellow"))
    for key, value in changes.added.items():
        out.line((f"+ {noun} {key} = {_json(value)}", "green"))


def _print_items(out: Output, items: ContextChanges) -> None:
    for mark, style, changed in (
        ("-", "red", items.removed), ("~", "yellow", items.edited), ("+", "green", items.added)
    ):  # fmt: skip
        for item in changed:
            name = short_id(item.node) if out.terminal else item.node
            role = item.message.get("role", "") if isinstance(item.message, dict) else ""
            out.line((f"{mark} item {name} {role}: {first_line(item.message)}", style))
    if out.terminal:
        out.say(f"{counted(items.kept, 'item')} of the context the same")


def _json(value: object) -> str:
    return values.encode(value).decode()
