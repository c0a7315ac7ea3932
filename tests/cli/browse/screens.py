"""Run the program without a terminal, and read what it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count

from textual import events
from textual.pilot import Pilot
from textual.worker import WorkerCancelled

import treering
from treering.cli.browse.app import Browser

SMALL = (80, 24)
LARGE = (120, 40)


_numbers = count()


def empty_store() -> treering.Store:
    """A store in memory that no other test has."""
    return treering.open(f"memory://browse-{next(_numbers)}")


def ways(namespace: Sequence[str], session: str) -> Sequence[tuple[str, str]]:
    """The lines to copy, as short as can be."""
    return (("session", session), ("continue", " ".join(["continue", *namespace, session])))


QUIET_ROUNDS = 3
LETTERS = {"space": " ", "slash": "/", "question_mark": "?"}


class User:
    """Somebody before the screen, who waits until all that was begun has ended."""

    def __init__(self, pilot: Pilot[str]) -> None:
        self.pilot = pilot
        self.app = pilot.app

    async def press(self, *keys: str, wait: bool = True) -> None:
        """Press keys one after the other, each when the screen has settled; without `wait` reads may go on."""
        for key in keys:
            letter = LETTERS.get(key, key if len(key) == 1 else None)
            self.app.post_message(events.Key(key, letter))
            await self.settle(reads=wait)

    async def type(self, text: str) -> None:
        """Type some letters."""
        await self.press(*("space" if letter == " " else letter for letter in text))

    async def settle(self, *, reads: bool = True) -> None:
        """Wait until every widget has worked off its messages, and with `reads` until no read is under way.

        The pilot's own wait is for a processor that does nothing, which on a busy computer takes a second for each key.
        """
        quiet = 0
        while quiet < QUIET_ROUNDS:
            running = [worker for worker in self.app.workers if not worker.is_finished] if reads else []
            if running:
                with suppress(WorkerCancelled):  # its screen was left
                    await self.app.workers.wait_for_complete(running)
            idle = self._idle and not running
            if not self.app.is_running:
                return
            await self.pilot._wait_for_screen()
            self.app.screen._on_timer_update()
            quiet = quiet + 1 if idle and self._idle else 0

    @property
    def _idle(self) -> bool:
        """Whether no widget has a message before it."""
        if not self.app.is_running:
            return True
        return all(pump._message_queue.empty() for pump in (self.app, *self.app.screen.walk_children(with_self=True)))

    @property
    def lines(self) -> list[str]:
        """The lines of the screen as they are shown."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def screen(self) -> str:
        """All of the screen."""
        return "\n".join(self.lines)

    @property
    def words(self) -> str:
        """All of the screen on one line, however it is wrapped."""
        return " ".join(self.screen.split())


@asynccontextmanager
async def browsing(
    store: treering.Store,
    *,
    size: tuple[int, int] = SMALL,
    cwd: str | None = None,
    session: tuple[treering.Store, str] | None = None,
) -> AsyncIterator[User]:
    """Run the program on a store."""
    app = Browser(store, place="the place", ways=ways, cwd=cwd, session=session)
    async with app.run_test(size=size) as pilot:
        user = User(pilot)
        await user.settle()
        yield user
