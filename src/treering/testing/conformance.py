"""The conformance test of drivers, a test class to inherit from.

    class TestMyDriver(DriverConformance):
        @pytest.fixture
        def driver(self) -> Iterator[Driver]:
            driver = MyDriver(...)
            yield driver
            driver.close()

Every test uses its own prefix, so one store may serve all tests and need not be empty. The reference is `MemoryDriver`:
if the protocol allows several answers, the driver must answer like `MemoryDriver`. For readable failures call
`pytest.register_assert_rewrite("treering.testing.conformance")` before the import.
"""
# ruff: noqa: S101  # a test consists of assertions

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from treering.errors import ConflictError, NotFoundError, SessionHeldError, UsageError
from treering.ids import new_nonce
from treering.storage.memory import MemoryDriver
from treering.storage.proof import prove
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Delete,
    Deleted,
    Driver,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Unchanged,
    Version,
    Written,
)
from treering.storage.run import checked, run

A = TypeVar("A", bound=Answer)

# Looks like an entity tag, so that a server compares it and does not refuse it as malformed.
NOBODYS_VERSION = Version(f'"{"0" * 32}"')

BAD_KEYS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    "../a",
    "a/../b",
    "a/./b",
    "a\0b",
    "a\nb",
    "ä",
    "a\\b",
    ".lock",
    "a/.b",
    "a" * 901,
)

REFUSED = (ConflictError, NotFoundError)


class DriverConformance:
    """Inherit, override the fixture `driver`, and run with pytest."""

    examples = 15
    """Random examples per property; use fewer for a distant store."""
    races = True
    """Whether to race threads against each other; turn off for test servers that are known not to be atomic."""
    rounds = 5
    """How often threads race to create an object."""
    racers = 8
    """How many threads race; use fewer if losing a race takes long."""

    @pytest.fixture
    def driver(self) -> Driver:
        """Override: return a driver, ready for use."""
        pytest.fail("override the fixture `driver`")

    @pytest.fixture
    def prefix(self) -> str:
        """A folder for one test."""
        return f"conformance-{new_nonce()}/"

    def check(self, *strategies: st.SearchStrategy[Any], of: Callable[..., None]) -> None:
        """Try the property `of` with random examples."""
        quiet = [HealthCheck.too_slow, HealthCheck.differing_executors]
        tried = settings(max_examples=self.examples, deadline=None, database=None, suppress_health_check=quiet)
        tried(given(*strategies)(of))()

    # Objects

    def test_what_was_put_is_found(self, driver: Driver, prefix: str) -> None:
        """Any bytes come back as they were, whether the key existed before or not."""

        def put_and_get(data: bytes) -> None:
            written = ask(driver, Put(f"{prefix}a.bin", data), Written)
            found = ask(driver, Get(f"{prefix}a.bin"), Found)
            assert (found.data, found.size) == (data, len(data))
            assert found.version == written.version

        self.check(st.binary(max_size=300) | st.just(bytes(range(256)) * 5000), of=put_and_get)

    def test_a_range_is_a_slice(self, driver: Driver, prefix: str) -> None:
        """Each range is answered with its slice and the size of the object; ends beyond the object are cut."""

        def cut(data: bytes, start: int | None, length: int | None) -> None:
            key = f"{prefix}{len(data)}.bin"
            end = None if length is None or (start or 0) < 0 else (start or 0) + length
            ask(driver, Put(key, data), Written)
            found = ask(driver, Get(key, start, end), Found)
            whole = start is not None and start < -len(data)
            assert found.data == (data if whole else data[start:end])
            assert found.size == len(data)

        edges = st.none() | st.integers(-12, 12)
        self.check(st.binary(max_size=9), edges, st.none() | st.integers(1, 12), of=cut)

    def test_an_object_that_is_not_there_is_not_found(self, driver: Driver, prefix: str) -> None:
        """Reading a missing object is a `NotFoundError` with its key, in full and in part."""
        for get in (Get(f"{prefix}no"), Get(f"{prefix}no", start=-5), Get(f"{prefix}no", register=True)):
            answer = ask_any(driver, get)
            assert isinstance(answer, NotFoundError)
            assert answer.key == f"{prefix}no"

    def test_an_unchanged_object_is_not_read_again(self, driver: Driver, prefix: str) -> None:
        """`unless` answers `Unchanged` while the version is the same, and the bytes once it has changed."""
        key = f"{prefix}a.bin"
        version = ask(driver, Put(key, b"one"), Written).version
        ask(driver, Get(key, unless=version), Unchanged)
        assert ask(driver, Get(key, unless=NOBODYS_VERSION), Found).data == b"one"
        ask(driver, Put(key, b"two"), Written)
        assert ask(driver, Get(key, unless=version), Found).data == b"two"

    def test_deleted_objects_are_gone(self, driver: Driver, prefix: str) -> None:
        """Delete removes exactly the named keys, and a missing one is no error."""
        keys = [f"{prefix}{name}" for name in ("a", "b", "c")]
        driver.execute(tuple(Put(key, b"x") for key in keys))
        ask(driver, Delete((keys[0], keys[2], f"{prefix}never")), Deleted)
        ask(driver, Delete(()), Deleted)
        assert keys_below(driver, prefix) == [keys[1]]

    def test_answers_come_in_order_and_errors_are_values(self, driver: Driver, prefix: str) -> None:
        """In a batch each request gets its own answer, and a failed request does not affect the others."""
        names = [f"{prefix}{i}" for i in range(20)]
        driver.execute(tuple(Put(name, name.encode()) for name in names[::2]))
        answers = driver.execute((*(Get(name) for name in names), Get("../bad"), List(prefix)))
        kinds = [Found if i % 2 == 0 else NotFoundError for i in range(20)] + [UsageError, Listed]
        assert [type(answer) for answer in answers] == kinds
        assert [answer.data for answer in answers if isinstance(answer, Found)] == [n.encode() for n in names[::2]]

    def test_a_bad_key_is_refused(self, driver: Driver) -> None:
        """Keys that could leave the store, or that not every store can hold, are a `UsageError` in every request."""
        for key in BAD_KEYS:
            requests: list[Request] = [Get(key), Put(key, b""), Delete((key,))]
            assert all(isinstance(answer, UsageError) for answer in driver.execute(tuple(requests))), key
        for request in (List("no-slash"), List("../"), List("a/", limit=0), Get("a", 3, 3), Get("a", -3, 5)):
            assert isinstance(ask_any(driver, request), UsageError), request

    # Lists

    def test_a_list_names_what_is_below_a_folder(self, driver: Driver, prefix: str) -> None:
        """A list holds the keys below the folder with their sizes, sorted, and no keys of a neighbouring folder."""

        def fill_and_list(names: set[str]) -> None:
            folder = f"{prefix}{new_nonce()}"
            driver.execute((Put(f"{folder}-next/x", b""), *(Put(f"{folder}/{n}", n.encode()) for n in names)))
            listed = ask(driver, List(f"{folder}/"), Listed)
            assert [entry.key for entry in listed.entries] == sorted(f"{folder}/{n}" for n in names)
            assert all(entry.size == len(entry.key) - len(folder) - 1 for entry in listed.entries)
            assert not listed.more

        self.check(
            st.sets(st.from_regex(r"[a-z0-9]{1,3}(/[xyz])?", fullmatch=True).filter(flat), max_size=12),
            of=fill_and_list,
        )

    def test_a_folder_may_have_any_ending(self, driver: Driver, prefix: str) -> None:
        """Endings that drivers reserve for objects of their own are no concern of folders, whose names users choose."""
        for ending in (".poisoned", ".a", ".lock", ".jsonl"):
            key = f"{prefix}f/report{ending}/x"
            ask(driver, Put(key, b""), Written)
            assert keys_below(driver, f"{prefix}f/report{ending}/") == [key]
            assert key in keys_below(driver, f"{prefix}f/")

    def test_pages_put_together_are_the_whole_list(self, driver: Driver, prefix: str) -> None:
        """Listing again with `after` walks through all keys once, whatever the limit."""
        names = [f"{prefix}f/{i:03d}-{'x' * (i % 4)}.jsonl.zst" for i in range(11)]
        driver.execute(tuple(Put(name, b"x") for name in names))
        for limit in (1, 3, 11, 12, 5000):
            found: list[str] = []
            more = True
            while more:
                listed = ask(driver, List(f"{prefix}f/", found[-1] if found else "", limit), Listed)
                assert len(listed.entries) <= limit
                found += [entry.key for entry in listed.entries]
                more = listed.more
            assert found == names

    def test_an_unknown_folder_is_empty(self, driver: Driver, prefix: str) -> None:
        """Listing a folder that does not exist gives an empty list and no error."""
        assert ask(driver, List(f"{prefix}none/"), Listed) == Listed((), more=False)

    # Registers: objects written with conditions

    def test_a_register_is_created_once(self, driver: Driver, prefix: str) -> None:
        """`ABSENT` creates an object, and conflicts with an existing one, even if that is empty."""
        key = f"{prefix}r"
        ask(driver, Put(key, b"", expect=ABSENT), Written)
        assert isinstance(ask_any(driver, Put(key, b"two", expect=ABSENT)), ConflictError)
        assert ask(driver, Get(key, register=True), Found).data == b""

    def test_a_register_is_replaced_from_its_version_only(self, driver: Driver, prefix: str) -> None:
        """A put with the current version replaces; with an older one, or for a missing object, it changes nothing."""
        key = f"{prefix}r"
        assert isinstance(ask_any(driver, Put(key, b"x", expect=NOBODYS_VERSION)), REFUSED)
        first = ask(driver, Put(key, b"one", expect=ABSENT), Written).version
        second = ask(driver, Put(key, b"two", expect=first), Written).version
        assert isinstance(ask_any(driver, Put(key, b"no", expect=first)), ConflictError)
        found = ask(driver, Get(key, register=True), Found)
        assert (found.data, found.version, found.size) == (b"two", second, 3)

    def test_a_register_is_deleted_at_its_version_only(self, driver: Driver, prefix: str) -> None:
        """A conditional delete removes only the version that it names; then the object may be created again."""
        key = f"{prefix}r"
        first = ask(driver, Put(key, b"one", expect=ABSENT), Written).version
        second = ask(driver, Put(key, b"two", expect=first), Written).version
        assert isinstance(ask_any(driver, Delete((key,), expect=first)), ConflictError)
        assert ask(driver, Get(key, register=True), Found).data == b"two"
        ask(driver, Delete((key,), expect=second), Deleted)
        assert isinstance(ask_any(driver, Get(key, register=True)), NotFoundError)
        assert isinstance(ask_any(driver, Delete((key,), expect=second)), (Deleted, *REFUSED))
        ask(driver, Put(key, b"three", expect=ABSENT), Written)

    def test_a_register_is_listed_under_its_own_key(self, driver: Driver, prefix: str) -> None:
        """However a register is stored, lists show its key once, with the size of its bytes."""
        for size in (3, 4, 5):
            current = ask_any(driver, Get(f"{prefix}r/a", register=True))
            version = current.version if isinstance(current, Found) else ABSENT
            ask(driver, Put(f"{prefix}r/a", b"x" * size, expect=version), Written)
            listed = ask(driver, List(f"{prefix}r/"), Listed)
            assert [(entry.key, entry.size) for entry in listed.entries] == [(f"{prefix}r/a", size)]
        ask(driver, Delete((f"{prefix}r/a",)), Deleted)
        assert keys_below(driver, f"{prefix}r/") == []

    def test_any_history_of_a_register_is_as_in_memory(self, driver: Driver, prefix: str) -> None:
        """After any steps on two registers, every answer equals that of a memory driver after the same steps."""

        def replay(steps: list[tuple[str, str, str]]) -> None:
            folder = f"{prefix}{new_nonce()}/"
            real, model = _History(driver, folder), _History(MemoryDriver(), folder)
            for number, (name, act, known) in enumerate(steps):
                assert real.step(number, name, act, known) == model.step(number, name, act, known)

        acts, known = st.sampled_from(["put", "get", "poll", "delete"]), st.sampled_from(["current", "older", "absent"])
        step = st.tuples(st.sampled_from(["r", "s"]), acts, known)
        self.check(st.lists(step, min_size=4, max_size=12), of=replay)

    def test_one_of_many_creates(self, driver: Driver, prefix: str) -> None:
        """When threads create the same object at once, one succeeds, and the object has its bytes."""
        self._skip_without_races(driver)
        for round_number in range(self.rounds):
            key = f"{prefix}{round_number}"
            puts = [Put(key, str(i).encode(), expect=ABSENT) for i in range(self.racers)]
            answers = at_once(self.racers, lambda i, puts=puts: ask_any(driver, puts[i]))  # type: ignore[misc]  # binds this round's
            winners = [i for i, answer in enumerate(answers) if isinstance(answer, Written)]
            assert len(winners) == 1
            assert all(isinstance(answer, Written | ConflictError) for answer in answers)
            assert ask(driver, Get(key, register=True), Found).data == str(winners[0]).encode()

    def test_no_update_is_lost(self, driver: Driver, prefix: str) -> None:
        """When threads read a counter and replace it at its version, every success counts."""
        self._skip_without_races(driver)
        key = f"{prefix}counter"
        ask(driver, Put(key, b"0", expect=ABSENT), Written)

        def add(_: int) -> None:
            for _unused in range(5):
                while not isinstance(_increment(driver, key), Written):
                    pass

        at_once(4, add)
        assert ask(driver, Get(key, register=True), Found).data == b"20"

    def test_the_proof_holds_and_leaves_one_file(self, driver: Driver, prefix: str) -> None:
        """A driver with conditions passes the proof, again and again, and keeps only `treering.json`."""
        for _ in range(2):
            run(prove(prefix), driver)
            assert keys_below(driver, prefix) == [f"{prefix}treering.json"]

    # Logs

    def test_a_log_grows_line_by_line(self, driver: Driver, prefix: str) -> None:
        """Appends, each from the version of the last one, all arrive in order, and readers see the same versions."""
        key = self._log(driver, prefix)
        version = ask(driver, Put(key, b'{"head":1}\n', expect=ABSENT), Written).version
        for i in range(5):
            version = ask(driver, Append(key, b"%d\n" % i, version), Written).version
            assert ask(driver, Get(key), Found).version == version
            ask(driver, Get(key, unless=version), Unchanged)
        assert ask(driver, Get(key, start=-4), Found).data == b"3\n4\n"
        assert ask(driver, Get(key), Found).data == b'{"head":1}\n0\n1\n2\n3\n4\n'

    def test_an_append_never_covers_a_line(self, driver: Driver, prefix: str) -> None:
        """An append from an older version, or from another log of that name, changes nothing."""
        key = self._log(driver, prefix)
        first = ask(driver, Put(key, b"head\n", expect=ABSENT), Written).version
        second = ask(driver, Append(key, b"a\n", first), Written).version
        assert isinstance(ask_any(driver, Append(key, b"no\n", first)), ConflictError)
        third = ask(driver, Put(key, b"new head\n", expect=second), Written).version
        assert isinstance(ask_any(driver, Append(key, b"no\n", second)), ConflictError)
        assert ask(driver, Get(key), Found) == Found(b"new head\n", third, 9)
        assert isinstance(ask_any(driver, Append(f"{prefix}other.jsonl", b"no\n", first)), NotFoundError)

    def test_a_torn_end_is_cut_by_the_next_append(self, driver: Driver, prefix: str) -> None:
        """Bytes after the last complete line are read, do not change the version, and an append overwrites them."""
        key = self._log(driver, prefix)
        for torn in (b'{"torn', b"\0\0\0\0", b'{"a":\0\0}\n{"b":1}\n'):
            current = ask_any(driver, Get(key))
            version = current.version if isinstance(current, Found) else ABSENT
            version = ask(driver, Put(key, b"head\na\n" + torn, expect=version), Written).version
            shown = b"head\na\n" + torn.rstrip(b"\0")
            assert ask(driver, Get(key), Found) == Found(shown, version, len(shown))
            version = ask(driver, Append(key, b"b\n", version), Written).version
            assert ask(driver, Get(key), Found) == Found(b"head\na\nb\n", version, 9)

    def test_an_append_takes_complete_lines_only(self, driver: Driver, prefix: str) -> None:
        """Bytes that a reader would take for a torn write are refused, as are appends that a driver cannot serve."""
        key = f"{prefix}log.jsonl"
        version = ask(driver, Put(key, b"head\n"), Written).version
        bad = [Append(key, data, version) for data in (b"", b"no feed", b"a\0\n")]
        bad += [Append(key, b"a\n", ABSENT), Append(f"{prefix}no-log", b"a\n", version)]
        if not driver.appends:
            bad.append(Append(key, b"a\n", version))
        assert all(isinstance(answer, UsageError) for answer in driver.execute(tuple(bad)))
        assert ask(driver, Get(key), Found).data == b"head\n"

    def test_no_append_is_lost(self, driver: Driver, prefix: str) -> None:
        """When threads append at the version that they read, every successful append is in the log exactly once."""
        key = self._log(driver, prefix)
        ask(driver, Put(key, b"head\n", expect=ABSENT), Written)

        def append(thread: int) -> None:
            for i in range(10):
                line = b"%d-%d\n" % (thread, i)
                while not isinstance(ask_any(driver, Append(key, line, ask(driver, Get(key), Found).version)), Written):
                    pass

        at_once(4, append)
        lines = ask(driver, Get(key), Found).data.splitlines()
        assert sorted(lines[1:]) == sorted(b"%d-%d" % (t, i) for t in range(4) for i in range(10))

    # The driver itself

    def test_async_answers_are_the_same(self, driver: Driver, prefix: str) -> None:
        """`aexecute` serves one event loop after another, and answers as `execute` does."""
        for round_number in range(2):
            key = f"{prefix}{round_number}"
            batch = (Put(key, b"x"), Get("../bad"))
            answers = asyncio.run(_aexecute(driver, batch))
            assert [type(answer) for answer in answers] == [Written, UsageError]
            reads = (Get(key), List(prefix))
            assert asyncio.run(_aexecute(driver, reads)) == driver.execute(reads)

    def test_a_closed_driver_may_be_used_again(self, driver: Driver, prefix: str) -> None:
        """Closing frees resources; a closed driver can be used and closed again."""
        ask(driver, Put(f"{prefix}a", b"x"), Written)
        driver.close()
        driver.close()
        assert ask(driver, Get(f"{prefix}a"), Found).data == b"x"

    def test_a_hold_keeps_others_out(self, driver: Driver, prefix: str) -> None:
        """A hold has one exclusive holder or many shared ones; a refused process gets an error naming the holder."""
        key = f"{prefix}hold"
        first = driver.hold(key, shared=False, holder="first of us")
        if first is None:
            pytest.skip("this driver has no holds")
        for shared in (True, False):
            with pytest.raises(SessionHeldError, match="first of us"):
                driver.hold(key, shared=shared, holder="second")
        first.release()
        first.release()
        held = [driver.hold(key, shared=True, holder="reader") for _ in range(2)]
        with pytest.raises(SessionHeldError, match="reader"):
            driver.hold(key, shared=False, holder="second")
        for hold in held:
            assert hold is not None
            hold.release()
        last = driver.hold(key, shared=False, holder="second")
        assert last is not None
        last.release()

    def test_a_hold_need_not_create(self, driver: Driver, prefix: str) -> None:
        """A hold with `create=False` on a missing object creates nothing."""
        hold = driver.hold(f"{prefix}folder/hold", shared=False, holder="us", create=False)
        assert keys_below(driver, prefix) == []
        if hold is not None:
            hold.release()

    def _skip_without_races(self, driver: Driver) -> None:
        if not (self.races and driver.conditional):
            pytest.skip("conditions are not promised to hold against others here")

    @staticmethod
    def _log(driver: Driver, prefix: str) -> str:
        if not driver.appends:
            pytest.skip("this driver has no logs")
        return f"{prefix}log.jsonl"


def ask_any(driver: Driver, request: Request) -> Answer:
    """Send one request and return its answer, which may be an error."""
    (answer,) = driver.execute((request,))
    return answer


def ask(driver: Driver, request: Request, expected: type[A]) -> A:
    """Send one request and return its answer, which must be of the expected type."""
    return checked(ask_any(driver, request), expected)


def keys_below(driver: Driver, prefix: str) -> list[str]:
    """Return all keys below a folder, up to the limit of one list."""
    return [entry.key for entry in ask(driver, List(prefix), Listed).entries]


def flat(name: str) -> bool:
    """Return whether no key can be a folder of another key: names of 3 characters are folders, shorter ones files."""
    first, slash, _ = name.partition("/")
    return (len(first) == 3) == bool(slash)


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work(0)` ... `work(count - 1)` in threads that start together; return their results, or raise."""
    barrier = threading.Barrier(count)

    def start(i: int) -> Any:
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


class _History:
    """The registers of a folder as one client saw them, with names for versions that are the same for two drivers."""

    def __init__(self, driver: Driver, folder: str) -> None:
        self._driver = driver
        self._folder = folder
        self._versions: dict[str, list[Version]] = {}

    def step(self, number: int, name: str, act: str, known: str) -> object:
        key = self._folder + name
        versions = self._versions.setdefault(name, [ABSENT])
        older = versions[-2] if len(versions) > 1 and versions[-2] != ABSENT else NOBODYS_VERSION
        version = {"current": versions[-1], "older": older, "absent": ABSENT}[known]
        match act:
            case "put":
                answer = ask_any(self._driver, Put(key, b"%d" % number, expect=version))
            case "delete":
                answer = ask_any(self._driver, Delete((key,), expect=version or None))
            case "poll":
                answer = ask_any(self._driver, Get(key, unless=version or None, register=True))
            case _:
                answer = ask_any(self._driver, Get(key, register=True))
        if isinstance(answer, Written):
            versions.append(answer.version)
        if isinstance(answer, Deleted) and versions[-1] != ABSENT:
            versions.append(ABSENT)
        return self._shape(answer, act, versions)

    @staticmethod
    def _shape(answer: Answer, act: str, versions: list[Version]) -> object:
        if isinstance(answer, Found):
            return answer.data, answer.version == versions[-1]
        if isinstance(answer, REFUSED) and act == "put":
            return "refused"  # for a stale version of a missing object both answers are allowed
        if act == "delete" and isinstance(answer, (Deleted, *REFUSED)) and versions[-1] == ABSENT:
            return "not there"
        return type(answer)


def _increment(driver: Driver, key: str) -> Answer:
    found = ask(driver, Get(key, register=True), Found)
    return ask_any(driver, Put(key, b"%d" % (int(found.data) + 1), expect=found.version))


async def _aexecute(driver: Driver, batch: tuple[Request, ...]) -> tuple[Answer, ...]:
    return await driver.aexecute(batch)


__all__ = ["DriverConformance"]
