"""Read all parcels (see `treering.store.parcels`) of a namespace, and report damage. Never writes."""

from __future__ import annotations

from treering.errors import CorruptError, FormatVersionError, NotFoundError, UsageError
from treering.format.parcel import decode_parcel
from treering.format.paths import parcel_folder, parcel_key, parcel_of
from treering.kinds import Kind
from treering.maintenance.verify import DAMAGE, ODDITY, Checked, Finding
from treering.storage.effects import Items, Stream
from treering.storage.requests import Found, Get, Steps
from treering.storage.run import ask, list_all


def verify_parcels(prefix: str = "") -> Stream[Checked]:
    """Check all parcels, one in memory at a time; yields their names and findings.

    Raises:
        UnavailableError: The store does not answer.
        AccessError: It refuses.
    """
    for entry in (yield from list_all(parcel_folder(prefix, ""))):
        name = parcel_of(entry.key, prefix)
        if name is None:
            message = "no parcel; it is left alone"
            yield Items([(entry.key, [Finding(severity=ODDITY, kind=Kind.FOREIGN, key=entry.key, message=message)])])
            continue
        found: list[Finding] = []
        try:
            name = yield from _name_in(entry.key, prefix)
        except NotFoundError:
            continue  # removed since it was listed
        except (CorruptError, FormatVersionError) as error:
            found.append(_damage(error, entry.key))
        yield Items([(name or entry.key, found)])


def _name_in(key: str, prefix: str) -> Steps[str]:
    """Return the name in a parcel's header, after checking that it matches the parcel's key."""
    found = yield from ask(Get(key, register=True), Found)
    name = decode_parcel(found.data, key=key).header.name
    try:
        sound = parcel_key(prefix, name) == key
    except UsageError:
        sound = False
    if not sound:
        raise CorruptError(f"this is the parcel {name!r}", kind=Kind.MOVED, key=key)
    return name


def _damage(error: CorruptError | FormatVersionError, key: str) -> Finding:
    remedy = "restore the object from a copy, or let the program that made it write it again"
    return Finding(severity=DAMAGE, kind=error.kind, key=key, message=str(error), offset=error.offset, remedy=remedy)
