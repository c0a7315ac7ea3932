"""Google ADK: its sessions in SQLite, and ours. A turn is two events; the second one sets the state."""

from __future__ import annotations

import asyncio
import base64
import weakref
from typing import TYPE_CHECKING, Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import treering
from benchmarks.contestants.contestant import Contestant
from treering.integrations.adk import TreeringSessionService

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from benchmarks.workload import Message

APP, USER = "bench", "user"


class Service(Contestant):
    """Appends events to sessions of a service."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)
        self.service = self._service()

    def _service(self) -> BaseSessionService:
        raise NotImplementedError

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(call)

    def _made(self, session: str) -> Any:
        try:
            return self._run(self.service.create_session(app_name=APP, user_id=USER, session_id=session))
        except AlreadyExistsError:
            return self._read(session, 0)

    def _read(self, session: str, count: int) -> Any:
        config = GetSessionConfig(num_recent_events=count)
        return self._run(self.service.get_session(app_name=APP, user_id=USER, session_id=session, config=config))

    def write(self, session: str, messages: Sequence[Message]) -> None:
        async def append(opened: Any) -> None:
            for number, message in enumerate(messages):
                state = {"step": number // 2} if number % 2 else {}
                await self.service.append_event(opened, _event(message["role"], message["content"], state))

        self._run(append(self._made(session)))
        self._let_go()

    def _let_go(self) -> None:
        """Close what is open, as the end of a process would."""

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def page(self, session: str, count: int) -> Sequence[str]:
        self.service = self._service()
        found = self._read(session, count)
        self._let_go()
        return [_text(event) for event in found.events]

    def begin(self, session: str) -> None:
        self.open = self._made(session)

    def append(self, text: str) -> None:
        self._run(self.service.append_event(self.open, _event("user", text, {})))

    def turn(self, texts: Sequence[str], step: int) -> None:
        self.append(texts[0])
        self._run(self.service.append_event(self.open, _event("assistant", texts[1], {"step": step})))

    def end(self) -> None:
        self._let_go()


class Sqlite(Service):
    """`SqliteSessionService`."""

    def _service(self) -> BaseSessionService:
        return SqliteSessionService(f"{self.place}/adk.sqlite")


class Treering(Service):
    """`TreeringSessionService`."""

    def _service(self) -> TreeringSessionService:
        return TreeringSessionService(treering.open(f"{self.place}/treering-adk"))

    def _let_go(self) -> None:
        service: Any = self.service
        service.close()


def _event(role: str, content: Any, state: dict[str, Any]) -> Event:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = types.Content(role="model" if role == "assistant" else "user", parts=list(map(_part, parts)))
    return Event(author=role, content=said, actions=EventActions(state_delta=state))


def _part(part: Any) -> types.Part:
    if "text" in part:
        return types.Part(text=part["text"])
    return types.Part.from_bytes(data=base64.b64decode(part["data"]), mime_type=part["mimeType"])


def _text(event: Event) -> str:
    return "".join(part.text or "" for part in (event.content and event.content.parts) or ())
