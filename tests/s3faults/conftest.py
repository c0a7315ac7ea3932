"""Fixtures of the tests that break S3 on the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import s3fs
from tests.gateway import Gateway
from tests.s3faults.faults import impatient_options
from tests.servers import S3Server, seaweedfs

from treering.storage.s3 import S3Driver

__all__ = ["seaweedfs"]


@pytest.fixture(scope="module")
def shared_gateway(seaweedfs: S3Server) -> Iterator[Gateway]:
    """A gateway in front of SeaweedFS for many tests, since a client for each would take longer than they do."""
    with Gateway(seaweedfs) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Iterator[Gateway]:
    """A gateway in front of SeaweedFS that does nothing special yet."""
    shared_gateway.reset()
    yield shared_gateway
    shared_gateway.reset()


@pytest.fixture
def path(seaweedfs: S3Server) -> str:
    """A place in the bucket that nobody else uses."""
    return f"{seaweedfs.bucket}/faults-{os.urandom(6).hex()}"


@pytest.fixture(scope="module")
def clients(shared_gateway: Gateway) -> Iterator[dict[bool, s3fs.S3FileSystem]]:
    """Two clients of the gateway: one that soon gives up waiting for an answer, and one that does not."""
    patient = S3Driver("any", storage_options=shared_gateway.server.storage_options)
    impatient = S3Driver("any", storage_options=impatient_options(shared_gateway.server))
    yield {True: impatient._filesystem(), False: patient._filesystem()}
    patient.close()
    impatient.close()
