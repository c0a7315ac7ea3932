"""What a handle tells without asking the store, blocking or not: where the session stood at the last look."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Generic, TypeVar

from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.session import verbs
from treering.session.info import SessionInfo, info_of
from treering.session.reader import ContextItem, Reader, decoded_manager, decoded_state, erased_state
from treering.session.writer import Writer
from treering.storage.requests import Driver, Steps

R = TypeVar("R", bound=Reader)


class Standing(Generic[R]):
    """What can be told without asking the store: where the session stood at the last look."""

    def __init__(self, reader: R, driver: Driver) -> None:
        self._reader = reader
        self._driver = driver
        self._pid = os.getpid()
        self._closed = False

    def __repr__(self) -> str:
        """Name the session, where it stands and how much it holds."""
        card = self._reader.state.card
        return f"<{type(self).__name__} {self.id!r} on {self.head!r}, {card.nodes} nodes>"

    @property
    def id(self) -> str:
        """The session's name."""
        return self._reader.keys.session

    @property
    def info(self) -> SessionInfo:
        """The session's card as of now: title, project, counts, ..."""
        return info_of(self._reader.state.card)

    @property
    def context(self) -> tuple[ContextItem, ...]:
        """What the model sees, in order; every item names its node."""
        state = self._reader.state
        return self._reader.messages(state.context, state.lines)

    @property
    def settings(self) -> Mapping[str, object]:
        """Model, provider, thinking level, mode and the like, as set along the branch."""
        return dict(self._reader.state.context.settings)

    @property
    def state(self) -> dict[str, object]:
        """What the agent knows: a copy; changes are recorded with `commit`."""
        return decoded_state(self._reader.state.state)

    @property
    def manager(self) -> object:
        """State of the conversation manager, or None."""
        return decoded_manager(self._reader.state.manager)

    @property
    def erased_state(self) -> dict[str | None, Erased]:
        """What is left of state that was erased and not set since, by key; None: the conversation manager's."""
        return erased_state(self._reader.state.state, self._reader.state.manager)

    @property
    def head(self) -> str:
        """Name of the head in hand."""
        return self._reader.state.head

    @property
    def node(self) -> str | None:
        """The node the head stands on; None before the first one."""
        return self._reader.state.tip

    @property
    def heads(self) -> dict[str, str | None]:
        """All heads and their nodes."""
        return dict(self._reader.state.heads.heads)

    @property
    def checkpoint_id(self) -> str | None:
        """The newest checkpoint of the head in hand."""
        newest = self._reader.state.checkpoint
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


def put_off(writer: Writer) -> tuple[ContextItem, ...]:
    """Messages that are not recorded yet, because the session was opened that way."""
    shown = [draft for draft in writer.put_off if draft.type == "node" and draft.kind == "message"]
    return tuple(ContextItem(draft.id or "", draft.payload) for draft in shown)
