"""`tree`: draw the tree of a session, with runs of single children folded.

The line to the current head is one column. Each branch that leaves a line is drawn in the column to its right, before
the line continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click
import msgspec

from treering.api.view import View
from treering.cli.completion import session_argument
from treering.cli.message import headline
from treering.cli.names import open_view
from treering.cli.output import Output, Span
from treering.cli.settings import Settings, as_of_option, json_option, store_options
from treering.cli.text import counted, short_id
from treering.transcript.tree import OutlineRow

LEVELS_DRAWN_MAX = 16  # deeper levels are shown as a number: sessions with many rewinds nest deeply


class Line(NamedTuple):
    """One row, with the guides in front of it."""

    guide: str
    row: OutlineRow


@click.command()
@json_option
@session_argument()
@click.option("--text", is_flag=True, help="Read and show the beginning of each row's first message.")
@as_of_option
@store_options()
@click.pass_obj
def tree(settings: Settings, *, as_json: bool, session: str, text: bool, as_of: str | None) -> None:
    """Draw a session with all its branches.

    Straight runs are folded into one row.
    """
    view, out = open_view(settings.open(), session, as_of), Output()
    rows, nodes = tuple(view.tree()), view.nodes()
    parents = dict(zip(nodes.ids, nodes.parents, strict=True))
    if as_json:
        out.document({"rows": [msgspec.structs.asdict(row) | {"parent": parents[row.first]} for row in rows]})
        return
    with out.paged():
        print_tree(out, view, rows, parents, text=text)


def print_tree(
    out: Output, view: View, rows: Sequence[OutlineRow], parents: Mapping[str, str | None], *, text: bool = False
) -> None:
    """Print the drawing of a session.

    Args:
        out: The output.
        view: The session.
        rows: Its outline.
        parents: The parent of every node.
        text: Show the beginning of each row's first message, too.
    """
    for line in draw(rows, parents):
        said = headline(view.get(line.row.first)) if text else ""
        out.line((line.guide, "dim"), *_spans(line.row, view, full=not out.terminal), (f"  {said}" if said else "", ""))


def draw(rows: Sequence[OutlineRow], parents: Mapping[str, str | None]) -> Iterator[Line]:
    """Yield the rows with their guides.

    A branch is drawn beside the line that it leaves, which continues below it.

    Args:
        rows: The rows of the outline, in its order: parents before children, branches before the straight continuation.
        parents: The parent of every node.
    """
    last_of: dict[int, str] = {}  # the last node that was drawn, by level
    begins: list[bool] = []
    for row in rows:
        begins.append(parents[row.first] != last_of.get(row.level, ""))
        last_of[row.level] = row.last
    roots = [number for number, row in enumerate(rows) if begins[number] and row.level == 0]
    for number, row in enumerate(rows):
        hanging = number < roots[-1] if len(roots) > 1 else None
        yield Line(guide(row.level, begins=begins[number], hanging=hanging), row)


def guide(level: int, *, begins: bool, hanging: bool | None = None) -> str:
    """Return the lines in front of a row.

    Args:
        level: The row's level in the outline.
        begins: The row is the first of its branch.
        hanging: If there are several roots, whether another root follows below; None if there is one root.
    """
    columns = ["│ "] * level
    if begins and level > 0:
        columns[-1] = "├─"
    if len(columns) > LEVELS_DRAWN_MAX:
        columns = [f"⋯{len(columns) - LEVELS_DRAWN_MAX} ", *columns[-LEVELS_DRAWN_MAX:]]
    if hanging is None:
        return "".join(columns)
    marks = ("│ ", "├─") if hanging else ("  ", "└─")
    return marks[begins and level == 0] + "".join(columns)


def _spans(row: OutlineRow, view: View, *, full: bool) -> list[Span]:
    name = (lambda identifier: identifier) if full else short_id
    ids = name(row.first) if row.count == 1 else f"{name(row.first)} .. {name(row.last)}"
    spans = [(ids, "cyan"), (f"  {_kinds(row)}", "")]
    spans += [(f"  ({head})", "bold green" if head == view.head else "green") for head in row.heads]
    spans += [(f"  [{row.label}]", "yellow")] if row.label else []
    spans += [(f"  {counted(row.checkpoints, 'checkpoint')}", "dim")] if row.checkpoints else []
    spans += [(f"  {kind}: {name(target)}", "dim") for kind, target in row.links.items()]
    spans += [(f"  {word}", "red") for word in ("retracted", "amended") if getattr(row, word)]
    return spans + ([(f"  {row.problem}", "bold red")] if row.problem else [])


def _kinds(row: OutlineRow) -> str:
    if row.count == 1:
        return next(iter(row.kinds))
    return ", ".join(f"{count} {kind}" for kind, count in row.kinds.items())
