"""What was measured, as Markdown: a report, and the tables that other pages show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.goals import COLUMNS, judge
from benchmarks.measure import Cell, Results, exponent
from benchmarks.stage import DISK, LATENCY, SLOW
from benchmarks.table import (
    ADK,
    CONTESTANTS,
    JSONL,
    LANGGRAPH,
    OPENAI,
    OURS,
    SQLITE,
    STRANDS_FILES,
    STRANDS_S3,
    STRANDS_SNAPSHOTS,
)
from benchmarks.tasks import TASKS, ZSTD_FRAMES

BEGIN = "<!-- benchmarks: from here on written by `make bench` -->\n"
END = "<!-- benchmarks: until here -->\n"
NOTHING = "-"
ORDER = {name: place for place, name in enumerate(CONTESTANTS)}


class Unit(NamedTuple):
    """How a metric is shown."""

    name: str
    scale: float = 1


UNITS = {
    "seconds": Unit("ms", 1e3),
    "single": Unit("ms, median of single ones", 1e3),
    "cpu": Unit("ms of processor", 1e3),
    "requests": Unit("requests"),
    "waits": Unit("waits"),
    "up": Unit("kB up", 1e-3),
    "down": Unit("kB down", 1e-3),
    "memory": Unit("MB of memory, peak", 1e-6),
    "device_bytes": Unit("bytes to the device"),
    "calls": Unit("system calls"),
    "syncs": Unit("of them syncs"),
    "bytes": Unit("MB", 1e-6),
    "sealed": Unit("MB in segments", 1e-6),
    "nodes": Unit("nodes"),
    "checkpoints": Unit("checkpoints"),
    "acknowledged": Unit("acknowledged"),
    "kept": Unit("of them kept"),
    "in the context": Unit("of them in the context"),
}
BY_SIZE = ("seconds", "cpu", "memory", "requests", "waits", "down", "bytes", "sealed")
"""Metrics that are shown for every size, where there are several."""

BESIDE = {
    "append, ms": (Cell("append", "", DISK, 1_000), "seconds"),
    "resume, ms": (Cell("resume", "", DISK, 10_000), "seconds"),
    "resume at 100,000, ms": (Cell("resume", "", DISK, 100_000), "seconds"),
    "resume on S3 at +25 ms, ms": (Cell("resume on S3", "", SLOW, 1_000), "seconds"),
    "its requests": (Cell("resume on S3", "", SLOW, 1_000), "requests"),
    "new process, ms of processor": (Cell("new process", "", DISK, 1_000), "cpu"),
    "its memory, MB": (Cell("new process", "", DISK, 1_000), "memory"),
    "MB for 1,000": (Cell("storage", "", DISK, 1_000), "bytes"),
}
"""Columns of the table that other pages show: a cell whose contestant is left open, and a metric of it."""
BEST_KNOWN = (OURS, SQLITE, JSONL, OPENAI, ADK, STRANDS_FILES, STRANDS_S3, STRANDS_SNAPSHOTS, LANGGRAPH)
"""The contestants on the first page."""


def report(results: Results) -> str:
    """Return the whole report."""
    sections = [_section(results, task) for task in TASKS if any(cell.task == task for cell in results.figures)]
    head = f"# Measured\n\n{_machine(results)}\n\n{READING}\n## Goals\n\n{goals(results)}"
    return "\n".join([head, *sections])


READING = """Contestants take turns, and ratios are taken within a round. Shown are medians and, in brackets, quartiles.
A dash means that it is not offered, or would take too long. `n^b` is the growth that fits best: 0 is flat, 1 is linear.
Each contestant has a process of its own; what is imported and which client is open at the start is said with each task.
"""


def _machine(results: Results) -> str:
    about = results.about
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    again = "; ".join(about.get("measured again", ()))
    return (
        f"On {about['system']}, {about['processors']} processors, load {about['load']} at the start, "
        f"Python {about['python']}, {versions}." + (f" Measured again afterwards: {again}." if again else "")
    )


def goals(results: Results) -> str:
    """Return the table of goals."""
    return table(COLUMNS, [verdict.row for verdict in judge(results)])


def beside(results: Results, names: Sequence[str] = (*CONTESTANTS, ZSTD_FRAMES)) -> str:
    """Return the table of contestants that other pages show."""
    rows = [(name, *(_figure(results, name, *column) for column in BESIDE.values())) for name in names]
    return table(("", *BESIDE), [row for row in rows if any(figure != NOTHING for figure in row[1:])])


def _figure(results: Results, name: str, cell: Cell, metric: str) -> str:
    try:
        return results.spread(cell._replace(contestant=name), metric).short(UNITS[metric].scale)
    except KeyError:
        return NOTHING


def _section(results: Results, task: str) -> str:
    cells = [cell for cell in results.figures if cell.task == task]
    places = [place for place in LATENCY if any(cell.place == place for cell in cells)]
    tables = [_of_place(results, [cell for cell in cells if cell.place == place], place) for place in places]
    return f"## {task[0].upper()}{task[1:]}\n\n{TASKS[task].about}\n\n" + "\n".join(tables)


def _of_place(results: Results, cells: Sequence[Cell], place: str) -> str:
    sizes = sorted({cell.size for cell in cells})
    cells = sorted(cells, key=lambda cell: ORDER.get(cell.contestant, -1))
    names = list(dict.fromkeys(cell.contestant for cell in cells))
    metrics = [metric for metric in UNITS if any(any(results.figures[cell].get(metric, ())) for cell in cells)]
    if len(sizes) == 1:
        columns = (f"{place}, {sizes[0]:,}", *(UNITS[metric].name for metric in metrics))
        rows = [(cell.contestant, *(_shown(results, cell, metric) for metric in metrics)) for cell in cells]
        return table(columns, rows)
    tables = []
    for metric in (metric for metric in metrics if metric in BY_SIZE):
        columns = (f"{place}, {UNITS[metric].name}", *(f"{size:,}" for size in sizes), "growth")
        rows = [_by_size(results, cells, name, metric, sizes) for name in names]
        tables.append(table(columns, [row for row in rows if any(figure != NOTHING for figure in row[1:])]))
    return "\n".join(tables)


def _by_size(results: Results, cells: Iterable[Cell], name: str, metric: str, sizes: Sequence[int]) -> tuple[str, ...]:
    mine = {cell.size: cell for cell in cells if cell.contestant == name}
    shown = [_shown(results, mine[size], metric) if size in mine else NOTHING for size in sizes]
    return name, *shown, growth(results, mine.values(), metric)


def growth(results: Results, cells: Iterable[Cell], metric: str) -> str:
    """Return the growth over at least three sizes, as a power of the size."""
    points = [(cell.size, results.spread(cell, metric).median) for cell in cells if metric in results.figures[cell]]
    points = sorted(point for point in points if point[1] > 0)
    return f"n^{exponent(*zip(*points, strict=True)):.2f}" if len(points) > 2 else NOTHING


def _shown(results: Results, cell: Cell, metric: str) -> str:
    if metric not in results.figures[cell]:
        return NOTHING
    return results.spread(cell, metric).text(UNITS[metric].scale)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def summary(results: Results) -> str:
    """Return what the page about performance shows between the marks."""
    return f"{BEGIN}\n{goals(results)}\n{beside(results)}\n{_machine(results)}\n\n{_busy(results)}{END}"


def overview(results: Results) -> str:
    """Return what the first page shows between the marks."""
    words = [verdict.word for verdict in judge(results)]
    met = f"Of {len(words)} goals, {words.count('met')} are met.\n\n{_machine(results)}"
    return f"{BEGIN}\n{beside(results, BEST_KNOWN)}\n{met}\n\n{_busy(results)}{END}"


def _busy(results: Results) -> str:
    """Say so where others kept the processors busy."""
    if results.about["load"] <= results.about["processors"]:
        return ""
    return "The machine was busy with other work: trust counts and ratios, and take times for the order of things.\n\n"


PAGES = {"README.md": overview, "docs/explanation/performance.md": summary}
"""Pages with tables of the recorded run, and what makes them."""


def renew(page: Path, tables: str) -> None:
    """Put tables into a page, in place of what stands between its marks."""
    text = page.read_text()
    head, tail = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    page.write_text(head + tables + tail)
