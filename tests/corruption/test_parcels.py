"""Parcels: every byte changed, every length cut, and the findings of `verify`."""

from __future__ import annotations

import pytest
from tests.corruption.test_every_byte import damages
from tests.faultlog import FaultLog
from tests.session.backends import memory_backend

from treering.api.store import Store
from treering.errors import CorruptError, FormatVersionError
from treering.format.paths import parcel_key
from treering.maintenance.verify import Finding
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Put
from treering.storage.run import run
from treering.store.parcels import delete_parcel, get_parcel, put_parcel
from treering.store.place import Place

NAMES = ["session/one/snapshot_latest.json", "x" * 300, "z"]
"""The name in the middle is too long for a key, which holds a digest of it."""
CONTENT = bytes(range(256)) * 2


@pytest.fixture
def place() -> Place:
    """A place with parcels and a session."""
    place = Place(memory_backend().driver())
    for name in NAMES:
        run(put_parcel(place, name, CONTENT), place.driver)
    with Store(place).session("s") as session:
        session.append("hello")
    return place


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_an_error_and_is_found(place: Place, name: str, fault_log: FaultLog) -> None:
    """A damaged parcel is never read as another one; `verify_parcels` names its key, and the others are sound."""
    driver, key = place.driver, parcel_key("", name)
    sound = memory_objects(place)[key]
    for fault, at, data in damages(sound):
        if data is None:
            continue  # nobody else knows that there was one
        driver.execute((Put(key, data),))
        with pytest.raises((CorruptError, FormatVersionError)):
            run(get_parcel(place, name), driver)
        (finding,) = findings(place)
        assert (finding.severity, finding.key, bool(finding.remedy)) == ("damage", key, True), f"{fault} at {at}"
        fault_log.record("stored bytes", fault, "an error, or the same data")
    driver.execute((Put(key, sound),))
    assert dict(Store(place).verify_parcels()) == {each: [] for each in NAMES}


def test_a_parcel_that_was_moved_is_found(place: Place) -> None:
    """A parcel under the key of another is damage, however whole it is."""
    objects = {key: data for key, data in memory_objects(place).items() if key.startswith("parcels/")}
    place.driver.execute((Put(parcel_key("", "z"), objects[parcel_key("", "x" * 300)]),))
    (finding,) = findings(place)
    assert (finding.kind, finding.key) == ("moved", parcel_key("", "z"))


def test_foreign_objects_are_oddities(place: Place) -> None:
    """What lies among the parcels and is none is reported and left alone."""
    place.driver.execute((Put("parcels/readme.txt", b"mine"),))
    (finding,) = findings(place)
    assert (finding.severity, finding.kind, finding.key) == ("oddity", "foreign", "parcels/readme.txt")
    assert memory_objects(place)["parcels/readme.txt"] == b"mine"


def test_no_parcels_are_sound(place: Place) -> None:
    """A namespace without parcels has nothing to verify."""
    for name in NAMES:
        run(delete_parcel(place, name), place.driver)
    assert list(Store(place).verify_parcels()) == []


def findings(place: Place) -> list[Finding]:
    """What is found in all parcels; every one of them is looked at."""
    checked = list(Store(place).verify_parcels())
    assert len(checked) >= len(NAMES)
    return [finding for _, found in checked for finding in found]


def memory_objects(place: Place) -> dict[str, bytes]:
    """Everything stored."""
    assert isinstance(place.driver, MemoryDriver)
    return place.driver.snapshot()
