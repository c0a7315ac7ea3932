"""Run a protocol against a store, blocking or asynchronously: the only code that differs between the two."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from treering import storage
from treering.errors import ConflictError, NotFoundError, TreeringError
from treering.storage.requests import (
    DELETE_KEYS_MAX,
    LIST_KEYS_MAX,
    Answer,
    Delete,
    Deleted,
    Driver,
    Entry,
    Found,
    List,
    Listed,
    Put,
    Request,
    Steps,
)

if TYPE_CHECKING:
    from treering.storage.effects import Call, Effect, Job, On, Perform, Tell, Wait

# The work of a job between two requests, such as decoding a segment, blocks the event loop. A job that moved few bytes
# does little work. The steps of a job that moved this many bytes run in a thread; the loop then waits for the
# interpreter's lock for at most 5 ms at a time. Handing over a step costs some 0.1 ms, as much as decoding about 4 KiB
# of compressed records.
ASIDE_BYTES = 64 * 1024

_LISTS_AT_ONCE = 64  # S3 clients keep about as many connections
_DISK_KEYS = 50
_LAST = "~"  # behind every character of a key, also where keys are sorted folder by folder

T = TypeVar("T")
A = TypeVar("A", bound=Answer)
B = TypeVar("B", bound=Answer)


def run(job: Job[T], driver: Driver) -> T:
    """Run a protocol to its end, blocking, and return its result."""
    refusals = None
    try:
        effect = next(job)
        while True:
            try:
                answer = driver.execute(effect) if isinstance(effect, tuple) else _carry_out(effect, driver)
                if isinstance(effect, tuple) and (refusals is not None or ConflictError in map(type, answer)):
                    refusals = refusals or storage.refusals.Refusals()
                    refusals.note(effect, answer)
            except BaseException as error:  # noqa: BLE001  # the caller gave up: the protocol must know before it ends
                effect = job.throw(error)
            else:
                effect = job.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typed by Job[T]
    except TreeringError:
        raise
    except BaseException:
        job.close()  # else, after an interrupt, it would clean up only when it is garbage-collected
        raise


async def arun(job: Job[T], driver: Driver, *, aside: bool = True) -> T:
    """Run a protocol to its end without blocking the event loop, and return its result.

    Args:
        job: The protocol.
        driver: The store.
        aside: Run the steps of a job that moves many bytes in a thread, one at a time. No other code may use the data
            that the job changes before it ends.
    """
    bytes_moved = 0
    refusals = None
    try:
        effect = next(job)
        while True:
            try:
                serving = driver.aexecute(effect) if isinstance(effect, tuple) else _acarry_out(effect, driver)
                answer = await serving
                if isinstance(effect, tuple) and (refusals is not None or ConflictError in map(type, answer)):
                    refusals = refusals or storage.refusals.Refusals()
                    refusals.note(effect, answer)
                if aside and bytes_moved < ASIDE_BYTES:
                    bytes_moved += _bytes_in(effect, answer)
                step = await _step_aside(job, answer) if bytes_moved >= ASIDE_BYTES else None
            except BaseException as error:  # noqa: BLE001  # the caller gave up: the protocol must know before it ends
                effect = job.throw(error)
                continue
            if step is None:
                effect = job.send(answer)
            elif isinstance(step, _Ended):
                return step.result  # type: ignore[no-any-return]  # typed by Job[T]
            else:
                effect = step
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typed by Job[T]
    except TreeringError:
        raise
    except BaseException:
        job.close()  # else, after an interrupt, it would clean up only when it is garbage-collected
        raise


def _carry_out(effect: On | Call | Perform | Tell | Wait, driver: Driver) -> Any:
    if isinstance(effect, storage.effects.On):
        return effect.driver.execute(effect.batch)
    if isinstance(effect, storage.effects.Tell):
        effect.function()
        return None
    if isinstance(effect, storage.effects.Wait):
        time.sleep(effect.seconds)
        return None
    return effect.function(driver) if isinstance(effect, storage.effects.Call) else effect.method()


async def _acarry_out(effect: On | Call | Perform | Tell | Wait, driver: Driver) -> Any:
    if isinstance(effect, storage.effects.On):
        return await effect.driver.aexecute(effect.batch)
    if isinstance(effect, storage.effects.Tell):
        effect.function()
        return None
    if isinstance(effect, storage.effects.Wait):
        import asyncio  # for asynchronous code alone

        await asyncio.sleep(effect.seconds)
        return None
    if isinstance(effect, storage.effects.Call):
        from treering.storage.threads import in_thread  # for asynchronous code alone

        return await in_thread(effect.function, driver)
    return await effect.method()


class _Ended(msgspec.Struct, frozen=True):
    """The protocol has returned."""

    result: Any


async def _step_aside(job: Job[Any], answer: Any) -> Effect | _Ended:
    """Continue a protocol in a thread, up to its next effect."""
    from treering.storage.threads import in_thread  # for asynchronous code alone

    def step(answer: Any) -> Effect | _Ended:
        try:
            return job.send(answer)
        except StopIteration as stop:  # a future cannot hold it
            return _Ended(stop.value)

    return await in_thread(step, answer)


def _bytes_in(effect: Effect, answer: Any) -> int:
    """The bytes that a batch moved, in both directions. For a function they are not known, so it counts as much."""
    if isinstance(effect, storage.effects.Call):
        return ASIDE_BYTES
    batch = effect.batch if isinstance(effect, storage.effects.On) else effect
    if not isinstance(batch, tuple):
        return 0
    down = sum([len(each.data) for each in answer if isinstance(each, Found)])
    return down + sum([len(each.data) for each in batch if isinstance(each, Put)])


def ask(request: Request, expected: type[A]) -> Steps[A]:
    """Send one request, and return its answer.

    Raises:
        TreeringError: The answer is an error.
    """
    (answer,) = yield (request,)
    return checked(answer, expected)


def list_all(prefix: str) -> Steps[list[Entry]]:
    """List all objects below a prefix, in the store's order: one LIST for each page.

    Raises:
        TreeringError: An answer is an error.
    """
    (found,) = yield from list_each([prefix])
    return found


def list_each(prefixes: Sequence[str]) -> Steps[list[list[Entry]]]:
    """Like `list_all`, below several prefixes at once."""
    return (yield from list_beginning([(prefix, "") for prefix in prefixes]))


def list_beginning(folders: Sequence[tuple[str, str]]) -> Steps[list[list[Entry]]]:
    """Like `list_each`, but only the names in each folder that have a given beginning.

    Args:
        folders: Folders, each with the beginning of the wanted names in it.
    """
    found: dict[tuple[str, str], list[Entry]] = {each: [] for each in folders}
    asked = [(folder, begins, _before(folder, begins)) for folder, begins in found]
    while asked:
        now, asked = asked[:_LISTS_AT_ONCE], asked[_LISTS_AT_ONCE:]
        answers = yield tuple(List(folder, after=after) for folder, _, after in now)
        for (folder, begins, _), answer in zip(now, answers, strict=True):
            listed = checked(answer, Listed)
            wanted = [entry for entry in listed.entries if entry.key.startswith(folder + begins)]
            found[folder, begins] += wanted
            if listed.more and len(wanted) == len(listed.entries):
                asked.append((folder, begins, wanted[-1].key))
    return list(found.values())


def _before(folder: str, begins: str) -> str:
    """Return a text that sorts just before the first key with this beginning, of keys that contain no `~`."""
    return f"{folder}{begins[:-1]}{chr(ord(begins[-1]) - 1)}~" if begins else ""


def list_folders(prefixes: Sequence[str], *, on_disk: bool) -> Steps[list[list[str]]]:
    """Name the non-empty folders directly below each prefix, in the order of the store.

    Each LIST skips the rest of the folder in which the previous one ended, so there are at most as many LISTs in a row
    as folders below a prefix. On a disk, many keys cost more than many LISTs.

    Raises:
        TreeringError: An answer is an error.
    """
    limit = _DISK_KEYS if on_disk else LIST_KEYS_MAX
    found: dict[str, dict[str, None]] = {prefix: {} for prefix in prefixes}
    asked = [(prefix, "") for prefix in prefixes]
    while asked:
        now, asked = asked[:_LISTS_AT_ONCE], asked[_LISTS_AT_ONCE:]
        answers = yield tuple(List(prefix, after=after, limit=limit) for prefix, after in now)
        for (prefix, _), answer in zip(now, answers, strict=True):
            listed = checked(answer, Listed)
            below = [entry.key.removeprefix(prefix).partition("/") for entry in listed.entries]
            found[prefix] |= dict.fromkeys(name for name, slash, _ in below if slash)
            if listed.more:
                name, slash, _ = below[-1]
                asked.append((prefix, f"{prefix}{name}{slash}{_LAST if slash else ''}"))
    return [list(names) for names in found.values()]


def delete_all(keys: Sequence[str]) -> Steps[None]:
    """Remove objects: one DELETE for each `DELETE_KEYS_MAX` keys, one after the other; none if there are no keys.

    Raises:
        TreeringError: An answer is an error; later objects were not deleted.
    """
    for start in range(0, len(keys), DELETE_KEYS_MAX):
        yield from ask(Delete(tuple(keys[start : start + DELETE_KEYS_MAX])), Deleted)


def found_in(answer: Answer) -> Found | None:
    """The answer to a GET if the object exists; None if it does not.

    Raises:
        TreeringError: The answer is another error.
    """
    there = checked(answer, Found, NotFoundError)
    return there if isinstance(there, Found) else None


@overload
def checked(answer: Answer, expected: type[A], /) -> A: ...


@overload
def checked(answer: Answer, expected: type[A], /, *others: type[B]) -> A | B: ...


def checked(answer: Answer, /, *expected: type[object]) -> Answer:
    """Return `answer` if it is of an expected kind, and raise it if it is another error."""
    if isinstance(answer, expected):
        return answer
    if isinstance(answer, TreeringError):
        raise answer
    names = " or ".join(kind.__name__ for kind in expected)
    raise TypeError(f"driver answered {type(answer).__name__} where {names} was expected")
