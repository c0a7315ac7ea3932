"""`AsyncStore`: what `Store` does, awaited. Imported only by those who use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from treering.ids import new_nonce
from treering.journal import life
from treering.maintenance.backup import BackedUp, Backup
from treering.maintenance.repair import Repair
from treering.maintenance.retention import Retained, RetainedRow, Retention
from treering.maintenance.verify import Finding
from treering.session.asynchronous import AsyncSession, AsyncView
from treering.session.catalogue import CARDS_AT_ONCE_MAX, Sessions, list_cards, list_sessions, newest, read_cards
from treering.session.info import SessionInfo
from treering.session.inventory import namespaces
from treering.session.lineage import link_child
from treering.session.loading import Progress
from treering.session.place import (
    LoadFacts,
    Opening,
    OpenOptions,
    Place,
    open_place,
    passing_over_missing,
    purging,
    release,
    wanted_by,
)
from treering.session.redaction import Redactor
from treering.session.state import DEFAULT_POLICY
from treering.session.store import Store
from treering.session.writer import Options
from treering.storage.run import arun
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.storage.open import Target


class AsyncStore:
    """Sessions in a folder or a bucket, for asynchronous code; see `Store` for what each method promises."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __repr__(self) -> str:
        """Name the kind of store and the part of it."""
        return f"<AsyncStore {self._place.driver.name} {self._place.prefix!r}>"

    def namespace(self, name: str) -> AsyncStore:
        """A store of its own inside this one; see `Store.namespace`."""
        return AsyncStore(self._place.namespace(name))

    async def namespaces(self) -> dict[str, AsyncStore]:
        """The namespaces directly in this store, by name; see `Store.namespaces`."""
        found = await arun(namespaces(self._place.prefix, appends=self._place.driver.appends), self._place.driver)
        return {name: AsyncStore(self._place.at(prefix)) for name, prefix in found.items()}

    async def session(self, session: str | None = None, **options: Unpack[OpenOptions]) -> AsyncSession:
        """Resume a session, or make ready to create it; see `Store.session`."""
        return await self._open(Opening.of(session, options))

    async def _open(self, opening: Opening) -> AsyncSession:
        writer, holds = self._place.writer(opening)
        try:
            await arun(writer.open(), self._place.driver)
        except BaseException:
            release(holds)
            raise
        return AsyncSession(writer, self._place.driver, self._place.location_of(opening.session), holds)

    async def view(self, session: str, *, policy: str | None = None) -> AsyncView:
        """Look at a session without ever writing to it; see `Store.view`."""
        reader = self._place.reader(session, policy)
        await arun(reader.resume(), self._place.driver)
        return AsyncView(reader, self._place.driver, self._place.location_of(session))

    async def sessions(
        self,
        *,
        project: str | None = None,
        cwd: str | None = None,
        status: str | None = None,
        limit: int = 20,
        after: str | None = None,
        below: bool = False,
    ) -> Sessions:
        """One page of sessions, the most recently active first; see `Store.sessions`."""
        wanted = wanted_by(project, cwd, status)
        return await arun(
            list_sessions(
                self._place.prefix,
                appends=self._place.driver.appends,
                limit=limit,
                after=after,
                wanted=wanted,
                below=below,
            ),
            self._place.driver,
        )

    async def each_session(self, *, below: bool = False) -> AsyncIterator[SessionInfo]:
        """Yield all sessions, the most recently active first; see `Store.each_session`."""
        listings = await arun(
            list_cards(self._place.prefix, appends=self._place.driver.appends, below=below), self._place.driver
        )
        for start in range(0, len(listings), CARDS_AT_ONCE_MAX):
            part = listings[start : start + CARDS_AT_ONCE_MAX]
            for row in await arun(read_cards(part), self._place.driver):
                yield row

    async def recent(
        self, *, project: str | None = None, cwd: str | None = None, below: bool = False
    ) -> SessionInfo | None:
        """The session that was last active; see `Store.recent`."""
        return await arun(
            newest(self._place.prefix, appends=self._place.driver.appends, wanted=wanted_by(project, cwd), below=below),
            self._place.driver,
        )

    async def spawn(self, parent: AsyncSession, session: str, *, task: str) -> AsyncSession:
        """Start a subagent's session, linked in both directions; see `Store.spawn`."""
        await arun(life.require_free(self._place.keys(session)), self._place.driver)
        card = await parent.perform(link_child, session, task)
        return await self._open(Opening(session, card, Options()))

    async def delete(self, session: str, *, missing_ok: bool = False) -> None:
        """Delete a session and everything in it; see `Store.delete`."""
        hold = self._place.hold(session, shared=False, create=False)
        try:
            keys = self._place.keys(session)
            with passing_over_missing(missing_ok=missing_ok):
                await arun(life.delete(keys, nonce=new_nonce()), self._place.driver)
                await asyncio.to_thread(self._place.driver.scrub, *keys.places)
        finally:
            if hold is not None:
                hold.release()

    async def purge(self, session: str | None = None, *, older_than: timedelta | None = None) -> tuple[str, ...]:
        """Remove what deletions leave; see `Store.purge`."""
        names = await arun(purging(self._place, session, older_than), self._place.driver)
        await asyncio.to_thread(self._place.driver.scrub, *(self._place.keys(name).home for name in names))
        return names

    async def retain(
        self,
        policy: Retention,
        *,
        dry_run: bool = False,
        now: datetime | None = None,
        told: Callable[[RetainedRow], None] | None = None,
    ) -> Retained:
        """Delete old sessions and prune checkpoints by a policy; see `Store.retain`. Runs in a thread."""
        return await asyncio.to_thread(Store(self._place).retain, policy, dry_run=dry_run, now=now, told=told)

    async def copy(
        self,
        session: str,
        target: AsyncStore | None = None,
        *,
        name: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Copy a session, also while it is in use; see `Store.copy`. Runs in a thread."""
        where = None if target is None else Store(target._place)  # noqa: SLF001  # of the same class
        await asyncio.to_thread(Store(self._place).copy, session, where, name=name, progress=progress)

    async def backup(
        self,
        target: AsyncStore,
        *,
        sessions: Sequence[str] | None = None,
        delete: bool = False,
        told: Callable[[BackedUp], None] | None = None,
        progress: Progress | None = None,
    ) -> Backup:
        """Bring a backup of this store up to date; see `Store.backup`. Runs in a thread."""
        where = Store(target._place)  # of the same class
        back_up = Store(self._place).backup
        return await asyncio.to_thread(back_up, where, sessions=sessions, delete=delete, told=told, progress=progress)

    async def load(
        self,
        session: str,
        drafts: Iterable[Draft],
        *,
        leaf: Callable[[], str | None],
        facts: LoadFacts | None = None,
        policy: str = DEFAULT_POLICY,
        origin: Callable[[], Mapping[str, object]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make a session from what an importer read; see `Store.load`. Runs in a thread."""
        load = Store(self._place).load
        await asyncio.to_thread(
            load, session, drafts, leaf=leaf, facts=facts, policy=policy, origin=origin, progress=progress
        )

    async def verify(self, session: str) -> list[Finding]:
        """Report all damage and oddities of a session; see `Store.verify`. Runs in a thread."""
        return await asyncio.to_thread(Store(self._place).verify, session)

    async def repair(
        self, session: str, *, into: str, target: AsyncStore | None = None, progress: Progress | None = None
    ) -> Repair:
        """Salvage what can be read of a damaged session into a new one; see `Store.repair`. Runs in a thread."""
        where = None if target is None else Store(target._place)  # noqa: SLF001  # of the same class
        return await asyncio.to_thread(Store(self._place).repair, session, into=into, target=where, progress=progress)

    async def verify_all(self) -> list[tuple[str, list[Finding]]]:
        """Verify all sessions; see `Store.verify_all`. Runs in a thread."""
        return await asyncio.to_thread(lambda: list(Store(self._place).verify_all()))

    async def verify_parcels(self) -> list[tuple[str, list[Finding]]]:
        """Verify what others keep beside the sessions; see `Store.verify_parcels`. Runs in a thread."""
        return await asyncio.to_thread(lambda: list(Store(self._place).verify_parcels()))

    async def close(self) -> None:
        """Give back connections and files; see `Store.close`."""
        await asyncio.to_thread(self._place.driver.close)


def aopen(
    target: Target,
    *,
    path: str = "",
    namespace: str | None = None,
    single_writer: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    redactor: Redactor | None = None,
) -> AsyncStore:
    """Open a store for asynchronous code; see `treering.open`."""
    return AsyncStore(
        open_place(
            target,
            path=path,
            namespace=namespace,
            single_writer=single_writer,
            storage_options=storage_options,
            redactor=redactor,
        )
    )
