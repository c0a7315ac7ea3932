"""Create a session with its first append, or continue the one that another writer created first."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from treering import journal
from treering.errors import ConflictError
from treering.format.record import Record
from treering.format.register import Card
from treering.ids import new_nonce, now_ms
from treering.journal.resume import resume
from treering.session.blobs import Blobs
from treering.session.content import Content
from treering.session.options import Options
from treering.session.position import Position
from treering.session.replica import Replica
from treering.session.snapshot import encode_state
from treering.session.state import SessionState, announced
from treering.storage.requests import Steps


class Creation:
    """Creates a session that does not exist yet, and remembers whether this handle created it.

    Args:
        replica: The session in memory.
        content: Reads the contents of its records.
        blobs: Its blobs.
        position: Where the handle stands.
        options: How the session was opened.
        card: The card of the new session.
        prepare: Called before this handle first writes to the store.
    """

    def __init__(
        self,
        replica: Replica,
        content: Content,
        blobs: Blobs,
        *,
        position: Position,
        options: Options,
        card: Card,
        prepare: Callable[[], Steps[None]],
    ) -> None:
        self._replica = replica
        self._content = content
        self._blobs = blobs
        self._position = position
        self._options = options
        self.card = card if options.redaction is None else options.redaction.card(card)
        self._prepare = prepare
        self.is_new = False
        """Whether the session did not exist when this handle was opened, and no other writer created it since."""
        self._absent = False
        """Whether the store had no object of the session when this handle looked last."""
        self._lives: list[str] = []
        """Lives that this handle tried to create: an earlier try may have succeeded without an answer."""

    def expect(self, *, absent: bool = False) -> None:
        """Stand before the first node of a session that does not exist yet.

        Args:
            absent: Nothing of it is stored, not even a tombstone.
        """
        self.is_new = True
        self._absent = absent
        self._replica.forget(self.card)
        self._blobs.at_hand = {}
        self._replica.met = False
        self._position.follow_head()

    def create(self, records: Sequence[Record]) -> Steps[None]:
        """Create the session, or continue in it if another writer created it first.

        Args:
            records: The records to be appended next; the card is made from them.

        Raises:
            ConflictError: Another writer created it, and this handle is exclusive.
        """
        yield from self._prepare()
        keys, card = self._replica.keys, announced(self.card, records)
        lines = encode_state(SessionState(card, self._replica.policy))
        self._lives.append(new_nonce())  # rule: create-under-new-life
        try:
            view = yield from journal.life.create(
                keys, card, lines, life=self._lives[-1], nonce=new_nonce(), now_ms=now_ms(), absent=self._absent
            )
        except ConflictError as error:
            if self._options.shared:
                yield from self._replica.load()
                yield from self._content.complete()
                self.is_new = self._replica.view.life in self._lives
                self._position.keep_head()  # still before the first node, not on the other writer's nodes
                return
            view = yield from resume(keys)
            if view.life not in self._lives:
                self._replica.stop(error)
                raise
        if view.end and not self._options.shared:
            self._replica.stop()
            self._replica.check()
        self._replica.begin(view)
        self._position.follow_head()
        self._replica.is_sound = view.life in self._lives


def full_path(cwd: str) -> str:
    """The absolute path of a folder; an empty one stays empty."""
    return os.path.abspath(os.path.expanduser(cwd)) if cwd else ""
