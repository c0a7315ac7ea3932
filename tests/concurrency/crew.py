"""Many processes, each with many threads, that set to work on one session at the same instant.

`python -m tests.concurrency.crew JSON` forks them: importing everything once costs less than thirty-two times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from tests.concurrency.history import Call
from tests.concurrency.worker import SESSION, Task, Worker, read_calls
from tests.storage.processes import die_with_parent

import treering
from treering.api.session import Session
from treering.api.store import Store

ROOT = Path(__file__).parents[2]


class Crew(msgspec.Struct, frozen=True, kw_only=True):
    """Who works on what."""

    url: str
    storage_options: dict[str, Any] = {}
    folder: str
    """Where the calls are logged."""
    processes: int
    threads: int = 1
    one_handle: bool = False
    """The threads of a process share a handle; else each has its own."""
    shared: bool
    appends: int
    """Of each thread."""
    upkeep: float = 0.1
    until: str | None = None
    """They go on until this file is there, too."""
    race: bool = False
    """All open the session first, then append once, together, and leave."""

    def open(self) -> Store:
        """Open the store, as another process would."""
        return treering.open(self.url, storage_options=self.storage_options or None)


def set_to_work(crew: Crew) -> subprocess.Popen[bytes]:
    """Start a crew in processes of its own."""
    folder = Path(crew.folder)
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.concurrency.crew", msgspec.json.encode(crew).decode()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    with (folder / "errors").open("wb") as errors:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stderr=errors,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # one call of the system, which takes no locks
        )


def wait_for(process: subprocess.Popen[bytes], crew: Crew) -> list[Call]:
    """Wait until all have done their work, and return what they were told."""
    assert process.wait() == 0, (Path(crew.folder) / "errors").read_text()
    return read_calls(Path(crew.folder))


def work(crew: Crew) -> list[Call]:
    """Have a crew work and return what each was told."""
    return wait_for(set_to_work(crew), crew)


def _begin(crew: Crew, process: int, ready: Callable[[], None]) -> None:
    """What one process does."""
    store = crew.open()
    given = store.session(SESSION, shared=crew.shared) if crew.one_handle else None
    failed: list[str] = []

    def run(worker: Worker) -> None:
        try:
            if crew.race:
                worker.append_once()
            else:
                worker.run()
        except BaseException:
            failed.append(traceback.format_exc())
            raise

    workers = [_worker(crew, store, process, thread, given) for thread in range(crew.threads)]
    if crew.race:
        for worker in workers:
            worker.open()
    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    ready()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if given is not None:
        given.close()
    store.close()
    if failed:
        raise AssertionError("".join(failed))


def _worker(crew: Crew, store: Store, process: int, thread: int, given: Session | None) -> Worker:
    name = f"{process:02}-{thread:02}"
    until = Path(crew.until) if crew.until else None
    task = Task(name, crew.appends, crew.shared, process * 1000 + thread, crew.upkeep, until)
    return Worker(store, task, Path(crew.folder), given)


def main() -> None:
    """Fork the processes, let them go together, and fail if one of them failed."""
    crew = msgspec.json.decode(sys.argv[1], type=Crew)
    if crew.url.startswith("s3:"):
        import s3fs  # noqa: F401  # once, before the forks
    said, say = os.pipe()
    go, hold = os.pipe()
    children = []
    for number in range(crew.processes):
        if child := os.fork():
            children.append(child)
            continue
        os.close(hold)
        _live(crew, number, say, go)
    for _ in children:
        os.read(said, 1)
    os.close(hold)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(f"how the processes ended: {statuses}" if any(statuses) else 0)


def _live(crew: Crew, number: int, say: int, go: int) -> NoReturn:
    """Be one of the processes, and leave nothing of the parent's to be done at the end."""
    status = 1
    try:
        die_with_parent()
        _begin(crew, number, lambda: _wait(say, go))
        status = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os.write(say, b".")  # nobody waits for one that failed
        os._exit(status)


def _wait(say: int, go: int) -> None:
    """Say that this process is ready, and wait until all are."""
    os.write(say, b".")
    os.read(go, 1)


if __name__ == "__main__":
    main()
