"""The open threads of a saver, and the checkpoints that it returned to LangGraph.

Rule 1: the saver remembers which checkpoints it returned as the newest of their namespaces, also for threads that were
closed since.
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
"""The most returned checkpoints that are remembered, at about 200 bytes each."""


class Threads(OpenSessions[str, Thread]):
    """Opens threads, and runs operations on them.

    Args:
        place: The store.
        listed: The channel whose messages are kept as nodes.
        open_max: How many threads to keep open.
    """

    def __init__(self, place: Place, *, listed: str, open_max: int) -> None:
        facts = {MARK: {"keeps": "thread"}}
        super().__init__(
            place.driver, lambda name: Thread(shared_writer(place, name, facts), listed), open_max=open_max
        )
        self.told = Told()


class Told:
    """The checkpoints that were returned as the newest of their namespaces."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str, str | None], None] = OrderedDict()
        self._mutex = threading.Lock()

    def add(self, thread: str, ns: str, checkpoint: str | None) -> None:
        """Remember a checkpoint; None stands for "there is no checkpoint yet"."""
        with self._mutex:
            self._told[thread, ns, checkpoint] = None
            self._told.move_to_end((thread, ns, checkpoint))
            if len(self._told) > TOLD_MAX:
                self._told.popitem(last=False)

    def discard(self, thread: str, ns: str, checkpoint: str) -> None:
        """Forget a checkpoint: a caller asked for it by id when it was not the newest, in order to continue from it."""
        with self._mutex:
            self._told.pop((thread, ns, checkpoint), None)

    def __contains__(self, place: tuple[str, str, str | None]) -> bool:
        with self._mutex:
            return place in self._told
