"""`reindex`: let lists find each session by its marker."""

from __future__ import annotations

import click

from treering.cli.output import Output
from treering.cli.settings import Settings, json_option, store_options
from treering.cli.text import counted
from treering.maintenance.reindexing import Reindexed


@click.command()
@json_option
@store_options()
@click.pass_obj
def reindex(settings: Settings, *, as_json: bool) -> None:
    """Give each session a marker, so that lists are quick.

    Includes namespaces. Needed once for a store made by an earlier version, and after files were copied or restored by
    hand. From then on lists read the cards that they show, and not every card. Can be repeated at any time, also
    while sessions are in use.
    """
    store, out = settings.open(), Output()
    done = store.reindex() if settings.missing_folder is None else Reindexed()  # reading makes no store, nor does this
    if as_json:
        out.document(done)
        return
    out.say(f"{counted(done.sessions, 'session')}: {counted(done.marked, 'marker')} written, {done.removed} removed")
