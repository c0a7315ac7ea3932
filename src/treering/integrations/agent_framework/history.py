"""The messages of a conversation in one session of Treering: protocols without I/O.

Rule 1: each message is a node, and the history is the context of the session's head. So a branch, rewind or compaction
of the session changes the messages that the agent gets, and no message is lost.
Rule 2: the payload of a node has the fields of the message, with one exception: `contents` is called `content`, the
name that all other code which reads messages expects.
Rule 3: messages are added at the newest end of the session, even if another writer recorded that. If a program passes
the whole history again, followed by new messages, only the new messages are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from treering.format import values
from treering.integrations.shared import SharedSession
from treering.session.content import ContextItem
from treering.session.pairs import recorded
from treering.session.recording import Recording
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Payload = dict[str, Any]

BESIDE_MAX: Final = 16
"""How many messages of other writers may have come behind messages that are recorded once more."""


def payload_of(message: Mapping[str, Any]) -> Payload:
    """Return the payload of a node for the fields of a message: a deep copy.

    Raises:
        UsageError: A value cannot be stored; the message names its path.
    """
    copied: Any = values.decode(values.encode(dict(message)))
    return {("content" if name == "contents" else name): value for name, value in copied.items()}


def message_in(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument of `Message.from_dict` for a payload, which another program may have recorded."""
    message = {("contents" if name == "content" else name): value for name, value in payload.items()}
    contents = message.get("contents")
    if not isinstance(contents, list):
        message["contents"] = [] if contents is None else [str(contents)]
    return {"role": "user", **message, "type": "message"}


class History(SharedSession):
    """Reads and records the messages of one session."""

    _tried: tuple[list[Payload], str] | None = None
    """The messages that the last call tried to record, and the id of the first record; None if that had an answer."""

    def messages(self) -> Steps[list[Payload]]:
        """Read the history, the oldest message first."""
        if not (yield from self.look()):
            return []
        yield from self._stand()
        return [each.message for each in self._items()]

    def add(self, new: Sequence[Payload]) -> Steps[None]:
        """Record messages at the end; they are durable when this returns."""
        yield from self._be_ready()
        tried, self._tried = self._tried, None
        if tried is not None and tried[0] == list(new) and tried[1] in self.writer.appender.found:
            return  # the same call had no answer before
        yield from self.writer.appender.write(partial(self._plan, new))
        self._tried = None
        yield from self._tidy()

    def _plan(self, new: Sequence[Payload]) -> Steps[Recording]:
        yield from self._stand()
        recording, known = Recording(self.writer), 0
        if len(self.writer.replica.state.context.items) <= len(new):  # else `new` cannot repeat the whole history
            yield from self.writer.blobs.fetch_shown()
            shown, erased = self._items(), self.writer.replica.burials.names
            known = repeated([each.message for each in shown], [each.node in erased for each in shown], new)
        there = self._payloads(len(new) + BESIDE_MAX) if any(each.get("message_id") for each in new[known:]) else []
        for payload in new[known:]:
            if payload.get("message_id") and payload in there:
                continue  # an earlier call, perhaps of another process, recorded it, and had no answer
            role = payload.get("role")
            recording.draft(Draft(role=role if isinstance(role, str) else "", payload=payload))
        if recording.records:
            self._tried = list(new), recording.records[0].id
            recording.end(None)
        return recording

    def _items(self) -> list[ContextItem]:
        return [each for each in recorded(self.writer) if isinstance(each.message, dict)]


def repeated(history: Sequence[Payload], erased: Sequence[bool], new: Sequence[Payload]) -> int:
    """Return how many of the first new messages repeat the history: the length of the whole history, or 0.

    A history of one message without an id is never taken for repeated. A message that was erased is the one that the
    program still has at its place, if their roles are equal: otherwise what was erased would be recorded once more.
    """
    count = len(history)
    if not 0 < count <= len(new) or (count == 1 and history[0].get("message_id") is None and not erased[0]):
        return 0
    same = (
        one.get("role") == other.get("role") if gone else _same(one, other)
        for one, gone, other in zip(history, erased, new, strict=False)
    )
    return count if all(same) else 0


def _same(one: Payload, other: Payload) -> bool:
    if (name := one.get("message_id")) is not None:
        return bool(name == other.get("message_id"))
    return one.get("role") == other.get("role") and one.get("content") == other.get("content")
