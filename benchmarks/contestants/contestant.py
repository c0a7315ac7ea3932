"""What a contestant does.

Who does not offer one of these has no such method, and the report shows a dash:

| Method | What it does |
|---|---|
| `resume(session)` | open a session as a new process would; return the texts that its model sees |
| `begin(session)`, `end()` | open it to write to it, and close it |
| `append(text)` | add one message, as durable as it ever gets |
| `turn(texts, step)` | add a user's message and an answer, and keep a checkpoint with the state |
| `page(session, count)` | return the texts of the newest messages |
| `skeleton(session)` | read who follows whom, without payloads; return how many nodes |
| `switch(session)` | go to the other branch; return the texts that the model sees there |
| `travel(session, step)` | return the texts that the model saw at the end of a turn |
| `list(count)` | list the newest sessions; return how many rows |
| `counts(session)` | return how many nodes and checkpoints a session has |
| `everything(session)` | return the texts of all branches, where a context shows one |
| `optimize(session)` | do what is done now and then to keep a session small |
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.workload import Message


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

    def write(self, session: str, messages: Sequence[Message]) -> None:
        """Store a whole session, as quickly as possible. If it can, leave a branch of two messages behind."""
        raise NotImplementedError
