"""`erase` and `purge`: the commands that delete data for good."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import click
import msgspec

from treering.api.session import Session
from treering.cli import exits
from treering.cli.asking import agreed
from treering.cli.completion import session_argument
from treering.cli.names import find_node, open_session, parts_of, tell_left_alone
from treering.cli.output import Cell, Field, Output
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted, iso_time, one_line
from treering.erasure.erasing import Receipt
from treering.session.reader import Readable
from treering.storage.requests import Steps


@click.command()
@json_option
@session_argument()
@click.argument("node", nargs=-1)
@click.option(
    "--state", multiple=True, metavar="KEY", help="All values of this key of the agent's state. May be repeated."
)
@click.option("--manager", is_flag=True, help="The state of the conversation manager.")
@click.option("--reason", default="", metavar="TEXT", help="Shown in place of what was erased; at most 200 bytes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options()
@click.pass_context
def erase(
    context: click.Context, *, as_json: bool, session: str, node: tuple[str, ...], state: tuple[str, ...],
    manager: bool, reason: str, yes: bool,
) -> None:  # fmt: skip
    """Erase payloads and state for good, from the session and from its forks.

    Only the place of each payload, a hash and the time are left. Without NODE, --state and --manager it finishes an
    interrupted erasure.
    """
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    with open_session(store, session, below=False) as opened:
        ids = [_find(opened, each) for each in node]
        what = [counted(len(ids), "payload")] if ids else []
        what += [f"all values of {key!r}" for key in state] + ["the manager's state"] * manager
        if what and not yes and not agreed(lambda: f"erase {', '.join(what)} of {opened.id}? nothing brings it back"):
            out.say(f"kept {opened.id} as it is")
            context.exit(exits.INTERRUPTED)
        receipt = opened.erase(*ids, state=state, manager=manager, reason=reason)
    if as_json:
        out.document(msgspec.to_builtins(receipt))
    else:
        out.facts(_facts(receipt))
    for warning in receipt.warnings:
        out.say(f"warning: {warning}")
    if receipt.unreachable:
        context.exit(exits.PARTLY)


def _find(session: Session, text: str) -> str:
    """Return the id of a node, or of a note: a note only by its whole id, which counts more than a part of a node's."""
    return text if session.perform(_is_note, text) else find_node(session, text)


def _is_note(reader: Readable, name: str) -> Steps[bool]:
    found = yield from reader.replica.ask(lambda look: look.records([name]))
    return name in found and found[name].type == "note"


def _facts(receipt: Receipt) -> list[tuple[str, Field]]:
    facts: list[tuple[str, Field]] = [
        ("session", receipt.session),
        ("erased", Cell(str(len(receipt.ids)), counted(len(receipt.ids), "payload"))),
        *(("erased state", "the manager's" if key is None else key) for key in receipt.state),
        ("at", iso_time(receipt.time_ms)),
        ("segments", str(receipt.segments)),
    ]
    if receipt.blobs_shared:
        facts.append(("kept blobs", f"{len(receipt.blobs_shared)}: other records have them as well"))
    facts += [("fork", each.session) for each in _forks_of(receipt)]
    facts += [("missing fork", name) for name in receipt.missing]
    facts += [("unread fork", f"{name}: {one_line(problem)}") for name, problem in receipt.unreachable.items()]
    return facts


def _forks_of(receipt: Receipt) -> Iterator[Receipt]:
    for fork in receipt.forks:
        yield fork
        yield from _forks_of(fork)


def _age(context: click.Context, parameter: click.Parameter, value: float | None) -> timedelta | None:
    """Return a number of days as a time."""
    if value is None:
        return None
    try:
        return timedelta(days=value)
    except (ValueError, OverflowError) as error:  # no number, or longer than any time
        raise click.BadParameter(f"{value!r} is no number of days", context, parameter) from error


@click.command()
@json_option
@session_argument(required=False)
@click.option(
    "--older-than", type=click.FloatRange(min=0), callback=_age, metavar="DAYS",
    help="Only what was deleted before that.",
)  # fmt: skip
@click.option("--all-namespaces", is_flag=True, help="Include all namespaces.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_options()
@click.pass_context
def purge(
    context: click.Context, *, as_json: bool, session: str | None, older_than: timedelta | None,
    all_namespaces: bool, yes: bool,
) -> None:  # fmt: skip
    """Remove tombstones of deleted sessions, and leftovers of killed processes.

    Without SESSION all deleted sessions are purged. Existing sessions are not touched, nor are namespaces without
    --all-namespaces.
    """
    store, out = context.find_object(Settings).open(), Output()  # type: ignore[union-attr]  # made by the program
    if session is not None and older_than is not None:
        raise click.UsageError("--older-than goes with all sessions, not with one")
    if not yes and not agreed(lambda: f"purge {session or 'all deleted sessions'}? nothing brings it back"):
        out.say("nothing was purged")
        context.exit(exits.INTERRUPTED)
    if session is not None and all_namespaces:
        raise click.UsageError("--all-namespaces goes with all sessions, not with one")
    stores = parts_of(store) if all_namespaces else [store]
    names = [name for each in stores for name in each.purge(session, older_than=older_than)]
    if as_json:
        out.document({"purged": names})
    else:
        out.say(f"purged {counted(len(names), 'session')}")
    if session is None and not all_namespaces:
        tell_left_alone(out, store)
