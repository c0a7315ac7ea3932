"""A driver to derive from for tests that stand between a store and its protocols."""

from __future__ import annotations

from treering.storage.requests import Answer, Batch
from treering.storage.wrapper import DriverWrapper


class PassingDriver(DriverWrapper):
    """Passes all on; what a test does to `execute`, it does to the asynchronous way as well."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch."""
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch the same way."""
        return self.execute(batch)
