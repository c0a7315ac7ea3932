"""The base class of all wrappers, which forward to another driver and change how it runs batches."""

from __future__ import annotations

from treering.storage.requests import Driver, Hold


class DriverWrapper:
    """Forwards to `inner`; a subclass defines `execute` and `aexecute`."""

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
    """Return the driver below all wrappers; if two wrappers have the same one, their store is the same."""
    while isinstance(driver, DriverWrapper):
        driver = driver.inner
    return driver
