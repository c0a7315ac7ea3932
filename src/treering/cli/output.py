"""The output of commands: for a terminal, for a pipe, or as JSON.

A terminal gets tables, colours and short ids. A pipe gets plain text: one record per line, fields separated by tabs,
full ids and times, no heading. All text is cleaned: stored text cannot send control sequences to a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click
import msgspec

from treering.api.encoding import stored_form
from treering.cli.text import clean, clean_json, one_line, short_id
from treering.format.values import is_field_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

BAR_COLUMNS_MAX = 30
STRETCHED_COLUMNS_MIN = 30


class Cell(NamedTuple):
    """One field of a record."""

    full: str
    """The text for pipes."""
    short: str | None = None
    """The text for terminals; None if it is the same."""
    style: str = ""


Field = str | Cell
Span = tuple[str, str]
"""Text and its style."""


def id_cell(identifier: str | None, style: str = "cyan") -> Cell:
    """An id: complete for pipes, its end for terminals."""
    return Cell(identifier or "", short_id(identifier), style)


def encode_document(document: object) -> bytes:
    """Return a document as JSON on one line, line break included, and without characters that a terminal executes."""
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:  # half of a surrogate pair in a name
        encoded = msgspec.json.encode(_tagged(document))
    return clean_json(encoded) + b"\n"


def _tagged(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        if all(map(is_field_name, value)):
            return {key: _tagged(part) for key, part in value.items()}
        return {"$map": [[_tagged(key), _tagged(part)] for key, part in value.items()]}
    if isinstance(value, list | tuple):
        return [_tagged(part) for part in value]
    return stored_form(value) if isinstance(value, str) else value


class Output:
    """Prints records, lines and documents in the format of the output."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()

    @cached_property
    def console(self) -> Console:
        """The terminal."""
        from rich.console import Console

        return Console(highlight=False, soft_wrap=False)

    @contextmanager
    def paged(self) -> Iterator[None]:
        """Print the output of a block through the user's pager, if it is longer than the terminal."""
        if not self.terminal:
            yield
            return
        with self.console.capture() as captured:
            yield
        text = captured.get()
        if text.count("\n") < self.console.height:
            click.echo(text, nl=False, color=True)
        else:
            click.echo_via_pager(text, color=True)

    def document(self, document: object) -> None:
        """Print a JSON document."""
        click.echo(encode_document(document), nl=False)

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[Field]],
        *,
        right: Sequence[str] = (),
        stretch: str | None = None,
        spare: Sequence[str] = (),
    ) -> None:
        """Print records; a terminal shows no empty columns.

        Args:
            headings: Headings of the columns; only a terminal shows them.
            rows: The records.
            right: Columns of numbers.
            stretch: The column that gets the remaining width of the terminal; by default the last one shown.
            spare: Columns to leave out, one after the other, until the stretched column has `STRETCHED_COLUMNS_MIN`.
        """
        if self.terminal:
            self._table(headings, [[_cell_text(field) for field in row] for row in rows], right, stretch, spare)
            return
        for row in rows:
            click.echo("\t".join(one_line(_cell(field).full) for field in row).encode())

    def _table(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[Text]],
        right: Sequence[str],
        stretch: str | None,
        spare: Sequence[str],
    ) -> None:
        from rich import box
        from rich.table import Table

        shown = [place for place in range(len(headings)) if any(row[place] for row in rows)]
        last = headings.index(stretch) if stretch is not None else shown[-1] if shown else None
        stretched = last if last in shown and headings[last] not in right else None
        widths = {place: max(len(headings[place]), *(row[place].cell_len for row in rows)) + 1 for place in shown}
        for name in spare:
            others = sum(width for place, width in widths.items() if place != stretched)
            if stretched is not None and self.console.width - others < STRETCHED_COLUMNS_MIN:
                widths.pop(headings.index(name), None)
        shown = [*widths]
        table = Table(
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, header_style="bold",
            expand=stretched is not None,
        )  # fmt: skip
        for place in shown:
            table.add_column(
                headings[place],
                justify="right" if headings[place] in right else "left",
                no_wrap=True,
                overflow="ellipsis",
                ratio=1 if place == stretched else None,
            )
        for row in rows:
            table.add_row(*(row[place] for place in shown))
        self.console.print(table)

    def row(self, *fields: Field) -> None:
        """Print one record of a list at once."""
        if not self.terminal:
            self.table((), [fields])
            return
        cells = map(_cell, fields)
        self.line(*((f"{cell.full if cell.short is None else cell.short}  ", cell.style) for cell in cells))

    def facts(self, facts: Iterable[tuple[str, Field]]) -> None:
        """Print names and values; a fact without a value is left out."""
        shown = [(one_line(name), _cell(value)) for name, value in facts]
        shown = [(name, cell) for name, cell in shown if cell.full]
        if not self.terminal:
            for name, cell in shown:
                click.echo(f"{name}\t{one_line(cell.full)}".encode())
            return
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, cell in shown:
            table.add_row(Text(name), _cell_text(cell))
        self.console.print(table)

    def line(self, *spans: Span | str) -> None:
        """Print one line; a terminal cuts it at its width."""
        parts = [(span, "") if isinstance(span, str) else span for span in spans]
        if not self.terminal:
            click.echo("".join(one_line_keeping_indent(text) for text, _ in parts).rstrip().encode())
            return
        from rich.text import Text

        text = Text.assemble(*((one_line_keeping_indent(text), style) for text, style in parts))
        self.console.print(text, no_wrap=True, overflow="ellipsis", crop=True)

    def block(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Print text of several lines, indented by `indent` columns."""
        shown = clean(text)
        if self.terminal:
            from rich.padding import Padding
            from rich.text import Text

            self.console.print(Padding(Text(shown, style=style), (0, 0, 0, indent), expand=False))
            return
        click.echo("\n".join((" " * indent + line).rstrip() for line in shown.split("\n")).encode())

    def say(self, text: str) -> None:
        """Print a message for people on standard error."""
        click.echo(one_line(text).encode(errors="replace"), err=True)


def one_line_keeping_indent(text: str) -> str:
    """Return a part of a line: cleaned, without line breaks, and with its spaces."""
    return clean(text.replace("\n", " ").replace("\t", " "))


def _cell(field: Field) -> Cell:
    return field if isinstance(field, Cell) else Cell(field)


def _cell_text(field: Field) -> Text:
    from rich.text import Text

    cell = _cell(field)
    return Text(one_line(cell.full if cell.short is None else cell.short), style=cell.style)


class Step(Protocol):
    """Called with the progress so far, and the current step."""

    def __call__(self, done: int, title: str = "") -> None: ...


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Step]:
    """A progress bar on standard error, if that is a terminal.

    Yields:
        A function to call with the amount that is done so far.
    """
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(BAR_COLUMNS_MAX), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_shown(title), total=total)

        def step(done: int, title: str = "") -> None:
            bar.update(task, completed=done, description=_shown(title) if title else None)

        yield step


def _ignore(done: int, title: str = "") -> None:
    del done, title


def _shown(title: str) -> str:
    return one_line(title, 60).replace("[", r"\[")
