"""Options of a session opened for writing: when checkpoints are made, and the hooks called before and after events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

import msgspec

from treering._late import Kind
from treering.errors import UsageError
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.session.redaction import Redaction


P = ParamSpec("P")
T = TypeVar("T")

_END: Any = object()


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint is due when any of these rules says so; without rules only explicit checkpoints are made."""

    every_turn: bool = False
    """When a turn ends."""
    every_nodes: int | None = None
    """When this many nodes were added since the last checkpoint."""
    every_seconds: float | None = None
    """When this many seconds passed since the last checkpoint; checked at each append."""

    def __post_init__(self) -> None:
        """Raise if a limit is not positive: a checkpoint would be due at every append, or never."""
        for name, value in (("every_nodes", self.every_nodes), ("every_seconds", self.every_seconds)):
            if value is not None and not value > 0:
                raise UsageError(f"schedule needs a positive limit. {name}={value!r}")

    @property
    def watches_appends(self) -> bool:
        """Whether a checkpoint may be due although no turn ended."""
        return self.every_nodes is not None or self.every_seconds is not None

    def due(self, *, now_ms: int, nodes_since: int, last_ms: int | None, turn_ended: bool) -> bool:
        """Return whether to make a checkpoint now; never without a new node, since it would repeat the last one.

        Args:
            now_ms: The time, in milliseconds since 1970.
            nodes_since: Nodes added since the last checkpoint.
            last_ms: When the last checkpoint was made; None if there is none, which counts as long ago.
            turn_ended: The agent finished a turn.
        """
        if nodes_since <= 0:
            return False
        if self.every_turn and turn_ended:
            return True
        if self.every_nodes is not None and nodes_since >= self.every_nodes:
            return True
        return self.every_seconds is not None and (last_ms is None or now_ms - last_ms >= self.every_seconds * 1000)


EVERY_TURN = Schedule(every_turn=True)
"""The default: a crash loses at most the state of the current turn."""


class Hook(Protocol):
    """A function that receives facts about an event by name. If a `before` hook raises, nothing is recorded."""

    def __call__(self, facts: Mapping[str, object], /) -> None: ...


class CompactionHook(Protocol):
    """A function that is called before a compaction, and may accept, replace or cancel it.

    If it returns `treering.compaction(...)`, this is recorded in place of the requested compaction, for example with a
    summary by another model. False records nothing, and the call that wanted to compact continues. None accepts it.
    """

    def __call__(self, facts: Mapping[str, object], /) -> Draft | Literal[False] | None: ...


class MessageHook(Protocol):
    """A function that gets the payload of a message and returns the payload to store, e.g. without transient fields.

    It must not change its argument, and must return the same payload for the same message: a message that is sent again
    is recognised by its content.
    """

    def __call__(self, payload: Any, /) -> Any: ...


class Outside:
    """Tells whether code of the caller runs in the middle of a call: a hook, or an iterable that the call was given.

    Such code may call the session before the call has ended. Elsewhere in a call only a signal handler could, while the
    session is half changed.
    """

    runs = False

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function of the caller."""
        self.runs = True
        try:
            return function(*args, **kwargs)
        finally:
            self.runs = False

    def each(self, values: Iterable[T]) -> Iterator[T]:
        """Yield what an iterable of the caller yields."""
        left = self.call(iter, values)
        while (value := self.call(next, left, _END)) is not _END:
            yield value

    def hooks(self, hooks: Hooks) -> Hooks:
        """Hooks that are called as code of the caller."""
        given = {name: hook for name, hook in msgspec.structs.asdict(hooks).items() if hook is not None}
        return Hooks(**{name: partial(self.call, hook) for name, hook in given.items()})


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """One optional function per event; each is called with the facts named here."""

    before_append: MessageHook | None = None
    """Gets no facts, but the payload of each message that is passed to `append` and `commit`."""
    before_compaction: CompactionHook | None = None
    """summary, kept, tokens_before, tokens_after, details"""
    after_compaction: Hook | None = None
    """summary, kept, node"""
    before_navigation: Hook | None = None
    """kind (checkout, switch, branch, rewind), head, node"""
    after_navigation: Hook | None = None
    """kind, head, node, checkpoint"""
    before_checkpoint: Hook | None = None
    """label, step; not called for automatic checkpoints"""
    after_checkpoint: Hook | None = None
    """checkpoint, node, label, step"""
    before_fork: Hook | None = None
    """session, node"""
    after_fork: Hook | None = None
    """session, node"""

    def stored(self, draft: Draft) -> Draft:
        """Return a draft as it is to be stored."""
        if self.before_append is None or (draft.type, draft.kind) != ("node", "message"):
            return draft
        return msgspec.structs.replace(draft, payload=self.before_append(draft.payload))

    def compaction(self, asked: Draft) -> Draft | None:
        """Return the compaction to record: the requested one or that of the hook; None if the hook cancels it.

        Raises:
            UsageError: The hook returned something else.
        """
        if self.before_compaction is None:
            return asked
        brief, payload = asked.brief or {}, asked.payload
        facts = {name: brief.get(name) for name in ("kept", "tokens_before", "tokens_after")}
        details = {name: value for name, value in payload.items() if name != "summary"}
        given: object = self.before_compaction({"summary": payload["summary"], **facts, "details": details})
        if given is None:
            return asked
        if given is False:
            return None
        if isinstance(given, Draft) and given.kind == "compaction" and given.type == "node":
            return given
        raise UsageError(
            f"a hook before a compaction returned a {type(given).__name__}",
            kind=Kind.MESSAGE,
            remedy="return treering.compaction(...), False to cancel, or None",
        )

    def call(self, event: str, **facts: object) -> None:
        """Call the hook of `event`, if there is one."""
        hook: Hook | None = getattr(self, event)
        if hook is not None:
            hook(facts)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is opened."""

    shared: bool = False
    durability: str = "sync"
    schedule: Schedule = EVERY_TURN
    first_write: str = "record"
    hooks: Hooks = Hooks()
    create: bool = True
    redaction: Redaction | None = None
    """Applied to every text before it is stored; an option of the store, see `treering.store.place.Place`."""
