"""`backup`: a consistent copy of all sessions, also while they are in use; each further run updates it."""

from __future__ import annotations

from collections.abc import Mapping

import click

from treering.api.store import Store
from treering.cli import exits
from treering.cli.names import find_session, namespace_cell, namespace_of, part_of
from treering.cli.output import Cell, Field, Output, id_cell, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, size_text
from treering.maintenance.backup import BackedUp, Backup


@click.command()
@json_option
@click.argument("target", metavar="PLACE")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option("--delete", is_flag=True, help="Remove from the backup what the store has no longer.")
@store_options()
@click.pass_context
def backup(context: click.Context, *, as_json: bool, target: str, sessions: tuple[str, ...], delete: bool) -> None:
    """Back up sessions to another place, or update an earlier backup.

    Backs up everything in the store, its namespaces included, or only the named sessions. They may be in use at the
    same time. The backup is a store: to restore it, name it with --store and an empty place as PLACE.
    """
    settings, out = context.ensure_object(Settings), Output()
    store, there = settings.open(), Store(settings.elsewhere(target, settings.namespace))
    named: dict[tuple[str, ...], list[str]] = {}
    for session in sessions:
        part, exact = find_session(store, session)
        named.setdefault(namespace_of(part), []).append(exact)
    wanted: Mapping[tuple[str, ...], list[str] | None] = named or {namespace_of(store): None}
    rows = 0
    with progress("backing up") as step:

        def on_result(row: BackedUp) -> None:
            nonlocal rows
            rows += 1
            step(rows, f"{row.action} {row.name}")

        parts = [
            part_of(store, namespace).backup(
                part_of(there, namespace),
                sessions=names,
                delete=delete,
                on_result=on_result,
                progress=lambda written: step(rows, f"backing up, {size_text(written)}"),
            )
            for namespace, names in wanted.items()
        ]
    done = Backup(rows=tuple([row for part in parts for row in part.rows]))
    _show(out, done, as_json=as_json)
    if done.failed:
        context.exit(exits.PARTLY)


def _show(out: Output, done: Backup, *, as_json: bool) -> None:
    if as_json:
        out.document({"rows": done.rows, "bytes": done.bytes, "failed": done.failed})
        return
    shown = [row for row in done.rows if row.action != "unchanged" or row.missing or not out.terminal]
    out.table(("name", "namespace", "kind", "action", "records", "bytes", "why"), map(_row, shown), right=("bytes",))
    counts = {action: sum(row.action == action for row in done.rows) for action in _SAID}
    said = ", ".join(f"{count} {action}" for action, count in counts.items() if count)
    out.say(
        f"backed up {counted(len(done.rows), 'object') if done.rows else 'nothing'}" + (f": {said}" if said else "")
    )
    if counts["kept"]:
        out.say("kept is what the store has no longer; --delete removes it from the backup")


_SAID = ("copied", "unchanged", "kept", "deleted", "failed")
_STYLES = {"failed": "red", "deleted": "red", "kept": "yellow"}


def _row(row: BackedUp) -> tuple[Field, ...]:
    missing = f"{counted(len(row.missing), 'large part')} missing in the store" if row.missing else ""
    return (
        id_cell(row.name),
        namespace_cell(row.namespace),
        row.kind,
        Cell(row.action, style=_STYLES.get(row.action, "")),
        str(row.records) if row.kind == "session" else "",
        Cell(str(row.bytes), size_text(row.bytes)),
        row.error or missing,
    )
