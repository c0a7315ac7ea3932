"""Artifacts and memories of ADK on a store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from tests.session.backends import Backend, memory_backend

from treering.integrations.adk import TreeringArtifactService, TreeringMemoryService
from treering.storage.counting import CountingDriver

HERE: Any = {"app_name": "shop", "user_id": "ann", "session_id": "talk"}
USER: Any = {"app_name": "shop", "user_id": "ann"}
PICTURE = types.Part.from_bytes(data=b"\x89PNG" * 1000, mime_type="image/png")


async def test_each_version_comes_back(anywhere: Backend) -> None:
    """Bytes, text and addresses, by number or the newest, in another process; of the session or of the user."""
    first, second = (TreeringArtifactService(anywhere.store()) for _ in range(2))
    file = types.Part(file_data=types.FileData(file_uri="gs://bucket/x", mime_type="video/mp4"))
    parts = [PICTURE, types.Part(text="grüße \ud83d"), types.Part(text=""), file]
    for number, part in enumerate(parts):
        told = {"n": number}
        assert await first.save_artifact(**HERE, filename="a/b %.png", artifact=part, custom_metadata=told) == number
    await first.save_artifact(**HERE, filename="user:all.txt", artifact={"text": "for all"})
    await first.save_artifact(**{**HERE, "session_id": "a"}, filename="b %.png/0", artifact={"text": "another"})
    assert [await second.load_artifact(**HERE, filename="a/b %.png", version=at) for at in range(4)] == parts
    assert await second.load_artifact(**HERE, filename="a/b %.png") == file
    assert await second.load_artifact(**HERE, filename="a/b %.png", version=4) is None
    assert await second.load_artifact(**HERE, filename="none") is None
    assert await second.list_versions(**HERE, filename="a/b %.png") == [0, 1, 2, 3]
    assert await second.list_artifact_keys(**HERE) == ["a/b %.png", "user:all.txt"]
    assert await second.list_artifact_keys(**USER) == ["user:all.txt"]
    rows = await second.list_artifact_versions(**HERE, filename="a/b %.png")
    assert [(row.version, row.mime_type, row.custom_metadata) for row in rows] == [
        (0, "image/png", {"n": 0}), (1, "text/plain", {"n": 1}), (2, "text/plain", {"n": 2}), (3, "video/mp4", {"n": 3})
    ]  # fmt: skip
    assert await second.get_artifact_version(**HERE, filename="a/b %.png") == rows[-1]
    assert (await second.load_artifact(**{**HERE, "session_id": "new"}, filename="user:all.txt")) is not None
    stored = len(anywhere.snapshot())
    await second.delete_artifact(**HERE, filename="a/b %.png")
    assert await first.list_artifact_keys(**HERE) == ["user:all.txt"]
    assert len(anywhere.snapshot()) <= stored - 6


async def test_two_never_save_one_version(anywhere: Backend) -> None:
    """Whoever is slower gets the next number."""
    many = [TreeringArtifactService(anywhere.store()) for _ in range(4)]
    calls = [each.save_artifact(**HERE, filename="f", artifact={"text": f"{at}"}) for at, each in enumerate(many * 3)]
    numbers = await asyncio.gather(*calls)
    assert sorted(numbers) == list(range(12))
    for at, number in enumerate(numbers):
        found = await many[0].load_artifact(**HERE, filename="f", version=number)
        assert found is not None
        assert found.text == str(at)


async def test_an_artifact_may_refer_to_another(backend: Backend) -> None:
    """In a short chain, and to none of another user."""
    service = TreeringArtifactService(backend.store())
    await service.save_artifact(**HERE, filename="0", artifact=PICTURE)

    def reference(name: str, user: str = "ann") -> types.Part:
        uri = f"artifact://apps/shop/users/{user}/sessions/talk/artifacts/{name}/versions/0"
        return types.Part(file_data=types.FileData(file_uri=uri))

    for number in range(1, 8):
        await service.save_artifact(**HERE, filename=str(number), artifact=reference(str(number - 1)))
    assert await service.load_artifact(**HERE, filename="5") == PICTURE
    with pytest.raises(InputValidationError, match="depth"):
        await service.load_artifact(**HERE, filename="7")
    with pytest.raises(InputValidationError, match="same app and user"):
        await service.save_artifact(**HERE, filename="x", artifact=reference("0", "bob"))
    for wrong in (types.Part(), reference("0", "x/users/y")):
        with pytest.raises(InputValidationError):
            await service.save_artifact(**HERE, filename="x", artifact=wrong)
    with pytest.raises(InputValidationError, match="Session ID"):
        await service.load_artifact(**USER, filename="f")
    rewound = types.Part.from_bytes(data=b"", mime_type="application/octet-stream")
    await service.save_artifact(**HERE, filename="0", artifact=rewound)
    assert await service.load_artifact(**HERE, filename="0") is None


async def test_lists_of_artifacts_read_no_contents() -> None:
    """A version takes two writes and a list; its number and its facts are read without its bytes."""
    store, counts = memory_backend().counted()
    service = TreeringArtifactService(store)
    await service.save_artifact(**HERE, filename="f", artifact=PICTURE)
    counts.reset()
    await service.save_artifact(**HERE, filename="f", artifact=PICTURE)
    assert (counts.counts["Put"], counts.counts["List"], counts.total) == (2, 1, 3)
    counts.reset()
    assert len(await service.list_artifact_versions(**HERE, filename="f")) == 2
    assert (counts.counts["Get"], counts.counts["List"]) == (2, 1)
    assert counts.bytes_down < 2000


# memories


def events(*texts: str) -> list[Event]:
    """What was said."""
    parts = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
    return [
        Event(id=f"e {text}", author="user", timestamp=1e9 + at, content=each)
        for at, (text, each) in enumerate(zip(texts, parts, strict=True))
    ]


async def found(service: TreeringMemoryService, query: str, user: str = "ann") -> list[str]:
    """The texts of memories."""
    response = await service.search_memory(app_name="shop", user_id=user, query=query)
    return [part.text or "" for entry in response.memories for part in entry.content.parts or ()]


async def test_what_was_said_is_found_by_its_words(anywhere: Backend, tmp_path: Path) -> None:
    """The most words first, once, also in another process; and nothing of another user."""
    first, second = (TreeringMemoryService(anywhere.store(), index=tmp_path / name) for name in ("a", "b"))
    session = Session(id="talk", app_name="shop", user_id="ann", events=events("I like tea", "Tea and cake", "bye"))
    await first.add_session_to_memory(session)
    session.events += events("green tea, I said")
    await second.add_session_to_memory(session)
    for service in (first, second):
        assert await found(service, "I drink TEA?") == ["I like tea", "green tea, I said", "Tea and cake"]
        assert await found(service, "coffee") == await found(service, "") == await found(service, "tea", "bob") == []
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="lives in Bern")]), custom_metadata={"by": "form"})
    await second.add_memory(app_name="shop", user_id="ann", memories=[entry])
    response = await first.search_memory(app_name="shop", user_id="ann", query="where in Bern")
    assert [each.custom_metadata for each in response.memories] == [{"by": "form"}]
    assert response.memories[0].id
    second.close()
    assert await found(second, "cake") == ["Tea and cake"]


async def test_a_deleted_memory_stays_away(anywhere: Backend, tmp_path: Path) -> None:
    """Its text is nowhere in the store any more, and adding its session again does not bring it back."""
    service = TreeringMemoryService(anywhere.store(), index=tmp_path / "index")
    said = events("my pin is xyzzy", "hello")
    await service.add_events_to_memory(app_name="shop", user_id="ann", events=said)
    assert await found(service, "pin") == ["my pin is xyzzy"]
    await service.delete_memory(app_name="shop", user_id="ann", memory_id=said[0].id)
    await service.delete_memory(app_name="shop", user_id="ann", memory_id="none")
    await service.delete_memory(app_name="shop", user_id="bob", memory_id="none")
    await service.add_events_to_memory(app_name="shop", user_id="ann", events=said[:1])
    assert await found(service, "pin xyzzy hello") == ["hello"]


async def test_a_search_reads_what_is_new(tmp_path: Path) -> None:
    """And the texts that it returns; the rest is in the index."""
    store, counts = memory_backend().counted()
    service = TreeringMemoryService(store, index=tmp_path / "index")
    await service.add_events_to_memory(
        app_name="shop", user_id="ann", events=events(*(f"note {number}" for number in range(200)))
    )
    assert len(await found(service, "note")) == 10
    counts.reset()
    assert await found(service, "17") == ["note 17"]
    assert_few(counts)


def assert_few(counts: CountingDriver) -> None:
    """A list, a look at the session for the index and one for the texts."""
    assert counts.counts["List"] <= 1
    assert counts.total <= 4
