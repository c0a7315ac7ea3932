"""Strands Agents: its message log and its snapshots, on a disk and in S3, driven by the hooks that an agent fires.

The conversation manager is a sliding window, as by default; no model is asked.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn

import boto3
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.session.s3_session_manager import S3SessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage.local_file_storage import LocalFileStorage
from strands.storage.s3_storage import S3Storage
from strands.types.session import SessionMessage

from benchmarks.contestants.contestant import Contestant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strands.session.session_manager import SessionManager

    from benchmarks.workload import Message

PUTS_AT_ONCE = 16  # to prepare a session; one for each message


class _NoModel(Model):
    """A model that is never asked."""

    def update_config(self, **model_config: Any) -> None:
        """Nothing can be configured."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError

    def stream(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError


class _Strands(Contestant):
    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.bucket, _, self.prefix = place.partition("s3://")[2].partition("/")
        self.boto_session = boto3.Session() if self.bucket else None

    def manager(self, session: str) -> SessionManager[Any]:
        raise NotImplementedError

    def _open(self, session: str) -> tuple[Agent, Any]:
        """Make an agent that has the session, and its session manager."""
        window = SlidingWindowConversationManager(window_size=self.window)
        manager = self.manager(session)
        agent = Agent(
            model=_NoModel(), agent_id="a", session_manager=manager, conversation_manager=window, callback_handler=None
        )
        return agent, manager

    def resume(self, session: str) -> Sequence[str]:
        agent, _ = self._open(session)
        if agent.state.get("step") is None:
            raise ValueError(f"the state was not restored. session={session!r}")
        return [_text(message) for message in agent.messages]

    def begin(self, session: str) -> None:
        self.agent, self.sessions = self._open(session)

    def end(self) -> None:
        """Nothing is kept open."""


class MessageLog(_Strands):
    """One file or object for each message."""

    def write(self, session: str, messages: Sequence[Message]) -> None:
        agent, manager = self._open(session)

        def put(numbered: tuple[int, Any]) -> None:
            message = SessionMessage.from_message(_message(numbered[1]), numbered[0])
            manager.create_message(session, "a", message)

        with ThreadPoolExecutor(PUTS_AT_ONCE) as threads:
            for _ in threads.map(put, enumerate(messages)):
                pass
        agent.state.set("step", len(messages) // 2)
        agent.conversation_manager.removed_message_count = max(0, len(messages) - self.window)
        manager.sync_agent(agent)

    def append(self, text: str) -> None:
        self._add({"role": "user", "content": [{"text": text}]})

    def turn(self, texts: Sequence[str], step: int) -> None:
        for role, text in zip(("user", "assistant"), texts, strict=True):
            self._add({"role": role, "content": [{"text": text}]})
        self.agent.state.set("step", step)
        self.agent.conversation_manager.apply_management(self.agent)
        self.sessions.sync_agent(self.agent)

    def _add(self, message: Any) -> None:
        self.agent.messages.append(message)
        self.sessions.append_message(message, self.agent)
        self.sessions.sync_agent(self.agent)

    def page(self, session: str, count: int) -> Sequence[str]:
        """The offset counts from the first message, so how many there are must be known; here that is free."""
        manager: Any = self.manager(session)
        total = int(session.rpartition("-")[2])
        found = manager.list_messages(session, "a", limit=count, offset=total - count)
        return [_text(message.to_message()) for message in found]


class Files(MessageLog):
    """`FileSessionManager`."""

    def manager(self, session: str) -> SessionManager[Any]:
        return FileSessionManager(session, storage_dir=f"{self.place}/strands-files")


class S3Objects(MessageLog):
    """`S3SessionManager`."""

    def manager(self, session: str) -> SessionManager[Any]:
        """Make one that shares boto3's session with the others; by default each would load its data again."""
        prefix = f"{self.prefix}/strands-log"
        return S3SessionManager(session, bucket=self.bucket, prefix=prefix, boto_session=self.boto_session)


class Snapshots(_Strands):
    """`SnapshotSessionManager`, which overwrites its latest snapshot and keeps an immutable one for every turn."""

    each_turn_up_to = 1_000
    """Longer sessions are prepared with their latest snapshot only; resuming reads nothing else."""

    def manager(self, session: str) -> SessionManager[Any]:
        storage: Any = LocalFileStorage(f"{self.place}/strands-snapshots")
        if self.bucket:
            storage = S3Storage(self.bucket, prefix=f"{self.prefix}/strands-snapshots", boto_session=self.boto_session)
        return SnapshotSessionManager(session, storage=storage, snapshot_trigger=lambda **_: True)

    def write(self, session: str, messages: Sequence[Message]) -> None:
        self.begin(session)
        for number, message in enumerate(messages):
            self.agent.messages.append(_message(message))
            last = number == len(messages) - 1
            if number % 2 or last:
                self.agent.state.set("step", number // 2)
                del self.agent.messages[: -self.window]
                if last or len(messages) <= self.each_turn_up_to:
                    self._save()

    def _save(self) -> None:
        async def save() -> None:
            await self.sessions.save_snapshot(self.agent, is_latest=False)
            await self.sessions.save_snapshot(self.agent, is_latest=True)

        asyncio.run(save())

    def turn(self, texts: Sequence[str], step: int) -> None:
        for role, text in zip(("user", "assistant"), texts, strict=True):
            message: Any = {"role": role, "content": [{"text": text}]}
            self.agent.messages.append(message)
        self.agent.state.set("step", step)
        del self.agent.messages[: -self.window]
        self._save()

    def travel(self, session: str, step: int) -> Sequence[str]:
        agent, manager = self._open(session)

        async def restore() -> None:
            found = await manager.list_snapshot_ids(agent)
            await manager.restore_snapshot(agent, snapshot_id=found[step])

        asyncio.run(restore())
        return [_text(message) for message in agent.messages]


class SnapshotEachMessage(Snapshots):
    """The same with `save_latest_on="message"`: as durable as a log, and the whole context again for each message."""

    def append(self, text: str) -> None:
        """Add a message. The window is applied when an invocation ends, so until then all of it is written again."""
        self.agent.messages.append({"role": "user", "content": [{"text": text}]})
        self.sessions.sync_agent(self.agent)


def _message(message: Message) -> Any:
    """Tool results become texts of the user: Strands would repair what looks like one without its call."""
    content = message["content"]
    parts = [{"text": content}] if isinstance(content, str) else list(map(_part, content))
    return {"role": "assistant" if message["role"] == "assistant" else "user", "content": parts}


def _part(part: dict[str, str]) -> dict[str, Any]:
    import base64

    if part["type"] == "text":
        return {"text": part["text"]}
    return {"image": {"format": "png", "source": {"bytes": base64.b64decode(part["data"])}}}


def _text(message: Any) -> str:
    return "".join(part.get("text", "") for part in message["content"])
