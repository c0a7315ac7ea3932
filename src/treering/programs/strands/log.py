"""Sessions of Strands Agents as a log of messages: one file per message, and one file for the agent's other state.

`FileSessionManager` and `S3SessionManager` write them. A message is one entry; its `tracking_id` is the id of its node.
The agent's state becomes the last checkpoint, with the context that Strands would restore: the summary, if there is
one, and the messages from an offset on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from treering.format.values import Fields, fields_of
from treering.programs.common.entry import Entry
from treering.programs.common.folder import Folder
from treering.programs.common.reader import text_of
from treering.programs.common.source import Imported, Problem, ProblemLog, damage_note
from treering.programs.common.times import read_time
from treering.programs.strands.shapes import agent_state, decode_bytes
from treering.programs.strands.unit import Record, Unit, import_note, read_object
from treering.session.content import ContextItem
from treering.session.foreign import checkpoint_draft
from treering.transcript.node import Draft

_MESSAGE: Final = re.compile(r"messages/message_(\d+)\.json")
_AGENT: Final = "agent.json"
_KNOWN: Final = frozenset(
    {"agent_id", "state", "conversation_manager_state", "_internal_state", "created_at", "updated_at"}
)


class LogSource:
    """An agent as a log of messages.

    `treering.programs.common.source.ClosingSource` documents its members.
    """

    def __init__(self, folder: Folder, unit: Unit) -> None:
        self._folder = folder
        self._unit = unit
        self._log = ProblemLog()
        files = folder.files()
        self._changed_ms = max((file.modified_ns for file in files), default=0) // 1_000_000
        found = ((_MESSAGE.fullmatch(file.name), file.name) for file in files)
        self._messages = sorted((int(match[1]), name) for match, name in found if match)
        self._raw = next(folder.read([_AGENT]), b"") if any(file.name == _AGENT for file in files) else b""
        self._agent = fields_of(decode_bytes(read_object(self._raw or b"{}", _AGENT, ProblemLog())))
        self.leaf: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._log, self.leaf = ProblemLog(), None
        self._shown: dict[str, object] = {}
        """By node: the newer version of the message, if there is one."""
        self._order: list[str] = []
        """Nodes of the messages, in order; a message that was stored twice is listed twice."""

    @property
    def header(self) -> Imported:
        """The facts of the agent's file about the session."""
        rest = {name: value for name, value in self._agent.items() if name not in _KNOWN}
        updated = {"updated_at": self._agent["updated_at"]} if text_of(self._agent.get("updated_at")) else {}
        return self._unit.header(self._agent.get("created_at"), updated | rest)

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self) -> Iterator[Record]:
        """Yield the messages with their drafts, by their numbers."""
        self._begin()
        yield None, [import_note(self.header)]
        if not self._raw:
            self._log.report(0, 0, "agent", f"what the agent knows is missing. name={_AGENT!r}")
        read_object(self._raw or b"{}", _AGENT, self._log)
        names = [name for _, name in self._messages]
        for (number, name), raw in zip(self._messages, self._folder.read(names), strict=True):
            yield self._read(number, name, raw)
        self.leaf = self._order[-1] if self._order else None
        if summary := self._summary():
            self.leaf = summary.id

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the folder."""
        for _, drafts in self.records():
            yield from drafts
        yield from self.closing()

    def closing(self) -> list[Draft]:
        """Return the summary, and the checkpoint with the agent's state."""
        internal = fields_of(self._agent.get("_internal_state"))
        manager = fields_of(self._agent.get("conversation_manager_state"))
        summary = self._summary()
        kept = [*([summary.id or ""] if summary else []), *dict.fromkeys(self._order[self._removed(manager) :])]
        context = [
            node if self._shown.get(node) is None else ContextItem(node=node, message=self._shown[node])
            for node in kept
        ]
        checkpoint = checkpoint_draft(
            self.leaf,
            id=self._unit.made_id("checkpoint", self._raw.hex(), *kept),
            context=context,
            state=agent_state({"state": self._agent.get("state"), **internal}),
            manager=manager or None,
            time_ms=self._updated_ms,
        )
        return [summary, checkpoint] if summary else [checkpoint]

    @property
    def _updated_ms(self) -> int:
        return read_time(self._agent.get("updated_at")) or self._changed_ms or 1

    @staticmethod
    def _removed(manager: Fields) -> int:
        removed = manager.get("removed_message_count")
        return max(0, removed) if type(removed) is int else 0

    def _summary(self) -> Draft | None:
        """Return the summary that a conversation manager puts before the messages; None if there is none."""
        message = fields_of(fields_of(self._agent.get("conversation_manager_state")).get("summary_message"))
        if not message:
            return None
        node = text_of(message.get("tracking_id"))
        if not node or node in self._shown:
            node = self._unit.made_id("summary", message)
        above = self._order[-1] if self._order else None
        return _node(message, node, above, self._updated_ms, brief={"injected": True})

    def _read(self, number: int, name: str, raw: bytes) -> Record:
        record = read_object(raw, name, self._log)
        if record is None:
            return None, [damage_note(self._unit.made_id("damage", number), "json", number + 1, 0, raw)]
        left: Fields = {field: value for field, value in record.items() if field != "message_id"}
        said, instead = decode_bytes(left.pop("message", None)), decode_bytes(left.pop("redact_message", None))
        if instead is not None:
            self._log.report(number + 1, 0, "redacted", f"what a guardrail took back was left out. name={name!r}")
        message = instead if instead is not None else said
        if not isinstance(message, dict):
            self._log.report(number + 1, 0, "no_message", f"file holds no message, kept as a note. name={name!r}")
            return None, [damage_note(self._unit.made_id("damage", number), "no_message", number + 1, 0, raw)]
        above = self._order[-1] if self._order else None
        draft = self._place(message, number, read_time(record.get("created_at")), left)
        entry = Entry(
            id=self._order[-1], parent=above, type="message", record=record, raw=raw, line=number + 1, offset=0
        )
        return entry, [draft]

    def _place(self, message: Fields, number: int, time_ms: int | None, left: Fields) -> Draft:
        """Make a node of a message, or a revision of the node that has its id already."""
        node = text_of(message.get("tracking_id")) or self._unit.made_id("message", number)
        if node not in self._shown:
            draft = _node(message, node, self._order[-1] if self._order else None, time_ms, source=left)
            self._shown[node] = None
            self._order.append(node)
            return draft
        self._log.report(number + 1, 0, "duplicate_id", f"message was stored before, this is what it is now. id={node}")
        self._shown[node] = message
        self._order.append(node)
        name = self._unit.made_id("revision", number)
        return Draft(
            type="edit", kind="amend", id=name, parent=None, target=node, payload=message, time_ms=time_ms, source=left
        )


def _node(message: Fields, node: str, parent: str | None, time_ms: int | None, **more: Any) -> Draft:
    """Return the draft of a message's node; other fields of the file are kept in its source."""
    return Draft(role=text_of(message.get("role")), payload=message, id=node, parent=parent, time_ms=time_ms, **more)
