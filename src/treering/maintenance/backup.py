"""Back up a store, a namespace or single sessions to another place, also while they are in use; see `mirror`.

A backup is a store: it can be opened, verified and copied from, and backed up again to where it is to be restored.
One session that fails does not stop the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnsafeStoreError, UsageError
from treering.format.parcel import FRONT_BYTES_MAX, decode_header, decode_parcel
from treering.format.paths import namespaces_in, parcel_folder, parcel_of, prefix_of
from treering.maintenance.mirror import Mirror
from treering.session.inventory import namespaces, stored_sessions
from treering.session.place import Place
from treering.session.purging import purge_one
from treering.storage.requests import Delete, Deleted, Driver, Entry, Found, Get, Put, Steps, Version, Written
from treering.storage.run import ask, checked, list_all, run

Action = Literal["copied", "unchanged", "kept", "deleted", "failed"]


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one session, or of one parcel."""

    name: str
    namespace: tuple[str, ...] = ()
    """As in `SessionInfo`, of the store."""
    kind: Literal["session", "parcel"] = "session"
    action: Action
    """`kept`: the store has it no longer, and the backup still does."""
    records: int = 0
    """How many a session has."""
    objects: int = 0
    """How many were written."""
    bytes: int = 0
    """In these."""
    missing: tuple[str, ...] = ()
    """Digests of large parts that the store lacks or holds damaged, and the backup therefore, too."""
    error: str = ""
    """Why it failed; what the backup held of it before is as it was."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup did."""

    rows: tuple[BackedUp, ...]

    @property
    def failed(self) -> bool:
        """Something is not in the backup as it is in the store."""
        return any(row.error or row.missing for row in self.rows)

    @property
    def bytes(self) -> int:
        """How many were written."""
        return sum(row.bytes for row in self.rows)


def back_up(
    source: Place,
    target: Place,
    *,
    sessions: Sequence[str] | None = None,
    delete: bool = False,
    told: Callable[[BackedUp], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Backup:
    """Bring a backup up to date; see `Store.backup`."""
    if _same(source, target):
        raise UsageError("a backup needs another place than the store itself", kind="backup")
    run(target.prepare(), target.driver)
    copying = _Copying(delete=delete, progress=progress)
    rows: list[BackedUp] = []
    steps = copying.all(source, target) if sessions is None else copying.some(source, target, sessions)
    for row in steps:
        rows.append(row)
        if told is not None:
            told(row)
    return Backup(rows=tuple(rows))


def _same(source: Place, target: Place) -> bool:
    if source.prefix != target.prefix:
        return source.driver is target.driver
    return source.driver is target.driver or (source.address is not None and source.address == target.address)


class _Copying:
    """One run."""

    def __init__(self, *, delete: bool, progress: Callable[[int], None] | None) -> None:
        self._delete = delete
        self._progress = progress
        self._bytes = 0

    def _count(self, written: int) -> None:
        self._bytes = written
        if self._progress is not None:
            self._progress(written)

    def all(self, source: Place, target: Place) -> Iterator[BackedUp]:
        """Everything in a namespace, and in those below it."""
        names = run(stored_sessions(source.prefix, appends=source.driver.appends), source.driver)
        there = run(stored_sessions(target.prefix, appends=target.driver.appends), target.driver)
        for name in sorted(names.keys() | there.keys()):
            if (row := self._session(source, target, name)) is not None:
                yield row
        yield from self._parcels(source, target)
        inner = [run(namespaces(each.prefix, appends=each.driver.appends), each.driver) for each in (source, target)]
        for name in sorted({*inner[0], *inner[1]}):
            below = prefix_of([name])
            yield from self.all(source.at(source.prefix + below), target.at(target.prefix + below))

    def some(self, source: Place, target: Place, names: Sequence[str]) -> Iterator[BackedUp]:
        """Single sessions."""
        for name in names:
            row = self._session(source, target, name)
            yield row or BackedUp(name=name, action="failed", error=f"there is no session {name!r}")

    def _session(self, source: Place, target: Place, name: str) -> BackedUp | None:
        """Back up one session; None if neither place has it."""
        row = BackedUp(name=name, namespace=namespaces_in(source.prefix), action="copied")
        try:
            return self._mirrored(source, target, row)
        except (NotFoundError, SessionDeletedError):
            pass
        except (TreeringError, OSError) as error:
            return msgspec.structs.replace(row, action="failed", error=str(error))
        try:
            return self._gone(target, row)
        except (TreeringError, OSError) as error:
            return msgspec.structs.replace(row, action="failed", error=str(error))

    def _mirrored(self, source: Place, target: Place, row: BackedUp) -> BackedUp:
        before = self._bytes

        def told(done: int) -> None:
            self._count(before + done)

        mirror = Mirror(
            source.driver, source.keys(row.name), target.driver, target.keys(row.name), replace=self._delete, told=told
        )
        hold = target.hold(row.name, shared=False, create=False)
        try:
            done = mirror.run()
        finally:
            if hold is not None:
                hold.release()
        return msgspec.structs.replace(
            row,
            action="copied" if done.objects else "unchanged",
            records=done.records,
            objects=done.objects,
            bytes=done.bytes,
            missing=done.missing,
        )

    def _gone(self, target: Place, row: BackedUp) -> BackedUp | None:
        """What becomes of a session that the store does not have."""
        reader = target.reader(row.name)
        try:
            run(reader.look(), target.driver)
        except NotFoundError:
            return None
        if not self._delete:
            return msgspec.structs.replace(row, action="kept", records=reader.view.end)
        target.delete(row.name)
        with contextlib.suppress(UnsafeStoreError, UsageError, NotFoundError):  # else its tombstones stay
            run(purge_one(target.keys(row.name)), target.driver)
        return msgspec.structs.replace(row, action="deleted")

    # what others keep beside the sessions

    def _parcels(self, source: Place, target: Place) -> Iterator[BackedUp]:
        names, there = (
            {entry.key.removeprefix(place.prefix): entry.size for entry in run(_listed(place), place.driver)}
            for place in (source, target)
        )
        for name in sorted(names.keys() | there.keys()):
            called = parcel_of(f"{source.prefix}{name}", source.prefix) or name
            row = BackedUp(name=called, namespace=namespaces_in(source.prefix), kind="parcel", action="unchanged")
            try:
                yield self._parcel(source, target, name, row, same_size=names.get(name) == there.get(name))
            except NotFoundError:
                continue  # removed meanwhile
            except (TreeringError, OSError) as error:
                yield msgspec.structs.replace(row, action="failed", error=str(error))

    def _parcel(self, source: Place, target: Place, name: str, row: BackedUp, *, same_size: bool) -> BackedUp:
        key, there = f"{source.prefix}{name}", f"{target.prefix}{name}"
        if same_size and _write_of(source.driver, key) == _write_of(target.driver, there):
            return row
        (answer,) = source.driver.execute((Get(key, register=True),))
        if isinstance(answer, NotFoundError):
            if not self._delete:
                return msgspec.structs.replace(row, action="kept")
            run(ask(Delete((there,)), Deleted), target.driver)
            return msgspec.structs.replace(row, action="deleted")
        data = checked(answer, Found).data
        decode_parcel(data, key=key)  # what is damaged takes the place of nothing
        (old,) = target.driver.execute((Get(there, register=True),))
        expect = Version("") if isinstance(old, NotFoundError) else checked(old, Found).version
        run(ask(Put(there, data, expect=expect), Written), target.driver)
        self._count(self._bytes + len(data))
        return msgspec.structs.replace(row, action="copied", objects=1, bytes=len(data))


def _listed(place: Place) -> Steps[list[Entry]]:
    return list_all(parcel_folder(place.prefix, ""))


def _write_of(driver: Driver, key: str) -> str:
    front = run(ask(Get(key, start=0, end=FRONT_BYTES_MAX, register=True), Found), driver).data
    return decode_header(front, key=key).write
