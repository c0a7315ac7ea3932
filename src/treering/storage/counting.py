"""A wrapper that counts requests and bytes, so that a budget of requests can be asserted."""

from __future__ import annotations

import threading
from collections import Counter

from treering.storage.requests import Answer, Append, Batch, Driver, Found, Put, Request
from treering.storage.wrapper import DriverWrapper


class CountingDriver(DriverWrapper):
    """Counts requests and their payload bytes.

    Args:
        inner: The driver that does the work.
        keep: Also keep every request, in the order sent.

    Attributes:
        counts: Requests by the name of their type, for example `{"Get": 2}`.
        batches: Batches sent, that is, the number of round trips.
        bytes_up: Payload bytes of all puts and appends.
        bytes_down: Payload bytes of all answers to gets.
        requests: Every request since the last reset, if `keep`.
    """

    def __init__(self, inner: Driver, *, keep: bool = False) -> None:
        super().__init__(inner)
        self._keep = keep
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        with self._lock:
            self.counts: Counter[str] = Counter()
            self.batches = 0
            self.bytes_up = 0
            self.bytes_down = 0
            self.requests: list[Request] = []

    @property
    def total(self) -> int:
        """All requests of every type."""
        return self.counts.total()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Count the batch and its answers; see `Driver.execute`."""
        self._count_requests(batch)
        return self._count_answers(self.inner.execute(batch))

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Count the batch and its answers; see `Driver.aexecute`."""
        self._count_requests(batch)
        return self._count_answers(await self.inner.aexecute(batch))

    def _count_requests(self, batch: Batch) -> None:
        with self._lock:
            self.batches += 1
            self.counts.update(type(request).__name__ for request in batch)
            self.bytes_up += sum(len(request.data) for request in batch if isinstance(request, Put | Append))
            if self._keep:
                self.requests += batch

    def _count_answers(self, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
        with self._lock:
            self.bytes_down += sum(len(answer.data) for answer in answers if isinstance(answer, Found))
        return answers
