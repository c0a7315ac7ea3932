"""Strands sessions in a bucket: found by one list, read in parallel, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from strands.session import S3SessionManager, SnapshotSessionManager
from strands.storage import S3Storage
from tests.programs.strands.agents import known, make, resumed
from tests.servers import REGION, S3Server, seaweedfs

from treering.api.store import Store
from treering.errors import AccessError, UsageError
from treering.importers import FileImporter, find_sessions
from treering.programs.common import folder
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.open import open_driver
from treering.store.place import Place

__all__ = ["seaweedfs"]
pytestmark = pytest.mark.s3


@pytest.fixture
def session(seaweedfs: S3Server) -> Any:
    """What boto needs to know."""
    return boto3.Session(aws_access_key_id=seaweedfs.key, aws_secret_access_key=seaweedfs.secret, region_name=REGION)


@pytest.fixture
def store() -> Store:
    """A store in memory."""
    return Store(Place(MemoryDriver()))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CountingDriver]]:
    """The drivers that are opened for reading, counting."""
    opened: list[CountingDriver] = []

    def counting(*arguments: Any, **options: Any) -> CountingDriver:
        opened.append(CountingDriver(open_driver(*arguments, **options)))
        return opened[-1]

    monkeypatch.setattr(folder, "open_driver", counting)
    yield opened
    for each in opened:
        each.close()


def make_log(server: S3Server, session: Any, prefix: str, name: str = "s") -> Any:
    """Strands' own manager of a log in a bucket."""
    return S3SessionManager(
        name, bucket=server.bucket, prefix=prefix, boto_session=session, endpoint_url=server.endpoint
    )


def test_a_log_in_a_bucket(seaweedfs: S3Server, session: Any, store: Store, counts: list[CountingDriver]) -> None:
    """One list finds all agents; each costs a GET for every file, 64 at a time, and nothing when it is as it was."""
    replies = [f"reply {number}" for number in range(33)]
    agent = make(make_log(seaweedfs, session, "logs"), replies)
    for number in range(33):
        agent(f"question {number}")
    make(make_log(seaweedfs, session, "logs"), ["hi"], agent_id="zwei-äöü")("who?")
    url = f"s3://{seaweedfs.bucket}/logs"
    found = list(find_sessions(url, storage_options=seaweedfs.storage_options))
    assert [str(place).removeprefix(url) for place in found] == [
        "/session_s/agents/agent_default",
        "/session_s/agents/agent_zwei-äöü",
    ]
    importer = FileImporter(store)
    assert [importer.load(place).session for place in found] == ["s", "s/zwei-äöü"]
    assert {name: count for name, count in counts[0].counts.items() if count} == {"List": 1, "Get": 1 + 66}
    assert known(resumed(store)) == known(make(make_log(seaweedfs, session, "logs")))
    counts.clear()
    again = FileImporter(store)
    for place in find_sessions(url, storage_options=seaweedfs.storage_options):
        assert again.load(place).outcome == "unchanged"
    assert {name: count for name, count in counts[0].counts.items() if count} == {"List": 1}


def test_snapshots_in_a_bucket(
    seaweedfs: S3Server, session: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever prefix a manager was given, agents are found below it, and what they gained is added."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs.endpoint)

    def manager() -> Any:
        storage = S3Storage(bucket=seaweedfs.bucket, prefix="deep/er", boto_session=session)
        return SnapshotSessionManager("s", storage=storage, snapshot_trigger=lambda **_: True)

    make(manager(), ["one", "two"])("first")
    url = f"s3://{seaweedfs.bucket}/deep"
    (place,) = find_sessions(url, "strands", storage_options=seaweedfs.storage_options)
    assert FileImporter(store).load(place).outcome == "new"
    make(manager(), ["two"])("second")
    (place,) = find_sessions(url, storage_options=seaweedfs.storage_options)
    taken = FileImporter(store).load(place)
    assert (taken.outcome, taken.session) == ("updated", "s")
    assert [message["content"][0]["text"] for message in resumed(store).messages] == ["first", "one", "second", "two"]
    assert [*find_sessions(url, "pi", storage_options=seaweedfs.storage_options)] == []


def test_the_command_imports_from_a_bucket(
    seaweedfs: S3Server, session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """`treering import s3://...` finds the server as every client of S3 does, and says where a session came from."""
    from click.testing import CliRunner

    from treering.cli.app import main

    make(make_log(seaweedfs, session, "command"), ["hi"])("who?")
    settings = {
        "AWS_ENDPOINT_URL": seaweedfs.endpoint, "AWS_ACCESS_KEY_ID": seaweedfs.key,
        "AWS_SECRET_ACCESS_KEY": seaweedfs.secret, "AWS_DEFAULT_REGION": REGION,
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{seaweedfs.bucket}/command"
    command = ["import", url, "--store", str(tmp_path), "--json"]
    for outcome in ("new", "unchanged"):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        (file,) = json.loads(result.stdout)["files"]
        assert (file["path"], file["outcome"]) == (f"{url}/session_s/agents/agent_default", outcome)


def test_a_bucket_that_may_not_be_read(seaweedfs: S3Server) -> None:
    """It is an error with the name of the place, and never an empty list."""
    options = {**seaweedfs.storage_options, "secret": "wrong"}
    with pytest.raises(AccessError):
        list(find_sessions(f"s3://{seaweedfs.bucket}/x", storage_options=options))
    with pytest.raises(UsageError, match="bucket"):
        list(find_sessions("s3://", storage_options=options))
