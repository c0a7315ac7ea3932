"""A crew that works until it is told to stop, and how far it has come."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

from tests.concurrency.crew import Crew, set_to_work, wait_for
from tests.concurrency.history import Call, violations
from tests.concurrency.worker import SESSION, read_calls, read_journal
from tests.servers import S3Server, end
from tests.storage.processes import wait_until


class Load:
    """Processes that append, seal, merge and read until it is enough.

    Args:
        server: Where.
        storage_options: How to reach it.
        folder: For what they log.
        shared: How they open the session.
    """

    def __init__(self, server: S3Server, storage_options: dict[str, Any], folder: Path, *, shared: bool) -> None:
        self._enough = folder / "enough"
        self._calls = folder / "calls"
        self.crew = Crew(
            url=f"s3://{server.bucket}/load-{os.urandom(6).hex()}",
            storage_options=storage_options,
            folder=str(self._calls),
            processes=3 if shared else 2,
            shared=shared,
            appends=1,
            upkeep=0.2,
            until=str(self._enough),
        )
        self._process = set_to_work(self.crew)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, however the test ended."""
        end(self._process)

    def acknowledged(self) -> int:
        """How many appends were acknowledged so far."""
        return sum(call.verb == "append" and call.outcome == "done" for call in read_calls(self._calls))

    def wait_for(self, more: int) -> None:
        """Wait until so many more are acknowledged."""
        least = self.acknowledged() + more
        reached = wait_until(lambda: self.acknowledged() >= least, is_running=lambda: self._process.poll() is None)
        assert reached, (self._calls / "errors").read_text()

    def finish(self) -> list[Call]:
        """Say that it is enough, and hold everything to what was acknowledged; return all calls."""
        self._enough.touch()
        calls = wait_for(self._process, self.crew)
        store = self.crew.open()
        assert violations(calls, read_journal(store)) == []
        assert {finding.kind for finding in store.verify(SESSION)} <= {"waste"}
        store.close()
        return calls
