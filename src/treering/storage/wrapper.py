"""What all wrappers share: they speak for another driver and add one thing to how it runs batches."""

from __future__ import annotations

from treering.storage.requests import Driver, Hold


class DriverWrapper:
    """Speaks for `inner`; a subclass brings `execute` and `aexecute`."""

    def __init__(self, inner: Driver) -> None:
        self.inner = inner
        self.name = inner.name
        self.conditional = inner.conditional
        self.proven = inner.proven
        self.appends = inner.appends

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:
        """See `Driver.hold`."""
        return self.inner.hold(key, shared=shared, holder=holder, create=create)

    def keeps_versions(self) -> bool | None:
        """See `Driver.keeps_versions`."""
        return self.inner.keeps_versions()

    def scrub(self, *keys: str) -> None:
        """See `Driver.scrub`."""
        self.inner.scrub(*keys)

    def close(self) -> None:
        """See `Driver.close`."""
        self.inner.close()


def innermost(driver: Driver) -> Driver:
    """Return the driver that does the work, below all wrappers: the same one means the same store."""
    while isinstance(driver, DriverWrapper):
        driver = driver.inner
    return driver
