"""What a server keeps is bounded, and what it asks of the store is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.server.clients import client
from tests.servers import S3Server

import treering
from treering.server.app import app
from treering.server.views import Views
from treering.storage.observing import RequestBatch


@pytest.fixture
def asked() -> list[RequestBatch]:
    """The batches that were sent to a store."""
    return []


def long_session(store: treering.Store, nodes: int) -> None:
    """A session of some segments."""
    with store.session("long") as session:
        for at in range(0, nodes, 100):
            session.append(*(treering.user(f"{at} {number}") for number in range(100)))
            session.seal()


def test_a_warm_page_asks_once_whether_something_changed(tmp_path: Path, asked: list[RequestBatch]) -> None:
    """A page that was shown before takes a conditional read of the tail, answered without a body, and its payloads."""
    long_session(treering.open(tmp_path), 500)
    api = client(treering.aopen(tmp_path, observer=asked.append))
    first = api.get("sessions/long/history").json()
    for _ in range(2):
        asked.clear()
        assert api.get("sessions/long/history").json() == first
        requests = [request for batch in asked for request in batch.requests]
        assert [(each.type, each.bytes_down) for each in requests[:1]] == [("Get", 0)]
        assert len(asked) <= 2
    asked.clear()
    assert api.get("sessions/long/tree").status_code == 200
    asked.clear()
    assert api.get("sessions/long/tree").status_code == 200
    assert [(each.type, each.bytes_down) for batch in asked for each in batch.requests] == [("Get", 0)]


@pytest.mark.s3
def test_a_warm_page_takes_two_round_trips_in_a_bucket(seaweedfs: S3Server, asked: list[RequestBatch]) -> None:
    """Also of a page further up, whose payloads are in a segment; a write is seen by another worker at once."""
    place, options = f"s3://{seaweedfs.bucket}/server-pages", seaweedfs.storage_options
    with treering.open(place, storage_options=options) as store:
        long_session(store, 300)
    observed = treering.aopen(place, storage_options=options, observer=asked.append)
    with _entered(observed) as api, _entered(treering.aopen(place, storage_options=options)) as other:
        page = api.get("sessions/long/history").json()
        before = page["rows"][20]["node"]["id"]
        for query in ("", f"?before={page['before']}", f"?node={before}"):
            api.get(f"sessions/long/history{query}")
            asked.clear()
            assert len(api.get(f"sessions/long/history{query}").json()["rows"]) == 50
            assert len(asked) <= 2, query
        key = {"idempotency-key": "once"}
        sent = [each.post("sessions/long/messages", json={"messages": ["new"]}, headers=key) for each in (api, other)]
        assert sent[0].json() == sent[1].json()
        assert other.get("sessions/long/history?limit=1").json()["rows"][0]["node"]["payload"]["content"] == "new"
        assert other.delete("sessions/long").status_code == 204
        assert api.get("sessions/long").status_code == 410


class _entered:  # noqa: N801  # used as a function
    """A client whose requests share one event loop, as those of a server do; the store is closed with it."""

    def __init__(self, store: treering.AsyncStore) -> None:
        self._store = store
        self._client = client(store)

    def __enter__(self) -> TestClient:
        return self._client.__enter__()

    def __exit__(self, *_: object) -> None:
        assert self._client.portal is not None
        self._client.portal.call(self._store.close)
        self._client.__exit__()


def test_views_are_bounded(tmp_path: Path) -> None:
    """However many sessions are looked at, so many views are kept, with so many nodes; the newest one always."""
    store = treering.open(tmp_path)
    for at in range(12):
        with store.session(f"s{at}") as session:
            session.append(*(str(number) for number in range(10)))
    there = treering.aopen(tmp_path)

    async def look(views: Views) -> Iterator[int]:
        counts = []
        for at in range(12):
            assert (await views.get(there, f"s{at}")).view.id == f"s{at}"
            counts.append((len(views), views.nodes))
        return iter([max(count for count, _ in counts), max(nodes for _, nodes in counts), counts[-1][0]])

    import asyncio

    assert list(asyncio.run(look(Views(views_max=4)))) == [4, 40, 4]
    assert list(asyncio.run(look(Views(nodes_max=35)))) == [3, 30, 3]
    assert list(asyncio.run(look(Views(nodes_max=5)))) == [1, 10, 1]


def test_a_session_that_is_not_there_is_not_kept(tmp_path: Path) -> None:
    """Names that somebody tries out take no memory."""
    with treering.open(tmp_path).session("s") as session:
        session.append("x")
    views = Views()
    there = treering.aopen(tmp_path)

    async def look() -> None:
        for name in ("a", "b", "c"):
            with pytest.raises(treering.NotFoundError):
                await views.get(there, name)
        await views.get(there, "s")

    import asyncio

    asyncio.run(look())
    assert len(views) == 1
    assert app(there) is not None
