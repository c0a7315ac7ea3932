"""What the store costs, in requests and bytes, counted below all retries."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from benchmarks import workload
from langgraph.store.base import GetOp, PutOp
from tests.session.backends import Backend, memory_backend

from treering.integrations.langgraph import TreeringStore
from treering.storage.counting import CountingDriver

NS = ("alice", "memories")
ITEMS, ITEM_BYTES = 2000, 300
STORED, SENT = 1.3, 10 * 1024
"""At most: bytes for each byte of text, while it is open; and bytes sent for each put of 2,000, with what goes with the
tail again and again. That grows with the root of the bytes in the session."""


def counted(backend: Backend, **options: Any) -> tuple[TreeringStore, CountingDriver]:
    """A store in a new process, and what counts its requests."""
    store, counts = backend.counted()
    return TreeringStore(store, **options), counts


class Written:
    """2,000 items, put one by one into an object store."""

    def __init__(self) -> None:
        self.backend = memory_backend()
        store, self.counts = counted(self.backend)
        texts = iter(workload.even_texts(ITEMS, ITEM_BYTES))
        store.put(NS, "first", {})
        self.counts.reset()
        self.sizes = []
        for number in range(ITEMS):
            store.put(NS, f"{number}", {"text": next(texts), "n": number})
            if number + 1 in (ITEMS // 2, ITEMS):
                self.sizes.append(sum(map(len, self.backend.snapshot().values())))
        self.requests, self.sent = self.counts.total / ITEMS, self.counts.bytes_up / ITEMS


@pytest.fixture(scope="module")
def written() -> Written:
    """Written once for all."""
    return Written()


def test_a_put_is_one_request(written: Written) -> None:
    """With seals and merges, on average of 2,000, at most 1.2."""
    assert written.requests <= 1.2, dict(written.counts.counts)


def test_growth_is_flat(written: Written) -> None:
    """The second thousand takes about the room of the first one, where three times would be quadratic; see `SENT`."""
    first, both = written.sizes
    assert both - first <= 1.5 * first
    assert both <= STORED * ITEMS * ITEM_BYTES
    assert written.sent <= SENT


@pytest.mark.parametrize("how", ["get", "search", "query"])
def test_reading_in_a_new_process_is_two_requests(written: Written, how: str) -> None:
    """At once, whatever is asked for below the first two labels of a namespace."""
    store, counts = counted(written.backend)
    for expected in ({"Get": 2}, {"Get": 1}):  # the second time it asks whether anything changed
        counts.reset()
        if how == "get":
            assert store.get(NS, "7") is not None
        else:
            assert len(store.search(NS, query="seven" if how == "query" else None)) == 10
        assert counts.counts == expected
        assert counts.batches == 1


def test_a_batch_is_one_look_and_one_append() -> None:
    """However many items it gets and puts."""
    store, counts = counted(memory_backend())
    store.put(NS, "7", {})
    counts.reset()
    store.batch([*(GetOp(NS, f"{number}") for number in range(50)), *(PutOp(NS, f"b{n}", {"n": n}) for n in range(50))])
    assert counts.counts == {"Get": 1, "Put": 1}


def test_reading_what_expires_writes_now_and_then() -> None:
    """A read puts the expiry off by one append; not again before a hundredth of the time to live has passed."""
    store, counts = counted(memory_backend())
    for number in range(20):
        store.put(NS, f"{number}", {"text": "x" * 1000}, ttl=60)
    counts.reset()
    for _ in range(10):
        assert len(store.search(NS, limit=20)) == 20
    assert counts.counts == {"Get": 10}


def test_reading_across_namespaces_is_a_list_and_two_requests_each() -> None:
    """Twenty sessions, read at the same time; later one request each, and the list."""
    backend = memory_backend()
    with counted(backend)[0] as store:
        for number in range(20):
            store.put((f"u{number}", "m"), "k", {"n": number})
    store, counts = counted(backend)
    for gets in (40, 20):
        counts.reset()
        assert len(store.search((), limit=100)) == 20
        assert counts.counts == {"List": 1, "Get": gets}
    counts.reset()
    assert store.list_namespaces(prefix=("u7",)) == [("u7", "m")]
    assert counts.counts == {"List": 1, "Get": 1}


def test_the_first_put_of_a_session_takes_few_requests() -> None:
    """A session is made with it."""
    store, counts = counted(memory_backend())
    store.put(NS, "k", {})
    counts.reset()
    store.put(("bob", "memories"), "k", {})
    assert counts.total <= 9, counts.counts
    assert Counter(counts.counts)["Put"] <= 5
