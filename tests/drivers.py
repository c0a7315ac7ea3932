"""Drivers for tests that stand between a store and its protocols, to derive from or to use as they are."""

from __future__ import annotations

from treering.storage.requests import Answer, Batch, Hold
from treering.storage.wrapper import DriverWrapper


class PassingDriver(DriverWrapper):
    """Passes all on; what a test does to `execute`, it does to the asynchronous way as well."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch."""
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch the same way."""
        return self.execute(batch)


class Unheld(PassingDriver):
    """A driver without locks, as buckets have none."""

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:
        """Lock nothing."""
        return None
