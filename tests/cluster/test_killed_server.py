"""SeaweedFS is killed and started again under load: everything that was acknowledged is there."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.cluster.load import Load
from tests.faultlog import FaultLog, rounds
from tests.servers import SeaweedFS

pytestmark = pytest.mark.s3

KILLS = 2
BETWEEN = 8  # acknowledgements


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_a_server_killed_under_load(mortal: SeaweedFS, tmp_path: Path, fault_log: FaultLog, *, shared: bool) -> None:
    """Writers go on when the server is back; what it acknowledged before it was killed is stored, once, in order."""
    dead: list[tuple[int, int]] = []
    with Load(mortal.server, mortal.server.storage_options, tmp_path, shared=shared) as load:
        for _ in range(rounds(KILLS)):
            load.wait_for(BETWEEN)
            mortal.kill()
            killed = time.monotonic_ns()
            mortal.start()
            dead.append((killed, time.monotonic_ns()))
        load.wait_for(BETWEEN)
        calls = load.finish()
    # On a busy machine a server may be back before anybody called it.
    assert [call for call in calls for killed, back in dead if call.began < back and (call.ended or back) > killed]
    outcome = "writers go on, everything acknowledged is stored once"
    fault_log.record("s3 servers", "server killed and started again", outcome, len(dead))
