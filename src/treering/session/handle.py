"""What a handle tells without asking the store, blocking or not: where the session stood at the last look."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from inspect import GEN_CLOSED, GEN_SUSPENDED, getgeneratorstate
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.session import verbs
from treering.session.info import SessionInfo, info_of
from treering.session.pairs import recorded, whole
from treering.session.reader import ContextItem, Reader, decoded_manager, decoded_state, erased_state
from treering.session.writer import Writer
from treering.storage.requests import Driver, Steps

R = TypeVar("R", bound=Reader)
P = ParamSpec("P")
T = TypeVar("T")


class Standing(Generic[R]):
    """What can be told without asking the store: where the session stood at the last look."""

    def __init__(self, reader: R, driver: Driver, location: str) -> None:
        self._known = reader
        self._location = location
        self._call: Steps[Any] | None = None
        """The call under way, or the last one if it did not end in a result or an error of ours."""
        self._driver = driver
        self._pid = os.getpid()
        self._closed = False
        reader.save()

    @property
    def _reader(self) -> R:
        """What the session is known to be; what an interrupted call left of that is dropped first."""
        if self._interrupted:
            self._recover()
        return self._known

    @property
    def _interrupted(self) -> bool:
        """Whether the last call is over and nobody took note of how it ended."""
        return self._call is not None and getgeneratorstate(self._call) == GEN_CLOSED

    def _recover(self) -> None:
        """Drop what an interrupted call left, while no other call is under way."""
        self._roll_back()

    def _roll_back(self) -> None:
        """Stand where the interrupted call found the session, or its last append left it, if there was one."""
        if self._interrupted:
            self._known.roll_back()
            self._call = None

    def _begin(self, verb: Callable[Concatenate[Any, P], Steps[T]], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """Make ready for a call.

        Raises:
            UsageError: The session was closed, or opened by another process, or a call of this thread is waiting for
                the store: this one comes from a signal handler.
        """
        self._check_usable()
        if self._call is not None and getgeneratorstate(self._call) == GEN_SUSPENDED:
            raise UsageError(
                f"session {self.id!r} is in the middle of another call",
                kind="reentered",
                remedy="do not use it in a signal handler: set a flag there, or raise, and go on outside",
            )
        self._roll_back()
        self._known.save()
        return verb(self._known, *args, **kwargs)

    def _end(self, steps: Steps[Any] | None, before: Steps[Any] | None = None) -> None:
        """Take note that a call ended in a result or an error of ours, within another one or by itself."""
        if self._call is steps:  # else a hook let a call of its own be interrupted, and caught that
            self._call = before

    def __repr__(self) -> str:
        """Name the session, where it stands and how much it holds."""
        card = self._reader.state.card
        return f"<{type(self).__name__} {self.id!r} on {self.head!r}, {card.nodes} nodes>"

    @property
    def id(self) -> str:
        """The session's name."""
        return self._reader.keys.session

    @property
    def location(self) -> str:
        """Where its folder lies: a path on this computer, or a URL. `latest` lies beside those of others."""
        return self._location

    @property
    def info(self) -> SessionInfo:
        """The session's card as of now: title, project, counts, ..."""
        return info_of(self._reader.state.card, self._reader.keys.prefix)

    @property
    def context(self) -> tuple[ContextItem, ...]:
        """What to send to the model, in order, messages put off included; every item names its node.

        Providers take it: calls of tools that have no result are left out, and results that have no call. `open_calls`
        tells which calls wait for their results, `recorded_context` shows everything.
        """
        return whole(self._reader, recorded(self._reader))

    @property
    def recorded_context(self) -> tuple[ContextItem, ...]:
        """The context as it was recorded, also what `context` leaves out.

        In the middle of a turn, this is what to hand to `commit` edited: an open call stays, and so does its result.
        """
        return recorded(self._reader)

    @property
    def settings(self) -> Mapping[str, object]:
        """Model, provider, thinking level, mode and the like, as set along the branch."""
        return dict(self._reader.state.context.settings)

    @property
    def state(self) -> dict[str, object]:
        """What the agent knows: a copy; changes are recorded with `commit`."""
        newest = self._reader.shown
        return decoded_state(newest.state) if newest else {}

    @property
    def manager(self) -> object:
        """State of the conversation manager, or None."""
        newest = self._reader.shown
        return decoded_manager(newest.manager) if newest else None

    @property
    def erased_state(self) -> dict[str | None, Erased]:
        """What is left of state that was erased and not set since, by key; None: the conversation manager's."""
        newest = self._reader.shown
        return erased_state(newest.state, newest.manager) if newest else {}

    @property
    def head(self) -> str:
        """Name of the head in hand."""
        return self._reader.head

    @property
    def node(self) -> str | None:
        """The node that the session stands on; None before the first one."""
        return self._reader.node

    @property
    def heads(self) -> dict[str, str | None]:
        """All heads and their nodes."""
        return dict(self._reader.state.heads.heads)

    @property
    def checkpoint_id(self) -> str | None:
        """The newest checkpoint of the head in hand, as of the last look."""
        newest = self._reader.shown
        return newest.id if newest else None

    @property
    def usage(self) -> Mapping[str, int | float]:
        """Sums of all usage recorded. Going back does not lower them; it was spent."""
        return dict(self._reader.state.usage)

    @property
    def last_usage(self) -> Mapping[str, int | float]:
        """The usage recorded last."""
        return dict(self._reader.state.last_usage)

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError(f"session {self.id!r} was closed", kind="closed", remedy="open it again")
        if os.getpid() != self._pid:
            raise UsageError(
                f"session {self.id!r} was opened by another process, before a fork",
                kind="forked",
                remedy="open it again in this process",
            )


def close(writer: Writer) -> Steps[None]:
    """Record what was put off and let `latest` account for everything."""
    if writer.options.first_write != "assistant" or writer.begun:
        yield from verbs.flush(writer)
    yield from writer.close()
