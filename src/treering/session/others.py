"""Who else writes in a session. A handle that should be alone there stops when it learns of others.

Rule 1: what others wrote before the caller opened or refreshed the session is where it goes on from.
Rule 2: what else they wrote stops it, whoever sees it first: an append, or somebody who only reads.
Rule 3: others may seal what we wrote, and erase it from the tail, before we know that it landed. So what is not at hand
is ours as far as an append of ours reaches; of one that is in doubt, that is found out when it is settled.
Rule 4: who was stopped stays so; it has to open the session again.
"""

from __future__ import annotations

from treering.errors import ConflictError
from treering.journal.append import Appended, Overtaken
from treering.session.reader import News


class Others:
    """What one handle knows of them.

    Args:
        nonce: The handle's; every `Record.by` of its own begins with it.
        shared: Others are welcome.
        session: For messages: the session's id.
        key: For messages: the session's tail.
    """

    def __init__(self, nonce: str, *, shared: bool, session: str, key: str) -> None:
        self.met = False
        """They wrote, and the caller was not told yet."""
        self.stopped: ConflictError | None = None
        self._prefix = f"{nonce}."
        self._shared = shared
        self._session, self._key = session, key
        self._shown_to = 0
        self._landed_to = 0

    @property
    def in_the_way(self) -> bool:
        """Whether nothing may be recorded any more."""
        return self.met or self.stopped is not None

    def accept(self, end: int) -> None:
        """Whatever stands below `end` is where the caller goes on from."""
        self.met, self._shown_to = False, end

    def learn(self, outcome: Appended | Overtaken, count: int) -> None:
        """Take in what became of an append of `count` records."""
        if isinstance(outcome, Appended):
            self._landed_to = outcome.first + count
        elif outcome.by and not self._is_ours(outcome.by) and outcome.first >= self._shown_to:
            self._meet()

    def look(self, news: News, *, doubted_to: int = 0) -> None:
        """Take in what a look showed; an append in doubt would end at `doubted_to`."""
        if self.wrote(news, doubted_to=doubted_to):
            self._meet()

    def wrote(self, news: News, *, doubted_to: int = 0) -> bool:
        """Whether some of `news` is theirs."""
        if news.unseen and news.unseen.stop > max(self._landed_to, doubted_to):
            return True
        return not all(self._is_ours(record.by) for record in news.records)

    def check(self) -> None:
        """Stop if they are in the way.

        Raises:
            ConflictError: They wrote, now or earlier, and the caller has to open the session again.
        """
        if self.met:
            self.stop()
        if self.stopped is not None:
            raise self.stopped

    def stop(self, error: ConflictError | None = None) -> None:
        """Let nothing more be recorded, because of `error` or because they wrote."""
        self.stopped = error or ConflictError(
            f"somebody else writes session {self._session!r}",
            kind="overtaken",
            key=self._key,
            remedy="open it again to go on from what they wrote, or open it with shared=True",
        )

    def _meet(self) -> None:
        self.met = not self._shared

    def _is_ours(self, by: str) -> bool:
        return by.startswith(self._prefix)
