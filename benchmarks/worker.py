"""A process for one contestant: nothing that another one imports, caches or allocates can slow it.

It is told what to do by lines of JSON, `[where, action, arguments]`, and answers with one each. Where is a place and a
window: for each it makes one contestant, and keeps it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from benchmarks import workload
from benchmarks.table import CONTESTANTS

REPEATS_MAX = 50
MOMENT = 0.03  # seconds that a quick action is repeated in a round
APPEND_BYTES = 1_000
MARK = "/between-marks"

Figures = dict[str, float]


class Where(NamedTuple):
    """Which of its sessions a contestant is to use."""

    place: str
    """A folder, or the URL of one in a bucket."""
    window: int = workload.WINDOW
    """How many messages its model sees."""


class Worker:
    """The parent's end of a process for one contestant."""

    def __init__(self, name: str, *, environment: Mapping[str, str], before: Sequence[str] = ()) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*before, sys.executable, "-W", "ignore", "-m", "benchmarks.worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def do(self, where: Where, action: str, *arguments: object) -> Any:
        """Let it do something somewhere and wait for the answer.

        Raises:
            RuntimeError: It failed; what it said is on our own standard error.
        """
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([where, action, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a contestant failed. name={self.name!r}, action={action!r}, arguments={arguments!r}")
        return json.loads(answer)


class Actions:
    """What a worker does when it is told to."""

    def __init__(self, contestant: Any) -> None:
        self.contestant = contestant
        self._texts = workload.even_texts(200, APPEND_BYTES)
        self._step = 0

    def offers(self, method: str) -> bool:
        """Whether the contestant has a method."""
        return hasattr(self.contestant, method)

    def write(self, session: str, count: int, *, images: bool = True) -> None:
        """Store a session; one of -1 messages is the real one."""
        real = workload.real_session() if count < 0 else None
        self.contestant.write(session, real or list(workload.session(count, images=images)))

    def write_text(self, session: str, count: int) -> None:
        """Store a session without images."""
        self.write(session, count, images=False)

    def write_many(self, count: int) -> None:
        """Store sessions of two messages."""
        for number in range(count):
            self.contestant.write(f"short-{number}", workload.closing()[:2])

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method gives."""
        return getattr(self.contestant, method)(*arguments)

    def read(self, method: str, *arguments: Any) -> Figures:
        """Call a reading method with a session and perhaps more; the last argument is how long to go on."""
        *given, seconds = arguments
        return timed(lambda: getattr(self.contestant, method)(*given), seconds)

    def travel(self, session: str, count: int, seconds: float) -> Figures:
        """Go to random turns of a session of `count` messages."""
        steps = random.Random(len(session))
        return timed(lambda: self.contestant.travel(session, steps.randrange(count // 2)), seconds)

    def begin(self, session: str) -> None:
        """Open a session to write to it."""
        self.contestant.begin(session)

    def may_begin(self, session: str) -> bool:
        """Open a session to write to it, unless that is refused."""
        try:
            self.contestant.begin(session)
        except Exception:  # noqa: BLE001  # each has its own
            return False
        return True

    def insist(self, text: str) -> list[str]:
        """Append a message; return its text if it was acknowledged."""
        try:
            self.contestant.append(text)
        except Exception:  # noqa: BLE001  # each has its own
            return []
        return [text]

    def append(self, count: int) -> Figures:
        """Append durable messages one by one."""
        texts = [self._texts[number % len(self._texts)] for number in range(count)]
        return _each(self.contestant.append, [(text,) for text in texts])

    def turn(self, count: int) -> Figures:
        """End turns of two messages, each with a checkpoint."""
        begun, self._step = self._step, self._step + count
        pairs = [(self._texts[at % 199 : at % 199 + 2], at) for at in range(begun, begun + count)]
        return _each(self.contestant.turn, pairs)

    def end(self) -> None:
        """Close the session that is written to."""
        self.contestant.end()

    def leave(self) -> None:
        """Give up the contestant and what it holds open; nothing can be asked for here any more."""
        del self.contestant
        gc.collect()


def timed(action: Callable[[], object], seconds: float) -> Figures:
    """Repeat an action until `seconds` have passed; return what one took, and how many there were."""
    times: list[float] = []
    gc.collect()
    processor = time.process_time()
    while not times or (sum(times) < seconds and len(times) < REPEATS_MAX):
        before = time.perf_counter()
        action()
        times.append(time.perf_counter() - before)
    processor = (time.process_time() - processor) / len(times)
    return {"seconds": statistics.median(times), "cpu": processor, "repeats": len(times)}


def once(action: Callable[[], object]) -> Figures:
    """Repeat an action for a moment, in this process; return what one took."""
    figures = timed(action, MOMENT)
    del figures["repeats"]
    return figures


def _each(action: Callable[..., object], calls: list[tuple[Any, ...]]) -> Figures:
    """Make calls; return the mean of all, since what is done only now and then belongs to the price.

    What others left to be written is written first: file systems may sync it along with what comes next.
    """
    os.sync()
    times: list[float] = []
    written, processor = _device_bytes(), time.process_time()
    os.access(MARK, os.F_OK)  # seen by strace
    for arguments in calls:
        before = time.perf_counter()
        action(*arguments)
        times.append(time.perf_counter() - before)
    os.access(MARK, os.F_OK)
    processor, written, count = time.process_time() - processor, _device_bytes() - written, len(calls)
    figures = {"seconds": statistics.mean(times), "single": statistics.median(times), "cpu": processor / count}
    return {**figures, "device_bytes": written / count, "repeats": count}


def _device_bytes() -> int:
    """Return the bytes this process has sent towards its disks; 0 where the system does not say."""
    file = Path("/proc/self/io")
    if not file.exists():
        return 0
    return int(dict(line.split(": ") for line in file.read_text().splitlines())["write_bytes"])


def main() -> None:
    """Do what the lines on standard input say, one after the other."""
    (name,) = sys.argv[1:]
    at: dict[Where, Actions] = {}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        where, action, arguments = json.loads(line)
        if (there := Where(*where)) not in at:
            at[there] = Actions(CONTESTANTS[name].start(*there))
        answers.write(json.dumps(getattr(at[there], action)(*arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
