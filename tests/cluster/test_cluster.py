"""Volume servers of a cluster are killed: with one of three gone work goes on, with two gone everybody is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cluster.cluster import VOLUME_SERVERS, Cluster
from tests.cluster.load import acknowledged, wait_until
from tests.concurrency.crew import Crew, set_to_work, wait_for
from tests.concurrency.history import violations
from tests.concurrency.worker import SESSION, read_journal
from tests.faultlog import FaultLog, rounds

import treering
from treering.errors import UnavailableError
from treering.session.store import Place, Store
from treering.storage.s3 import S3Driver

pytestmark = [pytest.mark.s3, pytest.mark.xdist_group("cluster")]

LAYER = "s3 servers"
BETWEEN = 12  # acknowledgements
SESSIONS = 12


def options(cluster: Cluster, read_seconds: float) -> dict[str, Any]:
    """Options of a client that waits so long for an answer."""
    return {**cluster.server.storage_options, "config_kwargs": {"read_timeout": read_seconds}}


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_one_of_three_killed_under_load(cluster: Cluster, tmp_path: Path, fault_log: FaultLog, *, shared: bool) -> None:
    """Reads and writes go on while any one volume server is dead, and nothing that was acknowledged is lost."""
    folder = tmp_path / "calls"
    kills = rounds(2)
    crew = Crew(
        url=f"s3://{cluster.server.bucket}/one-{shared}",
        storage_options=options(cluster, 3),
        folder=str(folder),
        processes=2,
        shared=shared,
        appends=BETWEEN * (2 * kills + 1) // 2,
        upkeep=0.2,
    )
    process = set_to_work(crew)
    for kill in range(kills):
        wait_until(lambda least=(2 * kill + 1) * BETWEEN: acknowledged(folder) >= least)
        cluster.kill_volume(kill % VOLUME_SERVERS)
        before = acknowledged(folder)
        store = crew.open()
        assert len(read_journal(store)) >= before
        store.close()
        wait_until(lambda least=before + BETWEEN // 2: acknowledged(folder) >= least)
        if kill < kills - 1:
            cluster.start_volume(kill % VOLUME_SERVERS)
    calls = wait_for(process, crew)
    store = crew.open()
    assert violations(calls, read_journal(store)) == []
    assert {finding.kind for finding in store.verify(SESSION)} <= {"waste"}
    store.close()
    cluster.start_volume((kills - 1) % VOLUME_SERVERS)
    fault_log.record(LAYER, "one of three volume servers killed", "reads and writes go on, nothing is lost", kills)


def test_two_of_three_killed(cluster: Cluster, fault_log: FaultLog) -> None:
    """With both copies of some objects gone reads are right or refused, writes are refused; nothing is made up.

    When the servers are back, everything is there, and handles that were refused go on.
    """
    url = f"s3://{cluster.server.bucket}/two"
    store = treering.open(url, storage_options=options(cluster, 10))
    expected = {}
    handles = {}
    for number in range(SESSIONS):
        handle = handles[f"{number}"] = store.session(f"{number}")
        handle.commit([f"{number}.a", f"{number}.b"], state={"n": number})
        handle.seal()
        handle.append(f"{number}.c")
        expected[f"{number}"] = list(store.view(f"{number}").lines())
    for number in (0, 1):
        cluster.kill_volume(number)
    told, right = 0, 0
    hasty = Store(Place(S3Driver(url.removeprefix("s3://"), storage_options=options(cluster, 1))))
    for name, lines in expected.items():
        try:
            assert list(hasty.view(name).lines()) == lines
            right += 1
        except UnavailableError:
            told += 1
    assert told
    handle = hasty.session("new")
    with pytest.raises(UnavailableError):
        handle.append("lost, or late")
    hasty.close()
    for number in (0, 1):
        cluster.start_volume(number)
    cluster.wait_until_whole()
    for name, lines in expected.items():
        assert list(store.view(name).lines()) == lines
        handles[name].append("on")
        handles[name].close()
        assert [item.message["content"] for item in store.view(name).context][-2:] == [f"{name}.c", "on"]  # type: ignore[index]
    handle.append("after")
    assert {finding.kind for _, findings in store.verify_all() for finding in findings} <= {"waste"}
    store.close()
    fault = "two of three volume servers killed"
    fault_log.record(LAYER, fault, "reading: `UnavailableError`, and all there when they are back", told)
    fault_log.record(LAYER, fault, "reading: from the copies that are left", right)
    fault_log.record(LAYER, fault, "writing: `UnavailableError`, and on when they are back")
