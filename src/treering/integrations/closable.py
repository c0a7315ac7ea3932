"""Objects that a `with` or an `async with` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from treering.storage.threads import in_thread


class Closable(ABC):
    """An object that the end of a block closes; an exception of the block is passed on."""

    @abstractmethod
    def close(self) -> None:
        """Bring the cards of open sessions up to date, and close them. A later call opens its session again."""

    async def aclose(self) -> None:
        """Do the same as `close`, in a thread."""
        await in_thread(lambda _: self.close(), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
