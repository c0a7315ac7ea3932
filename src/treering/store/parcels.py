"""Parcels: bytes that another program stores under its own names, next to the sessions. The last write wins.

Rule 1: a write that names the version it replaces raises if there is another version; see `put_parcel`.
Rule 2: on a filesystem that empties a file before it fills it, parcels are stored as registers, so that a killed write
leaves the old bytes. There a write reads first; on all other stores it is one request.

Known limit: a write without an answer may take effect later, and a parcel has no tombstones. So it may replace what was
written since, unless that named a version which it replaced, and bring back a parcel that was deleted since. Registers
of sessions prevent this by one request more for each creation and two for each deletion; here every write would cost
two requests, since it could not do without a version. Whoever deletes what must not come back deletes it again, once a
write of it had no answer and no request can be under way any more.
"""

from __future__ import annotations

from collections.abc import Collection

from treering.errors import ConflictError, CorruptError
from treering.format.parcel import FRONT_BYTES_MAX, decode_header, decode_parcel, encode_parcel
from treering.format.paths import parcel_folder, parcel_key, parcel_of
from treering.ids import new_nonce
from treering.journal.register import Cell, Register, Swapped
from treering.kinds import Kind
from treering.storage.requests import Delete, Deleted, Entry, Get, Put, Steps, Version, Written
from treering.storage.run import ask, found_in, list_all
from treering.store.place import Place

FRONTS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections


class ParcelRegister(Register[bytes]):
    """One parcel; its values are the bytes of the whole object, which hold their write id in the first line."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, data: bytes) -> bytes:
        return data

    def write_id(self, value: bytes) -> str:
        return decode_header(value, key=self.key).write


def put_parcel(
    place: Place,
    name: str,
    content: bytes,
    *,
    expect: Version | None = None,
    write: str | None = None,
    own: Collection[str] = (),
) -> Steps[Version]:
    """Write a parcel; durable when it returns. Returns its version.

    Args:
        place: The store or namespace.
        name: Non-empty parts, separated by slashes.
        content: Any bytes.
        expect: Replace only this version; `ABSENT`: there must be no parcel yet. None replaces any version.
        write: The id of this write; by default a new one.
        own: Ids of the caller's writes behind that version that had no answer: what they wrote may be replaced, too.

    Raises:
        ConflictError: There is another version; nothing was written.
        UsageError: The name or the content cannot be stored.
        UnavailableError: The store did not answer; the bytes may be written.
    """
    key = parcel_key(place.prefix, name)
    data = encode_parcel(name, content, write=write or new_nonce())
    yield from place.prepare()
    if expect is None and place.driver.conditional:
        return (yield from ask(Put(key, data), Written)).version
    if expect is None:
        expect = (yield from ParcelRegister(key).read()).version
    return (yield from replace_parcel(key, data, expect=expect, own=own))


def replace_parcel(key: str, data: bytes, *, expect: Version, own: Collection[str] = ()) -> Steps[Version]:
    """Replace one version of a parcel, or what a write in `own` wrote; return the new version.

    Raises:
        ConflictError: There is another version; nothing was written.
        UnavailableError: The store did not answer; the bytes may be written.
    """
    register = ParcelRegister(key)
    outcome = yield from register.replace(data, expect=expect)
    if isinstance(outcome, Cell) and outcome.value is not None and register.write_id(outcome.value) in own:
        outcome = yield from register.replace(data, expect=outcome.version)
    if not isinstance(outcome, Swapped):
        raise ConflictError("another process wrote this parcel, or removed it", kind=Kind.PARCEL, key=key)
    return outcome.version


def get_parcel(place: Place, name: str) -> Steps[tuple[bytes, Version] | None]:
    """Read a parcel in one request; None if there is none.

    Raises:
        CorruptError: The parcel is damaged, or another parcel is stored under its key.
    """
    key = parcel_key(place.prefix, name)
    there = yield from ParcelRegister(key).read()
    if there.value is None:
        return None
    parcel = decode_parcel(there.value, key=key)
    if parcel.header.name != name:
        raise CorruptError(f"this is the parcel {parcel.header.name!r}", kind=Kind.MOVED, key=key)
    return parcel.content, there.version


def delete_parcel(place: Place, name: str) -> Steps[None]:
    """Delete a parcel, if it exists."""
    yield from ask(Delete((parcel_key(place.prefix, name),)), Deleted)


def parcel_names(place: Place, start: str = "") -> Steps[list[str]]:
    """The sorted names with a prefix: one LIST per thousand below the folder of the prefix.

    Names with a very long part are read from their parcels, one ranged GET for each.

    Raises:
        CorruptError: A parcel with a very long part in its name is damaged.
    """
    entries = yield from list_all(parcel_folder(place.prefix, start[: start.rfind("/") + 1]))
    names: list[str] = []
    unnamed: list[Entry] = []
    for entry in entries:
        if (name := parcel_of(entry.key, place.prefix)) is not None:
            names.append(name)
            unnamed += [] if name else [entry]
    for first in range(0, len(unnamed), FRONTS_AT_ONCE_MAX):
        names += yield from _told_names(unnamed[first : first + FRONTS_AT_ONCE_MAX])
    return sorted(name for name in names if name and name.startswith(start))


def _told_names(entries: list[Entry]) -> Steps[list[str]]:
    answers = yield tuple(Get(entry.key, start=0, end=FRONT_BYTES_MAX, register=True) for entry in entries)
    return [
        decode_header(front.data, key=entry.key).name
        for entry, answer in zip(entries, answers, strict=True)
        if (front := found_in(answer)) is not None
    ]
