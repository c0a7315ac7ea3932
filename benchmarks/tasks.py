"""What is measured. Each task says what is done and how; all contestants that can do it take turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from benchmarks import foreign, imports, long_sessions, many_sessions, workload
from benchmarks.measure import Cell, Figures, alternate
from benchmarks.stage import DISK, S3, SLOW, Stage, weigh
from benchmarks.table import (
    BARE,
    CONTESTANTS,
    DECODE,
    FULL_TAIL,
    GET,
    JSONL,
    LANGGRAPH,
    LANGGRAPH_OBJECTS,
    OPENAI,
    OURS,
    PYTHON,
    SHARED,
    SQLITE,
    STRANDS_EACH,
    STRANDS_FILES,
    STRANDS_S3,
    STRANDS_SNAPSHOTS,
)
from benchmarks.worker import MOMENT, Where, Worker

ZSTD = "zstd of the text"
ZSTD_FRAMES = "zstd of the text, in frames of 1 MiB"
FRAME_BYTES = 1 << 20
STORAGE_WINDOW = 40
INVOCATION = 402
PAGE = 50
ROWS = 20
TRACED = 160
INSISTING = 20
EVERYTHING = 1_000
LISTED = "listed"
SEALED = ("segments", "blobs")  # folders of Treering's
COLD = (OURS, DECODE, PYTHON, SQLITE, JSONL, STRANDS_FILES, GET, STRANDS_S3)


class Scale(NamedTuple):
    """How much is measured."""

    disk: tuple[int, ...]
    """Lengths of sessions on disk."""
    appended: tuple[int, ...]
    """Lengths of sessions that are appended to."""
    s3: tuple[int, ...]
    history: tuple[int, ...]
    """Lengths where pages, branches and old turns are looked for."""
    stored: tuple[int, ...]
    """Lengths of sessions that are weighed."""
    lines: tuple[int, ...]
    """Lengths of long sessions of one line."""
    heads: tuple[int, ...]
    """Lengths of long sessions of many heads."""
    written: tuple[int, ...]
    """Lengths of those lines which are written to, forked and copied."""
    many: tuple[int, ...]
    """How many sessions there are where lists are long."""
    in_a_bucket: int
    listed: int
    cold: tuple[str, ...]
    """Who is started in new processes; most of that is importing, so one of each family is enough."""
    imported: int
    """Megabytes of a session file of another program."""
    rounds: int
    seconds: float
    """How long the rounds of one task may take; see `alternate`."""

    def closely(self) -> Scale:
        """Return a scale of many more rounds, for a few quick contestants."""
        return self._replace(rounds=4 * self.rounds)


FULL = Scale(
    disk=(10, 100, 1_000, 10_000, 100_000),
    appended=(100, 1_000, 10_000),
    s3=(10, 100, 1_000, 10_000),
    history=(200, 1_000, 10_000),
    stored=(100, 200, 500, 1_000),
    lines=(1_000, 10_000, 100_000, 1_000_000),
    heads=(1_000, 10_000, 100_000),
    written=(10_000, 1_000_000),
    many=(1_000, 100_000, 1_000_000),
    in_a_bucket=100_000,
    listed=1_000,
    cold=(*COLD, OPENAI, LANGGRAPH, STRANDS_SNAPSHOTS, LANGGRAPH_OBJECTS),
    imported=100,
    rounds=25,
    seconds=20,
)
QUICK = Scale(
    disk=(10, 100, 1_000, 10_000),
    appended=(100, 1_000),
    s3=(10, 100, 1_000),
    history=(200, 1_000),
    stored=(100, 1_000),
    lines=(1_000, 10_000),
    heads=(1_000,),
    written=(10_000,),
    many=(1_000, 10_000),
    in_a_bucket=10_000,
    listed=100,
    cold=COLD,
    imported=30,
    rounds=9,
    seconds=4,
)

Rounds = Iterable[Mapping[Cell, Figures]]


class Task(NamedTuple):
    """Something to do."""

    about: str
    run: Callable[[Stage, Scale, str], Rounds]
    """Called with the name of the task."""


def _read(method: str, *arguments: object, only: tuple[str, ...] = ()) -> Callable[..., Rounds]:
    """Make a task in which a session is read."""

    def run(stage: Stage, scale: Scale, task: str, sizes: Mapping[str, tuple[int, ...]]) -> Rounds:
        cells = {}
        for place, lengths in sizes.items():
            for size in lengths:
                for name in stage.able(method, place, size, only):
                    session = stage.session(name, place, size)
                    given = (session, size) if method == "travel" else (method, session, *arguments)
                    action = "travel" if method == "travel" else "read"
                    cells[Cell(task, name, place, size)] = partial(stage.do, name, place, action, *given, MOMENT)
        return alternate(cells, scale.rounds, scale.seconds)

    return run


def _resume_disk(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("resume")(stage, scale, task, {DISK: scale.disk})


def _resume_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("resume")(stage, scale, task, {S3: scale.s3, SLOW: scale.s3})


def _resume_closely(stage: Stage, scale: Scale, task: str) -> Rounds:
    only = (OURS, FULL_TAIL, DECODE, SQLITE)
    return _read("resume", only=only)(stage, scale.closely(), task, {DISK: (1_000,)})


def _page(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("page", PAGE)(stage, scale, task, {DISK: scale.history, SLOW: scale.history[-1:]})


def _switch(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("switch")(stage, scale, task, {DISK: scale.history})


def _travel(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("travel")(stage, scale, task, {DISK: scale.history, S3: scale.history[:1]})


def _skeleton(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("skeleton")(stage, scale, task, {DISK: scale.disk[2:]})


def _append(stage: Stage, scale: Scale, task: str) -> Rounds:
    for size in scale.appended:  # one after the other: a contestant holds one session open
        share = scale._replace(seconds=scale.seconds / len(scale.appended))
        yield from _record(stage, share, "append", Cell(task, "", DISK, size))


def _append_closely(stage: Stage, scale: Scale, task: str) -> Rounds:
    only = (OURS, BARE, SQLITE)
    return _record(stage, scale.closely(), "append", Cell(task, "", DISK, 1_000), only)


def _turn(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _record(stage, scale, "turn", Cell(task, "", DISK, 1_000))


def _turn_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _record(stage, scale, "turn", Cell(task, "", S3, 1_000))


def _record(stage: Stage, scale: Scale, action: str, cell: Cell, only: tuple[str, ...] = ()) -> Rounds:
    """Append to sessions of a size, in a cell whose contestant is left open."""
    task, _, place, size = cell
    names = list(stage.able(action, place, size, only))
    for name in names:
        stage.tell(name, place, "begin", stage.session(name, place, size, task))
    # Who needs milliseconds for one does few of them, or the session would soon be much longer.
    first = {name: stage.do(name, place, action, 4)["seconds"] for name in names}
    counts = {name: 4 if first[name] > 0.005 else min(80, size // 10) for name in names}
    cells = {Cell(task, name, place, size): partial(stage.do, name, place, action, counts[name]) for name in names}
    yield from alternate(cells, scale.rounds, scale.seconds)
    for name in names:
        stage.tell(name, place, "end")


def _invocation(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Append 402 messages one by one to a new session; count for all of them."""
    for number in range(2 if scale.rounds > 10 else 1):
        for name in (OURS, STRANDS_S3, STRANDS_EACH):
            stage.tell(name, S3, "begin", f"invocation-{number}")
            figures = stage.do(name, S3, "append", INVOCATION)
            stage.tell(name, S3, "end")
            del figures["single"]
            total = {metric: value * INVOCATION for metric, value in figures.items()}
            yield {Cell(task, name, S3, INVOCATION): total}


def _system_calls(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # counts need no rounds
    if shutil.which("strace"):
        for name in (BARE, OURS, SQLITE, JSONL, OPENAI, STRANDS_FILES):
            yield {Cell(task, name, DISK, 100): stage.system_calls(name, TRACED)}


def _cold(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Start processes: one of each family at one length, some at all of them."""
    cells: dict[Cell, Callable[[], Figures]] = {}
    for size in scale.disk:
        everybody = [name for name in scale.cold if CONTESTANTS[name].disk]
        cells |= _starts(stage, task, everybody if size == 1_000 else (OURS, SQLITE), DISK, size)
    return alternate(cells, scale.rounds, scale.seconds)


def _cold_closely(stage: Stage, scale: Scale, task: str) -> Rounds:
    close = scale.closely()
    return alternate(_starts(stage, task, (OURS, DECODE, PYTHON), DISK, 1_000), close.rounds, close.seconds)


def _cold_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    names = [name for name in scale.cold if CONTESTANTS[name].s3]
    return alternate(_starts(stage, task, names, SLOW, 1_000), scale.rounds, scale.seconds / 2)


def _starts(stage: Stage, task: str, names: Iterable[str], place: str, size: int) -> dict[Cell, Callable[[], Figures]]:
    cells: dict[Cell, Callable[[], Figures]] = {}
    for name in names:
        start = partial(stage.cold, name, place, stage.session(name, place, size))
        start()  # the first one compiles
        cells[Cell(task, name, place, size)] = start
    return cells


def _list(stage: Stage, scale: Scale, task: str) -> Rounds:
    cells = {}
    for place in (DISK, SLOW):
        for name in stage.able("list", place, scale.listed):
            stage.worker(name).do(stage.where(name, place, LISTED), "write_many", scale.listed)
            do = partial(stage.do, name, place, "read", "list", ROWS, MOMENT, area=LISTED)
            cells[Cell(task, name, place, scale.listed)] = do
    return alternate(cells, scale.rounds, scale.seconds / 3)


def _long_lines(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Read long sessions; write to the shortest and the longest of some, and fork and copy them."""
    for size in scale.lines:
        with stage.room() as folder:
            ours, tables = long_sessions.prepared(folder, size, long_sessions.LINE)
            share = scale.seconds / len(scale.lines)
            yield from alternate(long_sessions.read_cells(task, ours, tables, size), scale.rounds, share)
            if size in scale.written:
                yield from alternate(long_sessions.write_cells(task, ours, size), scale.rounds, share)
                yield from long_sessions.whole(task, ours, size)


def _long_heads(stage: Stage, scale: Scale, task: str) -> Rounds:
    for size in scale.heads:
        with stage.room() as folder:
            ours, tables = long_sessions.prepared(folder, size, long_sessions.HEADS)
            cells = long_sessions.read_cells(task, ours, tables, size)
            yield from alternate(cells, scale.rounds, scale.seconds / len(scale.heads))


def _long_lists(stage: Stage, scale: Scale, task: str) -> Rounds:
    for size in scale.many:
        with stage.room() as folder:
            cells = many_sessions.cells(task, folder, size)
            yield from alternate(cells, scale.rounds, scale.seconds / len(scale.many))
            if size == scale.in_a_bucket:
                yield from many_sessions.in_a_bucket(task, folder / "template", size)


def _storage(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Write sessions of texts with a checkpoint at every turn and a window of 40; weigh what is on disk."""
    for size in scale.stored:
        text = [{"role": each["role"], "content": each["content"]} for each in workload.session(size, images=False)]
        yield _floors(task, text)
        for name in _storers(stage, size):
            yield {Cell(task, name, DISK, size): _weighed(stage, name, size)}


def _storage_real(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # there is one
    messages = workload.real_session()
    if messages is None:
        return
    yield _floors(task, messages)
    for name in _storers(stage, len(messages)):
        yield {Cell(task, name, DISK, len(messages)): _weighed(stage, name, -1)}


def _storers(stage: Stage, size: int) -> list[str]:
    names = stage.able("turn", DISK, size)
    return [name for name in names if size <= CONTESTANTS[name].history]


def _floors(task: str, messages: list[workload.Message]) -> Mapping[Cell, Figures]:
    """Compress the messages in one piece, and in frames of 1 MiB, which can be read one by one."""
    text = b"\n".join(map(msgspec.json.encode, messages))
    frames = [text[at : at + FRAME_BYTES] for at in range(0, len(text), FRAME_BYTES)]
    return {
        Cell(task, ZSTD, DISK, len(messages)): {"bytes": _compressed(text)},
        Cell(task, ZSTD_FRAMES, DISK, len(messages)): {"bytes": sum(map(_compressed, frames))},
    }


def _compressed(text: bytes) -> int:
    return len(zstandard.ZstdCompressor(level=3).compress(text))


def _weighed(stage: Stage, name: str, size: int) -> Figures:
    where = stage.where(name, DISK, f"storage-{size}", STORAGE_WINDOW)
    worker = stage.worker(name)
    worker.do(where, "write_text", "stored", size)
    if worker.do(where, "offers", "optimize"):
        worker.do(where, "call", "optimize", "stored")
    counts: Figures = worker.do(where, "call", "counts", "stored") if worker.do(where, "offers", "counts") else {}
    worker.do(where, "leave")
    sealed = weigh(Path(where.place), only=SEALED)
    return {"bytes": weigh(Path(where.place)), **({"sealed": sealed} if sealed else {}), **counts}


def _two_writers(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # counts need no rounds
    """Two processes open one session and append in turn; then what was acknowledged is looked for."""
    names = [name for name in stage.able("append", DISK, 10) if name != BARE]
    for name in [*names, SHARED]:
        where, first = stage.where(name, DISK, "two-writers", EVERYTHING), stage.worker(name)
        first.do(where, "write", "two-10", 10)
        with stage.start(name) as second:
            acknowledged = _taking_turns([first, second], where)
        method = "everything" if first.do(where, "offers", "everything") else "resume"
        kept, shown = (set(first.do(where, "call", each, "two-10")) & acknowledged for each in (method, "resume"))
        counts = {"acknowledged": len(acknowledged), "kept": len(kept), "in the context": len(shown)}
        yield {Cell(task, name, DISK, 2 * INSISTING): counts}


def _taking_turns(workers: list[Worker], where: Where) -> set[str]:
    """Let all append in turn, unless they are refused; return the texts of the messages that were acknowledged."""
    writing = [worker for worker in workers if worker.do(where, "may_begin", "two-10")]
    acknowledged: set[str] = set()
    for number in range(INSISTING):
        for at, worker in enumerate(writing):
            acknowledged.update(worker.do(where, "insist", f"{at} {number}"))
    for worker in writing:
        worker.do(where, "end")
    return acknowledged


def _import(stage: Stage, scale: Scale, task: str) -> Rounds:
    return alternate(import_cells(stage.folder, scale.imported, task, stage.environment), scale.rounds, scale.seconds)


def import_cells(
    folder: Path, size: int, task: str, environment: Mapping[str, str]
) -> dict[Cell, Callable[[], Figures]]:
    """Return what is measured with session files of so many megabytes."""
    cells: dict[Cell, Callable[[], Figures]] = {}
    for program in foreign.PROGRAMS:
        made = imports.actions(folder, program, size, environment)
        cells |= {Cell(task, f"{program}: {name}", DISK, size): do for name, do in made.items()}
    return cells


TASKS = {
    "append": Task("One durable message of 1,000 bytes after the other, as an agent records them.", _append),
    "append, closely": Task("The same beside the disk alone and beside SQLite, in many more rounds.", _append_closely),
    "turn": Task("A turn of two messages with a checkpoint.", _turn),
    "system calls": Task("What one append asks of the system, counted by strace.", _system_calls),
    "resume": Task("Open a session and have its last ten messages and its state, everything imported.", _resume_disk),
    "resume, closely": Task(
        "The same beside the files alone and SQLite, in many more rounds; also with a tail that is about to be sealed.",
        _resume_closely,
    ),
    "resume on S3": Task("The same from a bucket, with a client at hand.", _resume_s3),
    "new process": Task("Start Python, import what is needed, resume, end.", _cold),
    "new process, closely": Task("The same beside a process that does no more than it must.", _cold_closely),
    "new process on S3": Task("The same from a bucket.", _cold_s3),
    "last page": Task("Read the last 50 messages of the history.", _page),
    "skeleton": Task("Read who follows whom in the whole session, without payloads.", _skeleton),
    "switch": Task("Go to the other branch and have its context.", _switch),
    "travel": Task("Have the context of a turn chosen at random.", _travel),
    "list": Task("Show the first 20 sessions.", _list),
    "long sessions": Task(
        "Read, go to, erase, fork and copy in sessions of one line, in short messages; requests behind a resume.",
        _long_lines,
    ),
    "long sessions, 20 heads": Task("The same with 20 heads whose turns came in any order.", _long_heads),
    "long lists": Task("Pages of 20 where a thousand sessions were active on each day.", _long_lists),
    "turn on S3": Task("A turn of two messages with a checkpoint, in a bucket.", _turn_s3),
    "invocation on S3": Task("402 messages one by one, each durable before the next.", _invocation),
    "storage": Task("Bytes on disk with a checkpoint at every turn, whose model sees 40 messages.", _storage),
    "storage, real": Task("The same with the messages of a real session.", _storage_real),
    "import": Task("Import session files of so many megabytes, and what one does with them; whole processes.", _import),
    "two writers": Task("Two processes append 20 messages each to one session, in turn.", _two_writers),
}
