"""Read all parcels of a namespace and report damage; see `treering.session.parcels` for what they are. Never writes."""

from __future__ import annotations

from collections.abc import Iterator

from treering.errors import CorruptError, FormatVersionError, NotFoundError, UsageError
from treering.format.parcel import decode_parcel
from treering.format.paths import parcel_folder, parcel_key, parcel_of
from treering.maintenance.verify import DAMAGE, ODDITY, Finding
from treering.storage.requests import Driver, Found, Get
from treering.storage.run import ask, list_all, run


def verify_parcels(driver: Driver, prefix: str = "") -> Iterator[tuple[str, list[Finding]]]:
    """Check all parcels, one in memory at a time: names and what was found.

    Raises:
        UnavailableError: The store does not answer.
        AccessError: It refuses.
    """
    for entry in run(list_all(parcel_folder(prefix, "")), driver):
        name = parcel_of(entry.key, prefix)
        if name is None:
            message = "no parcel; it is left alone"
            yield entry.key, [Finding(severity=ODDITY, kind="foreign", key=entry.key, message=message)]
            continue
        try:
            yield _name_in(driver, entry.key, prefix), []
        except NotFoundError:
            continue  # removed meanwhile
        except (CorruptError, FormatVersionError) as error:
            yield name or entry.key, [_damage(error, entry.key)]


def _name_in(driver: Driver, key: str, prefix: str) -> str:
    """The name that a parcel says it has, which is where it lies."""
    name = decode_parcel(run(ask(Get(key, register=True), Found), driver).data, key=key).header.name
    try:
        sound = parcel_key(prefix, name) == key
    except UsageError:
        sound = False
    if not sound:
        raise CorruptError(f"this is the parcel {name!r}", kind="moved", key=key)
    return name


def _damage(error: CorruptError | FormatVersionError, key: str) -> Finding:
    remedy = "restore the object from a copy, or let whoever made it write it again"
    return Finding(severity=DAMAGE, kind=error.kind, key=key, message=str(error), offset=error.offset, remedy=remedy)
