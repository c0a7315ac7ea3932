"""Volume servers of a cluster are killed: with one of three gone work continues, with two gone every call fails."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.cluster.cluster import VOLUME_SERVERS, Cluster
from tests.cluster.load import Load
from tests.concurrency.worker import read_journal
from tests.faultlog import FaultLog, rounds
from tests.session.faults import recorded

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import UnavailableError
from treering.storage.s3 import S3Driver
from treering.store.place import Place

pytestmark = pytest.mark.s3

LAYER = "s3 servers"
BETWEEN = 8  # acknowledgements
SESSIONS = 12


def options(cluster: Cluster, read_seconds: float) -> dict[str, Any]:
    """Options of a client that waits so long for an answer."""
    return {**cluster.server.storage_options, "config_kwargs": {"read_timeout": read_seconds}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_one_of_three_killed_under_load(cluster: Cluster, tmp_path: Path, fault_log: FaultLog, *, shared: bool) -> None:
    """Reads and writes go on while any one volume server is dead, and nothing that was acknowledged is lost."""
    kills = rounds(2)
    with Load(cluster.server, options(cluster, 3), tmp_path, shared=shared) as load:
        for kill in range(kills):
            load.wait_for(BETWEEN)
            cluster.kill_volume(kill % VOLUME_SERVERS)
            before = load.acknowledged()
            store = load.crew.open()
            assert len(read_journal(store)) >= before
            store.close()
            load.wait_for(BETWEEN)
            if kill < kills - 1:
                cluster.start_volume(kill % VOLUME_SERVERS)
        load.finish()
    cluster.start_volume((kills - 1) % VOLUME_SERVERS)
    fault_log.record(LAYER, "one of three volume servers killed", "reads and writes go on, nothing is lost", kills)


class Kept(NamedTuple):
    """Sessions whose handles are still open, and what they hold."""

    store: Store
    handles: dict[str, Session]
    lines: dict[str, list[bytes]]

    def read(self, store: Store) -> tuple[int, int]:
        """Read every session; how many were right, and how many told that they cannot be read."""
        right = told = 0
        for name, lines in self.lines.items():
            try:
                assert list(store.view(name).lines()) == lines
                right += 1
            except UnavailableError:
                told += 1
        return right, told


def keep(store: Store) -> Kept:
    """Record some sessions, and leave them open."""
    kept = Kept(store, {}, {})
    for name in map(str, range(SESSIONS)):
        kept.handles[name] = handle = store.session(name)
        handle.commit([f"{name}.a", f"{name}.b"], state={"name": name})
        handle.seal()
        handle.append(f"{name}.c")
        kept.lines[name] = list(store.view(name).lines())
    return kept


@pytest.mark.slow
def test_two_of_three_killed(cluster: Cluster, fault_log: FaultLog) -> None:
    """With both copies of some objects gone reads are right or refused, writes are refused; nothing is made up.

    When the servers are back, everything is there, and handles that were refused go on.
    """
    cluster.wait_until_whole()
    url = f"s3://{cluster.server.bucket}/two"
    kept = keep(treering.open(url, storage_options=options(cluster, 10)))
    hasty = Store(Place(S3Driver(url.removeprefix("s3://"), storage_options=options(cluster, 1))))
    refused = hasty.session("refused")
    right = told = 0
    for pair in itertools.combinations(range(VOLUME_SERVERS), 2):  # not every pair holds both copies of something
        if not told:
            for number in pair:
                cluster.kill_volume(number)
            right, told = kept.read(hasty)
            with pytest.raises(UnavailableError):
                refused.append("lost, or late")
            for number in pair:
                cluster.start_volume(number)
            cluster.wait_until_whole()
    assert told
    assert kept.read(kept.store) == (SESSIONS, 0)
    for name, handle in kept.handles.items():
        handle.append("on")
        handle.close()
        assert recorded(kept.store.view(name))[-2:] == [f"{name}.c", "on"]
    refused.append("after")
    assert {finding.kind for _, findings in kept.store.verify_all() for finding in findings} <= {"waste", "stray"}
    hasty.close()
    kept.store.close()
    fault = "two of three volume servers killed"
    fault_log.record(LAYER, fault, "reading: `UnavailableError`, and all there when they are back", told)
    fault_log.record(LAYER, fault, "reading: right, from the copies that are left", right)
    fault_log.record(LAYER, fault, "writing: `UnavailableError`, and on when they are back")
