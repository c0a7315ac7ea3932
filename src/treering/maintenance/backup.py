"""Back up a store, a namespace or single sessions to another place, also while they are in use; see `mirror`.

A backup is a store: it can be opened, verified and copied from, and backed up again to the place where it is to be
restored. One session that fails does not stop the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from treering.errors import NotFoundError, SessionDeletedError, UnsafeStoreError, UsageError
from treering.format.parcel import FRONT_BYTES_MAX, decode_header, decode_parcel
from treering.format.paths import NAMESPACES, namespaces_in, parcel_folder, parcel_of, prefix_of
from treering.kinds import Kind
from treering.maintenance import failures
from treering.maintenance.mirror import Mirror, require_backup
from treering.storage.effects import Job, on, tell
from treering.storage.requests import Delete, Deleted, Found, Get, Steps
from treering.storage.run import ask, list_all
from treering.storage.wrapper import innermost
from treering.store.inventory import namespaces, stored_sessions
from treering.store.parcels import ParcelRegister, replace_parcel
from treering.store.place import Place
from treering.store.purging import purge_one

Action = Literal["copied", "unchanged", "kept", "deleted", "failed"]


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup did to one session, or one parcel."""

    name: str
    namespace: tuple[str, ...] = ()
    """The session's namespace in the store, as in `SessionInfo`."""
    kind: Literal["session", "parcel"] = "session"
    action: Action
    """`kept`: the store no longer has it, and the backup still does."""
    records: int = 0
    """The number of records of the session."""
    objects: int = 0
    """The number of objects written."""
    bytes: int = 0
    """The number of bytes written."""
    missing: tuple[str, ...] = ()
    """Digests of large parts that are missing or damaged in the store, and so missing in the backup."""
    error: str = ""
    """Why it failed; the backup still holds its earlier state."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a backup: what it did to each session."""

    rows: tuple[BackedUp, ...]

    @property
    def failed(self) -> bool:
        """Whether some session or parcel could not be backed up."""
        return any(row.error or row.missing for row in self.rows)

    @property
    def bytes(self) -> int:
        """The number of bytes written."""
        return sum(row.bytes for row in self.rows)


def back_up(
    source: Place,
    target: Place,
    *,
    sessions: Sequence[str] | None = None,
    delete: bool = False,
    on_result: Callable[[BackedUp], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Job[Backup]:
    """Bring a backup up to date; see `Store.backup`."""
    if _is_inside(target, source) or _is_inside(source, target):
        raise UsageError(
            "a backup needs a place outside of the store", kind=Kind.BACKUP, remedy="name another folder or bucket"
        )
    yield from on(target.driver, target.prepare())
    copying = _Copying(delete=delete, on_result=on_result, progress=progress)
    if sessions is None:
        yield from copying.all(source, target)
    else:
        yield from copying.some(source, target, sessions)
    return Backup(rows=tuple(copying.rows))


def _failed(row: BackedUp, error: Exception) -> BackedUp:
    return msgspec.structs.replace(row, action="failed", error=failures.text_of(error))


def _is_inside(inner: Place, outer: Place) -> bool:
    """Whether a place is another one, or a namespace in it: a backup would never end, or replace what it is made of."""
    if innermost(outer.driver) is innermost(inner.driver):
        return True
    if outer.address is None or inner.address is None:
        return False
    names = [f"{place.address}/{place.prefix}" for place in (inner, outer)]
    return names[0] == names[1] or names[0].startswith(f"{names[1]}{NAMESPACES}")


class _Copying:
    """One run of a backup."""

    def __init__(
        self, *, delete: bool, on_result: Callable[[BackedUp], None] | None, progress: Callable[[int], None] | None
    ) -> None:
        self.rows: list[BackedUp] = []
        self._delete = delete
        self._on_result = on_result
        self._progress = progress
        self._bytes = 0

    def _add(self, row: BackedUp | None) -> Job[None]:
        if row is not None:
            self.rows.append(row)
            yield from tell(self._on_result, row)

    def _count(self, written: int) -> None:
        self._bytes = written
        if self._progress is not None:
            self._progress(written)

    def all(self, source: Place, target: Place) -> Job[None]:
        """Everything in a namespace, and in those below it."""
        names = yield from stored_sessions(source.prefix, appends=source.driver.appends)
        there = yield from on(target.driver, stored_sessions(target.prefix, appends=target.driver.appends))
        for name in sorted(names.keys() | there.keys()):
            yield from self._add((yield from self._session(source, target, name)))
        yield from self._parcels(source, target)
        inner = yield from namespaces(source.prefix, appends=source.driver.appends)
        inner |= yield from on(target.driver, namespaces(target.prefix, appends=target.driver.appends))
        for name in sorted(inner):
            below = prefix_of([name])
            yield from self.all(source.at(source.prefix + below), target.at(target.prefix + below))

    def some(self, source: Place, target: Place, names: Sequence[str]) -> Job[None]:
        """Single sessions."""
        for name in names:
            row = yield from self._session(source, target, name)
            yield from self._add(row or BackedUp(name=name, action="failed", error=f"there is no session {name!r}"))

    def _session(self, source: Place, target: Place, name: str) -> Job[BackedUp | None]:
        """Back up one session; None if neither place has it."""
        row = BackedUp(name=name, namespace=namespaces_in(source.prefix), action="copied")
        try:
            return (yield from self._mirrored(source, target, row))
        except (NotFoundError, SessionDeletedError):
            pass
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one session does not stop the rest
            return _failed(row, error)
        try:
            return (yield from self._gone(target, row))
        except Exception as error:  # noqa: BLE001  # likewise
            return _failed(row, error)

    def _mirrored(self, source: Place, target: Place, row: BackedUp) -> Job[BackedUp]:
        before = self._bytes

        def copied(done: int) -> None:
            self._count(before + done)

        mirror = Mirror(
            source.keys(row.name), target.driver, target.keys(row.name), replace=self._delete, progress=copied
        )
        hold = target.hold(row.name, shared=False, create=False)
        try:
            done = yield from mirror.copy()
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

    def _gone(self, target: Place, row: BackedUp) -> Job[BackedUp | None]:
        """Handle a session in the backup that the store does not have."""
        reader = target.reader(row.name)
        try:
            yield from on(target.driver, reader.replica.load())
        except NotFoundError:
            return None
        if not self._delete:
            return msgspec.structs.replace(row, action="kept", records=reader.replica.view.end)
        require_backup(reader.replica.view)
        yield from on(target.driver, target.delete(row.name))
        with contextlib.suppress(UnsafeStoreError, UsageError, NotFoundError):  # on these errors its tombstones stay
            yield from on(target.driver, purge_one(target.keys(row.name)))
        return msgspec.structs.replace(row, action="deleted")

    # parcels

    def _parcels(self, source: Place, target: Place) -> Job[None]:
        names = yield from _listed(source)
        there = yield from on(target.driver, _listed(target))
        for name in sorted(names.keys() | there.keys()):
            called = parcel_of(f"{source.prefix}{name}", source.prefix) or name
            row = BackedUp(name=called, namespace=namespaces_in(source.prefix), kind="parcel", action="unchanged")
            same_size = names.get(name) == there.get(name)
            try:
                row = yield from self._parcel(source, target, name, row, same_size=same_size)
            except NotFoundError:
                continue  # removed since it was listed
            except Exception as error:  # noqa: BLE001  # as for a session
                row = _failed(row, error)
            yield from self._add(row)

    def _parcel(self, source: Place, target: Place, name: str, row: BackedUp, *, same_size: bool) -> Job[BackedUp]:
        key, there = f"{source.prefix}{name}", f"{target.prefix}{name}"
        if same_size and (yield from _write_of(key)) == (yield from on(target.driver, _write_of(there))):
            return row
        ours = (yield from ParcelRegister(key).read()).value
        if ours is None:
            if not self._delete:
                return msgspec.structs.replace(row, action="kept")
            yield from on(target.driver, ask(Delete((there,)), Deleted))
            return msgspec.structs.replace(row, action="deleted")
        decode_parcel(ours, key=key)  # a damaged parcel must not replace a sound one
        old = yield from on(target.driver, ParcelRegister(there).read())
        yield from on(target.driver, replace_parcel(there, ours, expect=old.version))
        self._count(self._bytes + len(ours))
        return msgspec.structs.replace(row, action="copied", objects=1, bytes=len(ours))


def _listed(place: Place) -> Steps[dict[str, int]]:
    """Sizes of the parcels of a place, by their keys without its prefix."""
    entries = yield from list_all(parcel_folder(place.prefix, ""))
    return {entry.key.removeprefix(place.prefix): entry.size for entry in entries}


def _write_of(key: str) -> Steps[str]:
    front = yield from ask(Get(key, start=0, end=FRONT_BYTES_MAX, register=True), Found)
    return decode_header(front.data, key=key).write
