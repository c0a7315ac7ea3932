"""A memory service of ADK: texts from a user's sessions, found by their words.

Rule: a memory is a node with the id of its event. So an event is remembered once, however often its session is added. A
deleted memory is not added again: its text is erased, and its id remains.
"""

from __future__ import annotations

import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.digests import sha256
from treering.erasure.erasing import erase, finished
from treering.errors import NotFoundError
from treering.integrations.adk.events import REST, content_of, parts_of, rest_of
from treering.integrations.adk.places import MARK
from treering.integrations.closable import Closable
from treering.integrations.opened import OPEN_MAX, OpenSessions
from treering.integrations.shared import SharedSession, shared_writer
from treering.maintenance.retention import KEEP_STATUS
from treering.search.index import open_index
from treering.session.recording import Recording
from treering.storage.effects import Job
from treering.storage.requests import Steps
from treering.store.place import Place
from treering.transcript.node import Draft, Node

FOUND_MAX: Final = 10
"""Memories that a search returns; as many as ADK's own service in memory. All of them go into a prompt."""
MATCHES_MAX: Final = 1000
"""The most texts that are considered for each word of a query."""
NAMESPACE: Final = "adk-memory"
"""The namespace of the store that has the memories, by app and user."""
_KIND: Final = "memory"
_SESSION: Final = "memory"


class TreeringMemoryService(BaseMemoryService, Closable):
    """Keeps memories of ADK in a store: pass it as `Runner(..., memory_service=...)`.

    A search finds the texts that share the most words with the query. It uses the search index of the store, which is a
    file on this computer and is updated before each search; see `treering.search`. There are no embeddings.
    """

    def __init__(
        self, store: Store | AsyncStore, *, index: str | os.PathLike[str] | None = None, open_max: int = OPEN_MAX
    ) -> None:
        """Make a service, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            index: A folder for the search indexes, one file for each user. By default in the user's cache folder.
            open_max: The most users whose memories are kept open; at least 1.
        """
        self._place = store.place.namespace(NAMESPACE)
        self._index = None if index is None else os.fspath(index)
        self._users: OpenSessions[_User, _Memories] = OpenSessions(
            store.place.driver, self._memories, open_max=open_max
        )

    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the texts of a session's events; events that are remembered already are skipped."""
        await self._add(_User(session.app_name, session.user_id), _told(session.events, session.id))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember the texts of some events; events that are remembered already are skipped."""
        await self._add(_User(app_name, user_id), _told(events, session_id, custom_metadata))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember entries. An entry without an id gets one."""
        new = []
        for entry in memories:
            facts = entry.model_dump(mode="json", exclude_none=True, exclude={"content"})
            facts["id"] = entry.id or str(uuid.uuid4())
            facts["custom_metadata"] = {**(custom_metadata or {}), **entry.custom_metadata}
            new.append(_draft(facts, entry.content))
        await self._add(_User(app_name, user_id), new)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the memories that share the most words with a query, at most ten, the best first.

        Raises:
            treering.UnavailableError: The store did not answer, or the index cannot be written.
        """
        words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))
        found = await self._users.aside(self._search, _User(app_name, user_id), words) if words else []
        return SearchMemoryResponse(memories=found)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Erase a memory permanently, if it exists: its text is removed from storage, see `Session.erase`."""
        if memory_id:
            user = _User(app_name, user_id)
            await self._users.aside(self._users.use, user, lambda memories: memories.erase(memory_id))

    def close(self) -> None:
        """Bring the cards of open sessions up to date, and close them. A later call opens its session again."""
        self._users.close()

    async def _add(self, user: _User, new: Sequence[Draft]) -> None:
        if new:
            await self._users.aside(self._users.use, user, lambda memories: memories.add(new))

    def _memories(self, user: _User) -> _Memories:
        facts = {MARK: {"keeps": "memories", "app": user.app, "user": user.name}}
        return _Memories(shared_writer(user.place(self._place), _SESSION, facts, KEEP_STATUS))

    def _search(self, user: _User, words: Sequence[str]) -> list[MemoryEntry]:
        shared: Counter[str] = Counter()
        times: dict[str, int] = {}
        with open_index(Store(user.place(self._place)), self._file(user)) as index:
            index.update()
            for word in words:
                for hit in index.search(f'"{word}"', limit=MATCHES_MAX):
                    shared[hit.node] += 1
                    times[hit.node] = hit.time_ms
        best = sorted(shared, key=lambda node: (-shared[node], times[node], node))[:FOUND_MAX]
        nodes = self._users.use(user, lambda memories: memories.find(best))
        return [_entry(node) for node in sorted(nodes, key=lambda node: (-shared[node.id], node.at))]

    def _file(self, user: _User) -> str | None:
        if self._index is None:
            return None
        os.makedirs(self._index, exist_ok=True)
        return os.path.join(self._index, f"{sha256(repr(user).encode())[:32]}.sqlite")


class _User(NamedTuple):
    app: str
    name: str

    def place(self, root: Place) -> Place:
        return root.namespace(self.app).namespace(self.name)


class _Memories(SharedSession):
    """The memories of one user."""

    def add(self, new: Sequence[Draft]) -> Steps[None]:
        """Record the memories that are not recorded yet; they are durable when this returns."""
        yield from self._be_ready()
        yield from self.writer.appender.write(lambda: self._plan(new))
        yield from self._tidy()

    def find(self, ids: Iterable[str]) -> Steps[list[Node]]:
        """Return the memories with these ids that were not erased."""
        wanted = list(ids)
        if not wanted or not (yield from self.look()):
            return []
        rows = yield from self.writer.replica.ask(lambda lookup: lookup.nodes(wanted))
        nodes = yield from self.writer.content.nodes(rows.values())
        return [node for node in nodes if not node.erased]

    def erase(self, memory: str) -> Job[None]:
        """Remove a memory from storage, if it exists."""
        if not (yield from self.look()):
            return
        try:
            receipt = yield from erase(self.writer, memory, reason="deleted from memory")
        except NotFoundError:
            return
        yield from finished(receipt, self.writer.keys)

    def _plan(self, new: Sequence[Draft]) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        known: set[str | None] = set()
        if self.writer.replica.exists:
            known |= (
                yield from self.writer.replica.ask(lambda lookup: lookup.records([each.id or "" for each in new]))
            ).keys()
        for draft in new:
            if draft.id not in known:
                recording.draft(draft)
                known.add(draft.id)
        return recording


def _told(events: Iterable[Event], session: str | None, metadata: Mapping[str, object] | None = None) -> list[Draft]:
    """Return the memories of the events that have text."""
    drafts = []
    for event in events:
        if event.content is not None and any(part.text for part in event.content.parts or ()):
            time = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
            facts = {"id": event.id, "author": event.author, "timestamp": time, "session": session}
            drafts.append(_draft(facts | {"custom_metadata": dict(metadata or {})}, event.content))
    return drafts


def _draft(facts: dict[str, Any], content: types.Content) -> Draft:
    role = "user" if content.role == "user" else "assistant"
    return Draft(kind=_KIND, role=role, id=facts["id"], payload=parts_of(content) | {REST: facts})


def _entry(node: Node) -> MemoryEntry:
    facts = {name: value for name, value in rest_of(node.payload).items() if name != "session"}
    return MemoryEntry(content=content_of(node.payload), **facts)
