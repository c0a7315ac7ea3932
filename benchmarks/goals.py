"""What Treering should reach, beside what else was measured in the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import imports
from benchmarks.long_sessions import FILES
from benchmarks.measure import Cell, Results, Spread, number, spread
from benchmarks.stage import DISK, S3, SLOW
from benchmarks.table import BARE, DECODE, GET, JSONL, OURS, SQLITE, STRANDS_S3, STRANDS_SNAPSHOTS
from benchmarks.tasks import INVOCATION, ZSTD, ZSTD_FRAMES

NODE_BYTES, CHECKPOINT_BYTES = 64, 80
COUNTS = ("nodes", "checkpoints")
NEAR = 0.005  # to a limit, where three digits would not tell on which side


class Goal(NamedTuple):
    """A figure and its limit."""

    name: str
    formula: str
    limit: float
    value: Callable[[Results], Spread]
    """Raises KeyError if something was not measured."""
    at_least: bool = False


class Verdict(NamedTuple):
    """A goal held against a run."""

    goal: Goal
    value: Spread | None
    """None if it was not measured."""

    @property
    def word(self) -> str:
        """Whether the median keeps to the limit."""
        if self.value is None:
            return "not measured"
        kept = self.value.median >= self.goal.limit if self.goal.at_least else self.value.median <= self.goal.limit
        return "met" if kept else "**missed**"

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """A row of a table; see `COLUMNS`."""
        limit = f"{'at least' if self.goal.at_least else 'at most'} {number(self.goal.limit)}"
        measured = "-" if self.value is None else self.value.text()
        if self.value and abs(self.value.median / self.goal.limit - 1) < NEAR:
            measured = f"{self.value.median:.4f}"
        return self.goal.name, self.goal.formula, limit, measured, self.word


COLUMNS = ("Goal", "Ratio", "Limit", "Measured", "")


def judge(results: Results) -> list[Verdict]:
    """Hold every goal against a run."""
    return [_judged(goal, results) for goal in GOALS]


def _judged(goal: Goal, results: Results) -> Verdict:
    try:
        return Verdict(goal, goal.value(results))
    except KeyError:
        return Verdict(goal, None)


def _largest(results: Results, task: str, contestant: str, place: str) -> int:
    sizes = results.sizes(task, contestant, place)
    if not sizes:
        raise KeyError(f"not measured. task={task!r}, contestant={contestant!r}")
    return sizes[-1]


def _flat(task: str, place: str) -> Callable[[Results], Spread]:
    def value(results: Results) -> Spread:
        largest = _largest(results, task, OURS, place)
        return results.ratio(Cell(task, OURS, place, largest), Cell(task, OURS, place, 10))

    return value


def _at_largest(task: str, above: str, below: str, place: str = DISK) -> Callable[[Results], Spread]:
    """Compare two at the longest session that both had."""

    def value(results: Results) -> Spread:
        size = min(_largest(results, task, name, place) for name in (above, below))
        return results.ratio(Cell(task, above, place, size), Cell(task, below, place, size))

    return value


def _at(size: int, task: str, above: str, below: str, metric: str = "seconds") -> Callable[[Results], Spread]:
    return lambda results: results.ratio(Cell(task, above, DISK, size), Cell(task, below, DISK, size), metric)


def _closely(task: str, metric: str = "seconds") -> Callable[[Results], Spread]:
    """Compare us with SQLite where both have many rounds."""
    return _at(1_000, f"{task}, closely", OURS, SQLITE, metric)


def _storage(floor: str) -> Callable[[Results], Spread]:
    """Compare what a session of 500 turns takes with its compressed text and a little for nodes and checkpoints."""

    def value(results: Results) -> Spread:
        ours = Cell("storage", OURS, DISK, 1_000)
        (taken,), (nodes,), (checkpoints,) = (results.values(ours, each) for each in ("sealed", *COUNTS))
        (text,) = results.values(Cell("storage", floor, DISK, 1_000), "bytes")
        return spread([taken / (text + NODE_BYTES * nodes + CHECKPOINT_BYTES * checkpoints)])

    return value


def _versus(task: str, what: str, size: int) -> Callable[[Results], Spread]:
    """Compare one thing that is done with long sessions, or in long lists, with how another does it."""
    return lambda results: results.ratio(
        Cell(task, f"{what}: {OURS}", DISK, size), Cell(task, f"{what}: {SQLITE}", DISK, size)
    )


def _grows(what: str, metric: str, above: int, below: int) -> Callable[[Results], Spread]:
    """Compare what is done with two long sessions of one line; rounds were not the same, so quartiles are left out."""

    def value(results: Results) -> Spread:
        long, short = (
            results.spread(Cell("long sessions", f"{what}: {OURS}", DISK, size), metric).median
            for size in (above, below)
        )
        return spread([long / short])

    return value


def _alone(cell: Cell, metric: str, scale: float = 1) -> Callable[[Results], Spread]:
    """Take a figure as it is."""
    return lambda results: spread([value * scale for value in results.values(cell, metric)])


def _import(program: str, above: str, below: str) -> Callable[[Results], Spread]:
    """Compare two things that are done with a session file of another program."""

    def value(results: Results) -> Spread:
        named = [f"{program}: {name}" for name in (above, below)]
        size = _largest(results, "import", named[0], DISK)
        one, other = (Cell("import", name, DISK, size) for name in named)
        return results.ratio(one, other, metric="cpu")

    return value


def _whole(what: str) -> Cell:
    return Cell("long sessions", f"{what}: {OURS}", DISK, 1_000_000)


_INVOCATION = Cell("invocation on S3", OURS, S3, INVOCATION)
_READS = (
    ("The last page", "last page"),
    ("A page in the middle", "page in the middle"),
    ("The context of an old turn", "old turn"),
    ("Going to another head", "switch"),
)

GOALS = (
    Goal(
        "Resuming is flat on disk", "longest session / shortest; both have the same context", 1.2, _flat("resume", DISK)
    ),
    Goal("Resuming is flat on S3", "the same at +25 ms", 1.2, _flat("resume on S3", SLOW)),
    Goal(
        "Resuming on S3 takes a round trip",
        "resume / one GET of `latest`, at +25 ms, longest session",
        1.5,
        _at_largest("resume on S3", OURS, GET, SLOW),
    ),
    Goal(
        "... where a message log takes many",
        "Strands S3SessionManager / Treering, at +25 ms, longest session",
        20,
        _at_largest("resume on S3", STRANDS_S3, OURS, SLOW),
        at_least=True,
    ),
    Goal("Resuming is as quick as SQLite", "resume / bare SQLite, 1,000 messages", 1.5, _closely("resume")),
    Goal(
        "A durable append costs little besides its sync",
        "rate / rate of a bare write + fdatasync, seals and compactions included",
        0.6,
        _at(1_000, "append, closely", BARE, OURS),
        at_least=True,
    ),
    Goal(
        "... also without waiting in line",
        "the same, median of single appends",
        0.5,
        _at(1_000, "append, closely", BARE, OURS, "single"),
        at_least=True,
    ),
    Goal("... and fewer system calls", "calls / SQLite, FULL", 1, _at(100, "system calls", OURS, SQLITE, "calls")),
    Goal(
        "... and device bytes", "bytes / SQLite, FULL", 1, _at(1_000, "append, closely", OURS, SQLITE, "device_bytes")
    ),
    Goal(
        "A checkpoint at every turn is nearly free",
        "segments / (zstd of the text in one piece + 64 a node + 80 a checkpoint), 1,000 messages",
        1,
        _storage(ZSTD),
    ),
    Goal("... beside frames that can be read alone", "the same with frames of 1 MiB", 1, _storage(ZSTD_FRAMES)),
    Goal(
        "... where snapshots repeat the context",
        "bytes of Strands snapshots / Treering, 1,000 messages",
        50,
        _at(1_000, "storage", STRANDS_SNAPSHOTS, OURS, "bytes"),
        at_least=True,
    ),
    Goal(
        "The whole tree without the payloads",
        "parse the JSONL / read the skeleton, longest session",
        10,
        _at_largest("skeleton", JSONL, OURS),
        at_least=True,
    ),
    Goal(
        "... and no slower than tables",
        "read the skeleton / SQLite, longest session",
        1,
        _at_largest("skeleton", OURS, SQLITE),
    ),
    Goal("A turn with a checkpoint is cheap", "processor / SQLite, FULL", 2.5, _at(1_000, "turn", OURS, SQLITE, "cpu")),
    Goal("402 messages one by one on S3", "requests", 440, _alone(_INVOCATION, "requests")),
    Goal("... few bytes", "MB up", 1.5, _alone(_INVOCATION, "up", 1e-6)),
    Goal(
        "... and no slower than a log of messages",
        "seconds / Strands S3SessionManager",
        1,
        lambda results: results.ratio(_INVOCATION, _INVOCATION._replace(contestant=STRANDS_S3)),
    ),
    *(
        Goal(f"{name} at 10,000 messages", "time / SQLite", 3, _versus("long sessions", what, 10_000))
        for name, what in _READS
    ),
    *(
        Goal(
            f"... requests at {size:,}: {what}",
            "behind a resume / those at 1,000",
            1,
            _grows(what, "requests", size, 1_000),
        )
        for what in ("last page", "page in the middle", "old turn")
        for size in (100_000, 1_000_000)
    ),
    *(
        Goal(f"{name} at 1,000,000 messages", "processor / at 10,000", 3, _grows(what, "cpu", 1_000_000, 10_000))
        for name, what in (*_READS[:2], ("Going to an old turn", "checkout"), ("Erasing one message", "erase"))
    ),
    *(
        Goal(
            f"A {what} of 1,000,000 messages", "MB of memory of its process", 100, _alone(_whole(what), "memory", 1e-6)
        )
        for what in ("fork", "copy")
    ),
    Goal(
        "... at the speed of copying files",
        "time / copying the files of the store",
        2,
        lambda results: results.ratio(_whole("copy"), Cell("long sessions", f"copy: {FILES}", DISK, 1_000_000)),
    ),
    Goal(
        "Looking at 1,000,000 messages needs little memory",
        "MB more than after a resume, for two pages and an old turn",
        8,
        _alone(_whole("look"), "memory", 1e-6),
    ),
    *(
        Goal(f"Lists of {size:,} sessions: {query}", "time / SQLite, indexed", 3, _versus("long lists", query, size))
        for size in (1_000, 100_000, 1_000_000)
        for query in ("first page", "of one project")
    ),
    Goal(
        "... in a bucket",
        "requests of a page of 20 among 100,000",
        22,
        _alone(Cell("long lists", f"first page: {OURS}", S3, 100_000), "requests"),
    ),
    Goal(
        "A new process resumes quickly",
        "process / one that opens, decompresses and decodes the same files",
        1.3,
        _at(1_000, "new process, closely", OURS, DECODE),
    ),
    Goal(
        "A first import costs little beside parsing",
        "processor of the import of a session of pi / json.loads of each line",
        8,
        _import("pi", imports.FIRST, imports.PARSE),
    ),
    Goal("... also of a session of Claude Code", "the same", 8, _import("claude", imports.FIRST, imports.PARSE)),
    Goal(
        "One more record costs little beside a hash",
        "processor of the import of one more record of pi / SHA-256 of the file",
        5,
        _import("pi", imports.ONE_MORE, imports.HASH),
    ),
    Goal("... also behind a session of Claude Code", "the same", 5, _import("claude", imports.ONE_MORE, imports.HASH)),
)
