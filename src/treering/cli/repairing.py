"""`repair`: salvage a damaged session into a new one."""

from __future__ import annotations

import click

from treering.api.store import Store
from treering.cli import exits
from treering.cli.completion import session_argument
from treering.cli.names import find_session
from treering.cli.output import Output, progress
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted
from treering.errors import NotFoundError
from treering.maintenance.repair import Repair
from treering.maintenance.salvage import RepairLoss


@click.command()
@json_option
@session_argument()
@click.option("--into", metavar="NEW", required=True, help="Name of the new session.")
@store_options()
@click.pass_context
def repair(context: click.Context, *, as_json: bool, session: str, into: str) -> None:
    """Salvage the readable records of a damaged session into a new one.

    The damaged session is not changed. Losses are listed, with their places and known details; then the exit code is 6,
    although the new session is made.
    """
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    done = _repair(store, session, into)
    if as_json:
        out.document({"repair": done, "complete": not done.lost})
    else:
        for loss in done.losses:
            _print(out, loss)
        for node in done.orphans:
            out.say(f"the parent of node {node} is not there")
        salvaged = f"{counted(done.records, 'record')}, {counted(done.nodes, 'node')}"
        out.say(f"salvaged {salvaged} into {into}: " + ("something is lost" if done.lost else "nothing is lost"))
    context.exit(exits.CORRUPT if done.lost else 0)


def _repair(store: Store, session: str, into: str) -> Repair:
    with progress("repairing") as step:
        try:
            return store.repair(session, into=into, progress=step)
        except NotFoundError:
            there, exact = find_session(store, session)
            return there.repair(exact, into=into)


def _print(out: Output, loss: RepairLoss) -> None:
    end = "" if loss.end is None else str(loss.end)
    positions = "" if loss.first is None else f"{loss.first}-{end}"
    if not out.terminal:
        offset = "" if loss.offset is None else str(loss.offset)
        out.table((), [(loss.kind, loss.key, offset, positions, loss.message, " ".join(loss.ids))])
        return
    out.line((loss.kind, "bold red"), (f"  {loss.key}", "dim"))
    out.block(loss.message, indent=2)
    for name, value in (("positions", positions), ("ids", " ".join(loss.ids))):
        if value:
            out.block(f"{name}: {value}", "dim", indent=2)
