"""Where contestants perform: a folder, a bucket behind the proxy, and a process for each of them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Self

from benchmarks.proxy import Proxy
from benchmarks.server import BUCKET, environment, seaweedfs
from benchmarks.table import CONTESTANTS
from benchmarks.worker import MARK, Where, Worker
from benchmarks.workload import WINDOW

DISK, S3, SLOW = "disk", "S3", "S3 +25 ms"
LATENCY = {DISK: 0.0, S3: 0.0, SLOW: 0.025}


class Stage:
    """Prepares sessions once, and has contestants do things with them.

    Args:
        folder: On the disk that is meant.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = contextlib.ExitStack()
        self._workers: dict[str, Worker] = {}
        self._prepared: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        port = self._stack.enter_context(seaweedfs(self.folder / "seaweedfs"))
        self.proxy = self._stack.enter_context(Proxy("127.0.0.1", port))
        # Whoever forbids Python to keep what it compiled would have it measured in every new process.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment = inherited | environment(self.proxy.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def where(self, name: str, place: str, area: str = "sessions", window: int = WINDOW) -> Where:
        """Return where a contestant keeps its sessions."""
        own = _plain(CONTESTANTS[name].beside or name)
        if place == DISK:
            folder = self.folder / area / own
            folder.mkdir(parents=True, exist_ok=True)
            return Where(str(folder), window)
        return Where(f"s3://{BUCKET}/{area}/{own}", window)

    @contextlib.contextmanager
    def room(self) -> Iterator[Path]:
        """Give a folder on the disk that is meant, and remove it at the end."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder)

    def worker(self, name: str) -> Worker:
        """Return the process of a contestant."""
        if name not in self._workers:
            self._workers[name] = self._stack.enter_context(self.start(name))
        return self._workers[name]

    def start(self, name: str, before: tuple[str, ...] = ()) -> Worker:
        """Start another process for a contestant, to be entered and left as a context."""
        return Worker(name, environment=self.environment, before=before)

    def tell(self, name: str, place: str, action: str, *arguments: object) -> Any:
        """Let a contestant do something that is not measured."""
        self.proxy.latency = 0
        return self.worker(name).do(self.where(name, place), action, *arguments)

    def able(self, method: str, place: str, size: int, only: Collection[str] = ()) -> Iterator[str]:
        """Yield the contestants that can do something at a place with a session of that size."""
        for name, entry in CONTESTANTS.items():
            here = entry.disk if place == DISK else entry.s3
            chosen = name in only if only else not entry.special
            most = entry.history if method == "travel" else entry.largest
            if here and chosen and size <= most and self.tell(name, place, "offers", method):
                yield name

    def session(self, name: str, place: str, size: int, purpose: str = "read") -> str:
        """Return a session of that size, which is prepared when it is asked for first."""
        entry, session = CONTESTANTS[name], f"{_plain(purpose)}-{size}"
        if entry.beside:
            self.session(entry.beside, place, size, purpose)
        key = (self.where(name, place).place, session)
        if not entry.beside and key not in self._prepared:
            self.tell(name, place, "write", session, size)
            self._prepared.add(key)
        return session

    def do(self, name: str, place: str, action: str, *arguments: object, area: str = "sessions") -> dict[str, float]:
        """Let a contestant do something; add what it sent and received, for one repetition."""
        where = self.where(name, place, area)
        self.proxy.latency = LATENCY[place]
        self.proxy.reset()
        figures: dict[str, float] = self.worker(name).do(where, action, *arguments)
        repeats = figures.pop("repeats")
        if place != DISK:
            figures |= {what: count / repeats for what, count in self.proxy.wire._asdict().items()}
        return figures

    def cold(self, name: str, place: str, session: str) -> dict[str, float]:
        """Let a new process resume a session; from its start to its end."""
        entry = CONTESTANTS[name]
        code = "from benchmarks.cold import main; main()"
        arguments = [entry.module, entry.kind, *map(str, self.where(name, place)), session]
        self.proxy.latency = LATENCY[place]
        self.proxy.reset()
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, *arguments], stdout=subprocess.PIPE, env=self.environment
        )
        assert process.stdout
        memory = float(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            raise RuntimeError(f"a contestant failed. name={name!r}, session={session!r}")
        figures = {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "memory": memory}
        return figures | (self.proxy.wire._asdict() if place != DISK else {})

    def system_calls(self, name: str, count: int) -> dict[str, float]:
        """Let a contestant append messages under strace; return the calls that one took."""
        trace, where = self.folder / "strace", self.where(name, DISK, "traced")
        with self.start(name, ("strace", "-f", "-qq", "-o", str(trace))) as worker:
            worker.do(where, "write", "traced-100", 100)
            worker.do(where, "begin", "traced-100")
            worker.do(where, "append", 2)
            worker.do(where, "append", count)
            worker.do(where, "end")
        lines = trace.read_text(errors="replace").splitlines()
        first, last = [at for at, line in enumerate(lines) if MARK in line][-2:]
        begun = [line.split(maxsplit=1)[1] for line in lines[first + 1 : last] if "resumed>" not in line]
        calls = [line.partition("(")[0] for line in begun]
        syncs = sum(call in ("fsync", "fdatasync") for call in calls)
        return {"calls": len(calls) / count, "syncs": syncs / count}


def _plain(name: str) -> str:
    """Return a name as all contestants take it: some of them know letters, digits and dashes only."""
    return re.sub(r"\W+", "-", name)


def weigh(folder: Path, *, only: Collection[str] = ()) -> int:
    """Return the bytes of all files below a folder; of those in folders of some names, if any are given."""
    sizes = 0
    for parent, _, files in os.walk(folder):
        if not only or os.path.basename(parent) in only:
            sizes += sum(os.path.getsize(os.path.join(parent, name)) for name in files)
    return sizes
