"""A wrapper that re-sends requests which a store did not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import tenacity

from treering.errors import PoisonedError, UnavailableError
from treering.storage.requests import Answer, Batch, Driver
from treering.storage.wrapper import DriverWrapper

ATTEMPTS_MAX = 5
# No attempt begins later than this after the first, so with the last one a caller waits for about 30 seconds at worst.
SECONDS_MAX = 20.0

_WAIT_SECONDS_FIRST = 0.1
_WAIT_SECONDS_MAX = 5.0
_JITTER_SECONDS = 0.1  # so that writers that failed at the same time do not retry at the same time


class RetryingDriver(DriverWrapper):
    """Re-sends requests that were answered with `UnavailableError`, each on its own, waiting longer every time.

    A write that took effect but whose reply was lost is re-sent like any other; if it has a condition, the answer is
    then `ConflictError`. Only the writer can recognise the object's bytes as its own, by a nonce in them.

    Args:
        inner: The driver that does the work.
        attempts_max: The most times that one request is sent.
        seconds_max: After this time no request is re-sent.
        sleep: How to wait when blocking.
        asleep: How to wait on an event loop.
        clock: Returns seconds, from any beginning.
    """

    def __init__(
        self,
        inner: Driver,
        *,
        attempts_max: int = ATTEMPTS_MAX,
        seconds_max: float = SECONDS_MAX,
        sleep: Callable[[float], None] = time.sleep,
        asleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        self._attempts_max = attempts_max
        self._seconds_max = seconds_max
        self._sleep = sleep
        self._asleep = asleep
        self._clock = clock

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and re-send requests without an answer."""
        sent = _Sent(batch)

        def send() -> bool:
            return sent.take(self.inner.execute(sent.open))

        tenacity.Retrying(
            sleep=self._sleep, stop=self._stop(), wait=_WAIT, retry=_UNANSWERED, retry_error_callback=_give_up
        )(send)
        return tuple(sent.answers)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and re-send requests without an answer, without blocking the event loop."""
        sent = _Sent(batch)

        async def send() -> bool:
            return sent.take(await self.inner.aexecute(sent.open))

        await tenacity.AsyncRetrying(
            sleep=self._asleep, stop=self._stop(), wait=_WAIT, retry=_UNANSWERED, retry_error_callback=_give_up
        )(send)
        return tuple(sent.answers)

    def _stop(self) -> Callable[[tenacity.RetryCallState], bool]:
        """When to give up; tenacity's own clock cannot be set, and ignores the wait before the next attempt."""
        latest = self._clock() + self._seconds_max

        def is_over(state: tenacity.RetryCallState) -> bool:
            next_at = self._clock() + _BACKOFF(state) + _JITTER_SECONDS
            return state.attempt_number >= self._attempts_max or next_at > latest

        return is_over


class _Sent:
    """A batch that is being sent: the answers so far, and the requests that are still open."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._places = list(range(len(batch)))
        self.answers: list[Answer] = [UnavailableError("not sent yet")] * len(batch)

    @property
    def open(self) -> Batch:
        """The requests to send next."""
        return tuple(self._batch[place] for place in self._places)

    def take(self, answers: tuple[Answer, ...]) -> bool:
        """Note the answers to `open`; return whether some are worth another attempt."""
        for place, answer in zip(self._places, answers, strict=True):
            self.answers[place] = answer
        self._places = [place for place in self._places if _is_open(self.answers[place])]
        return bool(self._places)


def _is_open(answer: Answer) -> bool:
    return isinstance(answer, UnavailableError) and not isinstance(answer, PoisonedError)


def _give_up(_: tenacity.RetryCallState) -> bool:
    return True  # the answers already contain the errors


_BACKOFF = tenacity.wait_exponential(multiplier=_WAIT_SECONDS_FIRST, max=_WAIT_SECONDS_MAX)
_WAIT = _BACKOFF + tenacity.wait_random(0, _JITTER_SECONDS)
_UNANSWERED = tenacity.retry_if_result(bool)
