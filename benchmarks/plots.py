"""Growth curves: what a length costs, on logarithmic axes, with the exponent that fits best."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.measure import Cell, Results
from benchmarks.report import growth
from benchmarks.stage import DISK, SLOW
from benchmarks.table import OURS

mpl.use("svg")
# Text stays text, and names inside the file do not change from run to run.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "treering", "font.size": 9})


class Plot(NamedTuple):
    """One picture."""

    file: str
    title: str
    task: str
    place: str
    metric: str
    axis: str
    scale: float


PLOTS = (
    Plot("resume-disk.svg", "Resume, everything imported, disk", "resume", DISK, "seconds", "ms", 1e3),
    Plot("resume-s3.svg", "Resume from S3, +25 ms a request", "resume on S3", SLOW, "seconds", "ms", 1e3),
    Plot("resume-s3-requests.svg", "Requests of a resume from S3", "resume on S3", SLOW, "requests", "requests", 1),
    Plot("append.svg", "Append one message of 1,000 bytes", "append", DISK, "seconds", "ms", 1e3),
    Plot("page.svg", "Read the last 50 messages, disk", "last page", DISK, "seconds", "ms", 1e3),
    Plot("skeleton.svg", "Read the tree without payloads, disk", "skeleton", DISK, "seconds", "ms", 1e3),
    Plot("storage.svg", "Stored, with a checkpoint at every turn", "storage", DISK, "bytes", "MB", 1e-6),
)


def draw(results: Results, folder: Path) -> list[str]:
    """Draw every picture that was measured; return the names of the files."""
    return [plot.file for plot in PLOTS if _draw(plot, results, folder)]


def _draw(plot: Plot, results: Results, folder: Path) -> bool:
    lines = _lines(plot, results)
    if not lines:
        return False
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, cells in lines.items():
        values = [results.spread(cell, plot.metric).median * plot.scale for cell in cells]
        style = {"linewidth": 3, "color": "black"} if name == OURS else {"linewidth": 1}
        label = f"{name}: {growth(results, cells, plot.metric)}"
        axes.loglog([cell.size for cell in cells], values, marker="o", markersize=4, label=label, **style)
    axes.set(title=plot.title, xlabel="messages", ylabel=plot.axis)
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(folder / plot.file, metadata={"Date": None})
    plt.close(figure)
    return True


def _lines(plot: Plot, results: Results) -> dict[str, list[Cell]]:
    lines: dict[str, list[Cell]] = {}
    for cell in sorted(results.figures, key=lambda cell: cell.size):
        if (cell.task, cell.place) == (plot.task, plot.place) and plot.metric in results.figures[cell]:
            lines.setdefault(cell.contestant, []).append(cell)
    return {name: cells for name, cells in lines.items() if len(cells) > 1}
