"""The threads that a saver has open, and which of their checkpoints it handed out.

Rule 1: which checkpoints were handed out as the newest of their namespaces is remembered for all threads, also for
those that were closed since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from treering.integrations.langgraph.names import MARK
from treering.integrations.langgraph.thread import Thread
from treering.integrations.opened import OpenSessions
from treering.integrations.shared import shared_writer
from treering.store.place import Place

TOLD_MAX: Final = 10_000
"""Checkpoints that are remembered as handed out; about 200 bytes each."""


class Threads(OpenSessions[str, Thread]):
    """Opens threads, and runs what is done with them.

    Args:
        place: The store.
        listed: As for `Thread`.
        open_max: How many to keep open.
    """

    def __init__(self, place: Place, *, listed: str, open_max: int) -> None:
        facts = {MARK: {"keeps": "thread"}}
        super().__init__(
            place.driver, lambda name: Thread(shared_writer(place, name, facts), listed), open_max=open_max
        )
        self.told = Told()


class Told:
    """Which checkpoints were handed out as the newest of their namespaces."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str, str | None], None] = OrderedDict()
        self._mutex = threading.Lock()

    def add(self, thread: str, ns: str, checkpoint: str | None) -> None:
        """Remember one; None: there was none."""
        with self._mutex:
            self._told[thread, ns, checkpoint] = None
            self._told.move_to_end((thread, ns, checkpoint))
            if len(self._told) > TOLD_MAX:
                self._told.popitem(last=False)

    def discard(self, thread: str, ns: str, checkpoint: str) -> None:
        """Forget one: somebody asked for it by its id when it was not the newest, so as to go on from there."""
        with self._mutex:
            self._told.pop((thread, ns, checkpoint), None)

    def __contains__(self, place: tuple[str, str, str | None]) -> bool:
        with self._mutex:
            return place in self._told
