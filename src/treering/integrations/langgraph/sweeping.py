"""A thread that deletes expired items periodically."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("treering.langgraph")
log.addHandler(logging.NullHandler())  # no output unless the program configures this logger


class Sweeper:
    """Calls a function periodically, until it is stopped.

    Args:
        sweep: The function, called in the thread. An exception that it raises is logged, and the calls go on.
    """

    def __init__(self, sweep: Callable[[], object]) -> None:
        self._sweep = sweep
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def start(self, seconds: float) -> None:
        """Start the thread, unless it runs already. The thread does not keep the process from ending.

        Args:
            seconds: The time between two calls.
        """
        with self._mutex:
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                run = threading.Thread(
                    target=self._run, args=(seconds, self._stopped), daemon=True, name="treering-langgraph-sweeper"
                )
                self._thread = run
                run.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Stop after the running call; False if that call takes longer than `timeout` seconds."""
        with self._mutex:
            thread, self._thread = self._thread, None
            self._stopped.set()
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, seconds: float, stopped: threading.Event) -> None:
        while not stopped.wait(seconds):
            try:
                self._sweep()
            except Exception:
                log.warning("expired items could not be deleted", exc_info=True)
