"""What a contestant does. Who does not offer one of these leaves it out, and the report shows a dash."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Contestant:
    """Stores sessions at one place.

    Every session is written by turns of two messages, each with a checkpoint: the last `window` messages, and the state
    `{"step": number of the turn}`. Texts are returned oldest first.

    Args:
        place: A folder, or a URL whose server the environment names.
        window: Messages that the model sees.
    """

    def __init__(self, place: str, window: int = 10) -> None:
        self.place = place
        self.window = window

    def write(self, session: str, count: int) -> None:
        """Store a whole session, as quickly as possible."""
        raise NotImplementedError

    def resume(self, session: str) -> Sequence[str]:
        """Open a session as a new process would; return the texts that its model sees."""
        raise NotImplementedError
