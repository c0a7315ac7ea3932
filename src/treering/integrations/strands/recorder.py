"""Record one agent in its session, and load it from there. Calls block; see `worker`.

Rule 1: the messages of the agent and of the session are compared, never counted. Changes for which Strands called no
hook are recorded by the next call.
Rule 2: a recorder notes records as recorded only after a durable append, so the next append repeats a failed one.
Rule 3: loading writes nothing. Repairs change the messages of the agent, and are recorded by the next append.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from strands.types.content import Message

from treering import Draft, Session, TreeringError, UsageError
from treering.format import values
from treering.format.nesting import fold
from treering.integrations.strands.agent_state import SYSTEM, Known, is_interrupted, stash_keys
from treering.integrations.strands.conversation import (
    Difference,
    Shown,
    difference,
    draft_of,
    message_of,
    name_all,
    put_aside_as,
    tracking_id,
)
from treering.integrations.strands.repair import close_open_calls
from treering.integrations.strands.waiting import results_in, waited
from treering.programs.strands.keys import INTERRUPT, STASH
from treering.session.record import record
from treering.session.recording import Change
from treering.session.writer import Writer
from treering.storage.requests import Steps

REDACTED: Final = "redacted by a guardrail"

_log: Final = logging.getLogger(__name__)


class System(NamedTuple):
    """The system prompt and tools in force."""

    prompt: object
    tools: object
    digest: str

    @classmethod
    def of(cls, prompt: object, tools: Collection[str]) -> System:
        """Make it from a prompt and tools. If they are no plain data, keep the prompt's text and the tools' names."""
        try:
            digest = hashlib.sha256(values.encode([prompt, tools])).hexdigest()
        except UsageError:
            return cls.of(str(prompt), sorted(tools))
        return cls(prompt, tools, digest)


class Loaded(NamedTuple):
    """The messages and state with which an agent continues."""

    messages: list[Message]
    """The messages, which must be copied before they are changed."""
    state: Mapping[str, Any]
    """The state of the session, including the keys of this integration."""
    manager: object
    """The state of the conversation manager, or None."""


class Recorder:
    """Records one agent in one session. Not thread-safe."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._shown: tuple[Shown, ...] = ()
        self._known = Known({}, None)
        self._unfinished = False
        """Whether records were appended since the last checkpoint."""
        self._works = False
        """Whether an invocation is running, which holds the session's lock."""
        self._unlisted = self.is_new
        """Whether the card does not show the recorded messages yet."""
        self._made: set[str] = set()
        """Tracking ids of repairs that are not recorded yet."""
        self._erased: set[str] = set()
        """Tracking ids of erased nodes: a new message with one of them is recorded under another id."""
        self._look()

    @property
    def is_new(self) -> bool:
        """Whether the session has no node and no checkpoint to continue from."""
        return self.session.node is None and self.session.checkpoint_id is None

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The messages that the session shows to the model."""
        return self._shown

    def begin(self) -> None:
        """Lock the session until `end`, if the store has locks.

        Raises:
            SessionHeldError: Another process holds the lock.
        """
        self.session.claim()
        self._works = True

    def end(self) -> None:
        """Release the lock. If two writers continue from one node, the append of the second raises an error."""
        self._works = False
        if self._unlisted and not self.is_new:
            self._unlisted = False
            with suppress(TreeringError):  # the records are durable, and the next seal updates the card
                self.session.perform(_listed)
        self.session.release()

    @contextmanager
    def held(self) -> Iterator[Session]:
        """Lock the session at least for this block, and yield it."""
        self.session.claim()
        try:
            yield self.session
        finally:
            if not self._works:
                self.session.release()

    def load(self) -> Loaded:
        """Return the messages and state with which an agent continues; open tool calls are closed."""
        state = self.session.state
        messages = close_open_calls(
            [each.message for each in self._shown if each.message], pending=is_interrupted(state)
        )
        self._made |= set(name_all(messages))
        return Loaded(messages, state, self.session.manager)

    def add(self, message: Message, messages: Sequence[Message], known: Known, system: System, *, drawn: bool) -> None:
        """Record a message that was added to the agent; it is durable when this returns.

        Args:
            message: A copy of the message, made when it was added.
            messages: All messages of the agent.
            known: The agent's other state.
            system: The agent's prompt and tools.
            drawn: Whether the message's tracking id was generated when it was added, so that no record has it.
        """
        name = tracking_id(message)
        before = [each.tracking_id for each in self._shown]
        now = [tracking_id(each) for each in messages]
        if name in before:
            self.revise(message)
        if now == before:
            found = Difference((), None, self._shown)
        elif drawn and now == [*before, name]:  # other changes are recorded at the end of the turn
            found = Difference((draft_of(message, name),), None, (*self._shown, Shown(name, message)))
        else:
            found = self._difference(messages, {name} if drawn else set())
        self._record(found, self._with_stash(known), system)

    def revise(self, message: Message) -> None:
        """Record a new version of a message; the first one stays readable."""
        name = tracking_id(message)
        found = next((place for place, each in enumerate(self._shown) if each.tracking_id == name), None)
        if found is None or self._shown[found].message == message:
            return
        node = self._shown[found].node
        with self.held() as session:
            session.amend(node, fold(message))
        self._shown = (*self._shown[:found], Shown(node, message), *self._shown[found + 1 :])
        self._unfinished = True

    def checkpoint(
        self, messages: Sequence[Message], known: Known, system: System, *, label: str | None = None
    ) -> str | None:
        """Record all changes, if there are any, with a checkpoint; return the newest checkpoint."""
        drawn = set(name_all(messages))
        self._record(self._difference(messages, drawn), known, system, ends=True, label=label)
        return self.session.checkpoint_id

    def redact(self, message: Message, messages: Sequence[Message], known: Known, system: System) -> None:
        """Erase the old text of a message wherever it is stored, and record the new one.

        A result that waited beside an interrupt is stored with it, so what was kept of interrupts is erased as a whole.
        """
        name = tracking_id(message)
        old = next((each for each in self._shown if each.tracking_id == name), None)
        if old is None:
            return  # not recorded yet
        aside = stash_keys(self._known.state, put_aside_as(message))
        with self.held() as session:
            if session.perform(waited, INTERRUPT, results_in(message)):
                aside.append(INTERRUPT)
            receipt = session.erase(old.node, state=aside, reason=REDACTED)
        for warning in receipt.warnings:
            _log.warning("session %r: what was redacted is erased, but %s", self.session.id, warning)
        self._shown = tuple(Shown(each.node, None) if each is old else each for each in self._shown)
        left = {key: value for key, value in self._known.state.items() if key not in aside}
        self._known = Known(left, self._known.manager)
        self._record(self._difference(messages, set()), self._with_stash(known), system, ends=True)

    def node_of(self, name: str) -> str:
        """Return the node of the message with a tracking id, or `name` itself if the session shows no such message."""
        return next((each.node for each in self._shown if each.tracking_id == name), name)

    def go(self, move: Callable[[Session], None]) -> None:
        """Move the head of the session, and read the messages that it shows then."""
        with self.held() as session:
            move(session)
        self._look()

    def _look(self) -> None:
        """Read the messages that the session shows at its current head, and its state."""
        session = self.session
        self._shown = tuple(Shown(item.node, message_of(item)) for item in session.recorded_context)
        state = {key: values.encode(value) for key, value in session.state.items()}
        self._known = Known(state, None if session.manager is None else values.encode(session.manager))
        self._unfinished = False

    def _with_stash(self, known: Known) -> Known:
        """Return the state of the agent with the stash as recorded: comparing it for each message takes too long."""
        kept = {key: value for key, value in self._known.state.items() if key.startswith(STASH)}
        return Known(kept | known.state, known.manager)

    def _difference(self, messages: Sequence[Message], drawn: set[str]) -> Difference:
        shown = {each.tracking_id for each in self._shown}
        unknown = {tracking_id(each) for each in messages} - shown - drawn - self._made - self._erased
        elsewhere, erased = self.session.perform(_recorded, unknown) if unknown else ((), ())
        self._erased |= set(erased)
        return difference(self._shown, messages, elsewhere=elsewhere, taken=self._erased)

    def _record(
        self, found: Difference, known: Known, system: System, *, ends: bool = False, label: str | None = None
    ) -> None:
        """Record a difference in one append, with a checkpoint if more than messages changed or something ends."""
        old, drafts = self._known.state, list(found.drafts)
        if known.state.get(SYSTEM) != old.get(SYSTEM):
            payload = {"prompt": system.prompt, "tools": system.tools}
            drafts.insert(0, Draft(type="note", kind="system", payload=payload, target=self.session.node))
        changed = {key: values.decode(value) for key, value in known.state.items() if old.get(key) != value}
        dropped = [key for key in old if key not in known.state]
        more: dict[str, Any] = {}
        if known.manager != self._known.manager:
            more["manager"] = None if known.manager is None else values.decode(known.manager)
        if found.context is not None:
            more["context"] = found.context
        says_more = bool(changed or dropped or more or label)
        if not (drafts or says_more or (ends and self._unfinished)):
            return
        with self.held() as session:
            if says_more or ends:  # the agent shows this context already, even if providers refuse it
                change = Change(state=changed, drop=dropped, label=label, as_it_is=True, **more)
                session.perform(record, drafts, change, new_ids=True)
            else:
                session.append(*drafts, new_ids=True)
        self._unfinished = not (says_more or ends)
        self._shown, self._known = found.shown, known


def _listed(writer: Writer) -> Steps[bool]:
    """Write a card that shows the recorded messages."""
    return (yield from writer.upkeep.cover(seal=False))


def _recorded(writer: Writer, names: Collection[str]) -> Steps[tuple[Collection[str], Collection[str]]]:
    """Return the names that are visible nodes of the session, and the names that are erased nodes."""
    index = yield from writer.replica.index()
    there = {name for name in names if name in index.graph}
    erased = there & writer.replica.burials.names
    return there - erased, erased
