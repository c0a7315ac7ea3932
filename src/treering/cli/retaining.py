"""`retain`: delete old sessions and prune checkpoints, by hand or every night."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
import msgspec

from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.cli import exits
from treering.cli.asking import agreed
from treering.cli.names import namespace_cell, namespace_of, parts_of, tell_left_alone
from treering.cli.output import Cell, Field, Output, encode_document, id_cell
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import ago, counted, iso_time, size_text
from treering.ids import now_ms, time_text
from treering.maintenance.retention import Retained, RetainedRow, Retention

Write = Callable[[dict[str, object]], None]

_age = re.compile(r"(\d{1,6}(?:\.\d+)?)(h|d|w)?")
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}


def _days(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return an age in days; a plain number means days."""
    if value is None:
        return None
    match = _age.fullmatch(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is no age; write 12h, 30d or 8w", context, parameter)
    return float(match[1]) * _DAYS[match[2] or "d"]


@click.command()
@json_option
@click.option(
    "--older-than",
    metavar="AGE",
    callback=_days,
    help="Delete sessions that were not active for so long: 12h, 30d, 8w.",
)
@click.option("--keep-newest", type=click.IntRange(1), metavar="N", help="Delete all but the newest N sessions.")
@click.option("--per-project", is_flag=True, help="The newest N of each project.")
@click.option(
    "--checkpoints",
    type=click.IntRange(1),
    metavar="N",
    help="Keep the newest N checkpoints of each session that stays.",
)
@click.option(
    "--min-idle",
    metavar="AGE",
    callback=_days,
    default="1h",
    show_default=True,
    help="Keep sessions that were active within this time.",
)
@click.option("--purge", is_flag=True, help="Remove tombstones that are older than --older-than.")
@click.option("--all-namespaces", is_flag=True, help="Include all namespaces, each by itself.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append a line for each action to this file.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options()
@click.pass_context
def retain(
    context: click.Context, *, as_json: bool, older_than: float | None, keep_newest: int | None, per_project: bool,
    checkpoints: int | None, min_idle: float, purge: bool, all_namespaces: bool, dry_run: bool, log: Path | None,
    yes: bool,
) -> None:  # fmt: skip
    """Delete old sessions and prune checkpoints.

    Either limit is enough: a session that is too old is deleted even if it is among the newest N. Sessions that
    are in use or whose status is `keep` stay. Namespaces are not touched without --all-namespaces; the newest N are
    counted in each namespace.
    """
    _require_limits(older_than, keep_newest, checkpoints, per_project=per_project, purge=purge)
    policy = Retention(
        sessions_days=older_than,
        sessions_max=keep_newest,
        per_project=per_project,
        checkpoints=None if checkpoints is None else KeepCheckpoints(last=checkpoints),
        min_idle_hours=min_idle * 24,
        purge=purge,
    )
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    stores = parts_of(store) if all_namespaces else [store]
    if not dry_run and not yes and not agreed(lambda: _question(stores, policy)):
        out.say("nothing was done")
        context.exit(exits.INTERRUPTED)
    with _log(None if dry_run else log) as write:
        done = _retain(stores, policy, dry_run=dry_run, write=write)
    _show(out, done, as_json=as_json)
    if not all_namespaces:
        tell_left_alone(out, store)
    if done.failed:
        context.exit(exits.PARTLY)


def _retain(stores: Sequence[Store], policy: Retention, *, dry_run: bool, write: Write) -> Retained:
    """Apply the policy to some parts of a store, and return the combined result."""
    parts = []
    for store in stores:
        parts.append(store.retain(policy, dry_run=dry_run, on_result=lambda row: _write_row(write, row)))
        for name in parts[-1].purged:
            write({"session": name, "namespace": namespace_of(store), "action": "purge"})
    return Retained(
        rows=tuple([row for done in parts for row in done.rows]),
        dry_run=dry_run,
        purged=tuple([name for done in parts for name in done.purged]),
        purge_error="; ".join(done.purge_error for done in parts if done.purge_error),
    )


def _require_limits(
    older_than: float | None, keep_newest: int | None, checkpoints: int | None, *, per_project: bool, purge: bool
) -> None:
    """Refuse invalid policies with messages that name the options."""
    if older_than is None and keep_newest is None and checkpoints is None:
        raise click.UsageError("say what to delete or prune: --older-than, --keep-newest or --checkpoints")
    if older_than == 0:
        raise click.UsageError("--older-than must be more than 0")
    if per_project and keep_newest is None:
        raise click.UsageError("--per-project goes with --keep-newest")
    if purge and older_than is None:
        raise click.UsageError("--purge goes with --older-than")


def _question(stores: Sequence[Store], policy: Retention) -> str:
    planned = _retain(stores, policy, dry_run=True, write=lambda _: None)
    return f"{_summary(planned, 'delete', 'prune')}? nothing brings it back"


@contextmanager
def _log(file: Path | None) -> Iterator[Write]:
    """Yield a function that appends a line to a file; without a file it does nothing."""
    with nullcontext() if file is None else file.open("ab", buffering=0) as opened:

        def write(facts: dict[str, object]) -> None:
            if opened is not None:
                opened.write(encode_document({"time": time_text(now_ms(), "milliseconds"), **facts}))

        yield write


def _write_row(write: Write, row: RetainedRow) -> None:
    if row.action != "keep" or row.error:
        write(msgspec.structs.asdict(row))


def _show(out: Output, done: Retained, *, as_json: bool) -> None:
    if as_json:
        out.document(msgspec.to_builtins(done))
        return
    shown = [row for row in done.rows if row.action != "keep" or row.error or not out.terminal]
    out.table(
        ("session", "active", "action", "bytes", "checkpoints", "why", "namespace"), map(_row, shown), right=("bytes",)
    )
    if done.purge_error:
        out.say(f"purge failed: {done.purge_error}")
    said = _summary(done, "would delete", "would prune") if done.dry_run else _summary(done, "deleted", "pruned")
    out.say(f"{said}, purged {counted(len(done.purged), 'name')}" if done.purged else said)


def _row(row: RetainedRow) -> tuple[Field, ...]:
    return (
        id_cell(row.session),
        Cell(iso_time(row.updated_ms), ago(row.updated_ms), "dim"),
        Cell(row.action, style={"delete": "red", "prune": "yellow"}.get(row.action, "")),
        "" if row.bytes is None else Cell(str(row.bytes), size_text(row.bytes)),
        str(row.checkpoints) if row.checkpoints else "",
        f"{row.reason}: {row.error}" if row.error else row.reason,
        namespace_cell(row.namespace),
    )


def _summary(done: Retained, delete: str, prune: str) -> str:
    gone = sum(row.action == "delete" for row in done.rows)
    pruned = sum(row.checkpoints for row in done.rows)
    return f"{delete} {counted(gone, 'session')}, {prune} {counted(pruned, 'checkpoint')}"
