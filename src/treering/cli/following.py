"""`follow`: print the events of a session as they happen."""

from __future__ import annotations

import math
import shlex
from itertools import islice

import click

from treering.api.encoding import to_json
from treering.api.store import Store
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.cli.completion import session_argument
from treering.cli.conversation import role_style
from treering.cli.message import first_line, headline, role_of
from treering.cli.names import argument_of, open_view, part_of
from treering.cli.output import Cell, Field, Output, id_cell
from treering.cli.settings import Settings, store_options
from treering.cli.text import clean_json, iso_time, local_time
from treering.errors import NotFoundError
from treering.format import values
from treering.session.verbs.following import Edit, ErasureInfo, Event, EventType, HeadMove
from treering.session.verbs.reading import Note
from treering.transcript.node import Node

POLL_SECONDS_MIN = 0.05  # a bucket answers no faster


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if math.isnan(value):  # it is in no range, and beyond none
        raise click.BadParameter(f"{value!r} is no number of seconds", context, parameter)
    return value


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print each event as a JSON document on a line, for programs.")
@session_argument()
@click.option("--first", metavar="POSITION", type=click.IntRange(0), help="Begin with this record; 0 is the first one.")
@click.option("--after", metavar="CURSOR", help="Go on behind the event with this cursor.")
@click.option("-n", "--limit", type=click.IntRange(1), help="End after so many events.")
@click.option(
    "--poll", metavar="SECONDS", type=click.FloatRange(POLL_SECONDS_MIN, 86_400), default=1.0, show_default=True,
    callback=_number, help="How long to wait between looks.",
)  # fmt: skip
@store_options()
@click.pass_obj
def follow(
    settings: Settings, *, as_json: bool, session: str, first: int | None, after: str | None, limit: int | None,
    poll: float,
) -> None:  # fmt: skip
    """Print the events of a session as they happen.

    The events are nodes, notes, edits, moves of heads, checkpoints and erasures, by any writer, each once; the last
    event is the deletion of the session. By default only new events are printed. Ctrl-C ends the command, and prints
    how to continue from there.
    """
    if first is not None and after is not None:
        raise click.UsageError("--first and --after are two places to begin: give one of them")
    store, out = settings.open(), Output()
    view = open_view(store, session)
    events = view.events(first=first, after=after, poll_seconds=poll)
    try:
        for event in islice(events, limit):
            if as_json:
                click.echo(clean_json(to_json(event)))
            else:
                out.row(*_fields(event))
            after = event.after  # after an interrupt before this, the event is printed again, not left out
            if event.type == EventType.DELETION and _is_there(part_of(store, view.info.namespace), view.id):
                out.say("there is another session of this name now; without --after its events are printed")
    except KeyboardInterrupt as interrupt:
        click.echo(err=True)  # a terminal shows `^C` on the line
        if after is not None:
            words = ["treering", *settings.options_for(view.info.namespace), "follow", "--after", after]
            out.say(f"go on: {shlex.join([*words, *argument_of(view.id)])}")
        raise click.Abort from interrupt


def _is_there(store: Store, session: str) -> bool:
    try:
        store.view(session)
    except NotFoundError:
        return False
    return True


def _fields(event: Event) -> tuple[Field, ...]:
    time_ms, what, identifier, text = _said(event)
    return (
        str(event.at),
        Cell(iso_time(time_ms), local_time(time_ms), "dim"),
        Cell(event.type.value, style="dim"),
        Cell(what, style=role_style(what) if event.type == EventType.NODE else "yellow"),
        id_cell(identifier),
        text,
        Cell(event.after, ""),
    )


def _said(event: Event) -> tuple[int, str, str | None, str]:
    """Time, kind, id and text of an event."""
    match event.value:
        case Node() as node:
            return node.time_ms, role_of(node), node.id, headline(node)
        case Note() as note:
            return note.time_ms, note.kind, note.target or note.id, _json(dict(note.brief))
        case Edit() as edit:
            text = first_line(edit.payload) if edit.payload is not None else ""
            return edit.time_ms, f"{'undo ' if edit.undo else ''}{edit.kind}", edit.target, text
        case HeadMove() as move:
            return move.time_ms, move.head, move.node, "dropped" if move.dropped else "current" if move.current else ""
        case CheckpointInfo() as entry:
            return entry.time_ms, entry.head, entry.id, entry.label or ""
        case ErasureInfo() as erased:
            keys = ["manager" if key is None else f"state {key}" for key in erased.state]
            return erased.time_ms, "", " ".join(erased.ids), ", ".join([*keys, *filter(None, [erased.reason])])
        case None:
            return 0, "", None, ""


def _json(value: object) -> str:
    return values.encode(value).decode()
