"""What is measured. Each task says what is done and how; all contestants that can do it take turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import zstandard

from benchmarks import workload
from benchmarks.measure import Cell, Figures, alternate
from benchmarks.stage import DISK, MOMENT, S3, SLOW, Stage, weigh
from benchmarks.table import (
    BARE,
    CONTESTANTS,
    DECODE,
    FULL_TAIL,
    JSONL,
    OURS,
    PYTHON,
    SHARED,
    SQLITE,
    STRANDS_EACH,
    STRANDS_S3,
)
from benchmarks.worker import Worker

ZSTD = "zstd of the text"
STORAGE_WINDOW = 40
INVOCATION = 402
PAGE = 50
ROWS = 20
TRACED = 160
INSISTING = 20
EVERYTHING = 1_000


class Scale(NamedTuple):
    """How much is measured."""

    disk: tuple[int, ...]
    """Lengths of sessions on disk."""
    s3: tuple[int, ...]
    history: tuple[int, ...]
    """Lengths where pages, branches and old turns are looked for."""
    stored: tuple[int, ...]
    """Lengths of sessions that are weighed."""
    listed: int
    rounds: int
    seconds: float
    """How long the rounds of one task may take; see `alternate`."""


FULL = Scale(
    (10, 100, 1_000, 10_000, 100_000),
    (10, 100, 1_000, 10_000),
    (200, 1_000, 10_000),
    (100, 200, 500, 1_000),
    1_000,
    25,
    50,
)
QUICK = Scale((10, 100, 1_000, 10_000), (10, 100, 1_000), (200, 1_000), (100, 200, 1_000), 100, 9, 5)

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


def _resume_full_tail(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("resume", only=(OURS, FULL_TAIL))(stage, scale, task, {DISK: (1_000,)})


def _resume_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("resume")(stage, scale, task, {S3: scale.s3, SLOW: scale.s3})


def _page(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("page", PAGE)(stage, scale, task, {DISK: scale.history, SLOW: scale.history[-1:]})


def _switch(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("switch")(stage, scale, task, {DISK: scale.history})


def _travel(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("travel")(stage, scale, task, {DISK: scale.history, SLOW: scale.history[:1]})


def _skeleton(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _read("skeleton")(stage, scale, task, {DISK: scale.disk[2:]})


def _append(stage: Stage, scale: Scale, task: str, action: str = "append") -> Rounds:
    """Append at growing lengths, one after the other: a contestant holds one session open."""
    for size in scale.disk[1:4]:
        names = list(stage.able(action, DISK, size))
        for name in names:
            stage.worker(name, DISK).do("begin", stage.session(name, DISK, size, action))
        # Who needs a millisecond for one does few of them, or the session would soon be much longer.
        first = {name: stage.do(name, DISK, action, 4)["seconds"] for name in names}
        counts = {name: 80 if first[name] < 0.001 and size > 100 else 4 for name in names}
        cells = {Cell(task, name, DISK, size): partial(stage.do, name, DISK, action, counts[name]) for name in names}
        yield from alternate(cells, scale.rounds, scale.seconds / 3)
        for name in names:
            stage.worker(name, DISK).do("end")


def _turn(stage: Stage, scale: Scale, task: str) -> Rounds:
    return _append(stage, scale, task, "turn")


def _turn_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    size = scale.s3[2]
    names = list(stage.able("turn", S3, size))
    for name in names:
        stage.worker(name, S3).do("begin", stage.session(name, S3, size, "turn"))
    cells = {Cell(task, name, S3, size): partial(stage.do, name, S3, "turn", 10) for name in names}
    yield from alternate(cells, scale.rounds // 3, scale.seconds / 2)
    for name in names:
        stage.worker(name, S3).do("end")


def _invocation(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Append 402 messages one by one to a new session; count for all of them."""
    for number in range(2 if scale.rounds > 10 else 1):
        for name in (OURS, STRANDS_S3, STRANDS_EACH):
            stage.worker(name, S3).do("begin", f"invocation-{number}")
            figures = stage.do(name, S3, "append", INVOCATION)
            stage.worker(name, S3).do("end")
            total = {metric: value * INVOCATION for metric, value in figures.items()}
            yield {Cell(task, name, S3, INVOCATION): total}


def _system_calls(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # counts need no rounds
    if shutil.which("strace"):
        for name in (BARE, OURS, SQLITE, JSONL, "OpenAI SQLiteSession", "Strands FileSessionManager"):
            yield {Cell(task, name, DISK, 100): stage.system_calls(name, TRACED)}


def _cold(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Start processes: everybody at one length, some at all of them."""
    cells: dict[Cell, Callable[[], Figures]] = {}
    for size in (1_000, *scale.disk):
        names = [*stage.able("resume", DISK, size), PYTHON] if size == 1_000 else [OURS, SQLITE]
        for name in names:
            session = stage.session(name, DISK, size)
            cells[Cell(task, name, DISK, size)] = partial(stage.cold, name, DISK, session)
    return alternate(cells, scale.rounds, scale.seconds)


def _cold_close(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Compare two short processes only, in many rounds."""
    cells = {
        Cell(task, name, DISK, 1_000): partial(stage.cold, name, DISK, stage.session(name, DISK, 1_000))
        for name in (OURS, DECODE, PYTHON)
    }
    return alternate(cells, 3 * scale.rounds, scale.seconds / 2)


def _cold_s3(stage: Stage, scale: Scale, task: str) -> Rounds:
    names = list(stage.able("resume", SLOW, 1_000))
    cells = {
        Cell(task, name, SLOW, 1_000): partial(stage.cold, name, SLOW, stage.session(name, SLOW, 1_000))
        for name in names
    }
    return alternate(cells, scale.rounds // 3, scale.seconds / 2)


def _list(stage: Stage, scale: Scale, task: str) -> Rounds:
    cells = {}
    for place in (DISK, SLOW):
        for name in stage.able("list", place, scale.listed):
            area = stage.place(name, place, "listed")
            worker = stage.enter(stage.start(name, area))
            stage.proxy.latency = 0
            worker.do("write_many", scale.listed)
            cells[Cell(task, name, place, scale.listed)] = partial(
                stage.told, worker, place, "read", "list", ROWS, MOMENT
            )
    return alternate(cells, scale.rounds, scale.seconds / 3)


def _storage(stage: Stage, scale: Scale, task: str) -> Rounds:
    """Write sessions of texts with a checkpoint at every turn and a window of 40; weigh what is on disk."""
    for size in scale.stored:
        text = [{"role": each["role"], "content": each["content"]} for each in workload.session(size, images=False)]
        yield {Cell(task, ZSTD, DISK, size): {"bytes": _compressed(text)}}
        for name in _storers(stage, size):
            yield {Cell(task, name, DISK, size): _weighed(stage, name, size)}


def _storage_real(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # there is one
    messages = workload.real_session()
    if messages is None:
        return
    yield {Cell(task, ZSTD, DISK, len(messages)): {"bytes": _compressed(messages)}}
    for name in _storers(stage, len(messages)):
        yield {Cell(task, name, DISK, len(messages)): _weighed(stage, name, -1)}


def _storers(stage: Stage, size: int) -> list[str]:
    names = stage.able("turn", DISK, size)
    return [name for name in names if size <= CONTESTANTS[name].history]


def _compressed(messages: list[workload.Message]) -> int:
    import msgspec

    return len(zstandard.ZstdCompressor(level=3).compress(b"\n".join(map(msgspec.json.encode, messages))))


def _weighed(stage: Stage, name: str, size: int) -> Figures:
    place = stage.place(name, DISK, f"storage-{size}")
    with stage.start(name, place, window=STORAGE_WINDOW) as worker:
        worker.do("write_text", "stored", size)
        if worker.do("offers", "tidy"):
            worker.do("call", "tidy", "stored")
    return {"bytes": weigh(Path(place)), "bytes_aside": weigh(Path(place), without="latest")}


def _two_writers(stage: Stage, scale: Scale, task: str) -> Rounds:  # noqa: ARG001  # counts need no rounds
    """Two processes open one session and append in turn; a third one looks for what was acknowledged."""
    names = [name for name in stage.able("append", DISK, 10) if name != BARE]
    for name in [*names, SHARED]:
        place = stage.place(name, DISK, "two-writers")
        with ExitStack() as stack:
            first, second, third = (stack.enter_context(stage.start(name, place, window=EVERYTHING)) for _ in range(3))
            first.do("write", "two-10", 10)
            acknowledged = _taking_turns(first, second)
            found = set(third.do("call", "resume", "two-10"))
        kept = len(found & acknowledged)
        counts = {"acknowledged": len(acknowledged), "in the context": kept}
        yield {Cell(task, name, DISK, 2 * INSISTING): counts}


def _taking_turns(first: Worker, second: Worker) -> set[str]:
    """Let two append in turn; return the texts of the messages that were acknowledged."""
    writing = [worker for worker in (first, second) if worker.do("may_begin", "two-10")]
    acknowledged: set[str] = set()
    for number in range(INSISTING):
        for worker in writing:
            acknowledged.update(worker.do("insist", f"{writing.index(worker)} {number}"))
    for worker in writing:
        worker.do("end")
    return acknowledged


TASKS = {
    "append": Task("One durable message of 1,000 bytes after the other, as an agent records them.", _append),
    "turn": Task("A turn of two messages with a checkpoint.", _turn),
    "system calls": Task("What one append asks of the system, counted by strace.", _system_calls),
    "resume": Task("Open a session and have its last ten messages and its state, everything imported.", _resume_disk),
    "resume, full tail": Task("The same with a tail that is about to be sealed.", _resume_full_tail),
    "resume on S3": Task("The same from a bucket, with a client at hand.", _resume_s3),
    "new process": Task("Start Python, import what is needed, resume, end.", _cold),
    "new process, floor": Task("The same beside a process that does no more than it must.", _cold_close),
    "new process on S3": Task("The same from a bucket.", _cold_s3),
    "last page": Task("Read the last 50 messages of the history.", _page),
    "skeleton": Task("Read who follows whom in the whole session, without payloads.", _skeleton),
    "switch": Task("Go to the other branch and have its context.", _switch),
    "travel": Task("Have the context of a turn chosen at random.", _travel),
    "list": Task("Show the first 20 sessions.", _list),
    "turn on S3": Task("A turn of two messages with a checkpoint, in a bucket.", _turn_s3),
    "invocation on S3": Task("402 messages one by one, each durable before the next.", _invocation),
    "storage": Task("Bytes on disk with a checkpoint at every turn, whose model sees 40 messages.", _storage),
    "storage, real": Task("The same with the messages of a real session.", _storage_real),
    "two writers": Task("Two processes append 20 messages each to one session, in turn.", _two_writers),
}
