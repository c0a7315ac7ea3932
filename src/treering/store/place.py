"""The place of a store's sessions, and how they are opened and created; used by blocking and asynchronous stores."""

from __future__ import annotations

import os
import platform
import sys
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from treering import journal, storage, store
from treering._late import Kind
from treering.checkpoint.policy import Policy, find_policy
from treering.errors import UsageError
from treering.format.paths import SessionKeys, namespace_prefix
from treering.format.register import Card
from treering.format.values import DEPTH_MAX, copied
from treering.ids import new_nonce, now_ms, time_text
from treering.journal.resume import Registers
from treering.session import verbs
from treering.session.creation import full_path
from treering.session.options import EVERY_TURN, Hooks, Options
from treering.session.reader import Reader
from treering.session.writer import Writer
from treering.storage.open import TIMEOUT_SECONDS, address_of, location_of, open_driver
from treering.storage.requests import Driver, Hold, Steps

if TYPE_CHECKING:
    from treering.journal.lease import FailureDetector
    from treering.journal.memory import Memory
    from treering.session.redaction import Redaction, Redactor
    from treering.storage.effects import Job
    from treering.storage.observing import Observer
    from treering.storage.open import Target
    from treering.store.info import Wanted
    from treering.store.options import LoadFacts, OpenOptions

R = TypeVar("R")
T = TypeVar("T")

MODES = {"durability": ("sync", "turn"), "first_write": ("record", "assistant")}
"""Options whose value is one of these words, by default the first."""


class Opening(msgspec.Struct, frozen=True):
    """A session about to be opened."""

    session: str
    card: Card
    options: Options
    policy: str | None = None
    hold: bool = True
    """Lock the session at once; else when it is claimed."""
    claim: float | None = None
    """Take a lease of this many seconds, see `treering.session.verbs.leasing`."""
    wait: float = 0.0

    @classmethod
    def of(cls, session: str | None, options: OpenOptions) -> Opening:
        """Split options into the card of a new session and the options for writing.

        Raises:
            UsageError: An option does not exist, or its value is not allowed.
        """
        left: dict[str, Any] = {**options}
        modes = {}
        for word, known in MODES.items():
            modes[word] = left.pop(word, known[0])
            if modes[word] not in known:
                raise UsageError(f"{word} must be one of {known}. got={modes[word]!r}", kind=Kind.OPTION)
        name = session if session is not None else new_nonce()
        how = Options(
            shared=left.pop("shared", False),
            create=left.pop("create", True),
            **modes,
            schedule=left.pop("checkpoints", EVERY_TURN),
            hooks=left.pop("hooks", Hooks()),
        )
        facts = {word: left.pop(word, "") for word in ("title", "project", "cwd")}
        card = new_card(name, **facts, extra=left.pop("extra", {}))
        policy, hold = left.pop("policy", None), left.pop("hold", True)
        ttl, wait = left.pop("claim", None), left.pop("wait", 0.0)
        if left:
            raise UsageError(f"no such option. got={sorted(left)!r}", kind=Kind.OPTION)
        if wait and ttl is None:
            raise UsageError("who waits has to claim. wait needs claim=", kind=Kind.OPTION)
        return cls(name, card, how, policy, hold and ttl is None, ttl, wait)


class Place:
    """A store without its I/O: where sessions are and how they are opened."""

    def __init__(
        self,
        driver: Driver,
        prefix: str = "",
        proofs: set[str] | None = None,
        address: str | None = None,
        redaction: Redaction | None = None,
        *,
        location: str = "",
    ) -> None:
        self.driver = driver
        self.prefix = prefix
        self.address = address
        """Identifies the store, without its namespaces, across processes; None if impossible. See `address_of`."""
        self.redaction = redaction
        """Applied to every text before it is stored."""
        self.location = location or f"{driver.name}:/"
        """Path or URL of the store, without its namespaces, for people; see `location_of`."""
        self.memory: Callable[[], Memory] = _Once(_memory)
        """Returns the cache of data that was read, shared by all sessions and namespaces."""
        self.detector: Callable[[], FailureDetector] = _Once(_detector)
        """Returns what this process saw of the holders of leases, shared likewise."""
        self._proofs = set() if proofs is None else proofs

    def namespace(self, name: str) -> Place:
        """A part of this place for one tenant; probed capabilities of the store are kept."""
        return self.at(namespace_prefix(self.prefix, name))

    def at(self, prefix: str) -> Place:
        """The part of this place with this prefix."""
        found = Place(self.driver, prefix, self._proofs, self.address, self.redaction, location=self.location)
        found.memory, found.detector = self.memory, self.detector
        return found

    def location_of(self, session: str) -> str:
        """The location of a session's folder: a path on this computer, or a URL."""
        return f"{self.location}/{self.keys(session).home}".rstrip("/")

    def keys(self, session: str) -> SessionKeys:
        """The keys of one session.

        Raises:
            UsageError: The name is empty.
        """
        keys = SessionKeys(self.prefix, session, self.driver.appends)
        _ = keys.tail  # raises if the name cannot be a key
        return keys

    def prepare(self) -> Steps[None]:
        """Before the first write of this process: check that the store honours conditions, and mark it as a store."""
        if self._proofs:
            return
        from treering.storage.proof import declare, prove  # a process that only resumes does not need them

        facts = {"created": time_text(now_ms()), "by": "treering"}
        if self.driver.proven or not self.driver.conditional:
            is_new = yield from declare(facts=facts)
        else:
            is_new = yield from prove(facts=facts)
        if is_new:
            yield from store.recent.begin_complete()
        self._proofs.add("proved")

    def reader(self, session: str, policy: str | None = None) -> Reader:
        """A reader that has not read anything yet."""
        return Reader(self.keys(session), policy_named(policy), self.memory)

    def writer(self, opening: Opening) -> tuple[Writer, list[Hold]]:
        """A writer that has not read anything yet, and its locks on the session, to be released at the end.

        A session that does not exist yet is locked when it is created, so that no lock file is left without a record;
        with `hold=False` only if it was claimed before.

        Raises:
            SessionHeldError: Another process holds the session; the message names it.
        """
        holds: list[Hold] = []

        def take(*, create: bool) -> bool:
            hold = None if holds else self.hold(opening.session, shared=opening.options.shared, create=create)
            if hold is not None:
                holds.append(hold)
            return bool(holds)

        def prepare() -> Steps[None]:
            yield from self.prepare()  # first: a lock file would be an object of a store that is not new
            if writer.locks:
                take(create=True)

        def lock() -> bool:
            held = take(create=False)
            writer.locks = True  # until it is released
            return held

        keys, policy = self.keys(opening.session), policy_named(opening.policy)
        options = msgspec.structs.replace(opening.options, redaction=self.redaction)
        writer = Writer(keys, policy, opening.card, options, prepare, memory=self.memory, detector=self.detector)
        writer.lock, writer.holder = lock, holder_line
        if opening.hold:
            lock()
        return writer, holds

    def open(self, opening: Opening) -> Job[Opened[Writer]]:
        """Resume a session, or prepare to create it; see `Store.session`."""
        writer, holds = self.writer(opening)
        try:
            yield from writer.open()
            if opening.claim is not None:
                yield from verbs.leasing.claim(writer, ttl=opening.claim, wait=opening.wait, opens=True)
        except BaseException:
            release(holds)
            raise
        return Opened(writer, self.driver, self.location_of(opening.session), holds)

    def look(self, session: str, policy: str | None = None) -> Steps[Opened[Reader]]:
        """Resume a session for reading only; see `Store.view`."""
        reader = self.reader(session, policy)
        yield from reader.resume()
        return Opened(reader, self.driver, self.location_of(session), [])

    def hold(self, session: str, *, shared: bool, create: bool) -> Hold | None:
        """Lock a session for this process, if the store has locks.

        Raises:
            SessionHeldError: Another process holds it; the message names it.
        """
        return self.driver.hold(self.keys(session).hold, shared=shared, holder=holder_line(), create=create)

    def delete(self, session: str, agreed: Callable[[Registers], bool] | None = None) -> Job[bool]:
        """Delete a session that no process has open, and leftovers that the driver keeps; see `life.delete`.

        Raises:
            SessionHeldError: Another process holds it; the message names it.
        """
        keys, hold = self.keys(session), self.hold(session, shared=False, create=False)
        try:
            done = yield from journal.life.delete(keys, nonce=new_nonce(), agreed=agreed)
            if done:
                yield from storage.effects.ask_driver(lambda driver: driver.scrub(*keys.places))
        finally:
            if hold is not None:
                hold.release()
        return done

    def purge(self, session: str | None = None, *, before_ms: int | None = None) -> Job[tuple[str, ...]]:
        """Remove the remains of one or all deleted sessions, and leftovers of the driver; see `Store.purge`."""
        if session is not None:
            gone = yield from store.purging.purge_one(self.keys(session))
        else:
            gone = yield from store.purging.purge_all(self.prefix, appends=self.driver.appends, before_ms=before_ms)
        yield from storage.effects.ask_driver(lambda driver: driver.scrub(*(keys.home for keys in gone)))
        return tuple(keys.session for keys in gone)


class Opened(msgspec.Struct, Generic[R], frozen=True):
    """A session that was opened, for reading or for writing."""

    reader: R
    driver: Driver
    location: str
    holds: list[Hold]
    """Released when the session is closed."""


def policy_named(name: str | None) -> Policy | None:
    """The policy of that name; None without a name.

    Raises:
        UsageError: There is no policy of that name.
    """
    return find_policy(name) if name is not None else None


def release(holds: list[Hold]) -> None:
    """Release locks; if it is interrupted, a second call continues."""
    while holds:
        holds[-1].release()
        holds.pop()


def holder_line() -> str:
    """A line that describes this process, for the error message of a process that finds the session locked."""
    since = time_text(now_ms())
    return f"pid {os.getpid()} on {platform.node()}, {os.path.basename(sys.argv[0] or 'python')}, since {since}"


def new_card(session: str, *, title: str, project: str, cwd: str, extra: Mapping[str, object]) -> Card:
    """The card of a new session.

    Raises:
        UsageError: A fact has a wrong type.
    """
    facts: dict[str, object] = {"title": title, "project": project, "cwd": cwd}
    for name, fact in facts.items():
        if not isinstance(fact, str):  # callers are not always type-checked
            raise UsageError(f"the {name} must be text. got={fact!r}", kind=Kind.VALUE)
    now = now_ms()
    return Card(
        session=session, life="", write="", title=title, project=project, cwd=full_path(cwd), created=now, updated=now,
        extra=_kept(dict(extra)) if extra else {},
    )  # fmt: skip


def _kept(extra: dict[str, object]) -> dict[str, object]:
    """Facts for a card, which the caller may change later; the first record refuses those that are nested too deep."""
    from treering.format.nesting import is_deeper  # most cards have no further facts

    facts: dict[str, object] = extra if is_deeper(extra, DEPTH_MAX) else copied(extra)
    return facts


def loaded_card(session: str, facts: LoadFacts) -> Card:
    """The card of a loaded session.

    Raises:
        UsageError: There is no such fact.
    """
    from treering.store.options import LoadFacts  # opening a session does not need it

    unknown = sorted(facts.keys() - LoadFacts.__annotations__.keys())
    if unknown:
        raise UsageError(f"no such fact of a session. got={unknown!r}", kind=Kind.OPTION)
    known: dict[str, Any] = {name: value for name, value in facts.items() if name != "created_ms"}
    if "extra" in known:
        known["extra"] = dict(known["extra"])
    now = now_ms()
    return Card(session=session, life="", write="", created=facts.get("created_ms", now), updated=now, **known)


def wanted_by(project: str | None, cwd: str | None, status: str | None = None) -> Wanted:
    """A filter for lists of sessions; None for a criterion means any."""
    from treering.store.info import Wanted  # a process that only resumes does not need it

    return Wanted(project=project, cwd=None if cwd is None else full_path(cwd), status=status)


def open_place(
    target: Target,
    *,
    path: str = "",
    namespace: str | None = None,
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    redactor: Redactor | None = None,
    observer: Observer | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> Place:
    """Open a store. Nothing is created before the first record.

    Args:
        target: A folder, `s3://bucket/prefix`, `memory://name`, any fsspec URL or filesystem object.
        path: The path of the store in a filesystem object.
        namespace: A part of the store for one tenant.
        single_writer: You promise that only one process at a time writes here. Needed for stores without
            compare-and-swap.
        storage_options: Passed on to the client of a remote store.
        redactor: Gets every text before it is stored, and returns the text to store; see `treering.redact_patterns`.
            It must be idempotent. It does not get signed and encrypted parts, base64, ids and roles. Copies, forks
            and repairs keep stored texts as they are.
        observer: Gets a `RequestBatch` after each batch of requests to the store, for metrics and logs. The thread or
            event loop that waited for the requests calls it. It must not use the store. If it raises, the call ends as
            by an interrupt.
        timeout: Seconds after which a request to S3 without an answer fails, with all its attempts. Slow uploads and
            downloads may take longer, and a call may need several requests one after the other.

    Raises:
        UsageError: The target is none of these, or `timeout` is not positive.
        UnsafeStoreError: The store has no compare-and-swap, and `single_writer` was not promised.
    """
    redaction = None
    if redactor is not None:
        from treering.session.redaction import Redaction  # few stores have one

        redaction = Redaction(redactor)
    driver = open_driver(
        target, path=path, single_writer=single_writer, storage_options=storage_options, timeout=timeout
    )
    if observer is not None:
        from treering.storage.observing import observed  # few stores have one

        driver = observed(driver, observer)
    place = Place(driver, address=address_of(target), redaction=redaction, location=location_of(target, path))
    return place.namespace(namespace) if namespace else place


def _memory() -> Memory:
    return journal.memory.Memory()


def _detector() -> FailureDetector:
    return journal.lease.FailureDetector()


class _Once(Generic[T]):
    """Makes an object when it is first asked for, once for all threads: few sessions need it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = allocate_lock()
        self._made: T | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made
