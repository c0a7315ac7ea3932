from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Program, Recorded
from tests.servers import S3Server, free_ports, moto

from treering.cli import demo

__all__ = ["moto"]


@pytest.fixture
def bucket(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket on a server that is found as AWS tools find theirs."""
    for name, value in {
        "AWS_ENDPOINT_URL": moto.endpoint,
        "AWS_ACCESS_KEY_ID": moto.key,
        "AWS_SECRET_ACCESS_KEY": moto.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    moto.client().create_bucket(Bucket="command-line")
    return "s3://command-line"


@pytest.mark.s3
@pytest.mark.slow
def test_s3(bucket: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of command works on a bucket, the demo too; a bucket that is not there is an error of its own."""
    run = recorded.program
    place = f"{bucket}/agents"
    assert run("ls", "--store", place).out == ""
    run("copy", "tea", place)
    for arguments in (
        ("rewind", "tea", "green"),
        ("branch", "tea", "third"),
        ("seal", "tea"),
        ("verify",),
        ("stats",),
        ("show", "tea", "--as-of", "3"),
        ("follow", "tea", "--first", "0", "--limit", "2"),
    ):
        run(*arguments, "--store", place)
    assert run("log", "tea", "--store", place).rows[-1][0] == recorded.answer
    assert run("rm", "tea", "--yes", "--store", place).code == 0
    monkeypatch.setattr(demo, "TURNS_ADDED", 10)
    assert "all hold" in run("demo", "--store", place).out
    done = run("ls", "--store", "s3://no-such-bucket-here", code=7)
    assert "no-such-bucket-here" in done.err


def test_no_server(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is told from one that refuses."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    done = program("ls", "--store", "s3://bucket", code=5)
    assert done.err.count("\n") == 1


def test_single_writer(recorded: Recorded, tmp_path: Path) -> None:
    """Any fsspec URL serves a user who promises to be the only writer."""
    run, place = recorded.program, f"file://{tmp_path}/other"
    run("copy", "tea", place, "--single-writer")
    assert run.json("context", "tea", "--store", place, "--single-writer") == run.json("context", "tea")
    run("verify", "--store", place, "--single-writer")
