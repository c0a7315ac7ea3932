"""What somebody did to a session with Treering, seen by the next resume."""

from __future__ import annotations

import json
from typing import Any

import zstandard
from tests.integrations.claude.conftest import opened
from tests.integrations.claude.scribe import PROJECT, Scribe
from tests.session.backends import Backend

from treering import redact_patterns
from treering.api.session import Session
from treering.api.store import Store
from treering.integrations.claude import TreeringSessionStore
from treering.session.redaction import Redaction
from treering.store.place import Place


def hands_on(backend: Backend, scribe: Scribe) -> Session:
    """The session in the hands of somebody who uses Treering."""
    return backend.store().namespace(PROJECT).session(scribe.session, shared=True, create=False)


async def said(backend: Backend, scribe: Scribe) -> list[str]:
    """The texts of the entries that are loaded."""
    loaded: Any = await opened(backend).load(scribe.key)
    contents = [entry["message"]["content"] for entry in loaded if "message" in entry]
    return [content if isinstance(content, str) else content[0].get("text", "") for content in contents]


def stored_bytes(backend: Backend) -> bytes:
    """All that is stored, unpacked."""
    found = b""
    for data in backend.snapshot().values():
        found += data
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        try:
            found += reader.read()
        except zstandard.ZstdError:
            continue  # not compressed, or what follows is not
    return found


async def test_an_erased_prompt_leaves_nothing(near: Backend) -> None:
    """An erased prompt is gone from the transcript, the list and the store; the conversation behind it stays whole."""
    scribe, store = Scribe(), opened(near)
    secret = scribe.say("my password is hunter2")
    scribe.answer("noted")
    await store.append(scribe.key, scribe.entries)
    await store.append(scribe.key, scribe.turn("go on"))
    await store.close()
    assert b"hunter2" in stored_bytes(near)
    with hands_on(near, scribe) as session:
        session.erase(secret["uuid"])
    assert await said(near, scribe) == ["[erased]", "noted", "go on", "done: go on"]
    loaded: Any = await opened(near).load(scribe.key)
    assert (loaded[0]["type"], loaded[0]["uuid"], loaded[1:]) == ("user", secret["uuid"], scribe.entries[1:])
    (summary,) = await opened(near).list_session_summaries(PROJECT)
    assert "first_prompt" not in summary["data"]
    assert b"hunter2" not in stored_bytes(near)
    await store.append(scribe.key, [secret, *scribe.turn("once more")])
    assert b"hunter2" not in stored_bytes(near)
    assert len(await said(near, scribe)) == 6


async def test_amended_and_retracted(near: Backend) -> None:
    """An amended message is loaded as amended; a retracted one is left out, and its children get its parent."""
    scribe, store = Scribe(), opened(near)
    first, answer, second = scribe.say("one"), scribe.answer("two"), scribe.say("three")
    await store.append(scribe.key, scribe.entries)
    with hands_on(near, scribe) as session:
        session.amend(first["uuid"], {"role": "user", "content": "ONE"})
        session.retract(answer["uuid"])
    amended = first | {"message": {"role": "user", "content": "ONE"}}
    assert await opened(near).load(scribe.key) == [amended, second | {"parentUuid": first["uuid"]}]
    with hands_on(near, scribe) as session:
        session.unretract(answer["uuid"])
    assert await opened(near).load(scribe.key) == [amended, answer, second]


async def test_go_elsewhere(near: Backend) -> None:
    """After a checkout the transcript ends where the session stands; switching back brings everything back."""
    scribe, store = Scribe(), opened(near)
    await store.append(scribe.key, scribe.turn("one", "ls", "cat"))
    middle = scribe.tip
    scribe.note("custom-title", customTitle="kept")
    await store.append(scribe.key, scribe.entries[-1:])
    await store.append(scribe.key, scribe.turn("two"))
    with hands_on(near, scribe) as session:
        session.branch("other", node=middle)
    loaded: Any = await opened(near).load(scribe.key)
    assert loaded == scribe.entries[:-2]
    scribe.tip = middle
    other = scribe.turn("three")
    await store.append(scribe.key, other)
    assert await opened(near).load(scribe.key) == loaded + other
    left = scribe.entries[-len(other) - 1]["uuid"]
    assert near.store().namespace(PROJECT).view(scribe.session).heads == {"main": left, "other": scribe.tip}
    with hands_on(near, scribe) as session:
        session.switch("main")
    assert (await said(near, scribe))[-2:] == ["two", "done: two"]


async def test_an_agent_that_did_not_notice(near: Backend) -> None:
    """If Claude Code continues its old branch after a move of the session, the ancestors of its messages are kept."""
    scribe, store = Scribe(), opened(near)
    await store.append(scribe.key, scribe.turn("one"))
    middle = scribe.tip
    await store.append(scribe.key, scribe.turn("two"))
    with hands_on(near, scribe) as session:
        session.checkout(middle)
    await store.append(scribe.key, scribe.turn("three"))
    assert await opened(near).load(scribe.key) == scribe.entries
    assert hands_on(near, scribe).node == scribe.tip


async def test_where_the_session_stands(near: Backend) -> None:
    """The head stands on the last message of the conversation, whatever else is written: notes, sidechains, rewinds."""
    scribe, store = Scribe(), opened(near)
    await store.append(scribe.key, scribe.turn("one", "a", "b", "c"))
    middle = scribe.tip
    side = Scribe(scribe.session)
    for entry in side.turn("look", "ls"):
        entry["isSidechain"] = True
    await store.append(scribe.key, side.entries)
    assert hands_on(near, scribe).node == middle
    await store.append(scribe.key, scribe.turn("two"))
    left = scribe.tip
    scribe.tip = middle
    await store.append(scribe.key, scribe.turn("other two"))
    view = near.store().namespace(PROJECT).view(scribe.session)
    assert view.node == scribe.tip
    assert view.heads == {"main": scribe.tip}
    assert left in view.leaves()
    assert len(view.children(middle)) == 2
    branching = [row.first for row in view.tree() if row.branches > 1]
    assert len(branching) == 1  # parallel calls, attachments and the sidechain are none


async def test_go_back_within_one_batch(near: Backend) -> None:
    """A rewind to something of the same batch is recorded as one, too."""
    scribe, store = Scribe(), opened(near)
    scribe.turn("one")
    middle = scribe.tip
    scribe.turn("two")
    scribe.tip = middle
    scribe.turn("three")
    await store.append(scribe.key, scribe.entries)
    counted, counts = near.counted()
    view = counted.namespace(PROJECT).view(scribe.session)
    assert counts.counts == {"Get": 2}
    assert len(view.children(middle)) == 2
    assert view.node == scribe.tip
    assert [item.node for item in view.context] == [scribe.entries[place]["uuid"] for place in (0, 1, 4, 5)]
    assert await store.load(scribe.key) == scribe.entries


async def test_what_a_model_sees(near: Backend) -> None:
    """Other programs resume a session of Claude's in two reads: after a compaction the summary, after a rewind less."""
    scribe, store = Scribe(), opened(near)
    await store.append(scribe.key, scribe.turn("one"))
    scribe.compact("we said one")
    middle = scribe.entries[-1]["uuid"]
    await store.append(scribe.key, scribe.entries[2:])
    await store.append(scribe.key, scribe.turn("two"))
    scribe.tip = middle
    await store.append(scribe.key, scribe.turn("three"))
    counted, counts = near.counted()
    view = counted.namespace(PROJECT).view(scribe.session)
    texts = [item.message["content"] for item in view.context]
    assert [text if isinstance(text, str) else text[0]["text"] for text in texts] == [
        "we said one",
        "three",
        "done: three",
    ]
    assert counts.counts == {"Get": 2}


async def test_imported_and_forked_by_treering(near: Backend) -> None:
    """A fork made by Treering is a session of the SDK's, too, with what is on its path."""
    scribe, store = Scribe(), opened(near)
    await store.append(scribe.key, scribe.turn("one"))
    middle = scribe.tip
    await store.append(scribe.key, scribe.turn("two"))
    with hands_on(near, scribe) as session:
        session.fork("forked", node=middle)
    loaded: Any = await TreeringSessionStore(near.store()).load({"project_key": PROJECT, "session_id": "forked"})
    assert loaded == scribe.entries[:2]


async def test_a_redactor(near: Backend) -> None:
    """What a redactor takes out is stored nowhere; the conversation stays whole, and a retry adds nothing."""
    place = near.store().place
    redacting = Store(Place(place.driver, redaction=Redaction(redact_patterns(["hunter[0-9]"]))))
    scribe = Scribe()
    scribe.turn("my password is hunter2", "echo hunter2")
    for _ in range(2):
        await TreeringSessionStore(redacting).append(scribe.key, scribe.entries)
    loaded = await opened(near).load(scribe.key)
    assert loaded == json.loads(json.dumps(scribe.entries).replace("hunter2", "[redacted]"))
    (summary,) = await opened(near).list_session_summaries(PROJECT)
    assert summary["data"]["first_prompt"] == "my password is [redacted]"
    assert b"hunter2" not in stored_bytes(near)
