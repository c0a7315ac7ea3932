"""`checkpoints` and `diff`: the checkpoints of a session, and the changes between two points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from treering.api.view import View
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.cli import documents
from treering.cli.completion import session_argument
from treering.cli.message import first_line
from treering.cli.names import find_point, open_view
from treering.cli.output import Cell, Field, Output, id_cell, raw
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, iso_time, local_time, short_id, size_text
from treering.format import values
from treering.session.content import ContextItem
from treering.session.payload import decoded_state
from treering.session.reader import Readable
from treering.storage.requests import Steps


@click.command()
@json_option
@session_argument()
@click.option("--head", metavar="NAME", help="Only those made on this head.")
@click.option("--labelled", is_flag=True, help="Only those with a label.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Only the newest ones.")
@store_options()
@click.pass_obj
def checkpoints(
    settings: Settings, *, as_json: bool, session: str, head: str | None, labelled: bool, limit: int | None
) -> None:
    """List checkpoints, the newest last."""
    view, out = open_view(settings.open(), session), Output()
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


class Standing(NamedTuple):
    """The context and the state at some point."""

    name: str
    context: tuple[ContextItem, ...]
    state: Mapping[str, object]
    settings: Mapping[str, object]


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
    old, new = _standing(view, before), _standing(view, after)
    state, changed_settings = compare(old.state, new.state), compare(old.settings, new.settings)
    items = compare_items(old.context, new.context)
    if as_json:
        out.document(
            {
                "a": old.name,
                "b": new.name,
                "state": state.document(),
                "settings": changed_settings.document(),
                "context": {
                    "added": documents.of_items(items.added),
                    "removed": documents.of_items(items.removed),
                    "edited": documents.of_items(items.edited),
                    "kept": items.kept,
                },
            }
        )
        return
    with out.paged():
        _print_changes(out, "state", state)
        _print_changes(out, "setting", changed_settings)
        _print_items(out, items)


def _standing(view: View, text: str | None) -> Standing:
    if text is None:
        return Standing("now", view.recorded_context, view.state, view.settings)
    point = find_point(view, text)
    if point.kind == "node":
        return view.perform(_at_node, point.id)
    found = view.checkpoint(point.id)
    return Standing(point.id, found.context, found.state, found.settings)


def _at_node(reader: Readable, node: str) -> Steps[Standing]:
    restored = yield from reader.content.restore(node, head=reader.head)
    yield from reader.blobs.fetch(restored.lines.values())
    state = decoded_state(restored.checkpoint.state) if restored.checkpoint else {}
    return Standing(node, reader.content.messages(restored.context, restored.lines), state, restored.context.settings)


class Changes(NamedTuple):
    """How values by key differ."""

    added: dict[str, object]
    changed: dict[str, tuple[object, object]]
    removed: dict[str, object]

    def document(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "added": documents.of_state(self.added),
            "changed": {key: {"from": raw(old), "to": raw(new)} for key, (old, new) in self.changed.items()},
            "removed": documents.of_state(self.removed),
        }


def compare(old: Mapping[str, object], new: Mapping[str, object]) -> Changes:
    """Return how the values differ; values are equal if their stored form is."""
    return Changes(
        {key: value for key, value in new.items() if key not in old},
        {key: (old[key], new[key]) for key in old if key in new and values.encode(old[key]) != values.encode(new[key])},
        {key: value for key, value in old.items() if key not in new},
    )


class ItemChanges(NamedTuple):
    """How two contexts differ. Items are the same ones if they come from the same node."""

    added: list[ContextItem]
    removed: list[ContextItem]
    edited: list[ContextItem]
    """In their later version."""
    kept: int


def compare_items(old: Sequence[ContextItem], new: Sequence[ContextItem]) -> ItemChanges:
    """Return how two contexts differ."""
    before = {item.node: values.encode(item.message) for item in old}
    after = {item.node for item in new}
    edited = [item for item in new if item.node in before and before[item.node] != values.encode(item.message)]
    return ItemChanges(
        [item for item in new if item.node not in before],
        [item for item in old if item.node not in after],
        edited,
        len(after & before.keys()) - len(edited),
    )


def _print_changes(out: Output, noun: str, changes: Changes) -> None:
    for key, value in changes.removed.items():
        out.line((f"- {noun} {key} = {_json(value)}", "red"))
    for key, (old, new) in changes.changed.items():
        out.line((f"~ {noun} {key} = {_json(old)} -> {_json(new)}", "yellow"))
    for key, value in changes.added.items():
        out.line((f"+ {noun} {key} = {_json(value)}", "green"))


def _print_items(out: Output, items: ItemChanges) -> None:
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
