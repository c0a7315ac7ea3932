"""What it costs, in requests, counted below all retries."""

from __future__ import annotations

import pytest
from tests.integrations.claude.conftest import S3
from tests.integrations.claude.scribe import PROJECT, Scribe
from tests.session.backends import Backend

from treering.integrations.claude import TreeringSessionStore
from treering.storage.counting import CountingDriver

APPENDS, LOAD_GETS_MAX = 3000, 60  # the SDK's own store for S3 makes an object of each append, and reads all of them


def counted(backend: Backend) -> tuple[TreeringSessionStore, CountingDriver]:
    """A store of transcripts opened by a new process, and what counts its requests."""
    store, counts = backend.counted()
    return TreeringSessionStore(store), counts


@pytest.mark.parametrize(
    "kind", ["memory", pytest.param("seaweedfs", marks=[*S3.marks, pytest.mark.slow, pytest.mark.whole])]
)
async def test_three_thousand_appends(kind: str, make_backend: object) -> None:
    """3,000 appends of a process that is killed take 1.2 requests each; then they are loaded with at most 60 GETs."""
    backend: Backend = make_backend(kind)  # type: ignore[operator]
    scribe = Scribe()
    store, counts = counted(backend)
    while len(scribe.entries) < APPENDS:
        scribe.turn(f"what is {len(scribe.entries)}", "ls", "cat")
    entries = scribe.entries[:APPENDS]
    for entry in entries:
        await store.append(scribe.key, [entry])
    assert counts.total <= 1.2 * APPENDS
    store, counts = counted(backend)
    assert await store.load(scribe.key) == entries
    assert counts.counts["Get"] <= LOAD_GETS_MAX
    assert counts.total <= LOAD_GETS_MAX + 2
    assert counts.counts["Put"] == 0


async def test_an_append_is_one_request(backend: Backend) -> None:
    """So is each further one, however many entries it has; with a title one more. Another process reads first."""
    scribe = Scribe()
    store, counts = counted(backend)
    await store.append(scribe.key, scribe.turn("one", "ls"))
    await store.append(scribe.key, scribe.turn("two"))
    for text in ("three", "four"):
        counts.reset()
        scribe.turn(text, "ls", "cat")
        await store.append(scribe.key, scribe.entries[-9:])
        assert counts.total == 1
        counts.reset()
        await store.append(scribe.key, [scribe.note("custom-title", customTitle=text)])
        assert counts.total == 2
    store, counts = counted(backend)
    await store.append(scribe.key, scribe.turn("five"))
    assert counts.total <= 6
    counts.reset()
    await store.append(scribe.key, scribe.turn("six"))
    assert counts.total == 1


async def test_what_is_known_costs_nothing(near: Backend) -> None:
    """A batch that is recorded already costs no request, while its transcript is open."""
    scribe = Scribe()
    store, counts = counted(near)
    batch = scribe.turn("one", "ls")
    await store.append(scribe.key, batch)
    counts.reset()
    await store.append(scribe.key, batch)
    await store.append(scribe.key, [])
    assert counts.total == 0


async def test_a_new_conversation(backend: Backend) -> None:
    """A conversation is created with 7 requests in 5 waits, its first append included; a subagent with one more."""
    store, counts = counted(backend)
    await store.append(Scribe().key, Scribe().turn("the first one of a store"))
    for _ in range(2):
        scribe = Scribe()
        counts.reset()
        await store.append(scribe.key, scribe.turn("one"))
        assert (counts.total, counts.batches) == (7, 5)
        agent = Scribe(scribe.session, agent="a")
        counts.reset()
        await store.append(agent.key, agent.turn("look"))
        assert (counts.total, counts.batches) == (8, 6)


async def test_lists(backend: Backend) -> None:
    """A list of sessions costs two LISTs; a summary of a closed one a small GET, and two of one that was not closed.

    Object stores tell times to the second: two more GETs for each of the newest second.
    """
    store, counts = counted(backend)
    tied = 10 if backend.name == "s3" else 0
    scribes = [Scribe() for _ in range(5)]
    for scribe in scribes:
        await store.append(scribe.key, scribe.turn("fix it " * 15_000))
        await store.append(scribe.key, scribe.turn("and then"))
    for closed in (False, True):
        counts.reset()
        rows = await store.list_sessions(PROJECT)
        assert {row["session_id"] for row in rows} == {scribe.session for scribe in scribes}
        assert (counts.counts["List"], counts.batches) in [(2, 1), (2, 2)]
        assert counts.counts["Get"] <= tied
        counts.reset()
        assert len(await store.list_session_summaries(PROJECT)) == 5
        assert counts.counts["Get"] <= tied + (5 if closed and not tied else 10)
        assert counts.batches <= 4
        await store.close()


async def test_deleted_sessions_are_known_by_their_size(near: Backend) -> None:
    """Only what is as small as the tombstone of a deleted session is read for a list of names."""
    store, counts = counted(near)
    scribes = [Scribe() for _ in range(5)]
    for scribe in scribes:
        await store.append(scribe.key, scribe.turn("one"))
    for scribe in scribes[:2]:
        await store.delete(scribe.key)
    counts.reset()
    rows = await store.list_sessions(PROJECT)
    assert {row["session_id"] for row in rows} == {scribe.session for scribe in scribes[2:]}
    assert counts.counts == {"List": 2, "Get": 2}
