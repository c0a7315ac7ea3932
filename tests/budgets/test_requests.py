"""Requests to an object store, counted at the driver and on the wire: what appends, resuming, lists and trees cost."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.budgets.texts import texts
from tests.sampling import few
from tests.servers import S3Server
from tests.session.backends import kill

from treering.api.session import Session
from treering.api.store import Store
from treering.format.paths import SessionKeys
from treering.format.register import decode_latest, encode_latest
from treering.ids import now_ms
from treering.session import upkeep
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import ABSENT, Driver, Get, Put
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
from treering.store.place import Place

MESSAGES, MESSAGE_BYTES = 402, 2700
COPY_READS = 4  # both registers, and once more before the copy is created
COPY_WRITES = 10  # looking at the name twice, the format, two tombstones, marker, `latest`, tail
REQUESTS_MAX, BYTES_UP_MAX = 440, 6_600_000


class Bucket(NamedTuple):
    """An object store whose requests are counted below all retries."""

    driver: Driver
    counts: CountingDriver
    wire: Counter[str] | None
    """HTTP requests by operation; None if there is no wire."""

    def store(self) -> Store:
        """The store."""
        return Store(Place(self.driver))

    def reset(self) -> None:
        """Count from zero."""
        self.counts.reset()
        if self.wire is not None:
            self.wire.clear()

    @property
    def total(self) -> int:
        """Requests since the last reset; the wire must agree."""
        if self.wire is not None:
            assert self.wire.total() == self.counts.total
        return self.counts.total


def memory_bucket() -> Bucket:
    """A bucket in memory."""
    counts = CountingDriver(MemoryDriver(), keep=True)
    return Bucket(counts, counts, None)


def s3_bucket(server: S3Server) -> Bucket:
    """A bucket on a server, opened as by a new process."""
    inner = S3Driver(f"{server.bucket}/budget-{os.urandom(6).hex()}", storage_options=server.storage_options)
    counts = CountingDriver(inner, keep=True)
    wire: Counter[str] = Counter()
    client: Any = inner._filesystem().s3
    client.meta.events.register("before-send.s3", lambda event_name, **_: wire.update([event_name.split(".")[-1]]))
    return Bucket(RetryingDriver(counts), counts, wire)


@pytest.fixture(params=["memory", pytest.param("seaweedfs", marks=pytest.mark.s3)])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """An object store in memory, and a real one."""
    found = memory_bucket() if request.param == "memory" else s3_bucket(request.getfixturevalue("seaweedfs"))
    yield found
    found.driver.close()


def said(count: int) -> list[str]:
    """Messages of exactly `MESSAGE_BYTES`."""
    return [f"{text:.<{MESSAGE_BYTES}}"[:MESSAGE_BYTES] for text in texts(count, 3 * MESSAGE_BYTES)]


def test_an_append_is_one_request(bucket: Bucket) -> None:
    """Append, commit, compaction, labels and notes are one request each."""
    with bucket.store().session("s") as session:
        node = session.append("first").node
        for verb in (
            lambda: session.append("a"),
            lambda: session.append("b", "c"),
            lambda: session.commit(["d"], state={"n": 1}, label="x"),
            lambda: session.compact("gist", kept=node),
            lambda: session.label(node, "l"),
            lambda: session.record_usage(input=1),
            lambda: session.set_model("m"),
        ):
            bucket.reset()
            verb()
            assert bucket.total == 1
            assert bucket.counts.counts == {"Put": 1}


def test_what_lists_show_is_one_request_more(bucket: Bucket) -> None:
    """A title, a status or a place also replaces the card; if nothing of it is new, it does not.

    A place also replaces the marker, by which lists find the sessions of a project.
    """
    with bucket.store().session("s") as session:
        session.append("first")
        verbs: tuple[tuple[Callable[[], object], dict[str, int]], ...] = (
            (lambda: session.set_title("t"), {"Put": 2}),
            (lambda: session.set_title("t"), {"Put": 1}),
            (lambda: session.set_status("done"), {"Put": 2}),
            (lambda: session.move(project="p", cwd="/c"), {"Put": 3, "Delete": 1}),
        )
        for verb, requests in verbs:
            bucket.reset()
            verb()
            assert bucket.counts.counts == requests
            assert bucket.total == sum(requests.values())


@pytest.mark.parametrize("shared", [False, True])
def test_a_card_is_renewed_once_a_minute(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, *, shared: bool) -> None:
    """An hour of appends, ten minutes on a server.

    A card a minute is written beside what seals write, and every ten minutes a marker, which takes the place of the one
    before. Each append is sent before anything else.
    """
    ahead_ms = 0
    monkeypatch.setattr(upkeep, "now_ms", lambda: now_ms() + ahead_ms)
    session = bucket.store().session("s", shared=shared)
    session.append("first")
    bucket.reset()
    count = 600 if bucket.wire is None else few(100, whole=600)
    for number in range(count):
        ahead_ms += 6000
        sent = len(bucket.counts.requests)
        session.append(f"text {number}")
        assert "/tail.jsonl" in bucket.counts.requests[sent].key  # type: ignore[union-attr]  # a Put
    cards = [request for request in bucket.counts.requests if getattr(request, "key", "").startswith("latest/")]
    sealed = [request for request in bucket.counts.requests if "/segments/" in getattr(request, "key", "")]
    assert len(cards) <= count // 10 + 1 + len(sealed)
    markers = [request for request in bucket.counts.requests if getattr(request, "key", "").startswith("recent/")]
    assert len(markers) == bucket.counts.counts["Delete"] <= count // 100
    assert bucket.counts.counts.keys() <= {"Put", "Delete"}
    kill(session)


def test_a_long_invocation_stays_within_its_requests(bucket: Bucket) -> None:
    """402 messages of 2.7 KB, durable one by one: at most 440 requests, none of them a GET, and 6.6 MB up."""
    session = bucket.store().session("s")
    bucket.reset()
    creation = None
    for place, text in enumerate(said(MESSAGES)):
        session.append({"role": ("user", "assistant")[place % 2], "content": text})
        creation = creation or bucket.total
    assert bucket.total <= REQUESTS_MAX
    assert bucket.counts.bytes_up <= BYTES_UP_MAX
    # Creating the session looks whether the name is free and proves the store; nothing is read after that.
    assert bucket.counts.counts["Get"] == sum(isinstance(request, Get) for request in bucket.counts.requests[:creation])
    assert bucket.total - (creation or 0) <= 1.2 * (MESSAGES - 1)
    kill(session)
    bucket.reset()
    view = bucket.store().view("s")
    assert bucket.total == 2
    assert [item.message["content"] for item in view.context] == said(MESSAGES)


def test_turns_with_checkpoints_stay_within_their_requests(bucket: Bucket) -> None:
    """With a checkpoint at every second message and a bounded context the same holds, at fewer bytes."""
    session = bucket.store().session("s")
    session.append("open")
    bucket.reset()
    for place, text in enumerate(said(MESSAGES)):
        if place % 2:
            session.commit([{"role": "assistant", "content": text}], context=session.context[-39:], state={"n": place})
        else:
            session.append(text)
    assert bucket.total <= REQUESTS_MAX
    assert bucket.counts.counts.keys() == {"Put"}
    assert bucket.counts.bytes_up <= BYTES_UP_MAX
    kill(session)


def graph_of(session: Session) -> list[tuple[object, ...]]:
    """Ids, parents and payloads of all nodes in order."""
    return [(row.id, row.parent, session.get(row.id).payload) for row in session.nodes()]


@pytest.mark.parametrize("kills", [1, 2, 9, 10, 11, 12, 25, 37])
def test_killed_after_any_append_nothing_acknowledged_is_missing(bucket: Bucket, kills: int) -> None:
    """After k appends and a kill, graph and context equal their replay; also after a later writer sealed and merged."""
    if bucket.wire is not None and kills not in (1, 10, 25):
        pytest.skip("a few points are enough on a real server; the protocol is the same")
    session = bucket.store().session("s")
    replay: list[tuple[object, ...]] = []
    state: dict[str, object] = {}

    def append(session: Session, text: str, number: int) -> None:
        parent = session.node
        message = {"role": "user", "content": text}
        if number % 3 == 2:
            state["n"] = number
            node = session.commit([message], state={"n": number}).nodes[0]
        else:
            node = session.append(message).node
        replay.append((node, parent, message))

    messages = said(kills + 20)
    for number in range(kills):
        append(session, messages[number], number)
    kill(session)
    later = bucket.store().session("s", create=False)
    assert (graph_of(later), later.state) == (replay, state)
    assert [item.message for item in later.context] == [payload for _, _, payload in replay]
    for number in range(kills, kills + 20):
        append(later, messages[number], number)
        if number % 5 == 4:
            later.seal()
    later.optimize(everything=True)
    append(later, "last", 1)
    kill(later)
    view = bucket.store().session("s", create=False)
    assert (graph_of(view), view.state) == (replay, state)
    assert [item.message for item in view.context] == [payload for _, _, payload in replay]
    kill(view)


def test_a_page_of_a_thousand_sessions(bucket: Bucket) -> None:
    """The first page of 20 sessions out of 1,000 is one LIST and 20 ranged GETs, sent at once.

    With the LIST goes a GET that asks whether each session has a marker. On a server there are 300 here.
    """
    with bucket.store().session("s0", title="one of many") as session:
        session.append("x" * 5000)
    latest = decode_latest(bucket.driver.execute((Get("latest/s0.jsonl.zst"),))[0].data, key="")  # type: ignore[union-attr]
    count = 1000 if bucket.wire is None else few(300, whole=1000)
    for first in range(1, count, 50):
        names = [f"s{number}" for number in range(first, min(first + 50, count))]
        cards = [msgspec.structs.replace(latest.card, session=name) for name in names]
        every = [SessionKeys("", name, appends=False) for name in names]
        bucket.driver.execute(tuple(Put(keys.marker(latest.card.marker), b"") for keys in every))
        bucket.driver.execute(
            tuple(
                Put(keys.latest, encode_latest(card, latest.lines), expect=ABSENT)
                for keys, card in zip(every, cards, strict=True)
            )
        )
    bucket.reset()
    page = bucket.store().sessions(limit=20)
    assert len(page.rows) == 20
    assert {row.title for row in page.rows} == {"one of many"}
    assert bucket.total == 22
    assert bucket.counts.counts == {"List": 1, "Get": 1 + 20}
    complete, *gets = [request for request in bucket.counts.requests if isinstance(request, Get)]
    assert complete.key == "recent.json"
    assert all((request.start, request.register) == (0, True) and request.end for request in gets)
    assert bucket.counts.batches == 2
    bucket.reset()
    assert len(bucket.store().sessions(limit=20, after=page.after).rows) == 20
    assert bucket.total == 22


@pytest.mark.slow
def test_the_skeleton_of_a_hundred_thousand_nodes() -> None:
    """The tree of 100,000 nodes reads under 2.5 MB, decodes no payload, and takes under 200 MB of memory.

    A fifth of them a fifth of that; all of them with `make whole`.
    """
    bucket, commits = memory_bucket(), few(200, 1000)
    count = 100 * commits
    with bucket.store().session("s") as session:
        heads = 0
        for number, text in enumerate(texts(commits, 300)):
            session.commit([f"{text} {place}" for place in range(100)], context=[], state={"n": number})
            if number % 20 == 19:
                heads += 1
                session.branch(f"branch-{heads}", node=session.path()[-50])
            if number % 50 == 49:
                session.seal()
        session.optimize(everything=True)
    bucket.reset()
    tracemalloc.start()
    try:
        view = bucket.store().view("s")
        rows = view.tree()
        nodes = view.nodes()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(nodes) == count
    assert sum(row.count for row in rows) == count
    assert len(view.leaves()) == heads
    assert bucket.counts.bytes_down < 25 * count
    assert peak < 2_000 * count
    footers = [request for request in bucket.counts.requests if "/segments/" in getattr(request, "key", "")]
    assert footers
    gets = [request for request in footers if isinstance(request, Get) and request.start]
    assert len(gets) == len(footers)
    assert max(Counter(request.key for request in gets).values()) <= 2  # the end, and what it leaves of the chunks


def test_a_handle_that_stays_open_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments do not pile up until it is closed, and merging costs less than a tenth of all requests."""
    monkeypatch.setattr(upkeep, "SEALS_PER_MERGE_OPEN", 8)
    driver = MemoryDriver()
    counting = CountingDriver(driver)
    session = Store(Place(counting)).session("s")
    session.append("begin")
    counting.reset()  # creating a session has requests of its own
    for number, text in enumerate(texts(400, 3000)):
        session.append(text)
        if number % 40 == 39:
            session.compact("gist")
    merging = sum(counting.counts[kind] for kind in ("Get", "List", "Delete"))
    assert 0 < merging < counting.total / 10
    assert len([key for key in driver.snapshot() if "/segments/" in key]) < 16
    assert len(list(Store(Place(driver)).view("s").lines())) == 1 + 400 + 10 * 2


def test_a_copy_takes_two_requests_for_each_object() -> None:
    """A GET and a PUT, and a fixed number besides; however many records the objects hold."""
    source, target = CountingDriver(MemoryDriver()), CountingDriver(MemoryDriver(), keep=True)
    with Store(Place(target)).session("first") as session:
        session.append("else the first copy makes the store")
    for count in (2, 6):
        name = f"s{count}"
        with Store(Place(source)).session(name) as session:
            for number in range(count):
                session.append(f"{number}", f"{number} {'large ' * 60_000}")
                session.seal()
        source.reset()
        target.reset()
        Store(Place(source)).copy(name, Store(Place(target)))
        objects = 2 * count
        assert dict(source.counts) == {"Get": COPY_READS + objects, "List": 2}
        puts = [request.key for request in target.requests if isinstance(request, Put)]
        assert len([key for key in puts if "/segments/" in key or "/blobs/" in key]) == objects
        assert target.total == COPY_WRITES + objects
        assert source.batches <= COPY_READS + count + 1  # blobs are read together
