"""Up to 32 processes and threads on one session: nothing acknowledged is lost, and its order is that of the clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.concurrency.crew import Crew, work
from tests.concurrency.history import Call, violations
from tests.concurrency.worker import SESSION, read_journal
from tests.faultlog import FaultLog, rounds
from tests.sampling import few

TOLD = {
    False: {"ConflictError overtaken", "ConflictError exists", "SessionHeldError sessionheld"},
    True: {"HeadMovedError headmoved"},
}
"""What a writer that comes second is told, by whether the session is shared, as the page on concurrency has it."""

CREWS: dict[str, dict[str, Any]] = {
    "2 processes, exclusive": {"processes": 2, "appends": 20, "shared": False},
    "2 processes, shared": {"processes": 2, "appends": 20, "shared": True},
    "8 processes, exclusive": {"processes": 8, "appends": 6, "shared": False},
    "8 processes, shared": {"processes": 8, "appends": 6, "shared": True},
    "32 processes, exclusive": {"processes": 32, "appends": 1, "shared": False},
    "32 processes, shared": {"processes": 32, "appends": 1, "shared": True},
    "4 processes, 8 threads each, shared": {"processes": 4, "threads": 8, "appends": 1, "shared": True},
    "32 threads, one handle, exclusive": {"threads": 32, "appends": 2, "shared": False, "one_handle": True},
    "4 processes, 8 threads with one handle each": {
        "processes": 4, "threads": 8, "appends": 2, "shared": True, "one_handle": True,
    },
}  # fmt: skip
ON_S3 = ["2 processes, exclusive", "2 processes, shared", "32 processes, exclusive", list(CREWS)[-1]]
"""SeaweedFS lets one of those that write to a key at once wait for a second, so not all of them."""


def check(crew: Crew, calls: list[Call]) -> tuple[str, ...]:
    """The history could have happened one call after the other, and everything stored is sound; return the journal."""
    store = crew.open()
    journal = read_journal(store)
    assert violations(calls, journal) == []
    assert not store.view(SESSION).problems()
    assert {finding.kind for finding in store.verify(SESSION)} <= {"waste"}
    store.close()
    return journal


def check_told(calls: list[Call], *, shared: bool) -> int:
    """Every append that failed was told in the documented way; return how many."""
    told = Counter(call.error for call in calls if call.verb == "append" and call.outcome != "done")
    assert set(told) <= TOLD[shared]
    return told.total()


def work_and_check(crew: Crew, fault_log: FaultLog) -> None:
    """Have a crew work, and hold it to everything."""
    crew = replace(crew, appends=rounds(crew.appends))
    calls = work(crew)
    check(crew, calls)
    lost = check_told(calls, shared=crew.shared)
    done = sum(call.verb == "append" and call.outcome == "done" for call in calls)
    assert done == crew.processes * crew.threads * crew.appends
    race = "appends race for one place"
    fault_log.record("writers at once", race, "stored once, in the order of the clock", done)
    fault_log.record("writers at once", race, "refused with a typed error, nothing of it stored", lost)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CREWS)
@pytest.mark.slow
def test_a_crew_on_disk(name: str, on_disk: Crew, fault_log: FaultLog) -> None:
    """However many write to a folder at once, the history is linearisable and nothing is lost.

    Half of the crews here, all with `make whole`.
    """
    work_and_check(replace(on_disk, **CREWS[name]), fault_log)


@pytest.mark.s3
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ON_S3)
def test_a_crew_on_s3(name: str, on_s3: Crew, fault_log: FaultLog) -> None:
    """However many write to a bucket at once, the history is linearisable and nothing is lost.

    Half of the crews here, all with `make whole`.
    """
    work_and_check(replace(on_s3, **CREWS[name]), fault_log)


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_many_create_one_session_on_disk(on_disk: Crew, fault_log: FaultLog, *, shared: bool) -> None:
    """Of many processes that create a session in a folder one does, or all get in if they share it.

    Of 16 here, of 50 with `make whole`.
    """
    race(replace(on_disk, processes=few(16, whole=50)), fault_log, shared=shared)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("processes", "shared"), [(few(5, 50), False), (few(3, 20), True)], ids=["exclusive", "shared"]
)
def test_many_create_one_session_on_s3(on_s3: Crew, fault_log: FaultLog, processes: int, *, shared: bool) -> None:
    """Of many processes that create a session in a bucket one does; if they share it, all get in.

    Of 5 here, of 50 with `make whole`.
    """
    race(replace(on_s3, processes=processes), fault_log, shared=shared)


def race(crew: Crew, fault_log: FaultLog, *, shared: bool) -> None:
    """All open the session before it is there, then append together."""
    crew = replace(crew, race=True, shared=shared)
    store = crew.open()
    with store.session("another") as session:  # else they would race for the store's own mark, too
        session.append("a")
    store.close()
    calls = [call for call in work(crew) if call.verb == "append"]
    journal = check(crew, calls)
    told = check_told(calls, shared=shared)
    winners = [call.texts for call in calls if call.outcome == "done"]
    assert (len(winners), told) == ((crew.processes, 0) if shared else (1, crew.processes - 1))
    assert sorted(journal) == sorted(text for texts in winners for text in texts)
    outcome = "shared: all get in" if shared else "exclusive: one does, all others are told"
    fault_log.record("writers at once", "many processes create a session", outcome, crew.processes)
