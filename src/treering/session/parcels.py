"""Parcels of a place: bytes of others under names of theirs, beside the sessions. The last one written counts.

Rule 1: who says which version a write replaces is told when there is another one; see `put_parcel`.
Rule 2: a filesystem that empties a file before it fills it keeps parcels as registers, so that a killed write leaves
the old bytes. There a write reads first; everywhere else it is one request.
"""

from __future__ import annotations

from treering.errors import ConflictError, CorruptError, NotFoundError
from treering.format.parcel import FRONT_BYTES_MAX, decode_header, decode_parcel, encode_parcel
from treering.format.paths import parcel_folder, parcel_key, parcel_of
from treering.ids import new_nonce
from treering.session.place import Place
from treering.storage.requests import ABSENT, Delete, Deleted, Entry, Found, Get, Put, Steps, Version, Written
from treering.storage.run import ask, checked, list_all

FRONTS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections


def put_parcel(place: Place, name: str, content: bytes, *, expect: Version | None = None) -> Steps[Version]:
    """Write a parcel; durable when it returns. Returns its version.

    Args:
        place: Where.
        name: Parts that are not empty, between slashes.
        content: Any bytes.
        expect: Replace only this version; `ABSENT`: there must be none. None replaces whatever is there.

    Raises:
        ConflictError: There is another version; nothing was written.
        UsageError: The name or the content cannot be stored.
        UnavailableError: The store did not answer; the bytes may be written.
    """
    key, write = parcel_key(place.prefix, name), new_nonce()
    data = encode_parcel(name, content, write=write)
    yield from place.prepare()
    if expect is None and not place.driver.conditional:
        expect = yield from _version_of(key)
    (answer,) = yield (Put(key, data, expect=expect),)
    if isinstance(answer, ConflictError | NotFoundError) and expect is not None:
        return (yield from _own_write(key, write, answer))
    return checked(answer, Written).version


def _version_of(key: str) -> Steps[Version]:
    (answer,) = yield (Get(key, register=True),)
    return ABSENT if isinstance(answer, NotFoundError) else checked(answer, Found).version


def _own_write(key: str, write: str, refused: ConflictError | NotFoundError) -> Steps[Version]:
    """A write whose answer was lost is sent again, and then refused: what is there may be our own."""
    (answer,) = yield (Get(key, register=True),)
    if isinstance(answer, Found) and decode_header(answer.data, key=key).write == write:
        return answer.version
    raise ConflictError("somebody else wrote this parcel, or removed it", kind="parcel", key=key) from refused


def get_parcel(place: Place, name: str) -> Steps[tuple[bytes, Version] | None]:
    """Read a parcel in one request; None if there is none.

    Raises:
        CorruptError: It is damaged, or another one under this key.
    """
    key = parcel_key(place.prefix, name)
    (answer,) = yield (Get(key, register=True),)
    if isinstance(answer, NotFoundError):
        return None
    found = checked(answer, Found)
    parcel = decode_parcel(found.data, key=key)
    if parcel.header.name != name:
        raise CorruptError(f"this is the parcel {parcel.header.name!r}", kind="moved", key=key)
    return parcel.content, found.version


def delete_parcel(place: Place, name: str) -> Steps[None]:
    """Remove a parcel, if it is there."""
    yield from ask(Delete((parcel_key(place.prefix, name),)), Deleted)


def parcel_names(place: Place, start: str = "") -> Steps[list[str]]:
    """The sorted names that start with some text: a LIST for each thousand below the folder that the text names.

    Names with a very long part are read from their parcels, a ranged GET for each.

    Raises:
        CorruptError: One of those is damaged.
    """
    entries = yield from list_all(parcel_folder(place.prefix, start[: start.rfind("/") + 1]))
    found: list[str] = []
    unnamed: list[Entry] = []
    for entry in entries:
        if (name := parcel_of(entry.key, place.prefix)) is not None:
            found.append(name)
            unnamed += [] if name else [entry]
    for first in range(0, len(unnamed), FRONTS_AT_ONCE_MAX):
        found += yield from _told_names(unnamed[first : first + FRONTS_AT_ONCE_MAX])
    return sorted(name for name in found if name and name.startswith(start))


def _told_names(entries: list[Entry]) -> Steps[list[str]]:
    answers = yield tuple(Get(entry.key, start=0, end=FRONT_BYTES_MAX, register=True) for entry in entries)
    return [
        decode_header(checked(answer, Found).data, key=entry.key).name
        for entry, answer in zip(entries, answers, strict=True)
        if not isinstance(answer, NotFoundError)
    ]
