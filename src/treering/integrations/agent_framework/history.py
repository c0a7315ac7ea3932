"""The messages of a conversation in one session of Treering: protocols without I/O.

Rule 1: each message is a node, and the history is the context of the session's head. So whoever branches, rewinds or
compacts the session changes what the agent is shown, and nothing that was said is lost.
Rule 2: the payload of a node has the fields of the message, but that its `contents` are the `content`, which is their
name wherever else messages are looked into.
Rule 3: messages are added at the end as it is when they are recorded, whoever wrote it. A program that hands over the
whole history again, with more behind it, adds what is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from treering.format import values
from treering.integrations.shared import SharedSession
from treering.session.pairs import recorded
from treering.session.recording import Recording
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Payload = dict[str, Any]


def payload_of(message: Mapping[str, Any]) -> Payload:
    """Return the payload of a node for the fields of a message, with which it shares nothing.

    Raises:
        UsageError: A value cannot be stored; the message names its path.
    """
    copied: Any = values.decode(values.encode(dict(message)))
    return {("content" if name == "contents" else name): value for name, value in copied.items()}


def message_in(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Message.from_dict` takes for a payload; also for one that another program recorded."""
    message = {("contents" if name == "content" else name): value for name, value in payload.items()}
    contents = message.get("contents")
    if not isinstance(contents, list):
        message["contents"] = [] if contents is None else [str(contents)]
    return {"role": "user", **message, "type": "message"}


class History(SharedSession):
    """Reads and records the messages of one session."""

    def messages(self) -> Steps[list[Payload]]:
        """The history, the oldest message first."""
        if not (yield from self.look()):
            return []
        yield from self._stand()
        return self._shown()

    def add(self, new: Sequence[Payload]) -> Steps[None]:
        """Record messages at the end: durable when it returns."""
        yield from self._be_ready()
        yield from self.writer.appender.write(partial(self._plan, new))
        yield from self._tidy()

    def _plan(self, new: Sequence[Payload]) -> Steps[Recording]:
        yield from self._stand()
        recording, known = Recording(self.writer), 0
        if len(self.writer.replica.state.context.items) <= len(new):  # else nobody reads a long history to append to it
            yield from self.writer.blobs.fetch_shown()
            known = repeated(self._shown(), new)
        for payload in new[known:]:
            role = payload.get("role")
            recording.draft(Draft(role=role if isinstance(role, str) else "", payload=payload))
        if recording.records:
            recording.end(None)
        return recording

    def _shown(self) -> list[Payload]:
        return [each.message for each in recorded(self.writer) if isinstance(each.message, dict)]


def repeated(history: Sequence[Payload], new: Sequence[Payload]) -> int:
    """Return how many of the first new messages only repeat the history: all of it, or none.

    One message that a user said is not taken for a repetition, unless it has an id.
    """
    count = len(history)
    if not 0 < count <= len(new) or (count == 1 and history[0].get("message_id") is None):
        return 0
    return count if all(map(_same, history, new)) else 0


def _same(one: Payload, other: Payload) -> bool:
    if (name := one.get("message_id")) is not None:
        return bool(name == other.get("message_id"))
    return one.get("role") == other.get("role") and one.get("content") == other.get("content")
