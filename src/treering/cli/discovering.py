"""`discover`: the folders on this computer with sessions of other programs."""

from __future__ import annotations

from pathlib import Path

import click

from treering.cli.output import Cell, Output
from treering.cli.settings import environment, json_option, store_options
from treering.cli.text import ago, iso_time, size_text
from treering.importers.discovery import breadcrumbs, discover as discover_folders


@click.command()
@json_option
@store_options()
def discover(*, as_json: bool) -> None:
    """List the session folders of other programs on this computer.

    Checks the folders in which pi, oh-my-pi, Operator-Use, kit, evva, Claude Code and Strands keep sessions; reads no
    session.
    """
    out, home = Output(), Path.home()
    found = discover_folders(home, environment())
    crumbs = breadcrumbs(home, environment())
    if as_json:
        terminals = [
            {"program": name, "cwd": str(crumb.cwd), "path": str(crumb.session_file), "fresh": crumb.fresh}
            for name, crumb in crumbs
        ]
        out.document({"folders": found, "terminals": terminals})
        return
    rows = [
        (
            each.program,
            f"{each.sessions}",
            Cell(f"{each.bytes}", size_text(each.bytes)),
            Cell(iso_time(each.newest_ms), ago(each.newest_ms), "dim") if each.newest_ms is not None else Cell(""),
            each.folder,
        )
        for each in found
    ]
    out.table(("program", "sessions", "size", "newest", "folder"), rows, right=("sessions", "size"))
    for name, crumb in crumbs:
        out.say(f"a terminal of {name} had this open in {crumb.cwd}: {crumb.session_file}")
    if not found:
        out.say("no session folders of other programs; `treering import PATH` takes any folder")
    elif out.terminal:
        out.say("`treering import FOLDER` imports all of one, and updates what was imported before")
