"""Where sessions are, and how they are opened and begun: what a blocking and an asynchronous store share."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import msgspec

from treering.checkpoint.policy import Policy, find_policy
from treering.checkpoint.schedule import EVERY_TURN, Schedule
from treering.errors import NotFoundError, UsageError
from treering.format.paths import SessionKeys, namespace_prefix
from treering.format.register import Card
from treering.ids import new_nonce, now_ms, time_text
from treering.journal import life
from treering.journal.resume import Registers
from treering.session.hooks import Hooks
from treering.session.info import SessionInfo
from treering.session.purging import purge_all, purge_one
from treering.session.reader import Reader
from treering.session.redaction import Redaction, Redactor
from treering.session.writer import Options, Writer
from treering.storage.open import address_of, location_of, open_driver
from treering.storage.proof import declare, prove
from treering.storage.requests import Driver, Hold, Steps
from treering.storage.run import run

if TYPE_CHECKING:
    from treering.storage.open import Target

DURABILITIES = ("sync", "turn")
FIRST_WRITES = ("record", "assistant")


class OpenOptions(TypedDict, total=False):
    """How to open a session. The facts about a new session are of no account if it exists."""

    title: str
    """Of a new session."""
    project: str
    """Of a new session; any word to find it by."""
    cwd: str
    """Of a new session; the folder it is about."""
    extra: Mapping[str, object]
    """Further facts on the card of a new session."""
    shared: bool
    """Let others write, too: who appends second gets a branch of their own. Else (the default) the second is told."""
    create: bool
    """If there is no such session, make one (the default); else it is an error."""
    durability: Literal["sync", "turn"]
    """`sync` (the default): every append is durable when it returns. `turn`: messages wait in memory for the next
    `commit`, `flush` or `close`; a kill loses them."""
    checkpoints: Schedule
    """When to make checkpoints besides those asked for; by default at the end of every turn."""
    first_write: Literal["record", "assistant"]
    """`record` (the default), or `assistant`: nothing is stored before the first answer of the model."""
    policy: str
    """Chooses what the model sees; by default that of the newest checkpoint, and of a new session `default@1`."""
    hooks: Hooks
    """Functions to call before and after events."""
    hold: bool
    """Keep others from opening it, where the store knows such a thing, as long as it is open (the default). Else from
    `claim` to `release` only, and whoever wrote meanwhile is found out by the next append."""


class LoadFacts(TypedDict, total=False):
    """What is known of a session that is loaded; the rest is found out from its records."""

    title: str
    project: str
    cwd: str
    created_ms: int
    """Milliseconds since 1970; by default now."""
    parent_session: str
    parent_node: str
    task: str
    status: str
    extra: Mapping[str, object]


class Opening(NamedTuple):
    """A session about to be opened."""

    session: str
    card: Card
    options: Options
    policy: str | None = None
    hold: bool = True
    """From now on; else when it is claimed."""

    @classmethod
    def of(cls, session: str | None, options: OpenOptions) -> Opening:
        """Sort options into what a new session begins with and how it is written.

        Raises:
            UsageError: One of them has no meaning.
        """
        unknown = sorted(options.keys() - OpenOptions.__annotations__.keys())
        if unknown:
            raise UsageError(f"no such option. got={unknown!r}", kind="option")
        durability, first_write = options.get("durability", "sync"), options.get("first_write", "record")
        _require("durability", durability, DURABILITIES)
        _require("first_write", first_write, FIRST_WRITES)
        name = session if session is not None else new_nonce()
        how = Options(
            shared=options.get("shared", False),
            create=options.get("create", True),
            durability=durability,
            first_write=first_write,
            schedule=options.get("checkpoints", EVERY_TURN),
            hooks=options.get("hooks", Hooks()),
        )
        facts = {word: options.get(word, "") for word in ("title", "project", "cwd")}
        card = new_card(name, **facts, extra=options.get("extra", {}))  # type: ignore[arg-type]  # all are text
        return cls(name, card, how, options.get("policy"), options.get("hold", True))


def _require(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} must be one of {known}. got={value!r}", kind="option")


class Place:
    """What a blocking and an asynchronous store share: where sessions are and how they are opened."""

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
        """Names the store, without its namespaces, in every process; None if nothing does. See `address_of`."""
        self.redaction = redaction
        """What every text passes before it is stored."""
        self.location = location or f"{driver.name}:/"
        """Path or URL of the store, without its namespaces, for people; see `location_of`."""
        self._proofs = set() if proofs is None else proofs

    def namespace(self, name: str) -> Place:
        """A part of this place for one tenant; what was proved of the store stays proved."""
        return self.at(namespace_prefix(self.prefix, name))

    def at(self, prefix: str) -> Place:
        """The part of this place that has this prefix."""
        return Place(self.driver, prefix, self._proofs, self.address, self.redaction, location=self.location)

    def location_of(self, session: str) -> str:
        """Where the folder of a session lies: a path on this computer, or a URL."""
        return f"{self.location}/{self.keys(session).home}".rstrip("/")

    def keys(self, session: str) -> SessionKeys:
        """The keys of one session.

        Raises:
            UsageError: The name is empty.
        """
        keys = SessionKeys(self.prefix, session, self.driver.appends)
        _ = keys.tail  # refuses what cannot be a key
        return keys

    def prepare(self) -> Steps[None]:
        """Before this process first writes: make sure that the store keeps conditions, and mark it as ours."""
        if self._proofs:
            return
        facts = {"created": time_text(now_ms()), "by": "treering"}
        if self.driver.proven or not self.driver.conditional:
            yield from declare(facts=facts)
        else:
            yield from prove(facts=facts)
        self._proofs.add("proved")

    def reader(self, session: str, policy: str | None = None) -> Reader:
        """A reader that has not looked yet."""
        return Reader(self.keys(session), policy_named(policy))

    def writer(self, opening: Opening) -> tuple[Writer, list[Hold]]:
        """A writer that has not looked yet, and the holds it has on its session: to be released when it is done.

        A session that is not there yet is held when it is created, so that one without a record leaves nothing behind.

        Raises:
            SessionHeldError: Another process holds the session; the message says who.
        """
        holds: list[Hold] = []

        def take(*, create: bool) -> None:
            hold = None if holds else self.hold(opening.session, shared=opening.options.shared, create=create)
            if hold is not None:
                holds.append(hold)

        def prepare() -> Steps[None]:
            take(create=True)
            yield from self.prepare()

        keys, policy = self.keys(opening.session), policy_named(opening.policy)
        options = msgspec.structs.replace(opening.options, redaction=self.redaction)
        writer = Writer(keys, policy, opening.card, options, prepare)
        if opening.hold:
            take(create=False)
        writer.claim = lambda: take(create=False)
        return writer, holds

    def hold(self, session: str, *, shared: bool, create: bool) -> Hold | None:
        """Hold a session for this process, where the store knows such a thing.

        Raises:
            SessionHeldError: Another process holds it; the message says who.
        """
        return self.driver.hold(self.keys(session).hold, shared=shared, holder=holder_line(), create=create)

    def delete(self, session: str, agreed: Callable[[Registers], bool] | None = None) -> bool:
        """Delete a session that nobody has open, and what the driver keeps beside it; see `life.delete`. It blocks.

        Raises:
            SessionHeldError: Another process holds it; the message says who.
        """
        keys, hold = self.keys(session), self.hold(session, shared=False, create=False)
        try:
            done = run(life.delete(keys, nonce=new_nonce(), agreed=agreed), self.driver)
            if done:
                self.driver.scrub(*keys.places)
        finally:
            if hold is not None:
                hold.release()
        return done


@contextmanager
def passing_over_missing(*, missing_ok: bool) -> Iterator[None]:
    """Take it for done, if that is allowed, that a session which was to be deleted never was."""
    try:
        yield
    except NotFoundError as error:
        if not missing_ok or error.kind != "session":
            raise


def policy_named(name: str | None) -> Policy | None:
    """The policy of that name, if one is asked for.

    Raises:
        UsageError: There is none of that name.
    """
    return find_policy(name) if name is not None else None


def release(holds: list[Hold]) -> None:
    """Let others have what was held; if it is interrupted, a second call goes on with it."""
    while holds:
        holds[-1].release()
        holds.pop()


def holder_line() -> str:
    """Who we are, for those who find a session held."""
    since = time_text(now_ms())
    return f"pid {os.getpid()} on {platform.node()}, {os.path.basename(sys.argv[0] or 'python')}, since {since}"


def new_card(session: str, *, title: str, project: str, cwd: str, extra: Mapping[str, object]) -> Card:
    """The card a session begins with."""
    now = now_ms()
    return Card(
        session=session, life="", write="", title=title, project=project, cwd=full_path(cwd), created=now, updated=now,
        extra=dict(extra),
    )  # fmt: skip


def loaded_card(session: str, facts: LoadFacts) -> Card:
    """The card that a loaded session begins with.

    Raises:
        UsageError: There is no such fact.
    """
    unknown = sorted(facts.keys() - LoadFacts.__annotations__.keys())
    if unknown:
        raise UsageError(f"no such fact of a session. got={unknown!r}", kind="option")
    known: dict[str, Any] = {name: value for name, value in facts.items() if name != "created_ms"}
    if "extra" in known:
        known["extra"] = dict(known["extra"])
    now = now_ms()
    return Card(session=session, life="", write="", created=facts.get("created_ms", now), updated=now, **known)


def full_path(cwd: str) -> str:
    """A folder as lists show it; an empty one stays empty."""
    return os.path.abspath(os.path.expanduser(cwd)) if cwd else ""


def purging(place: Place, session: str | None, older_than: timedelta | None) -> Steps[tuple[str, ...]]:
    """What `purge` does; see `Store.purge`."""
    if session is not None:
        return purge_one(place.keys(session))
    before = None if older_than is None else now_ms() - older_than // timedelta(milliseconds=1)
    return purge_all(place.prefix, appends=place.driver.appends, before_ms=before)


def wanted_by(project: str | None, cwd: str | None, status: str | None = None) -> Callable[[SessionInfo], bool] | None:
    """A filter for lists of sessions; None asks for nothing."""
    facts = (("project", project), ("cwd", None if cwd is None else full_path(cwd)), ("status", status))
    asked = [(name, value) for name, value in facts if value is not None]
    return (lambda row: all(getattr(row, name) == value for name, value in asked)) if asked else None


def open_place(
    target: Target,
    *,
    path: str = "",
    namespace: str | None = None,
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    redactor: Redactor | None = None,
) -> Place:
    """What `open` and `aopen` share."""
    redaction = None if redactor is None else Redaction(redactor)
    driver = open_driver(target, path=path, single_writer=single_writer, storage_options=storage_options)
    place = Place(driver, address=address_of(target), redaction=redaction, location=location_of(target, path))
    return place.namespace(namespace) if namespace else place
