"""What sessions have in addition to their verbs: how a call begins and ends, properties without requests, operations.

Nothing here does I/O. Users see the signatures and docstrings written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from treering import session, store
from treering._late import Kind
from treering.errors import TreeringError, UsageError
from treering.format.erasure import Erased
from treering.format.values import copied
from treering.session import verbs
from treering.session.content import ContextItem
from treering.session.pairs import recorded, settled, whole
from treering.session.payload import decoded_manager, decoded_state, erased_state
from treering.session.reader import Readable, Reader
from treering.store.place import Opened, release

if TYPE_CHECKING:
    from collections.abc import Collection

    from treering.erasure.erasing import Receipt
    from treering.session.lease import Lease
    from treering.session.writer import Writer
    from treering.storage.effects import Job
    from treering.storage.requests import Steps
    from treering.store.info import SessionInfo
    from treering.transcript.node import Draft

R = TypeVar("R", bound=Readable)


class SessionProperties(Generic[R]):
    """Properties that need no request: the session as of the last read."""

    def __init__(self, opened: Opened[R]) -> None:
        self._known = opened.reader
        self._location = opened.location
        self._holds = opened.holds
        self._under_way = False
        """Whether a call is being made."""
        self._unfinished = False
        """Whether a call has begun that did not end in a result or a `TreeringError`, or not yet."""
        self._driver = opened.driver
        self._pid = os.getpid()
        self._closed = False
        self._answers: Collection[Any] = ()
        """The stream writers that this handle made, as weak references; some may have ended."""

    @property
    def _reader(self) -> R:
        """The session in memory, after dropping the changes of an interrupted call."""
        if self._unfinished and not self._under_way:
            self._recover()
        return self._known

    def _recover(self) -> None:
        """Restore the state before the interrupted call, or after its last append, if there was one."""
        try:
            self._under_way = True  # a signal handler must not record in the middle of this
            self._known.roll_back()
            self._unfinished = False
        finally:
            self._under_way = False

    def _admit(self) -> bool:
        """Let a call begin; return whether it is a part of another one, made by code that the session called.

        Raises:
            UsageError: The session was closed, or a call of this thread is under way: this one comes from a signal
                handler.
        """
        if self._closed:
            raise self._unusable()
        if self._under_way and not self._known.outside.runs:
            raise UsageError(
                f"session {self.id!r} is in the middle of another call",
                kind=Kind.REENTERED,
                remedy="do not use it in a signal handler: set a flag there, or raise, and go on outside",
            )
        return self._under_way

    @contextmanager
    def _unlocking(self) -> Iterator[None]:
        """Unlock the session at the end of a close, though it failed. One that is refused leaves all as it is."""
        refused = False
        try:
            yield
        except UsageError as error:
            refused = error.kind == Kind.REENTERED
            raise
        finally:
            if self._closed or not (refused or self._under_way):  # a call for which the close waited is to end locked
                release(self._holds)

    def _remember(self, answer: object) -> None:
        from weakref import WeakSet  # most sessions write no answer piece by piece

        self._answers = WeakSet((*self._answers, answer))

    def __repr__(self) -> str:
        """The session's name, head and number of nodes."""
        card = self._reader.replica.state.card
        return f"<{type(self).__name__} {self.id!r} on {self.head!r}, {card.nodes} nodes>"

    @property
    def id(self) -> str:
        """The session's name."""
        return self._reader.keys.session

    @property
    def location(self) -> str:
        """The session's folder: a path on this computer, or a URL. All `latest` objects are in another folder."""
        return self._location

    @property
    def info(self) -> SessionInfo:
        """The session's card as of now: title, project, counts, ..."""
        return store.info.info_of(self._reader.replica.state.card, self._reader.keys.prefix)

    @property
    def context(self) -> tuple[ContextItem, ...]:
        """The messages to send to the model, in order, buffered ones included; every item names its node.

        Providers accept it: tool calls without a result are left out, and results without a call. `open_calls` lists
        the calls that wait for results; `recorded_context` has all messages.

        Raises:
            UnavailableError: The last call could not read it all. `refresh` reads it.
        """
        return whole(self._reader, recorded(self._reader))

    @property
    def recorded_context(self) -> tuple[ContextItem, ...]:
        """The context as it was recorded, including messages that `context` leaves out.

        To change the context in the middle of a turn, pass an edited copy of this one to `commit`: open calls stay, and
        so do their results.
        """
        return recorded(self._reader)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Model, provider, thinking level, mode and the like, as set along the branch: read-only, new copies.

        Buffered changes are included.

        Raises:
            UnavailableError: As for `context`.
        """
        self._reader.content.require_at(self._reader.node, blobs=False)
        return MappingProxyType(copied(settled(self._reader)))

    @property
    def state(self) -> Mapping[str, Any]:
        """The agent's state by key: read-only, as `commit` records changes. Each access returns new copies."""
        return decoded_state(self._reader.state_values)

    @property
    def manager(self) -> Any:
        """State of the conversation manager, or None."""
        return decoded_manager(self._reader.manager_value)

    @property
    def erased_state(self) -> Mapping[str | None, Erased]:
        """An `Erased` for each state key erased and not set since; the key None is the conversation manager's state."""
        newest = self._reader.checkpoint
        return erased_state(newest.state if newest else {}, newest.manager if newest else None)

    @property
    def head(self) -> str:
        """Name of the current head."""
        return self._reader.head

    @property
    def node(self) -> str | None:
        """The current node; None before the first one."""
        return self._reader.node

    @property
    def heads(self) -> Mapping[str, str | None]:
        """All heads and their nodes, as of the last read; read-only."""
        return MappingProxyType(dict(self._reader.replica.state.heads.heads))

    @property
    def lease(self) -> Lease | None:
        """The lease of the session, as of the last read; None if no worker has it. See `Session.claim`."""
        return session.lease.lease_of(self._reader.replica)

    @property
    def _may_have_lease(self) -> bool:
        """Whether some worker has the lease, or a claim by this handle had no answer."""
        return self._reader.replica.claims is not None or self.lease is not None

    @property
    def checkpoint_id(self) -> str | None:
        """The checkpoint that this handle stands on: the newest of its head, without later ones of other writers."""
        newest = self._reader.checkpoint
        return newest.id if newest else None

    @property
    def usage(self) -> Mapping[str, int | float]:
        """Sums of all usage recorded, of imported messages as well. Navigating back does not lower them."""
        return MappingProxyType(dict(self._reader.replica.state.usage))

    @property
    def last_usage(self) -> Mapping[str, int | float]:
        """The usage of the turn recorded last: its input is the size of the context at that time."""
        return MappingProxyType(dict(self._reader.replica.state.last_usage))

    def _beside(self, reader: Reader) -> Opened[Reader]:
        """Another reader of this session, for a view of its own."""
        return Opened(reader, self._driver, self._location, [])

    def _unusable(self) -> UsageError:
        if self._closed:
            return UsageError(f"session {self.id!r} was closed", kind=Kind.CLOSED, remedy="open it again")
        return UsageError(
            f"session {self.id!r} was opened by another process, before a fork",
            kind=Kind.FORKED,
            remedy="open it again in this process",
        )


def erase(
    writer: Writer, *ids: str, state: Collection[str] = (), manager: bool = False, reason: str = ""
) -> Job[Receipt]:
    """Erase the payloads of nodes and notes, or the agent's state, permanently, also from forks of this session.

    An `Erased` replaces a payload: its hash, the time and the reason. A model sees `[erased]`, with the ids of tool
    calls kept, so that calls and results still belong together. Labels, and notes about the node, stay. So do settings
    that the node changes, of which the receipt warns.

    For a key of the state, all values that it has had until now are erased, in all checkpoints. Checkpoints then read
    as if the key had not been set, and `erased_state` lists it. Earlier forks lose their values of the key, too.

    Args:
        writer: The session.
        ids: Nodes and notes. A call without any argument finishes interrupted erasures: it searches again for
            everything ever erased here.
        state: Keys of the agent's state.
        manager: Erase the state of the conversation manager.
        reason: Shown in place of the payload; at most 200 bytes.

    Returns:
        The receipt; the payload is no longer stored.

    Raises:
        NotFoundError: The node or note does not exist, or no checkpoint has such a key; nothing was erased.
        UsageError: A checkpoint or an edit cannot be erased, or too much was erased already.
        ConflictError: Another writer writes this exclusive session.
        UnavailableError: The store did not answer. Call again to finish.
    """
    from treering import erasure  # few sessions erase anything

    receipt = yield from erasure.erasing.erase(writer, *ids, state=state, manager=manager, reason=reason)
    return (yield from erasure.erasing.finished(receipt, writer.keys))


def flush(writer: Writer) -> Steps[None]:
    """Record buffered drafts, see `durability="turn"` and `first_write="assistant"`; durable when it returns.

    They are recorded in one append, or in more if they are too large for one.

    Raises:
        UsageError: Another writer recorded another node under an id that you chose for a draft (`duplicate_id`).
            Drafts that are not recorded stay buffered: see `discard`. Further errors are those of `append`.
    """
    return session.record.flush(writer)


def discard(writer: Writer, *ids: str) -> Steps[tuple[Draft, ...]]:
    """Discard buffered drafts, so that no later call records them.

    If `flush` or `commit` raises because an id is taken by now, discard that draft, or all drafts, and append them
    again with changes; later drafts may name its id.

    Args:
        writer: The session.
        ids: Ids of the drafts; without any, all drafts are discarded.

    Returns:
        The drafts in their order, with the ids that they were to get.

    Raises:
        NotFoundError: No buffered draft has such an id: it may be recorded already. Nothing was discarded.
        UnavailableError: Some drafts are part of an append without an answer, and the store still does not answer.
    """
    return session.record.discard(writer, ids)


def close(writer: Writer) -> Steps[None]:
    """Record buffered drafts, and write `latest` so that it covers everything."""
    try:
        if (writer.unrecorded or writer.appender.calls) and not writer.appender.waits_for_answer:
            yield from flush(writer)
        yield from writer.close()
    except TreeringError:
        yield from verbs.leasing.give_back(writer)
        raise
    if writer.replica.claims is not None or (writer.replica.known_view is not None and writer.replica.view.lease.by):
        yield from verbs.leasing.give_back(writer)
