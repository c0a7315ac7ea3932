"""Drive a protocol against a store, blocking or not: the only place where the two differ."""

from __future__ import annotations

from typing import TypeVar

from treering.errors import TreeringError
from treering.storage.requests import Answer, Driver, Entry, List, Listed, Request, Steps

T = TypeVar("T")
A = TypeVar("A", bound=Answer)


def run(steps: Steps[T], driver: Driver) -> T:
    """Run a protocol to its end, blocking, and return what it returns."""
    try:
        batch = next(steps)
        while True:
            try:
                answers = driver.execute(batch)
            except BaseException as error:  # noqa: BLE001  # the caller gave up: the protocol must know before it ends
                batch = steps.throw(error)
            else:
                batch = steps.send(answers)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]
    finally:
        steps.close()  # interrupted right here, it would else clean up whenever nobody refers to it any more


async def arun(steps: Steps[T], driver: Driver) -> T:
    """Run a protocol to its end without blocking the event loop, and return what it returns."""
    try:
        batch = next(steps)
        while True:
            try:
                answers = await driver.aexecute(batch)
            except BaseException as error:  # noqa: BLE001  # the caller gave up: the protocol must know before it ends
                batch = steps.throw(error)
            else:
                batch = steps.send(answers)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typed by Steps[T]
    finally:
        steps.close()  # interrupted right here, it would else clean up whenever nobody refers to it any more


def ask(request: Request, expected: type[A]) -> Steps[A]:
    """Send one request; return its answer.

    Raises:
        TreeringError: The answer is an error.
    """
    (answer,) = yield (request,)
    return checked(answer, expected)


def list_all(prefix: str) -> Steps[list[Entry]]:
    """List everything below a prefix, in the order that the store lists it; one LIST for each page.

    Raises:
        TreeringError: An answer is an error.
    """
    found: list[Entry] = []
    more = True
    while more:
        listed = yield from ask(List(prefix, after=found[-1].key if found else ""), Listed)
        found += listed.entries
        more = listed.more
    return found


def checked(answer: Answer, expected: type[A]) -> A:
    """Return `answer` if it is of the expected kind, and raise it if it is an error."""
    if isinstance(answer, expected):
        return answer
    if isinstance(answer, TreeringError):
        raise answer
    raise TypeError(f"driver answered {type(answer).__name__} where {expected.__name__} was expected")
