"""Histories of messages in one session of Treering: protocols without I/O.

Rule 1: each message is a node, stored once for all histories; see `messages`.
Rule 2: a history is the context of a checkpoint: the ids of its messages, recorded as differences from the checkpoint
before.
Rule 3: a history is recorded after the records of other writers, and replaces no history of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, Item
from treering.integrations.pydantic_ai.messages import Message, message_in, with_nodes
from treering.integrations.shared import SharedSession
from treering.session.context_changes import chosen_context, in_order
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps
from treering.transcript.node import Draft

MARK: Final = "pydantic_ai"
"""The field of cards with facts of the framework, and the prefix of all keys of the state."""
_ROLES: Final = {"request": "user", "response": "assistant"}


class Conversation(SharedSession):
    """Reads and records histories of one session."""

    def keep(self, recording: Recording, history: Sequence[Message], change: Change) -> Steps[None]:
        """Add the new messages, and a checkpoint whose context is the history, to a recording."""
        state = self.writer.replica.state
        shown = {item.node: item for item in state.context.items}
        history = with_nodes(history, shown)
        others = [name for each in history if each.id not in shown for name in each.names]
        there = (yield from self.writer.replica.ask(lambda look: look.nodes(others))) if others and state.end else {}
        history = with_nodes(history, there)
        wanted = [each.id for each in history]
        if there:  # what was retracted since is in the program's history, and not in the context any more
            left = yield from self.writer.content.edited(Context(tuple([Item(name) for name in there])))
            wanted = [name for name in wanted if name not in there or name in left.nodes]
        old = [name for name in wanted if name in shown or name in there]
        if there:
            before = yield from chosen_context(self.writer, old, as_it_is=True)
        else:
            before = state.context.with_items([shown[name] for name in old])
        recording.context = before
        new = [each for each in history if each.id not in shown and each.id not in there]
        for each in new:
            role = _ROLES.get(str(each.payload.get("kind")), "")
            recording.draft(Draft(id=each.id, role=role, payload=dict(each.payload)))
        after = recording.context
        if [item.node for item in after.items] != wanted:
            recording.context = in_order(after, wanted, {each.id for each in new})
        recording.keep(change)

    def histories(self, checkpoints: Sequence[Checkpoint]) -> Steps[list[list[Any]]]:
        """Read the histories of some checkpoints; messages that several of them share are read once."""
        contexts = yield from self._as_edited([each.context for each in checkpoints])
        nodes = dict.fromkeys(item for each in contexts for item in each.items)
        shown, content = Context(tuple(nodes)), self.writer.content
        state = self.writer.replica.state
        held = all(item.node in state.lines for item in nodes)
        lines = state.lines if held else (yield from content.context_lines(shown))
        yield from self.writer.blobs.fetch([lines[item.node] for item in nodes], shown)
        messages = dict(zip(nodes, map(message_in, content.messages(shown, lines)), strict=True))
        return [[messages[item] for item in each.items] for each in contexts]
