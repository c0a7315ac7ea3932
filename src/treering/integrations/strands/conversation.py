"""The differences between an agent's list of messages and its recorded context, as nodes and a new context.

Strands calls a hook for most added messages. It calls none when a sliding window shortens the list, when a summary is
inserted, when tool results are shortened, or when users change the list. So the list is compared with the recorded
messages:

| found in the list                       | becomes                                                           |
|-----------------------------------------|-------------------------------------------------------------------|
| a recorded message, as it was           | its node, named in the context                                    |
| a recorded message, changed             | its node, with the changed message inside the context             |
| an unknown message at the end           | a new node                                                        |
| an unknown message before a known one   | a new node, marked `injected`, named at its place in the context  |
| no message in a recorded message's place| nothing: the node stays in the transcript and leaves the context  |

Rule 1: a message is identified by its `tracking_id`, never by its place.
Rule 2: messages are copied for later comparisons: agents and plugins change them in place.
Rule 3: every message can be recorded: a value in it that is nested too deep to be stored becomes JSON text.
"""

from __future__ import annotations

import copy
import uuid
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from strands.types.content import Message

from treering import ContextItem, Draft
from treering.format.nesting import fold

INJECTED: Final = "injected"
"""The field of a node's brief that marks a message which a conversation manager inserted."""


class Shown(NamedTuple):
    """One message that the session shows to the model."""

    node: str
    message: Message | None
    """The message; None if it was erased and the agent shows another message in its place."""

    @property
    def tracking_id(self) -> str:
        """The tracking id that Strands gave the message."""
        return tracking_id(self.message) if self.message else ""


class Difference(NamedTuple):
    """The records after which the session shows the same messages as the agent."""

    drafts: tuple[Draft, ...]
    context: tuple[ContextItem | str, ...] | None
    """The new context; None if `drafts` are appended to the context and nothing else changed."""
    shown: tuple[Shown, ...]
    """The messages that the session shows afterwards."""


def difference(
    shown: Sequence[Shown], messages: Sequence[Message], *, elsewhere: Collection[str] = (), taken: Collection[str] = ()
) -> Difference:
    """Compare an agent's messages with the recorded ones.

    Args:
        shown: The messages that the session shows.
        messages: The messages that the agent shows; each needs a tracking id.
        elsewhere: Tracking ids of messages that are not shown, but whose nodes are in the session.
        taken: Tracking ids that cannot be the names of new nodes.
    """
    known = _by_tracking_id(shown)
    last_known = max((place for place, message in enumerate(messages) if tracking_id(message) in known), default=-1)
    used = {*taken, *elsewhere, *known}
    drafts: list[Draft] = []
    after: list[Shown] = []
    context: list[ContextItem | str] = []
    for place, message in enumerate(messages):
        name = tracking_id(message)
        recorded = known[name].popleft() if known.get(name) else Shown(name, None) if name in elsewhere else None
        if recorded is None:
            recorded = Shown(_free_name(name, used), copy.deepcopy(message))
            drafts.append(draft_of(recorded.message or message, recorded.node, injected=place < last_known))
            context.append(recorded.node)
        elif recorded.message == message:
            context.append(recorded.node)
        else:
            recorded = Shown(recorded.node, copy.deepcopy(message))
            context.append(ContextItem(node=recorded.node, message=fold(recorded.message)))
        after.append(recorded)
    grown = [each.node for each in shown] + [draft.id for draft in drafts]
    return Difference(tuple(drafts), None if context == grown else tuple(context), tuple(after))


def _by_tracking_id(shown: Sequence[Shown]) -> Mapping[str, deque[Shown]]:
    """Return the shown messages by tracking id, in order: a list may hold one message twice."""
    known: defaultdict[str, deque[Shown]] = defaultdict(deque)
    for each in shown:
        known[each.tracking_id].append(each)
    return known


def _free_name(name: str, used: set[str]) -> str:
    """Return a name for a new node: the tracking id if no node has it, else a random one."""
    node = str(uuid.uuid4()) if name in used else name
    used.add(node)
    return node


def draft_of(message: Message, node: str | None, *, injected: bool = False) -> Draft:
    """Return the draft of a message."""
    brief: dict[str, object] | None = {INJECTED: True} if injected else None
    return Draft(role=str(message.get("role", "")), payload=fold(message), id=node, brief=brief)


def tracking_id(message: Message) -> str:
    """Return the tracking id of a message; empty if it has none yet."""
    return message.get("tracking_id") or ""


def name_all(messages: Sequence[Message]) -> list[str]:
    """Give a tracking id to every message that has none, as Strands itself does later; return the new ids."""
    given = []
    for message in messages:
        if not message.get("tracking_id"):
            message["tracking_id"] = str(uuid.uuid4())
            given.append(message["tracking_id"])
    return given


def put_aside_as(message: Message) -> set[str]:
    """Return the names under which context managers offload blocks of a message, each with a number after the name."""
    answered = {block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block}
    return {tracking_id(message), *answered}


def message_of(item: ContextItem) -> Message:
    """Return a message in the form of Strands, also if it was erased or recorded by another program."""
    message: dict[str, Any] = dict(item.message) if isinstance(item.message, Mapping) else {"content": item.message}
    content = message.get("content")
    if not isinstance(content, list):
        message["content"] = [{"text": content if isinstance(content, str) else ""}]
    message.setdefault("role", "user")
    message.setdefault("tracking_id", item.node)
    return cast("Message", message)
