"""A session opened for reading, assembled from its parts: memory, blobs, and content of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.policy import Policy
from treering.errors import TreeringError
from treering.format.paths import SessionKeys
from treering.session.blobs import Blobs
from treering.session.content import Content
from treering.session.options import Outside
from treering.session.replica import Replica
from treering.storage.requests import Get, Steps, Unchanged
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.journal.memory import Memory


class Readable(Protocol):
    """The parts of every open session, for reading or for writing."""

    keys: SessionKeys
    replica: Replica
    blobs: Blobs
    content: Content
    outside: Outside

    @property
    def head(self) -> str:
        """The head that the caller stands on."""
        ...

    @property
    def node(self) -> str | None:
        """The node that the caller stands on."""
        ...

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that the caller stands on."""
        ...

    @property
    def unrecorded(self) -> tuple[Draft, ...]:
        """Drafts that are not known to be recorded; see `Writer.unrecorded`."""
        ...

    @property
    def unrecorded_here(self) -> tuple[Draft, ...]:
        """The unrecorded drafts after which the caller will stand, once they are recorded."""
        ...

    @property
    def state_values(self) -> Mapping[str, bytes]:
        """The agent's state, encoded, by key."""
        ...

    @property
    def manager_value(self) -> bytes | None:
        """State of the conversation manager, encoded."""
        ...

    def refresh(self) -> Steps[bool]:
        """Read the session again; return whether anything is new."""
        ...

    def save(self) -> None:
        """Make a savepoint."""
        ...

    def roll_back(self) -> None:
        """Go back to the last savepoint."""
        ...


class Reader:
    """The parts of a session that was opened for reading."""

    def __init__(
        self,
        keys: SessionKeys,
        policy: Policy | None = None,
        memory: Callable[[], Memory] | None = None,
        replica: Replica | None = None,
    ) -> None:
        self.keys = keys
        self.outside = Outside()
        self.replica = Replica(keys, policy, memory=memory) if replica is None else replica
        self.blobs = Blobs(self.replica)
        self.content = Content(self.replica, self.blobs)

    @property
    def head(self) -> str:
        """The current head of the session."""
        return self.replica.state.head

    @property
    def node(self) -> str | None:
        """The node that this head points to."""
        return self.replica.state.tip

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint of the current head."""
        return self.replica.state.checkpoint

    @property
    def unrecorded(self) -> tuple[Draft, ...]:
        """Empty: a reader records nothing."""
        return ()

    @property
    def unrecorded_here(self) -> tuple[Draft, ...]:
        """Empty: a reader records nothing."""
        return ()

    @property
    def state_values(self) -> Mapping[str, bytes]:
        """The agent's state, encoded, by key."""
        return self.checkpoint.state if self.checkpoint else {}

    @property
    def manager_value(self) -> bytes | None:
        """State of the conversation manager, encoded."""
        return self.checkpoint.manager if self.checkpoint else None

    def resume(self) -> Steps[None]:
        """Read the session's state: two GETs, and its context's blobs if it has any.

        Raises:
            NotFoundError: There is no such session, or it was deleted (`SessionDeletedError`).
            CorruptError: It is damaged.
        """
        yield from self.replica.load()
        yield from self.content.complete()

    def refresh(self) -> Steps[bool]:
        """Read the session again; return whether anything is new."""
        if not self.replica.exists:
            yield from self.resume()
            return True
        there, at_hand, end = self.replica.mark(), self.blobs.at_hand, self.replica.state.end
        try:
            new = yield from self.replica.catch_up()
            yield from self.content.complete()
        except TreeringError:
            self.replica.go_back(there)  # else it would show parts of two moments
            self.blobs.at_hand = at_hand
            raise
        return new or self.replica.state.end > end

    def look(self) -> Steps[None]:
        """Bring the reader up to date: one conditional GET if nothing is new, usually answered without a body."""
        seen = self.replica.known_view
        if seen is not None and seen.tail_version:
            (answer,) = yield (Get(self.keys.tail, unless=seen.tail_version, register=True),)
            if isinstance(answer, Unchanged):
                return
        yield from self.refresh()

    def save(self) -> None:
        """Make a savepoint, restored if the calls that follow are interrupted; see `treering.session.replica`."""
        self._saved = self.replica.mark(), self.blobs.at_hand

    def roll_back(self) -> None:
        """Go back to the last savepoint after an interrupted call; sends no request."""
        there, self.blobs.at_hand = self._saved
        self.replica.go_back(there)
