"""SeaweedFS is killed and started again under load: everything that was acknowledged is there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.cluster.load import acknowledged, wait_until
from tests.concurrency.crew import Crew, set_to_work, wait_for
from tests.concurrency.history import violations
from tests.concurrency.worker import SESSION, read_journal
from tests.faultlog import FaultLog, rounds
from tests.servers import SeaweedFS

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("cluster")]

KILLS = 2
BETWEEN = 12  # acknowledgements


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_a_server_killed_under_load(mortal: SeaweedFS, tmp_path: Path, fault_log: FaultLog, *, shared: bool) -> None:
    """Writers go on when the server is back; what it acknowledged before it was killed is stored, once, in order."""
    folder = tmp_path / "calls"
    crew = Crew(
        url=f"s3://{mortal.server.bucket}/killed",
        storage_options=mortal.server.storage_options,
        folder=str(folder),
        processes=3 if shared else 2,
        shared=shared,
        appends=BETWEEN * (rounds(KILLS) + 1) // 2,
        upkeep=0.2,
    )
    process = set_to_work(crew)
    for kill in range(1, rounds(KILLS) + 1):
        wait_until(lambda least=kill * BETWEEN: acknowledged(folder) >= least)
        mortal.kill()
        killed = time.monotonic_ns()
        mortal.start()
        back = time.monotonic_ns()
    calls = wait_for(process, crew)
    assert [call for call in calls if call.began < killed and (call.ended or back) >= back]
    store = crew.open()
    assert violations(calls, read_journal(store)) == []
    assert {finding.kind for finding in store.verify(SESSION)} <= {"waste"}
    store.close()
    outcome = "writers go on, everything acknowledged is stored once"
    fault_log.record("s3 servers", "server killed and started again", outcome, rounds(KILLS))
